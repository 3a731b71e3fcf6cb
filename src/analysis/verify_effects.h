// What ops may do where: builtins by mode, outputs, threadgroup memory and its barriers, immediates.
#pragma once

#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

/// Errors: builtins that the mode does not have (D01), nothing written (D04), one slot written again while others may
/// still read it (D10), immediates out of their range (D16), reads of outputs (D24).
std::vector<Diagnostic> verify_effects(const ir::Kernel& k, std::string_view after_pass = {});

/// Warnings and remarks: loads selected by a condition that looks like their guard (D08), shifts not shown to be below
/// the width (D23), threadgroup memory beyond the smallest device (D27), memory read before any write (D32).
std::vector<Diagnostic> advise_effects(const ir::Kernel& k);

}  // namespace iron::analysis
