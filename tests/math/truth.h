// What the transcendental ops approximate: the host's f64 library, against which the expansions are measured.
#pragma once

#include "ir/op.h"

namespace iron::math {

/// A Math or Fast op of f64 arguments. Throws iron::Error (TRUTH01) for another op.
f64 truth(ir::Opcode code, f64 a, f64 b);

}  // namespace iron::math
