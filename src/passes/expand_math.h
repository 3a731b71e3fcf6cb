// Transcendental functions become base ops: one expansion each, the same on every backend (R1).
#pragma once

#include <vector>

#include "ir/kernel.h"

namespace iron::passes {

/// Replaces every op with effect Math by its expansion over exact base ops, so that executing the kernel op by op gives
/// the same bits everywhere. f16 and bf16 go through f32 with one rounding; f64 throws iron::Error (MATH0001).
/// Returns how many ops were replaced. `fast_*` ops stay.
int expand_math(ir::Kernel& k);

/// Replaces the `fast_*` ops that a device has no instruction for (`keep` names those it has) by ops of the base set
/// and Math ops. Run before expand_math. Returns how many ops were replaced.
int expand_fast(ir::Kernel& k, const std::vector<ir::Opcode>& keep = {});

}  // namespace iron::passes
