// The explicit list of registration functions: no static initialisers, so the linker cannot drop a family.
#pragma once

#include "iron/library.h"

namespace iron::kernels {

// One declaration a file of kernels/<family>/.
void register_rms_norm(Registry& r);

// language models
void register_gguf(Registry& r);
void register_cached_attention(Registry& r);
void register_swiglu_rows(Registry& r);
void register_sample_greedy(Registry& r);

}  // namespace iron::kernels
