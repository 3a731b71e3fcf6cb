// The smallest program around run_opt, for the lit tests of this folder.
#include <iostream>
#include <string>
#include <vector>

#include "passes/opt_driver.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return iron::passes::run_opt(arguments, std::cin, std::cout, std::cerr);
}
