// `iron opt` as a function: reads IR text, runs named passes, prints IR.
#pragma once

#include <iosfwd>
#include <span>
#include <string>

namespace iron::passes {

/// Arguments after the program's name. Returns the exit code: 0, 1 when the input or a check fails, 2 for wrong usage.
int run_opt(std::span<const std::string> arguments, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace iron::passes
