// Decoding of the 4- and 8-bit floats.
#pragma once

#include "ir/op.h"

namespace iron::ir {

/// The f32 bits that a Decode op gives for the low bits of a word.
u32 decode_small_float(Opcode code, u32 bits);

}  // namespace iron::ir
