// The command line of `iron`: global flags, subcommands, and the exit codes 0 (ok), 1 (failure) and 2 (wrong usage).
#include <cstdio>

#include "app.h"
#include "iron/error.h"
#include "terminal.h"

namespace iron::tool {
namespace {

constexpr const char* examples =
    "Examples:\n"
    "  iron device                          what can run kernels here\n"
    "  iron test rms_norm                   every case of the kernels whose name holds rms_norm\n"
    "  iron bench kernels/norm/ -v          time what kernels/norm/ registers, with more columns\n"
    "  iron inspect rms_norm_wide_f16 --pass licm\n"
    "Exit codes: 0 all is well, 1 something failed, 2 wrong usage.";

int report(const std::string& message, int code) {
  std::string text = message;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  fmt::print(stderr, "{} {}\n", styled_error("iron:"), text);
  return code;
}

int unknown_command(const CLI::App& app, const char* word) {
  std::string names;
  for (const auto* c : app.get_subcommands([](const CLI::App*) { return true; }))
    names += (names.empty() ? "" : ", ") + c->get_name();
  return report(fmt::format("there is no command '{}': {}", word, names), wrong_usage);
}

int run(int argc, char** argv) {
  CLI::App app("iron: kernels written once, proven, timed and explained");
  app.name("iron");
  app.footer(examples);
  app.require_subcommand(0, 1);
  app.fallthrough();
  Globals globals;
  Action action;
  app.add_flag("-q,--quiet", globals.quiet, "Print failures and the last line only");
  app.add_flag("--json", globals.json, "Print JSON, one object a line");
  app.add_option("--color", globals.color, "When to colour: always, auto or never (NO_COLOR and CLICOLOR_FORCE count)")
      ->check(CLI::IsMember({"always", "auto", "never"}))
      ->type_name("WHEN");
  app.add_option("-j,--threads", globals.threads, "Host threads that build test data and oracles; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->type_name("N");
  app.add_flag("-v,--verbose", globals.verbosity,
               "More columns; repeat for more: -vv the distribution; with build the sources");
  app.set_version_flag("--version", std::string("iron " IRON_VERSION));

  add_device(app, globals, action);
  add_test(app, globals, action);
  add_bench(app, globals, action);
  add_build(app, globals, action);
  add_inspect(app, globals, action);
  add_tune(app, globals, action);
  add_opt(app, globals, action);
  add_bisect(app, globals, action);
  add_replay(app, globals, action);
  add_lint(app, globals, action);
  add_completions(app, globals, action);

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // --help and --version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    set_color(globals.color);
    if (argc > 1 && argv[1][0] != '-' && app.get_subcommands().empty()) return unknown_command(app, argv[1]);
    return report(std::string(e.what()) + "\nRun with --help for what is possible.", wrong_usage);
  }
  set_color(globals.color);
  if (!action) return report("a command is missing\nRun with --help for what is possible.", wrong_usage);
  try {
    return action();
  } catch (const UsageError& e) {
    return report(e.what(), wrong_usage);
  } catch (const Error& e) {
    return report(e.what(), failure);
  } catch (const std::exception& e) {
    return report(e.what(), failure);
  }
}

}  // namespace
}  // namespace iron::tool

int main(int argc, char** argv) { return iron::tool::run(argc, argv); }
