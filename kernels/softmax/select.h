// Which kernel of the family takes rows of a length.
#pragma once

#include "row_registers.h"

namespace iron::kernels {

/// Elements that a thread of the register forms holds: eight accesses of 16 bytes in f32, four in 16-bit types.
inline constexpr u32 softmax_per_thread = 32;

enum class SoftmaxForm : u8 { registers, any };
/// registers: the row is read once, one exponential an element; rows of at least two simdgroups. any: any length, by
/// striding.
constexpr SoftmaxForm softmax_for(u32 n) {
  return n >= 2048 && fits_registers(n, softmax_per_thread) ? SoftmaxForm::registers : SoftmaxForm::any;
}

}  // namespace iron::kernels
