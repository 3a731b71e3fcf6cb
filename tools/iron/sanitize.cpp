#include "sanitize.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/exec.h"
#include "iron/error.h"
#include "maker.h"

namespace iron::tool {

namespace {
std::string_view name(exec::Schedule s) {
  switch (s) {
    case exec::Schedule::program:
      return "program";
    case exec::Schedule::reverse:
      return "reverse";
    case exec::Schedule::random:
      return "random";
    case exec::Schedule::interleave:
      return "interleave";
  }
  return "";
}
}  // namespace

SanitizeOutcome sanitize(const CaseSource& source, u64 seed) {
  SanitizeOutcome all;
  all.outcome.passed = true;
  auto& backend = runtime::backend("interpreter");
  const auto fail = [&](const std::string& how, const std::string& message) {
    if (all.outcome.passed) all.outcome.message = how + ": " + message;
    all.outcome.passed = false;
  };
  const auto note = [&](const Diagnostic& d) {
    const auto text = d.render();
    if (std::find(all.findings.begin(), all.findings.end(), text) == all.findings.end()) all.findings.push_back(text);
  };
  const auto run = [&](exec::Options options, const std::string& how) {
    const auto made = make_case(source, seed);  // anew: the last run wrote into the buffers
    if (!made.c) return fail(how, made.error);
    try {
      runtime::BoundCase bound(backend, *made.c);
      bool wrong = false;
      for (const auto& step : bound.steps()) {
        const auto result = exec::run(step.exe->kernel(), step.geometry, step.args, options);
        for (const auto& d : result.findings) {
          note(d);
          if (d.severity == Severity::error && !wrong) fail(how, d.message), wrong = true;
        }
      }
      bound.download();
    } catch (const Error& e) {
      for (const auto& d : e.diagnostics()) note(d);
      return fail(how, e.diagnostics().front().message);
    }
    const auto judged = runtime::judge(*made.c, source.tolerance);
    all.outcome.max_error = std::max(all.outcome.max_error, judged.max_error);
    all.outcome.cosine = std::min(all.outcome.cosine, judged.cosine);
    if (!judged.passed) fail(how, judged.message);
  };
  for (const auto schedule : exec::all_schedules) {
    exec::Options options;
    options.schedule = schedule, options.seed = seed;
    run(options, fmt::format("schedule {}", name(schedule)));
  }
  bool generic = false;
  if (const auto made = make_case(source, seed); made.c)
    generic = std::all_of(made.c->steps.begin(), made.c->steps.end(),
                          [](const Step& s) { return s.record()->width_generic; });
  if (generic)
    for (const u32 width : {4u, 8u, 16u, 64u}) {
      exec::Options options;
      options.width = width;
      run(options, fmt::format("width {}", width));
    }
  return all;
}

}  // namespace iron::tool
