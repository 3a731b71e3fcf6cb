// The cache of keys or values: [kv heads, max_seq, D], written a token or some tokens at a time, as it is or quantised.
#pragma once

#include <algorithm>

#include "iron/dsl.h"
#include "quant/decode.h"
#include "quant/small_float.h"

namespace iron::kernels {

/// cache[h, position] = src[h]      src: [kv heads, D]; nothing where position is beyond the cache
template <class T>
struct KvCacheUpdate {
  In<T> src;
  InOut<T> cache;
  Scalar<u32> head_dim, max_seq, position;

  Grid grid() const { return Grid::for_items(src.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    const auto head = i / head_dim, d = i % head_dim;
    if_(position < max_seq) { cache[(head * max_seq + position) * head_dim + d] = src[i]; }
  }
};

/// cache[h, positions[t]] = src[t, h]      src: [tokens, kv heads, D], positions: [tokens]
/// Tokens whose position is beyond the cache are skipped; positions differ from each other.
template <class T>
struct KvCacheUpdateMany {
  In<T> src;
  In<u32> positions;
  InOut<T> cache;
  Scalar<u32> head_dim, max_seq, kv_heads;

  Grid grid() const { return Grid::for_items(src.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    const auto d = i % head_dim, row = i / head_dim;
    const Val<Index> position(positions[row / kv_heads]);
    if_(position < max_seq) { cache[(row % kv_heads * max_seq + position) * head_dim + d] = src[i]; }
  }
};

/// The row src[h] as affine codes at cache[h, position]; a thread a group. src: [kv heads, D]
/// words: [kv heads, max_seq, D * bits / 32], scales, biases: [kv heads, max_seq, D / G]; as affine_quantize encodes.
template <class T>
struct QuantizeKv {
  In<T> src;
  InOut<u32> words;
  InOut<T> scales, biases;
  Scalar<u32> head_dim, max_seq, position;
  AffineFormat format;

  Grid grid() const { return Grid::for_items(src.size() / format.group); }

  void operator()() const {
    const u32 size = format.group, per_word = 32 / format.bits;
    const auto i = grid_thread_id();
    const Val<Index> groups = cast<Index>(head_dim) / size, head = i / groups, group = i % groups;
    if_(position < max_seq) {
      std::vector<Val<f32>> x;
      for (u32 j = 0; j < size; ++j) x.push_back(cast<f32>(src[i * size + j]));
      std::vector<Val<f32>> low{x[0]}, high{x[0]};
      for (u32 j = 1; j < size; ++j) low.push_back(min(low.back(), x[j])), high.push_back(max(high.back(), x[j]));
      const auto scale = cast<T>(affine_scale(low.back(), high.back(), format.bits)), bias = cast<T>(low.back());
      const auto at = (head * max_seq + position) * groups + group;
      scales[at] = scale;
      biases[at] = bias;
      for (u32 w = 0; w < size / per_word; ++w) {
        std::vector<Val<u32>> word{constant<u32>(0u)};
        for (u32 j = 0; j < per_word; ++j) {
          const auto code = affine_code(x[w * per_word + j], cast<f32>(scale), cast<f32>(bias), format.bits);
          word.push_back(word.back() | code << (j * format.bits));
        }
        words[at * (size / per_word) + w] = word.back();
      }
    }
  }
};

/// A thread a word of codes of a row, a threadgroup row a position and a head; rows: positions of all heads.
inline Grid dequant_grid(u32 row_words, u32 positions, u64 rows) {
  return {Threadgroups{(row_words + 31) / 32, positions, positions == 0 ? 0 : static_cast<u32>(rows / positions)},
          Threads{32}};
}

/// out[h, j] = the row cache[h, j] decoded, j < positions      out: [kv heads, positions, D]; a thread a word of codes
template <class T>
struct BulkDequantKv {
  static constexpr Mode mode = Mode::Grid3D;

  In<u32> words;
  In<T> scales, biases;
  Out<T> out;
  Scalar<u32> head_dim, max_seq, positions;
  AffineFormat format;

