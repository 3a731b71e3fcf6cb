// `iron inspect`: what a kernel is at each stage, and what each pass did to it.
#include <iostream>
#include <memory>
#include <sstream>

#include "app.h"
#include "filters.h"
#include "gemm/select.h"
#include "ir/text.h"
#include "messages.h"
#include "passes/pipeline.h"
#include "prepared.h"
#include "table.h"
#include "target/profile.h"

namespace iron::tool {

namespace {

struct InspectOptions {
  Filters filters;
  std::string kernel, pass, dtype, stage, dir, backend, arch, shape;
  bool ir = false, stats = false, remarks = false, all = false;
};

std::string pass_names() {
  std::string names;
  for (const auto& p : passes::optimise_passes()) names += (names.empty() ? "" : ", ") + std::string(p.name);
  return names;
}

int listing(const Globals& globals, const Filters& filters) {
  const auto entries = filters.select(standard_library());
  if (entries.empty())
    throw Error("TOOL03", fmt::format("no kernel passes the filters, of {}", standard_library().entries().size()));
  Table table({{"kernel"}, {"dtype"}, {"family"}, {"determinism"}, {"what"}});
  for (const auto* e : entries) {
    if (globals.json)
      fmt::print("{}\n", Json{{"kernel", e->name},
                              {"family", e->family},
                              {"dtype", dtype_name(e->dtype)},
                              {"file", e->file},
                              {"name", e->full_name()},
                              {"determinism", e->determinism},
                              {"doc", e->doc}}
                             .dump());
    table.row({e->name, std::string(dtype_name(e->dtype)), e->family, e->determinism, e->doc});
  }
  if (!globals.json) fmt::print("{}", table.render());
  return success;
}

// The member of the kernel's family that a product of this shape gets on an architecture, or on the GPU here.
int selection(const Globals& globals, const InspectOptions& o) {
  const auto& e = find_kernel(standard_library(), o.kernel, o.dtype);
  const auto* member = kernels::find_gemm_member(e.name);
  if (!member) throw UsageError(fmt::format("--shape: {} is no matrix product", e.full_name()));
  kernels::GemmProblem p;
  if (char rest = 0; std::sscanf(o.shape.c_str(), "%ux%ux%u%c", &p.m, &p.n, &p.k, &rest) != 3)
    throw UsageError(fmt::format("--shape: '{}' is no MxNxK, such as 4096x4096x4096", o.shape));
  const auto kernel = e.instance();
  p.input = kernel->find(member->form.a)->ops->dtype, p.output = e.dtype;
  p.e4m3 = member->form.e4m3, p.weight_major = member->form.weight_major;
  std::vector<std::string> features;
  u32 units = 1;
  std::string device = o.arch;
  if (o.arch.empty()) {
    const auto& info = open_backend(o.backend.empty() ? "cuda" : o.backend).info();
    features = info.features, units = info.units, device = info.name;
  } else {
    const auto& profile = target::profile(o.arch);
    for (const auto a : profile.atoms.atoms()) features.emplace_back(target::name(a));
    // A profile has no number of them: that of the H200, which the Hopper members are registered for.
    if (profile.atoms.has(target::Atom::roles)) units = 132, device += " with 132 multiprocessors";
  }
  const auto s = kernels::select_gemm(p, features, units);
  Json passed = Json::array();
  Table table({{""}, {"member"}, {"rung"}, {"why"}});
  for (const auto& x : s.passed) {
    const auto rung = kernels::name(kernels::find_gemm_member(x.kernel.substr(0, x.kernel.rfind('_')))->rung);
    passed.push_back({{"kernel", x.kernel}, {"rung", rung}, {"why", x.why}});
    table.row({"", x.kernel, std::string(rung), x.why});
  }
  table.row({"*", s.entry->full_name(), std::string(kernels::name(s.member->rung)), s.why});
  if (globals.json)
    fmt::print("{}\n", Json{{"type", "selection"},
                            {"shape", o.shape},
                            {"device", device},
                            {"kernel", s.entry->full_name()},
                            {"spec", s.spec},
                            {"rung", kernels::name(s.member->rung)},
                            {"why", s.why},
                            {"passed", passed}}
                           .dump());
  else
    fmt::print("{} on {}\n{}", o.shape, device, table.render());
  return success;
}

class Inspection {
 public:
  Inspection(const Globals& globals, const InspectOptions& options, const KernelEntry& entry)
      : globals_(globals), options_(options), entry_(entry) {}

