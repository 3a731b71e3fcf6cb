// What every subcommand gets: the global flags, and how it enters the command line.
#pragma once

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <stdexcept>
#include <string>

namespace iron::tool {

struct Globals {
  bool quiet = false, json = false;
  std::string color = "auto";
  int threads = 0;    ///< host threads; 0: all cores
  int verbosity = 0;  ///< how often -v was given
};

/// Wrong usage that the option parser cannot see: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Exit codes of the tool.
inline constexpr int success = 0, failure = 1, wrong_usage = 2;

/// The chosen subcommand puts what it does here; the result is the exit code.
using Action = std::function<int()>;

void add_device(CLI::App& app, const Globals& globals, Action& action);
void add_test(CLI::App& app, const Globals& globals, Action& action);
void add_bench(CLI::App& app, const Globals& globals, Action& action);
void add_build(CLI::App& app, const Globals& globals, Action& action);
void add_inspect(CLI::App& app, const Globals& globals, Action& action);
void add_tune(CLI::App& app, const Globals& globals, Action& action);
void add_opt(CLI::App& app, const Globals& globals, Action& action);
void add_bisect(CLI::App& app, const Globals& globals, Action& action);
void add_replay(CLI::App& app, const Globals& globals, Action& action);
void add_lint(CLI::App& app, const Globals& globals, Action& action);
void add_completions(CLI::App& app, const Globals& globals, Action& action);

/// A subcommand with its examples below the options.
inline CLI::App* subcommand(CLI::App& app, const std::string& name, const std::string& summary,
                            const std::string& examples) {
  auto* sub = app.add_subcommand(name, summary);
  sub->footer("Examples:\n" + examples);
  return sub;
}

}  // namespace iron::tool
