// Rotary position embedding: pairs of a head's values are turned by an angle that grows with the position.
//
// theta(position, pair) = position * frequency(pair), in f32; (a, b) -> (a cos - b sin, a sin + b cos) (Su et al.
// 2021).
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

enum class RopePairs : u8 {
  half,         ///< (i, i + D/2): the layout of GPT-NeoX and of Hugging Face weights
  interleaved,  ///< (2i, 2i + 1): the layout of the paper and of GGUF llama weights
};

/// base^(-pair / half) as 2^(-pair * log2(base) / half).
Val<f32> rope_frequency(const Val<Index>& pair, const Val<Index>& half, const Val<f32>& log2_base);

/// Frequencies banded by wavelength (Llama 3.1): unchanged below original/high, divided by `scale` above original/low,
/// interpolated between.
struct LlamaBands {
  Val<f32> scale, low, high, original;
};
Val<f32> llama_frequency(const Val<f32>& frequency, const LlamaBands& bands);

/// A pair turned by theta, in f32.
struct Turned {
  Val<f32> a, b;
};
Turned turn(const Val<f32>& a, const Val<f32>& b, const Val<f32>& theta);

/// The two places of a pair in its head.
struct PairPlaces {
  Val<Index> first, second;
};
PairPlaces pair_places(RopePairs pairs, const Val<Index>& pair, const Val<Index>& half);

/// Geometry of kernels over (pair, head or row, token).
inline Grid rope_grid(u64 pairs, u64 rows, u64 tokens) {
  const auto up = [](u64 n, u64 by) { return static_cast<u32>((n + by - 1) / by); };
  return {Threadgroups{up(pairs, 32), up(rows, 4), static_cast<u32>(tokens)}, Threads{32, 4}};
}

/// Rotates the heads of x, four a thread.
/// x, out: element (head h, token t, i) at h * head_stride + t * token_stride + i, i < head_dim (even).
/// Token t has position first_position + t.
template <class T>
struct Rope {
  static constexpr Mode mode = Mode::Grid3D;
  static constexpr u32 heads_a_thread = 4;

  In<T> x;
  Out<T> out;
  Scalar<u32> heads, tokens, head_dim, head_stride, token_stride, first_position;
  Scalar<f32> log2_base;
  RopePairs pairs = RopePairs::half;

  Grid grid() const {
    return rope_grid(head_dim.value() / 2, (heads.value() + heads_a_thread - 1) / heads_a_thread, tokens.value());
  }

  void operator()() const {
    const auto pair = grid_position(Axis::x), block = grid_position(Axis::y), token = grid_position(Axis::z);
    const auto half = cast<Index>(head_dim / 2u);
    if_((pair < half) & (token < tokens)) {
      const Val<f32> position = cast<f32>(first_position + cast<u32>(token));
      const Val<f32> theta = position * rope_frequency(pair, half, log2_base);
      const auto at = pair_places(pairs, pair, half);
      for (u32 k = 0; k < heads_a_thread; ++k) {
        const Val<Index> head = block * heads_a_thread + k;
        if_(head < heads) {
          const Val<Index> row = head * head_stride + token * token_stride;
          const auto a = cast<f32>(x[row + at.first]), b = cast<f32>(x[row + at.second]);
          const auto turned = turn(a, b, theta);
          const Val<T> first = cast<T>(turned.a), second = cast<T>(turned.b);
          out[row + at.first] = first;
          out[row + at.second] = second;
        }
      }
    }
  }
};

/// What both forms below share: rotate(is_query, row, places, theta) for the thread's pair of its head and token.
template <class K, class Rotate>
void rope_queries_and_keys(const K& k, Rotate rotate) {
  const auto pair = grid_position(Axis::x), head = grid_position(Axis::y), token = grid_position(Axis::z);
  const auto half = cast<Index>(k.head_dim / 2u);
  if_((pair < half) & (token < k.tokens)) {
    const auto at = pair_places(k.pairs, pair, half);
    const Val<f32> frequency = k.frequencies ? (*k.frequencies)[pair] : rope_frequency(pair, half, k.log2_base);
    const Val<f32> theta = cast<f32>(k.positions[token]) * frequency;
    if_(head < k.q_heads) { rotate(true, Val<Index>((token * k.q_heads + head) * k.head_dim), at, theta); }
    else {
      const Val<Index> kv_head = head - k.q_heads;
      if_(kv_head < k.kv_heads) { rotate(false, Val<Index>((token * k.kv_heads + kv_head) * k.head_dim), at, theta); }
    }
  }
}

/// Rotates the queries and keys of a batch of tokens in place, each token at its own position.
/// q: [tokens, q_heads, head_dim], k: [tokens, kv_heads, head_dim], positions: [tokens], head_dim even.
/// `frequencies`, [head_dim / 2] in f32, replaces those of log2_base where given (scaled models).
template <class T>
struct RopeQkInPlace {
  static constexpr Mode mode = Mode::Grid3D;

  InOut<T> q, k;
  In<u32> positions;
  Optional<In<f32>> frequencies;
  Scalar<u32> tokens, q_heads, kv_heads, head_dim;
  Scalar<f32> log2_base;
  RopePairs pairs = RopePairs::half;

  Grid grid() const { return rope_grid(head_dim.value() / 2, q_heads.value() + kv_heads.value(), tokens.value()); }

  void operator()() const {
    rope_queries_and_keys(*this, [&](bool query, const Val<Index>& row, const PairPlaces& at, const Val<f32>& theta) {
      const InOut<T>& x = query ? q : k;
      const Val<T> a = x[row + at.first], b = x[row + at.second];
      const auto turned = turn(cast<f32>(a), cast<f32>(b), theta);
      const Val<T> first = cast<T>(turned.a), second = cast<T>(turned.b);
      x[row + at.first] = first;
      x[row + at.second] = second;
    });
  }
};

/// The same out of place: q_out and k_out are other buffers than q and k.
template <class T>
struct RopeQk {
  static constexpr Mode mode = Mode::Grid3D;

  In<T> q, k;
  Out<T> q_out, k_out;
  In<u32> positions;
  Optional<In<f32>> frequencies;
  Scalar<u32> tokens, q_heads, kv_heads, head_dim;
  Scalar<f32> log2_base;
  RopePairs pairs = RopePairs::half;

  Grid grid() const { return rope_grid(head_dim.value() / 2, q_heads.value() + kv_heads.value(), tokens.value()); }

  void operator()() const {
    rope_queries_and_keys(*this, [&](bool query, const Val<Index>& row, const PairPlaces& at, const Val<f32>& theta) {
      const In<T>& x = query ? q : k;
      const Out<T>& y = query ? q_out : k_out;
      const auto turned = turn(cast<f32>(x[row + at.first]), cast<f32>(x[row + at.second]), theta);
      const Val<T> first = cast<T>(turned.a), second = cast<T>(turned.b);
      y[row + at.first] = first;
      y[row + at.second] = second;
    });
  }
};

}  // namespace iron::kernels