  Grid grid() const {
    return dequant_grid(head_dim.value() * format.bits / 32, positions.value(),
                        out.size() / std::max(head_dim.value(), 1u));
  }

  void operator()() const {
    const u32 per_word = 32 / format.bits;
    const Val<Index> part = grid_position(Axis::x), row_words = cast<Index>(head_dim) / per_word;
    const auto position = grid_position(Axis::y), head = grid_position(Axis::z);
    const auto cached = head * max_seq + position, row = head * positions + position;
    if_(part < row_words) {
      const auto group = cached * (head_dim / format.group) + part / (format.group / per_word);
      const auto scale = cast<f32>(scales[group]), bias = cast<f32>(biases[group]);
      const auto codes = read_codes(words, cached * row_words + part, per_word, format.bits);
      for (u32 j = 0; j < per_word; ++j) {
        const auto v = affine_value(codes[j], scale, bias);
        out[row * head_dim + part * per_word + j] = cast<T>(v);
      }
    }
  }
};

/// How a row of a cache is kept in 8-bit floats: groups of `group` share a scale of T.
struct Fp8KvFormat {
  SmallFloat type = SmallFloat::e4m3;
  u32 group = 32;
};

/// As QuantizeKv in 8-bit floats: scale = largest magnitude / largest number of the format, 1 for zeros; four codes a
/// word. words: [kv heads, max_seq, D / 4], scales: [kv heads, max_seq, D / G]
template <class T>
struct QuantizeKvFp8 {
  In<T> src;
  InOut<u32> words;
  InOut<T> scales;
  Scalar<u32> head_dim, max_seq, position;
  Fp8KvFormat format;

  Grid grid() const { return Grid::for_items(src.size() / format.group); }

  void operator()() const {
    const u32 size = format.group;
    const auto i = grid_thread_id();
    const Val<Index> groups = cast<Index>(head_dim) / size, head = i / groups, group = i % groups;
    if_(position < max_seq) {
      std::vector<Val<f32>> x;
      for (u32 j = 0; j < size; ++j) x.push_back(cast<f32>(src[i * size + j]));
      std::vector<Val<f32>> amax{abs(x[0])};
      for (u32 j = 1; j < size; ++j) amax.push_back(max(amax.back(), abs(x[j])));
      const auto scale = cast<T>(small_float_scale(format.type, amax.back()));
      const auto divisor = cast<f32>(scale);
      const auto at = (head * max_seq + position) * groups + group;
      scales[at] = scale;
      for (u32 w = 0; w < size / 4; ++w) {
        std::vector<Val<u32>> word{constant<u32>(0u)};
        for (u32 j = 0; j < 4; ++j)
          word.push_back(word.back() | encode_small_float(format.type, x[4 * w + j] / divisor) << (8 * j));
        words[at * (size / 4) + w] = word.back();
      }
    }
  }
};

/// out[h, j] = the row cache[h, j] decoded, j < positions      out: [kv heads, positions, D]; a thread a word of codes
template <class T>
struct BulkDequantKvFp8 {
  static constexpr Mode mode = Mode::Grid3D;

  In<u32> words;
  In<T> scales;
  Out<T> out;
  Scalar<u32> head_dim, max_seq, positions;
  Fp8KvFormat format;

  Grid grid() const {
    return dequant_grid(head_dim.value() / 4, positions.value(), out.size() / std::max(head_dim.value(), 1u));
  }

  void operator()() const {
    const Val<Index> part = grid_position(Axis::x), row_words = cast<Index>(head_dim) / 4;
    const auto position = grid_position(Axis::y), head = grid_position(Axis::z);
    const auto cached = head * max_seq + position, row = head * positions + position;
    if_(part < row_words) {
      const auto scale = cast<f32>(scales[cached * (head_dim / format.group) + part / (format.group / 4)]);
      const auto word = words[cached * row_words + part];
      for (u32 j = 0; j < 4; ++j) {
        const auto v = decode_small_float(format.type, word >> (8 * j)) * scale;
        out[row * head_dim + part * 4 + j] = cast<T>(v);
      }
    }
  }
};

}  // namespace iron::kernels