  int run() {
    if (options_.ir) show("ir", "recorded.iron", ir::print_module(*entry_.record(false)));
    if (!options_.pass.empty()) after_passes();
    if (options_.stats) stats();
    if (options_.remarks) remarks();
    if (!options_.stage.empty()) {
      const auto s = find_stage(options_.stage);
      show(std::string(s.name), std::string(s.extension), stage_text(s, entry_, options_.arch));
    }
    if (!options_.ir && options_.pass.empty() && !options_.stats && !options_.remarks && options_.stage.empty()) {
      const auto s = options_.backend.empty() ? find_stage("ir") : final_stage(options_.backend);
      show(std::string(s.name), std::string(s.extension), stage_text(s, entry_, options_.arch));
    }
    return success;
  }

 private:
  void show(const std::string& kind, const std::string& extension, const std::string& text) const {
    if (!options_.dir.empty()) {
      const auto path = fmt::format("{}/{}.{}", options_.dir, entry_.full_name(), extension);
      write_file(path, text);
      if (globals_.json)
        fmt::print("{}\n",
                   Json{{"type", "artifact"}, {"name", entry_.full_name()}, {"kind", kind}, {"path", path}}.dump());
      else if (!globals_.quiet)
        fmt::print("{}\n", path);
    } else if (globals_.json)
      fmt::print("{}\n",
                 Json{{"type", "inspect"}, {"name", entry_.full_name()}, {"kind", kind}, {"text", text}}.dump());
    else
      fmt::print("{}{}", text, text.ends_with('\n') ? "" : "\n");
  }

  // The kernel after one pass, or after each that changed it.
  void after_passes() const {
    const bool all = options_.pass == "all";
    if (!all && !passes::find_pass(options_.pass))
      throw UsageError(fmt::format("there is no pass '{}': all, {}", options_.pass, pass_names()));
    auto k = *entry_.record(false);
    std::string before = ir::print(k);
    if (all) show("ir", "recorded.iron", "// recorded\n" + before);
    int number = 0;
    passes::PassOptions options;
    options.verify = true;
    options.after_each = [&](const ir::Kernel& now, const passes::PassEntry& pass) {
      ++number;
      const auto text = ir::print(now);
      const bool same = text == before;
      before = text;
      if (all ? !same : pass.name == options_.pass)
        show("ir", fmt::format("{:02}-{}.iron", number, pass.name),
             fmt::format("// after {}{}\n{}", pass.name, same ? ", which changed nothing" : "", text));
    };
    if (!all) options.stop_after = options_.pass;
    passes::run_pipeline(k, options);
  }

  passes::PipelineResult result() const {
    auto k = *entry_.record(false);
    return passes::run_pipeline(k);
  }

  void stats() const {
    constexpr auto right = Table::Align::right;
    Table table({{"pass"}, {"ops before", right}, {"ops after", right}, {"delta", right}, {"µs", right}});
    Json rows = Json::array();
    for (const auto& s : result().stats) {
      const auto delta = static_cast<i64>(s.ops_after) - static_cast<i64>(s.ops_before);
      rows.push_back({{"pass", s.pass},
                      {"ops_before", s.ops_before},
                      {"ops_after", s.ops_after},
                      {"delta", delta},
                      {"time_us", rounded(s.time_us)},
                      {"changed", s.changed}});
      table.row({s.pass, fmt::format("{}", s.ops_before), fmt::format("{}", s.ops_after),
                 delta       ? fmt::format("{:+}", delta)
                 : s.changed ? "moved"
                             : "",
                 fmt::format("{:.1f}", s.time_us)});
    }
    if (globals_.json)
      fmt::print("{}\n",
                 Json{{"type", "inspect"}, {"name", entry_.full_name()}, {"kind", "stats"}, {"passes", rows}}.dump());
    else
      show("stats", "stats.txt", table.render());
  }

  void remarks() const {
    std::string text;
    for (const auto& r : result().remarks) text += passes::to_string(r) + "\n";
    show("remarks", "remarks.txt", text.empty() ? "no pass has a remark\n" : text);
  }

