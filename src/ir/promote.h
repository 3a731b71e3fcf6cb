// Recorded variables become structured SSA (R8).
#pragma once

#include "ir/kernel.h"

namespace iron::ir {

/// Replaces every slot by values: carried values of loops, results of branches. A read before any assignment throws
/// iron::Error (D32) with the read's location. Leaves no slot op behind.
void promote_slots(Kernel& k);

}  // namespace iron::ir
