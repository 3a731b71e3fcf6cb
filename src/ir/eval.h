// The scalar meaning of every pure op (R1-R3): the constant folder, the interpreter and the launch contract call this.
#pragma once

#include <span>

#include "ir/op.h"
#include "ir/type.h"

namespace iron::ir {

/// True for ops whose result is a function of scalar operand bits alone (arithmetic, comparisons, casts, decode; not
/// ids, memory, simd or group ops, not ImmKind::Text ops). Not Math and Fast ops: their value is that of their
/// expansion (passes/expand_math.h), so whoever executes IR expands first.
bool can_eval(Opcode code);

/// The result bits of one scalar application. `operand_types` and `result` are scalar types (a vector op is applied per
/// element). Bits are zero-extended; bool is 0 or 1; index is a signed 64-bit integer. Total: never traps (R3).
u64 eval(Opcode code, Type result, std::span<const Type> operand_types, std::span<const u64> operands, u64 imm = 0);

/// The identity of a reduction (R4): -0.0 for a float sum, 1, +-inf or the extreme integer, all ones, 0.
u64 reduce_identity(ReduceKind kind, DType elem);
/// One step of a reduction.
u64 reduce_step(ReduceKind kind, DType elem, u64 a, u64 b);

}  // namespace iron::ir