  const Globals& globals_;
  const InspectOptions& options_;
  const KernelEntry& entry_;
};

// A kernel that has no such text, for instance one too large for the architecture, does not keep the others from
// theirs.
int every(const Globals& globals, const InspectOptions& o, const std::vector<const KernelEntry*>& entries) {
  const Messages messages(globals.json);
  std::size_t failed = 0;
  for (const auto* e : entries) try {
      Inspection(globals, o, *e).run();
    } catch (const Error& error) {
      ++failed;
      messages.error(e->full_name(), std::string(dtype_name(e->dtype)), error.what());
      if (!globals.json) fmt::print(stderr, "{}: {}\n", e->full_name(), error.what());
    }
  if (failed && !globals.json) fmt::print(stderr, "{} of {} kernels could not be shown\n", failed, entries.size());
  return failed ? failure : success;
}

int run(const Globals& globals, const InspectOptions& o) {
  if (!o.backend.empty() && !o.stage.empty()) throw UsageError("--backend and --stage each name a text: give one");
  if (!o.backend.empty()) final_stage(o.backend);  // a name that no build has is refused before anything is printed
  if (o.all && !o.kernel.empty()) throw UsageError("--all goes with filters, not with a kernel's name");
  if (o.all) {
    const auto entries = o.filters.select(standard_library());
    if (entries.empty())
      throw Error("TOOL03", fmt::format("no kernel passes the filters, of {}", standard_library().entries().size()));
    return every(globals, o, entries);
  }
  if (o.kernel.empty()) {
    if (!o.shape.empty() || o.ir || o.stats || o.remarks || !o.pass.empty() || !o.stage.empty() || !o.backend.empty())
      throw UsageError("name a kernel, or give --all with filters; 'iron inspect' alone lists them");
    return listing(globals, o.filters);
  }
  if (!o.shape.empty()) return selection(globals, o);
  return Inspection(globals, o, find_kernel(standard_library(), o.kernel, o.dtype)).run();
}

}  // namespace

void add_inspect(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub =
      subcommand(app, "inspect", "Show a kernel: IR, what passes did, LLVM IR, machine code",
                 "  iron inspect                                   the kernels of the library\n"
                 "  iron inspect rms_norm_wide --dtype f16         what devices get\n"
                 "  iron inspect rms_norm_wide_f16 --pass licm     after one pass; all: after each that changed it\n"
                 "  iron inspect rms_norm_wide_f16 --stats --remarks\n"
                 "  iron inspect rms_norm_wide_f16 --stage asm\n"
                 "  iron inspect rms_norm_wide_f16 --backend cuda  its CUDA text, without a GPU too\n"
                 "  iron inspect gemm_bf16 --shape 4096x4096x4096 --arch sm_90a   which member that product gets\n"
                 "  iron inspect --all --match-group softmax --stats");
  sub->alias("in");
  auto o = std::make_shared<InspectOptions>();
  std::string kinds;
  for (const auto& s : stages()) kinds += (kinds.empty() ? "" : "|") + std::string(s.name);
  sub->add_option("KERNEL", o->kernel, "The kernel, with or without iron_ and dtype; absent: list them")->type_name("");
  o->filters.add_to(*sub, false);
  sub->add_option("--dtype", o->dtype, "Which of the kernel's element types")->type_name("f32|f16|...");
  sub->add_flag("--ir", o->ir, "As recorded, before any pass");
  sub->add_option("--pass", o->pass, "After that pass; all: after each that changed it")->type_name("NAME|all");
  sub->add_flag("--stats", o->stats, "What each pass did: ops before and after, time");
  sub->add_flag("--remarks", o->remarks, "What passes did or could not do, and why");
  sub->add_option("--stage", o->stage, "A later text")->type_name(kinds);
  sub->add_option("--backend", o->backend, "The last text for a device: CUDA text, the CPU's LLVM IR")
      ->type_name(backend_help());
  sub->add_option("--arch", o->arch, "CUDA text and PTX for this architecture, with or without a GPU")
      ->type_name("sm_90a|...");
  sub->add_option("--shape", o->shape,
                  "For a matrix product: which member of its family that shape gets with --arch, or on the GPU here")
      ->type_name("MxNxK");
  sub->add_flag("--all", o->all, "Every kernel that passes the filters");
  sub->add_option("-o,--dir", o->dir, "Write files instead of printing")->type_name("DIR");
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, *o); }; });
}

}  // namespace iron::tool
