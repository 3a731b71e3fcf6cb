// What the C++ compiler and the recorder cannot see in the text of a kernel's body, because it is legal C++.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "iron/error.h"

namespace iron::tool {

/// Reads C++ text and names, in the call operators of kernels (`operator()() const`), what is wrong in a recorded body:
/// `goto`, a host `while` or `do`, and a `continue` or `break` that would leave a recorded loop or branch. A plain
/// `for` over host values is unrolled, so both words keep their meaning in it.
struct LintResult {
  std::vector<Diagnostic> findings;
  std::size_t bodies = 0;  ///< call operators that were read
};
LintResult lint_source(std::string_view text, const std::string& file);

}  // namespace iron::tool
