// Textual kernels that cover every op on every element type that it takes, made from the op table.
#pragma once

#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/launch.h"

namespace iron::testing {

/// One kernel over inputs %a, %b, %c, %d and output %y, element i for thread i, on `groups` x `threads` threads.
struct OpCase {
  std::string name;  ///< "add.f16", "cast.i64.bf16"
  std::string text;
  ir::Opcode code;  ///< the op it is about
  u32 groups = 4, threads = 64;
  bool exact = true;  ///< the value is defined to the bit (not a fast op)
};

/// Pure ops on scalars, casts between all pairs, decodes; then vectors, memory, simd and group ops, atomics, tiles.
std::vector<OpCase> op_cases();

}  // namespace iron::testing
