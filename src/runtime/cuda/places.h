// Where the libraries of a CUDA toolkit may lie: none of them is linked.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace iron::runtime::cuda {

/// Paths and names to try, in order of preference: $`variable` alone if it is set; else the loader's own folders, a
/// toolkit, and `packages` of Python's nvidia packages (nvidia/<package>/lib). `files` are names, best first.
std::vector<std::string> library_places(const char* variable, std::span<const char* const> files,
                                        std::span<const char* const> packages);

}  // namespace iron::runtime::cuda
