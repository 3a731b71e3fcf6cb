// Matrices in GGUF's blocks of 256 elements, Q4_K and Q6_K, as the file has them: products and rows by number.
#pragma once

#include <optional>

#include "iron/dsl.h"
#include "quant/gguf_blocks.h"

namespace iron::kernels {

/// The format of such a matrix, as a spec field.
struct KBlockCodec {
  quant::GgufType type = quant::GgufType::q4_k;
  static constexpr u32 elements = 256;
  static bool has(quant::GgufType type) { return type == quant::GgufType::q4_k || type == quant::GgufType::q6_k; }
  u32 bytes() const { return quant::gguf_format(type).bytes; }
  std::string spec_text() const { return std::string(quant::gguf_format(type).name) + ".file.v1"; }
};

/// Decodes a block by a simdgroup: each(u32 offset, value) is called eight times with the value of element
/// offset + lane, with the host's roundings. QUANT01 for another format.
template <class Each>
void decode_k_block(const KBlockCodec& codec, const In<u8>& blocks, const Val<Index>& block, Each each) {
  const auto lane = lane_id();
  const Val<Index> start = block * codec.bytes();
  const auto byte = [&](u32 offset) { return cast<u32>(blocks[start + offset]); };
  const auto lane_byte = [&](u32 offset) { return cast<u32>(blocks[start + offset + lane]); };
  const auto half = [&](u32 offset) { return cast<f32>(blocks.view<f16>(offset)[block * (codec.bytes() / 2)]); };
  if (codec.type == quant::GgufType::q4_k) {
    const auto d = half(0), m = half(2);
    const auto group = [&](u32 g, const Val<u32>& code) {
      const auto scale = g < 4 ? byte(4 + g) & 63u : (byte(8 + g) & 15u) | (byte(g) >> 6) << 4;
      const auto minimum = g < 4 ? byte(8 + g) & 63u : byte(8 + g) >> 4 | (byte(4 + g) >> 6) << 4;
      each(32 * g, d * cast<f32>(scale) * cast<f32>(code) - m * cast<f32>(minimum));
    };
    for (u32 p = 0; p < 4; ++p) {
      const auto codes = lane_byte(16 + 32 * p);
      group(2 * p, codes & 15u);
      group(2 * p + 1, codes >> 4);
    }
  } else if (codec.type == quant::GgufType::q6_k) {
    const auto d = half(208);
    const auto scales = blocks.view<i8>(192);
    for (u32 h = 0; h < 2; ++h) {
      const auto low = lane_byte(64 * h), other = lane_byte(64 * h + 32), high = lane_byte(128 + 32 * h);
      for (u32 j = 0; j < 4; ++j) {
        const auto four = j == 0 ? low & 15u : j == 1 ? other & 15u : j == 2 ? low >> 4 : other >> 4;
        const auto code = four | (high >> (2 * j) & 3u) << 4;
        const auto scale = cast<f32>(scales[start + (8 * h + 2 * j) + lane / 16]);
        each(128 * h + 32 * j, d * scale * (cast<f32>(code) - 32.0f));
      }
    }
  } else {
    throw Error("QUANT01", std::string(quant::gguf_format(codec.type).name) + " is no format of 256-element blocks",
                "use Q4_K or Q6_K");
  }
}

/// y[t, r] = residual[t, r] + sum_c w[r, c] * x[t, c]      x: [tokens, cols], y, residual: [tokens, rows]
/// w: [rows, cols / 256] blocks. A simdgroup is a row and `block_tokens` rows of x, which share one pass over it; a
/// lane adds its elements block by block, then the ladder over the lanes.
struct GgufKMatmul {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "gguf_k_matmul";
  static constexpr u32 simdgroups = 4;

  In<u8> w;
  In<f32> x;
  Optional<In<f32>> residual;
  Out<f32> y;
  Scalar<u32> rows, cols, tokens;
  KBlockCodec codec = {};
  u32 block_tokens = 1;

  Grid grid() const {
    return {
        Threadgroups{(rows.value() + simdgroups - 1) / simdgroups, (tokens.value() + block_tokens - 1) / block_tokens},
        Threads{32 * simdgroups}};
  }

  void operator()() const;
};

/// out[t] = row ids[t] of the table, decoded      table: [rows, cols / 256] blocks, out: [tokens, cols]
/// Ids must be below `rows`. A simdgroup a block.
struct GgufKEmbedding {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "gguf_k_embedding";

  In<u8> table;
  In<u32> ids;
  Out<f32> out;
  Scalar<u32> rows, cols;
  KBlockCodec codec = {};

  Grid grid() const {
    return {Threadgroups{cols.value() / KBlockCodec::elements, static_cast<u32>(ids.size())}, Threads{32}};
  }

  void operator()() const;
};

}  // namespace iron::kernels
