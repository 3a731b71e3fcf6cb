// Which element of a tile a thread owns: the one map that the interpreter and every emitter share.
#pragma once

#include "iron/types.h"

namespace iron::ir {

/// Element `e` of thread `t`, of the T threads of the tile's scope, is element e * T + t of the row-major m x n tile.
/// Neighbouring threads own neighbouring columns, so stores are contiguous. Where T does not divide m * n the last
/// element of some threads lies behind the tile: its row is m or more, reading it gives zero, setting it does nothing.
struct TileMap {
  u32 rows = 0, cols = 0, threads = 1;
  constexpr u64 linear(u64 element, u64 thread) const { return element * threads + thread; }
  constexpr u64 row(u64 element, u64 thread) const { return linear(element, thread) / cols; }
  constexpr u64 col(u64 element, u64 thread) const { return linear(element, thread) % cols; }
  constexpr bool inside(u64 element, u64 thread) const { return linear(element, thread) < u64{rows} * cols; }
  /// Elements a thread owns; the same for all threads of the scope.
  constexpr u64 elements() const { return (u64{rows} * cols + threads - 1) / threads; }
};

}  // namespace iron::ir
