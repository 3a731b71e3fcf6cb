// Products of prepacked GGUF matrices with activations quantised to 8 bits: the policy int8. One scale a block of 32
// activations costs accuracy and lets a machine add four products of bytes in one instruction.
#pragma once

#include <optional>

#include "gguf/codec.h"
#include "iron/dsl.h"

namespace iron::kernels {

/// Rows of 32 activations as bytes: x[32 b + i] is near scales[b] * q[32 b + i].
/// scale = max |x| / 127, q = round(x * (127 / max |x|)), all in f32; a block of zeros has scale and codes 0.
/// sums[b] = scale * sum q for formats with minimums, offsets[b] = -128 sum q for Q8_0, whose codes are read plus 128.
/// x, q: [n], n a multiple of 32; the others: [n / 32]. A simdgroup is a block.
struct QuantiseBlocks {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "quantise_blocks";

  In<f32> x;
  Out<i8> q;
  Out<f32> scales, sums;
  Out<i32> offsets;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{(n.value() + 255) / 256}, Threads{256}}; }

  void operator()() const;
};

/// The quantised activations of one or more tokens, as a product reads them.
struct Int8Activations {
  BufferRef q, scales, sums, offsets;
};

/// y[t, r] = residual[t, r] + sum_c w[r, c] * x[t, c]       x: QuantiseBlocks of [tokens, cols]
/// w: a prepacked matrix [rows, cols]; y, residual: [tokens, rows].
///
/// A lane is a row, a threadgroup the 16 rows of a panel and `block_tokens` tokens. For each block of 32 in ascending
/// order, with the exact integer dot = sum q_w q_x: acc = fma(d_w * d_x, dot, acc), then acc = fma(m, sums, acc).
struct GgufMatmulInt8 {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "gguf_matmul_int8";

  In<u8> w;
  In<i8> x;
  In<f32> x_scales;
  Optional<In<f32>> x_sums;     ///< for codecs with minimums
  Optional<In<i32>> x_offsets;  ///< for Q8_0
  Optional<In<f32>> residual;
  Out<f32> y;
  Scalar<u32> rows, cols, tokens;
  GgufCodec codec;
  u32 block_tokens = 1;

  Grid grid() const {
    return {Threadgroups{(rows.value() + 15) / 16, (tokens.value() + block_tokens - 1) / block_tokens}, Threads{16}};
  }

  void operator()() const;
};

}  // namespace iron::kernels
