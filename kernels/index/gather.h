// Rows of a table by their numbers.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// out[i, c] = table[indices[i], c]        table: [rows, width], out: [n, width], indices: [n]
/// A number that is not below `rows` gives a row of zeros and reads nothing. Bits are kept.
template <class T>
struct Gather {
  In<T> table;
  In<u32> indices;
  Out<T> out;
  Scalar<u32> rows, width;

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> row = i / width, column = i % width;
    const auto from = cast<Index>(indices[row]);
    out[i] = table.load_or(from < rows, from * width + column, T{});
  }
};

}  // namespace iron::kernels
