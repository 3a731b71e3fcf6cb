// Transcendental functions become base ops: one expansion each, the same on every backend (R1).
#pragma once

#include <vector>

#include "ir/kernel.h"

namespace iron::passes {

/// Replaces every op with effect Math by its expansion over exact base ops, so that executing the kernel op by op gives
/// the same bits everywhere. f16 and bf16 go through f32 with one rounding; f64 throws iron::Error (MATH0001).
/// Returns how many ops were replaced. `fast_*` ops stay.
int expand_math(ir::Kernel& k);

/// Replaces the `fast_*` ops that a device has no instruction for (`keep` names those it has). exp, exp2, log and log2
/// get shorter expansions that flush denormals: exp2 within 2^-20 and exp within 2^-17 of the value, log and log2
/// within 2^-20 of the value plus 2^-20. The others become the base op or the Math op of that name, so run this before
/// expand_math. Returns how many ops were replaced.
int expand_fast(ir::Kernel& k, const std::vector<ir::Opcode>& keep = {});

}  // namespace iron::passes
