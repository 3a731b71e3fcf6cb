// Mutants of tier kernels: one synchronisation left out, weakened, or moved.
#pragma once

#include <string>
#include <vector>

#include "ir/kernel.h"

namespace iron::exec::tier {

struct Mutant {
  std::string name;  ///< "drop pipe.release #2": the second one of the kernel
  ir::Kernel kernel;
};

/// Copies that threads start, their commits and waits; waits, acquires, releases, settles, reclaims, expected bytes,
/// barriers, turns and copies: each dropped, weakened or strengthened by one, moved over its neighbours, or pointed at
/// another slot.
std::vector<Mutant> mutants(const ir::Kernel& k);

}  // namespace iron::exec::tier
