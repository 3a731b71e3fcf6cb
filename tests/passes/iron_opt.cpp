// `iron opt` alone, so that the textual tests of this folder run without the whole tool: iron-opt opt ARGUMENTS.
#include <iostream>
#include <string>
#include <vector>

#include "passes/opt_driver.h"

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && arguments[0] == "opt") arguments.erase(arguments.begin());
  return iron::passes::run_opt(arguments, std::cin, std::cout, std::cerr);
}
