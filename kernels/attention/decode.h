// Attention of one new token over cached keys and values: a threadgroup a head, or split over the keys in two passes.
#pragma once

#include <algorithm>

#include "attention/simd_attention.h"

namespace iron::kernels {

/// How a threadgroup works on one query.
struct DecodeSpec {
  AttentionShape shape;
  u32 simdgroups = 32;
};
/// 32 simdgroups that take the keys in turn; 16 where their partial results of a head would pass 32 KiB.
constexpr DecodeSpec decode_spec(u32 dim) {
  return {.shape = {.dim = dim, .queries = 1, .keys = attention_keys(dim)}, .simdgroups = dim > 256 ? 16u : 32u};
}

/// out[h] = sum_j softmax_j(scale * q[h] . k[h / heads_per_kv, j]) v[h / heads_per_kv, j]
/// q, out: [heads, D], k, v: [kv heads, n_kv, D]
template <class T>
struct SdpaVector {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v;
  Out<T> out;
  Scalar<u32> n_kv, heads_per_kv;
  Scalar<f32> scale;
  DecodeSpec spec = decode_spec(128);

  Grid grid() const {
    return {Threadgroups{static_cast<u32>(out.size() / spec.shape.dim)}, Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const u32 dim = spec.shape.dim;
    const auto head = threadgroup_id();
    const auto first = head / heads_per_kv * n_kv;
    threadgroup_attention(
        spec.shape, spec.simdgroups, n_kv,
        [&](u32, const Val<Index>& d) { return cast<f32>(q[head * dim + d]) * scale; }, every_key,
        attention_rows(k, first, dim), attention_rows(v, first, dim), plain_score, no_sink,
        [&](u32, const Val<Index>& d, const Val<f32>& value) { out[head * dim + d] = cast<T>(value); });
  }
};

/// The keys of a token that sees the first `sink_end` keys and those from `window_start` on (Xiao et al. 2023).
struct SeenKeys {
  Val<Index> sink_end, window_start, count;
  SeenKeys(Use<Index> n_kv, Use<Index> sinks, Use<Index> window)
      : sink_end(Val<Index>(sinks)),
        window_start(max(Val<Index>(window), sink_end)),
        count(sink_end + (max(Val<Index>(n_kv), window_start) - window_start)) {}
  Val<Index> operator()(const Val<Index>& i) const {
    return select(i < sink_end, i, i + window_start - min(sink_end, window_start));
  }
};

/// As SdpaVector over a cache [kv heads, kv_stride, D] of which n_kv keys are filled, of which the token sees the keys
/// [0, sink_end) and [window_start, n_kv). sinks: f32 [heads], the score of a key more whose value is zero; without
/// them the result is that of a kernel that has none. A head that sees no key gives zeros.
template <class T>
struct SdpaDecode {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v;
  Out<T> out;
  Scalar<u32> n_kv, kv_stride, heads_per_kv, sink_end, window_start;
  Scalar<f32> scale;
  Optional<In<f32>> sinks = {};
  DecodeSpec spec = decode_spec(128);

  Grid grid() const {
    return {Threadgroups{static_cast<u32>(out.size() / spec.shape.dim)}, Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const u32 dim = spec.shape.dim;
    const auto head = threadgroup_id();
    const auto first = head / heads_per_kv * kv_stride;
    const SeenKeys seen(n_kv, sink_end, window_start);
    threadgroup_attention(
        spec.shape, spec.simdgroups, seen.count,
        [&](u32, const Val<Index>& d) { return cast<f32>(q[head * dim + d]) * scale; }, seen,
        attention_rows(k, first, dim), attention_rows(v, first, dim), plain_score,
        [&](u32) { return sink_of(sinks, head); },
        [&](u32, const Val<Index>& d, const Val<f32>& value) { out[head * dim + d] = cast<T>(value); });
  }
};

/// First pass of decode split over the keys: block b of `blocks` takes the steps b, b + blocks, ... of the keys that
/// SdpaDecode would take. A threadgroup has the query heads of one key-value head, which share what is read.
/// partial_out: f32 [heads, blocks, D], partial_top, partial_total: f32 [heads, blocks]
template <class T>
struct SdpaDecodePass1 {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v;
  Out<f32> partial_out, partial_top, partial_total;
  Scalar<u32> n_kv, kv_stride, heads_per_kv, sink_end, window_start, blocks;
  Scalar<f32> scale;
  AttentionShape shape;

  Grid grid() const {
    const u32 heads = static_cast<u32>(q.size() / shape.dim);
    return {Threadgroups{heads / std::max(heads_per_kv.value(), 1u), blocks.value()},
            Threads{32 * heads_per_kv.value()}};
  }

  void operator()() const {
    const u32 dim = shape.dim, keys = shape.keys;
    const auto kv = threadgroup_id(), block = threadgroup_id(Axis::y);
    const auto head = kv * heads_per_kv + simdgroup_id();
    const SeenKeys seen(n_kv, sink_end, window_start);
    SimdAttention own(shape, [&](u32, const Val<Index>& d) { return cast<f32>(q[head * dim + d]) * scale; });
    const auto rows = kv * kv_stride;
    for (auto first : range(block * keys, seen.count, cast<Index>(blocks) * keys))
      own.step([&](u32 slot) { return seen(min(first + slot, seen.count - 1)); }, attention_rows(k, rows, dim),
               attention_rows(v, rows, dim),
               [&](const Val<f32>& dot, const Val<Index>&, const Val<Index>& slot) {
                 return select(first + slot < seen.count, dot, constant<f32>(no_score));
               });
    const auto softmax = own.softmax();
    const auto at = head * blocks + block;
    if_(lane_id() == 0) {
      partial_top[at] = softmax.top;
      partial_total[at] = softmax.total;
    }
    own.each([&](u32, const Val<Index>& d, const Val<f32>& value) { partial_out[at * dim + d] = value; });
  }
};

/// Second pass: joins the blocks of each head in ascending order, any number of them. sinks as in SdpaDecode.
template <class T>
struct SdpaDecodePass2 {
  static constexpr Mode mode = Mode::Threadgroup;

  In<f32> partial_out, partial_top, partial_total;
  Out<T> out;
  Scalar<u32> blocks;
  Optional<In<f32>> sinks = {};
  u32 dim = 128;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size() / dim)}, Threads{(dim + 31) / 32 * 32}}; }

  void operator()() const {
    const auto head = threadgroup_id(), d = thread_id();
    const auto row = head * blocks;
    const auto of = [&](const In<f32>& x) { return [&](const Val<Index>& p) { return x[row + p]; }; };
    const auto store = [&] {
      const auto value = combine_attention(blocks, sink_of(sinks, head), of(partial_top), of(partial_total),
                                           [&](const Val<Index>& p) { return partial_out[(row + p) * dim + d]; });
      out[head * dim + d] = cast<T>(value);
    };
    if (dim % 32 == 0) {
      store();
    } else {
      if_(d < dim) { store(); }
    }
  }
};

/// How decode over n_kv keys is launched.
struct DecodeChoice {
  bool two_pass = false;
  u32 blocks = 1;  ///< of the first pass
};
/// Two passes where one threadgroup a head leaves more than half of `cores` idle and there are keys for all of them.
/// blocks: 64 up to 1024 keys, 128 up to 8192, 256 up to 32768, 512 up to 65536, 1024 beyond.
/// LIB03 for no heads, or heads that are no multiple of kv_heads.
DecodeChoice sdpa_decode_for(u32 heads, u32 kv_heads, u32 n_kv, u32 cores = 1);

}  // namespace iron::kernels
