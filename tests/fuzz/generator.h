// Kernels from seeds: typed, verified, inside their launch contract and free of findings by construction.
#pragma once

#include "subject.h"

namespace iron::fuzz {

/// The same kernel and launch for a seed, always.
Subject generate(u64 seed);

}  // namespace iron::fuzz
