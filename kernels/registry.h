// The explicit list of registration functions: no static initialisers, so the linker cannot drop a family.
#pragma once

#include "iron/library.h"

namespace iron::kernels {

// One declaration a file of kernels/<family>/.
void register_rms_norm(Registry& r);
// gemm
void register_steel_gemm(Registry& r);

}  // namespace iron::kernels
