// Causal attention over a cache of keys and values, for one new token or many, and the writer of that cache.
//
// The cache of one layer, D = head_dim, capacity a multiple of D:
//   keys    [kv heads][capacity / D][D dimensions][D keys]      so that a lane is a key and scores need no horizontal
//   sum values  [kv heads][capacity][D dimensions]                  so that a lane is a dimension
// Both are filled with zeros before use: a chunk of D keys is read whole.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// Rows t = 0, 1, ... of cosines, then sines, of the angles t * frequency[i]: table: [positions, 2, pairs].
/// A frequency is the sum high[i] + low[i], so that large angles keep their digits: the product's rounding error is
/// carried into cos(a + e) = cos a - e sin a, sin(a + e) = sin a + e cos a.
struct RopeTable {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "rope_table";

  In<f32> high, low;
  Out<f32> table;
  Scalar<u32> pairs, positions;

  Grid grid() const { return {Threadgroups{positions.value()}, Threads{pairs.value()}}; }

  void operator()() const {
    const Val<Index> position = threadgroup_id(), pair = thread_id();
    const Val<f32> t = cast<f32>(cast<u32>(position)), f = high[pair];
    const Val<f32> angle = t * f;
    const Val<f32> error = fma(t, low[pair], fma(t, f, -angle));
    const Val<f32> c = cos(angle), s = sin(angle);
    const Val<Index> row = position * (pairs * 2u) + pair;
    table[row] = fma(-error, s, c);
    table[row + pairs] = fma(error, c, s);
  }
};

/// Turns the neighbours (2i, 2i + 1) of every head of q and k by the row of RopeTable of their position, and stores q
/// to q_out and k and v to the cache, rounded to its type T. q: [tokens, heads, D], k, v: [tokens, kv_heads, D], with
/// `stride` elements from token to token; q_out: dense. Token t has position first + t; first + tokens <= capacity.
template <class T>
struct RopeToCache {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "rope_to_cache";

  In<f32> q, k, v, table;
  Out<f32> q_out;
  InOut<T> keys, values;
  Scalar<u32> tokens, heads, kv_heads, q_stride, kv_stride, capacity, first;
  u32 head_dim = 64;

  Grid grid() const {
    return {Threadgroups{heads.value() + 2 * kv_heads.value(), tokens.value()}, Threads{head_dim / 2}};
  }

  void operator()() const;
};

/// out[t, h] = sum_j softmax_j(scale * q[t, h] . k[j, h / heads_per_kv]) v[j, h / heads_per_kv], j <= first + t
/// q, out: [tokens, heads, D]; the cache has type T. Softmax is computed online over chunks of D keys (Milakov and
/// Gimelshein 2018): a threadgroup has `block_queries` tokens of `block_heads` heads that share their keys, and reads
/// the cache once for all of them; a thread is a key for the scores and a dimension for the output. `block_heads`
/// divides heads_per_kv. What a head gets does not depend on either number, bit for bit.
template <class T>
struct CachedAttention {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "cached_attention";

  In<f32> q;
  In<T> keys, values;
  Out<f32> out;
  Scalar<u32> tokens, heads, heads_per_kv, capacity, first;
  Scalar<f32> scale;
  u32 head_dim = 64, block_queries = 1, block_heads = 1;

  Grid grid() const {
    return {Threadgroups{heads.value() / block_heads, (tokens.value() + block_queries - 1) / block_queries},
            Threads{head_dim}};
  }

  void operator()() const;
};

/// `block_heads` of CachedAttention for one token: heads with the same keys, few enough for their sums to stay in
/// registers, and every core or multiprocessor (`units`) still has heads of its own.
u32 cached_attention_heads(u32 heads, u32 heads_per_kv, u32 units);

extern template struct RopeToCache<f32>;
extern template struct RopeToCache<f16>;
extern template struct CachedAttention<f32>;
extern template struct CachedAttention<f16>;

}  // namespace iron::kernels
