// `iron tune`: compiles a plan of kernels without a GPU, then checks and times it on one.
#include <memory>

#include "app.h"
#include "iron/error.h"
#include "tune_plan.h"
#include "tune_run.h"

namespace iron::tool {

namespace {

struct TuneOptions {
  std::string prebuild, plan;
  std::vector<std::string> archs;
  TuneRunOptions run;
};

int build_plan(const Globals& globals, const TuneOptions& o) {
  auto archs = o.archs;
  if (archs.empty()) archs = {"sm_90a"};
  const auto plan = [&] {
    if (!o.plan.empty()) return read_plan(read_file(o.plan), o.plan, archs);
    for (const auto& a : archs) target::profile(a);
    return default_plan(archs);
  }();
  const auto kernels = prebuild(plan, o.prebuild, globals);
  if (globals.json)
    fmt::print("{}\n", Json{{"type", "prebuilt"}, {"kernels", kernels}, {"folder", o.prebuild}}.dump());
  else
    fmt::print("{} kernels compiled into {}; on the GPU: iron tune --run {}\n", kernels, o.prebuild, o.prebuild);
  return success;
}

int run(const Globals& globals, const TuneOptions& o) {
  const bool builds = !o.prebuild.empty(), times = !o.run.folder.empty();
  if (builds == times) throw UsageError("give --prebuild DIR, without a GPU, or --run DIR, on one");
  if (times && (!o.plan.empty() || !o.archs.empty()))
    throw UsageError("--plan and --arch go with --prebuild: --run times what was prebuilt");
  if (builds && (!o.run.out.empty() || !o.run.filter.empty() || o.run.no_reference))
    throw UsageError("--out, --filter and --no-reference go with --run");
  return builds ? build_plan(globals, o) : run_tuning(globals, o.run);
}

}  // namespace

void add_tune(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub =
      subcommand(app, "tune", "Compile a plan of kernels without a GPU, then check and time it on one",
                 "  iron tune --prebuild tuned                    the GEMM family for sm_90a, in parallel\n"
                 "  iron tune --prebuild tuned --plan plan.json   kernels, specialisations and shapes of your own\n"
                 "  iron tune --run tuned                         on the GPU: against cuBLASLt, winners a shape\n"
                 "  iron tune --run tuned -f 4096x4096x4096 -o square.json");
  auto o = std::make_shared<TuneOptions>();
  sub->add_option("--prebuild", o->prebuild, "Compile the plan into this folder; needs NVRTC, no GPU")
      ->type_name("DIR");
  sub->add_option("--plan", o->plan, "The plan, as docs/tune.md describes it; absent: the GEMM family")
      ->type_name("FILE");
  sub->add_option("--arch", o->archs, "Architectures where the plan names none; sm_90a if absent")
      ->delimiter(',')
      ->type_name("sm_90a,...");
  sub->add_option("--run", o->run.folder, "Check and time what was prebuilt there, on this GPU")->type_name("DIR");
  sub->add_option("-o,--out", o->run.out, "The record; DIR/results.json if absent")->type_name("FILE");
  sub->add_option("-f,--filter", o->run.filter, "Only what holds this: part of a kernel's name, spec or shape")
      ->type_name("TEXT");
  sub->add_flag("--no-reference", o->run.no_reference, "Without cuBLASLt");
  sub->add_option("--block", o->run.measure.block_seconds, "Seconds of a steady block, and of the settling before it")
      ->check(CLI::Range(0.001, 10.0))
      ->type_name("S");
  sub->callback([&globals, &action, o] {
    o->run.measure.settle_seconds = o->run.measure.block_seconds;
    action = [&globals, o] { return run(globals, *o); };
  });
}

}  // namespace iron::tool
