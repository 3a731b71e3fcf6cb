// `iron bisect KERNEL`: the first pass after which the interpreter's results leave what the pass promises to keep.
#include <functional>
#include <map>
#include <memory>

#include "app.h"
#include "bundle.h"
#include "exec/exec.h"
#include "filters.h"
#include "ir/text.h"
#include "maker.h"
#include "messages.h"
#include "passes/expand_math.h"
#include "passes/pipeline.h"
#include "runtime/run_case.h"
#include "table.h"

namespace iron::tool {

namespace {

struct BisectOptions {
  std::string kernel, dtype, filter;
  u64 seed = 1;
};

/// A case's kernels after one pass; a kernel that two launches share is one.
struct StageOfCase {
  std::string pass;
  passes::BitPolicy bits = passes::BitPolicy::exact;
  std::vector<std::shared_ptr<const ir::Kernel>> kernels;  ///< one a step
};

// Every step's kernel as recorded and after each pass, in order. A check that fails inside the pipeline ends the list
// with the error's text in `broken`.
std::vector<StageOfCase> stages_of(const Case& c, std::string& broken) {
  std::vector<StageOfCase> stages;
  const auto put = [&](std::size_t number, std::string pass, passes::BitPolicy bits, const ir::Kernel& k) {
    if (stages.size() <= number) stages.push_back({std::move(pass), bits, {}});
    stages[number].kernels.push_back(std::make_shared<ir::Kernel>(k));
  };
  std::size_t complete = ~std::size_t{0};
  for (const auto& step : c.steps) {
    const auto recorded = step.record();
    std::size_t number = 0;
    put(number++, "recorded", passes::BitPolicy::exact, *recorded);
    auto k = *recorded;
    try {
      passes::PassOptions options;
      options.verify = true;
      options.after_each = [&](const ir::Kernel& now, const passes::PassEntry& pass) {
        put(number++, std::string(pass.name), pass.bits, now);
      };
      passes::run_pipeline(k, options);
      // Fast ops may differ from what they stand for: they are compared under the test's tolerance.
      passes::expand_fast(k);
      put(number++, "expand_fast", passes::BitPolicy::fused, k);
      passes::expand_math(k);
      put(number++, "expand_math", passes::BitPolicy::exact, k);
    } catch (const Error& e) {
      broken = e.what();
    }
    complete = std::min(complete, number);
  }
  stages.resize(std::min(complete, stages.size()));
  return stages;
}

using Outputs = std::vector<std::pair<std::string, std::vector<std::byte>>>;

struct StageRun {
  Outputs outputs;
  runtime::Outcome outcome;
};

// The case with these kernels in the interpreter, on fresh data.
StageRun run_stage(const CaseSource& source, u64 seed, const StageOfCase& stage) {
  const auto made = make_case(source, seed);
  if (!made.c) throw Error("TEST03", made.error);
  StageRun r;
  for (std::size_t i = 0; i < made.c->steps.size(); ++i) {
    const auto& s = made.c->steps[i];
    std::vector<LaunchArg> args;
    for (const auto& a : s.args)
      args.push_back(a.launch_arg(a.buffer.data));
    const auto& g = s.grid.groups;
    const auto& t = s.grid.threads;
    auto result = exec::run(*stage.kernels[i], {{g.x, g.y, g.z}, {t.x, t.y, t.z}, s.grid.items}, args);
    std::erase_if(result.findings, [](const Diagnostic& d) { return d.severity != Severity::error; });
    if (!result.findings.empty()) throw Error(std::move(result.findings));
  }
  for (const auto& s : made.c->steps)
    for (const auto& a : s.args)
      if (!a.scalar && a.access != detail::Access::in) {
        const auto* data = static_cast<const std::byte*>(a.buffer.data);
        r.outputs.emplace_back(a.name, std::vector<std::byte>(data, data + a.buffer.bytes));
      }
  r.outcome = runtime::judge(*made.c, source.tolerance);
  return r;
}

std::string first_difference(const Outputs& a, const Outputs& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t k = 0; k < a[i].second.size(); ++k)
      if (a[i].second[k] != b[i].second[k]) return fmt::format("{} differs from byte {} on", a[i].first, k);
  return {};
}

bool has_calls(const StageOfCase& stage) {
  bool found = false;
  for (const auto& k : stage.kernels) k->walk([&](ir::OpId id) { found |= k->op(id).code == ir::Opcode::Call; });
  return found;
}

struct Finding {
  std::string pass, how;
};

// The first stage that breaks its promise on this case, if any.
std::optional<Finding> bisect_case(const CaseSource& source, u64 seed) {
  const auto made = make_case(source, seed);
  if (!made.c) throw Error("TEST03", made.error);
  std::string broken;
  const auto stages = stages_of(*made.c, broken);
  std::optional<StageRun> before;
  for (const auto& stage : stages) {
    if (!before && has_calls(stage)) continue;  // runs once calls are inlined
    StageRun now;
    try {
      now = run_stage(source, seed, stage);
    } catch (const Error& e) {
      return Finding{stage.pass, e.what()};
    }
    if (!before) {
      if (!now.outcome.passed) return Finding{stage.pass, "the case fails before any pass: " + now.outcome.message};
    } else if (stage.bits == passes::BitPolicy::exact) {
      if (const auto d = first_difference(before->outputs, now.outputs); !d.empty())
        return Finding{stage.pass, d + ", and the pass keeps every bit"};
    } else if (!now.outcome.passed)
      return Finding{stage.pass, now.outcome.message + ", beyond the test's tolerance"};
    before = std::move(now);
  }
  if (!broken.empty()) return Finding{"the next pass", broken};
  return std::nullopt;
}

int run(const Globals& globals, const BisectOptions& o) {
  const auto& entry = find_kernel(standard_library(), o.kernel, o.dtype);
  int cases = 0, faults = 0;
  for (const auto& s : cases_of(entry, false)) {
    if (!o.filter.empty() && s.name.find(o.filter) == std::string::npos) continue;
    ++cases;
    const auto found = bisect_case(s, o.seed);
    faults += found.has_value();
    if (globals.json)
      fmt::print("{}\n", Json{{"type", "bisect"},
                              {"name", entry.full_name()},
                              {"case", s.name},
                              {"ok", !found},
                              {"pass", found ? Json(found->pass) : Json(nullptr)},
                              {"message", found ? found->how : ""}}
                             .dump());
    else if (found)
      fmt::print("{}  {}, {}: first at {}\n      {}\n", styled(Style::red, "FAIL"), entry.full_name(), s.name,
                 styled(Style::bold, found->pass), found->how);
    else if (!globals.quiet)
      fmt::print("{}  {}, {}: every pass keeps what it promises\n", styled(Style::green, "ok  "), entry.full_name(),
                 s.name);
  }
  if (cases == 0)
    throw Error("TOOL03", fmt::format("{} has no test case '{}'", entry.full_name(), o.filter),
                "'iron test --list' shows how many it has");
  return faults ? failure : success;
}

}  // namespace

void add_bisect(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub = subcommand(app, "bisect", "Find the first pass after which a kernel's results leave the pass's policy",
                         "  iron bisect rms_norm_wide_f16\n"
                         "  iron bisect softmax --dtype bf16 --case ragged");
  auto o = std::make_shared<BisectOptions>();
  sub->add_option("KERNEL", o->kernel, "The kernel, with or without iron_ and dtype")->required()->type_name("");
  sub->add_option("--dtype", o->dtype, "Which of the kernel's element types")->type_name("f32|f16|...");
  sub->add_option("--case", o->filter, "Only test cases whose name holds this")->type_name("TEXT");
  sub->add_option("--seed", o->seed, "Seed of the test data")->type_name("N");
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, *o); }; });
}

}  // namespace iron::tool
