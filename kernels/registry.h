// The explicit list of registration functions: no static initialisers, so the linker cannot drop a family.
#pragma once

#include "iron/library.h"

namespace iron::kernels {

// One declaration a file of kernels/<family>/.
void register_rms_norm(Registry& r);

// unary
void register_unary_exact(Registry& r);
void register_unary_transcendental(Registry& r);
void register_scalar_fused(Registry& r);
// binary
void register_binary_arithmetic(Registry& r);
void register_data_movement(Registry& r);
void register_gates(Registry& r);
// rope
void register_rope(Registry& r);
void register_rope_scaled(Registry& r);
// index
void register_gather(Registry& r);
void register_scatter(Registry& r);
// sampling
void register_sampling(Registry& r);
void register_logits(Registry& r);

}  // namespace iron::kernels
