// The verifier that everyone calls: structure, convergence and effects in one list.
#pragma once

#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

/// Every error in a kernel, after the pass of that name if one is named. Convergence and effects are looked at only
/// where the structure holds. Empty: the kernel is well formed.
std::vector<Diagnostic> verify(const ir::Kernel& k, std::string_view after_pass = {});

/// What is legal and yet likely wrong or slow, as warnings and remarks (D08, D23, D27, D32). For the author's kernel,
/// once.
std::vector<Diagnostic> advise(const ir::Kernel& k);

}  // namespace iron::analysis
