// `iron opt`: named passes over IR text.
#include "passes/opt_driver.h"

#include <iostream>
#include <memory>

#include "app.h"

namespace iron::tool {

void add_opt(CLI::App& app, const Globals&, Action& action) {
  auto* sub = subcommand(app, "opt", "Run passes over IR text and print the result",
                         "  iron inspect rms_norm_wide_f32 --ir | iron opt --pass licm,cse --remarks\n"
                         "  iron opt kernel.iron --pass all --stats\n"
                         "  iron opt -- --help                   its own options");
  // The driver reads its own options: whatever follows is passed on untouched.
  sub->prefix_command();
  sub->fallthrough(false);
  sub->callback([sub, &action] {
    action = [words = sub->remaining()]() mutable {
      if (!words.empty() && words.front() == "--") words.erase(words.begin());
      return passes::run_opt(words, std::cin, std::cout, std::cerr);
    };
  });
}

}  // namespace iron::tool
