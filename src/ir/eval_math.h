// Reference values of the transcendental ops, and decoding of the 4- and 8-bit floats.
#pragma once

#include "ir/op.h"

namespace iron::ir {

/// A Math or Fast op through the host's f64 library. Its exact bits are those of the expansion that expand_math makes;
/// IR that still holds the op gets this value, rounded once, which agrees with the expansion within its stated error.
f64 math_value(Opcode code, f64 a, f64 b);

/// The f32 bits that a Decode op gives for the low bits of a word.
u32 decode_small_float(Opcode code, u32 bits);

}  // namespace iron::ir
