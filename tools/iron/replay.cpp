// `iron replay FILE`: a failing case again, from its bundle, on a device and in the interpreter.
#include <memory>

#include "app.h"
#include "bundle.h"
#include "messages.h"
#include "runtime/run_case.h"
#include "terminal.h"

namespace iron::tool {

namespace {

// What the case leaves in its outputs, in the order in which the steps name them.
std::vector<std::pair<std::string, std::vector<std::byte>>> outputs_of(const Case& c) {
  std::vector<std::pair<std::string, std::vector<std::byte>>> out;
  for (const auto& s : c.steps)
    for (const auto& a : s.args)
      if (!a.scalar && a.access != detail::Access::in) {
        const auto* data = static_cast<const std::byte*>(a.buffer.data);
        out.emplace_back(a.name, std::vector<std::byte>(data, data + a.buffer.bytes));
      }
  return out;
}

struct Run {
  runtime::Outcome outcome;
  std::vector<std::pair<std::string, std::vector<std::byte>>> outputs;
};

Run run_on(const std::string& backend, const std::string& path) {
  auto loaded = load_bundle(path);  // anew for each device: the run changes the buffers
  Run r;
  r.outcome = runtime::run_case(open_backend(backend), loaded.c, loaded.tolerance);
  r.outputs = outputs_of(loaded.c);
  return r;
}

std::string difference(const Run& a, const Run& b) {
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    for (std::size_t k = 0; k < a.outputs[i].second.size(); ++k)
      if (a.outputs[i].second[k] != b.outputs[i].second[k])
        return fmt::format("{} differs from byte {} on", a.outputs[i].first, k);
  return "every output has the same bits";
}

int run(const Globals& globals, const std::string& path, std::string backend) {
  const auto loaded = load_bundle(path);
  if (backend.empty()) backend = loaded.backend;
  std::vector<std::string> backends{backend};
  if (backend != "interpreter") backends.emplace_back("interpreter");
  if (!globals.json)
    fmt::print("{}, case '{}', failed on {}\n", styled(Style::bold, loaded.kernel), loaded.case_name, loaded.backend);
  bool passed = true;
  std::vector<Run> runs;
  for (const auto& name : backends) {
    runs.push_back(run_on(name, path));
    const auto& o = runs.back().outcome;
    passed = passed && o.passed;
    if (globals.json)
      fmt::print("{}\n", Json{{"type", "replay"},
                              {"kernel", loaded.kernel},
                              {"case", loaded.case_name},
                              {"backend", name},
                              {"passed", o.passed},
                              {"max_err", o.max_error},
                              {"message", o.message}}
                             .dump());
    else
      fmt::print("  {:<12} {}  {}\n", name, o.passed ? styled(Style::green, "passes") : styled(Style::red, "fails "),
                 o.message);
  }
  if (runs.size() == 2 && !globals.json) fmt::print("  between them {}\n", difference(runs[0], runs[1]));
  return passed ? success : failure;
}

}  // namespace

void add_replay(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub = subcommand(app, "replay", "Run a failing case again from its bundle",
                         "  iron replay iron-failures/iron_softmax_f16-ragged_rows-cpu.json\n"
                         "  iron replay failure.json --backend interpreter");
  struct Options {
    std::string file, backend;
  };
  auto o = std::make_shared<Options>();
  sub->add_option("FILE", o->file, "The bundle that a failing 'iron test' wrote")->required()->type_name("");
  sub->add_option("--backend", o->backend, "Where to run it; the one where it failed if absent")
      ->type_name(backend_help());
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, o->file, o->backend); }; });
}

}  // namespace iron::tool
