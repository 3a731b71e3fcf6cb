// Every kernel of a case after each pass, run in the interpreter.
#include "bisect_search.h"

#include <fmt/format.h>

#include <memory>

#include "exec/exec.h"
#include "maker.h"
#include "passes/expand_math.h"
#include "runtime/run_case.h"

namespace iron::tool {

namespace {

/// A case's kernels after one pass, one a step.
struct StageOfCase {
  std::string pass;
  passes::BitPolicy bits = passes::BitPolicy::exact;
  std::vector<std::shared_ptr<const ir::Kernel>> kernels;
};

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
    for (const auto& a : s.args) args.push_back(a.launch_arg(a.buffer.data));
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

}  // namespace

std::vector<SearchPass> search_passes() {
  std::vector<SearchPass> all;
  for (const auto& pass : passes::optimise_passes())
    all.push_back({std::string(pass.name), pass.bits, [only = std::vector{std::string(pass.name)}](ir::Kernel& k) {
                     passes::PassOptions options;
                     options.verify = true;
                     passes::run_passes(k, only, options);
                   }});
  // Fast ops may differ from what they stand for: they are compared under the test's tolerance.
  all.push_back({"expand_fast", passes::BitPolicy::fused, [](ir::Kernel& k) { passes::expand_fast(k); }});
  all.push_back({"expand_math", passes::BitPolicy::exact, [](ir::Kernel& k) { passes::expand_math(k); }});
  return all;
}

std::optional<PassFinding> bisect_case(const CaseSource& source, u64 seed, const std::vector<SearchPass>& passes) {
  const auto made = make_case(source, seed);
  if (!made.c) throw Error("TEST03", made.error);
  StageOfCase stage{"recorded", passes::BitPolicy::exact, {}};
  for (const auto& step : made.c->steps) stage.kernels.push_back(step.record());
  std::optional<StageRun> before;
  for (auto pass = passes.begin();; ++pass) {
    StageRun now;
    const bool runs = before || !has_calls(stage);  // it does once calls are inlined
    try {
      if (runs) now = run_stage(source, seed, stage);
    } catch (const Error& e) {
      return PassFinding{stage.pass, e.what()};
    }
    if (!before) {
      if (runs && !now.outcome.passed)
        return PassFinding{stage.pass, "the case fails before any pass: " + now.outcome.message};
    } else if (stage.bits == passes::BitPolicy::exact) {
      if (const auto d = first_difference(before->outputs, now.outputs); !d.empty())
        return PassFinding{stage.pass, d + ", and the pass keeps every bit"};
    } else if (!now.outcome.passed)
      return PassFinding{stage.pass, now.outcome.message + ", beyond the test's tolerance"};
    if (runs) before = std::move(now);
    if (pass == passes.end()) return std::nullopt;
    stage.pass = pass->name, stage.bits = pass->bits;
    for (auto& kernel : stage.kernels) {
      auto changed = std::make_shared<ir::Kernel>(*kernel);
      try {
        pass->run(*changed);
      } catch (const Error& e) {
        return PassFinding{pass->name, e.what()};
      }
      kernel = std::move(changed);
    }
  }
}

}  // namespace iron::tool
