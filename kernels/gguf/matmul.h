// Products of prepacked GGUF matrices with rows of activations, and the sums that formats with minimums need.
#pragma once

#include <optional>

#include "gguf/codec.h"
#include "iron/dsl.h"

namespace iron::kernels {

/// sums[i] = x[32 i] + ... + x[32 i + 31], by the ladder of a simdgroup. x: [n], n a multiple of 32.
struct BlockSums {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "block_sums";

  In<f32> x;
  Out<f32> sums;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{(n.value() + 255) / 256}, Threads{256}}; }

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<f32> sum = simd_sum(x.load_or(i < n, i, 0.0f));
    if_((lane_id() == 0) & (i < n)) { sums[i / 32] = sum; }
  }
};

/// Ends a product: y[t, row] = sums[t - first] (+ residual[t, row]) for the `block_tokens` rows t of x from `first` on.
template <class Product>
void store_products(const Product& p, Vars<f32>& sums, const Val<Index>& row, const Val<Index>& first) {
  if_(row < p.rows) {
    for (u32 t = 0; t < p.block_tokens; ++t) {
      const Val<f32> sum = sums[t];
      if_(first + t < p.tokens) {
        const Val<Index> at = (first + t) * p.rows + row;
        p.y[at] = p.residual ? (*p.residual)[at] + sum : sum;
      }
    }
  }
}

/// y[t, r] = residual[t, r] + sum_c w[r, c] * x[t, c]       x: [tokens, cols], y, residual: [tokens, rows]
/// w: a prepacked matrix [rows, cols]; x_sums: BlockSums of x, for codecs with minimums.
///
/// A lane is a row, a threadgroup the 16 rows of a panel and `block_tokens` rows of x, which share one pass over the
/// weights. For each block of 32 in ascending order: acc = fma(d, sum q x, acc), acc = fma(m, sum x, acc), all in f32.
/// The inner sum is one fma chain by position and word (codec.h) for several tokens; for one it is a chain a position,
/// these then added by position, since the codes may stay where they lie in their word: a power of two is exact.
struct GgufMatmul {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "gguf_matmul";

  In<u8> w;
  In<f32> x;
  Optional<In<f32>> x_sums, residual;
  Out<f32> y;
  Scalar<u32> rows, cols, tokens;
  GgufCodec codec;
  u32 block_tokens = 1;

  Grid grid() const {
    return {Threadgroups{(rows.value() + 15) / 16, (tokens.value() + block_tokens - 1) / block_tokens}, Threads{16}};
  }

  void operator()() const;
};

/// out[t, c] = table[ids[t], c] decoded        table: a prepacked matrix [rows, cols], out: [tokens, cols]
/// Ids must be below `rows`.
struct GgufEmbedding {
  static constexpr std::string_view name = "gguf_embedding";

  In<u8> table;
  In<u32> ids;
  Out<f32> out;
  Scalar<u32> rows, cols;
  GgufCodec codec;

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> token = i / cols, column = i % cols;
    const Val<Index> row = bounded(cast<Index>(ids[token]), 0, cast<Index>(rows - 1u));
    const Val<Index> record = (row / 16) * cast<Index>(cols / 32u) + column / 32;
    out[i] = gguf_element(codec, table, record, row % 16, column % 32);
  }
};

}  // namespace iron::kernels
