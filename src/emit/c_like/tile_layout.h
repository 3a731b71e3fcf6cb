// Which elements of a tile each thread owns, and in what shape they are multiplied.
#pragma once

#include <functional>
#include <string>

#include "emit/c_like/emitter.h"

namespace iron::emit {

/// The product that a matrix unit computes at once, over one simdgroup.
struct MatrixShape {
  u32 m = 0, n = 0, k = 0;
};

struct TileLayout {
  enum Kind {
    linear,    ///< element e of thread t is number e * owners + t of the row-major tile
    blocked,   ///< a thread owns rows and columns at fixed distances: an outer product in registers
    fragments  ///< a simdgroup owns a block made of the matrix unit's results
  } kind = linear;
  ir::OpId tile = ir::none;
  std::string name;  ///< of the array of the thread's own elements
  DType elem = DType::none, input = DType::none;
  u32 rows = 0, cols = 0;
  u32 owners = 0, each = 0;        ///< threads that share the tile, elements of each
  std::string thread;              ///< the thread's number among the owners
  u32 across = 0;                  ///< blocked: threads, fragments: simdgroups along a row
  u32 own_rows = 0, own_cols = 0;  ///< blocked: elements, fragments: results of the unit, along each side
  u32 vector = 1;                  ///< blocked: neighbouring columns of one thread
  MatrixShape unit;

  /// Elements of some threads lie behind the tile.
  bool ragged() const { return each * owners != rows * cols; }
  std::string row(const std::string& e) const;  ///< C expressions of u32; `e` is one
  std::string col(const std::string& e) const;
  std::string simdgroup() const { return "(" + thread + ") / 32u"; }
  std::string lane() const { return "(" + thread + ") % 32u"; }
};

/// The layout of the tile that `tile_new` made: fragments where the dialect has a matrix unit for it and every product
/// fits, else blocked where the threads divide it well, else linear. Refuses scopes that only matrix units have.
TileLayout tile_layout(Emitter& e, ir::OpId tile_new);

/// Whether a block of memory starts at a multiple of `bytes` in threadgroup memory and keeps it from row to row.
bool rows_aligned(const Emitter& e, ir::OpId memory, ir::OpId offset, ir::OpId stride, u32 bytes);

}  // namespace iron::emit
