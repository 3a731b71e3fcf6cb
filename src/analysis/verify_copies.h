// Errors of copies that threads start and wait for.
#pragma once

#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

/// COPY01 a copy whose size, place or source no device copies; COPY02 what copies fill is read before any wait, or
/// copies that nothing closes or waits for.
std::vector<Diagnostic> verify_copies(const ir::Kernel& k, std::string_view after_pass = {});

}  // namespace iron::analysis
