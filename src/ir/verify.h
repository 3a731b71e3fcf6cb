// Structural verification: regions, dominance, types, immediates.
#pragma once

#include <vector>

#include "ir/kernel.h"

namespace iron::ir {

/// Every violation found, each with the op's location; empty if the kernel is well formed. `after_pass` is named in
/// them.
std::vector<Diagnostic> verify_structure(const Kernel& k, std::string_view after_pass = {});

}  // namespace iron::ir
