// Attention of several queries at once: verification of drafted tokens, short continuations of a cache, trees of
// drafts, and encoders, which mask nothing.
#pragma once

#include "attention/decode.h"

namespace iron::kernels {

/// Queries [heads, Q, D] of which a threadgroup has all Q of a head, so that keys are read once for them. Query i sees
/// n_kv keys, or where `causal` is not 0 the first n_kv - (Q - 1 - i): its own and those before it.
/// k, v: [kv heads, kv_stride, D], out: [heads, Q, D]; Q is shape.queries.
template <class T>
struct SdpaDecodeBatched {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v;
  Out<T> out;
  Scalar<u32> n_kv, kv_stride, heads_per_kv, causal;
  Scalar<f32> scale;
  DecodeSpec spec;

  Grid grid() const {
    const u64 head = u64{spec.shape.queries} * spec.shape.dim;
    return {Threadgroups{static_cast<u32>(out.size() / head)}, Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const u32 dim = spec.shape.dim, queries = spec.shape.queries;
    const auto head = threadgroup_id();
    const auto first = head / heads_per_kv * kv_stride, rows = head * queries;
    threadgroup_attention(
        spec.shape, spec.simdgroups, n_kv,
        [&](u32 i, const Val<Index>& d) { return cast<f32>(q[(rows + i) * dim + d]) * scale; }, every_key,
        attention_rows(k, first, dim), attention_rows(v, first, dim),
        [&](const Val<f32>& dot, const Val<Index>& query, const Val<Index>& key) {
          return select(causal == 0u || key + (queries - 1) < query + n_kv, dot, constant<f32>(no_score));
        },
        no_sink,
        [&](u32 i, const Val<Index>& d, const Val<f32>& value) { out[(rows + i) * dim + d] = cast<T>(value); });
  }
};

/// n_query queries after base_kv cached keys, whose own keys follow in the cache. Query i sees all of them, or where
/// `causal` is not 0 the keys up to base_kv + i. q, out: [n_query, heads, D], k, v: [kv heads, kv_stride, D]
template <class T>
struct SdpaMulti {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v;
  Out<T> out;
  Scalar<u32> heads, base_kv, n_query, kv_stride, heads_per_kv, causal;
  Scalar<f32> scale;
  DecodeSpec spec = decode_spec(128);

  Grid grid() const { return {Threadgroups{heads.value(), n_query.value()}, Threads{32 * spec.simdgroups}}; }

  void operator()() const {
    const u32 dim = spec.shape.dim;
    const auto head = threadgroup_id(), query = threadgroup_id(Axis::y);
    const auto first = head / heads_per_kv * kv_stride, row = (query * heads + head) * dim;
    const auto count = select(causal == 0u, cast<Index>(n_query), query + 1) + base_kv;
    threadgroup_attention(
        spec.shape, spec.simdgroups, count, [&](u32, const Val<Index>& d) { return cast<f32>(q[row + d]) * scale; },
        every_key, attention_rows(k, first, dim), attention_rows(v, first, dim), plain_score, no_sink,
        [&](u32, const Val<Index>& d, const Val<f32>& value) { out[row + d] = cast<T>(value); });
  }
};

/// As SdpaMulti for a tree of drafted tokens: query i sees all cached keys and adds mask[i, j] to the score of the j-th
/// new one, -inf where j is no ancestor. mask: [n_query, n_query]
template <class T>
struct SdpaMultiTreeMask {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v, mask;
  Out<T> out;
  Scalar<u32> heads, base_kv, n_query, kv_stride, heads_per_kv;
  Scalar<f32> scale;
  DecodeSpec spec = decode_spec(128);

  Grid grid() const { return {Threadgroups{heads.value(), n_query.value()}, Threads{32 * spec.simdgroups}}; }

  void operator()() const {
    const u32 dim = spec.shape.dim;
    const auto head = threadgroup_id(), query = threadgroup_id(Axis::y);
    const auto first = head / heads_per_kv * kv_stride, row = (query * heads + head) * dim;
    const Val<Index> base(base_kv), all(base + n_query);
    threadgroup_attention(
        spec.shape, spec.simdgroups, all, [&](u32, const Val<Index>& d) { return cast<f32>(q[row + d]) * scale; },
        every_key, attention_rows(k, first, dim), attention_rows(v, first, dim),
        [&](const Val<f32>& dot, const Val<Index>&, const Val<Index>& key) {
          const auto drafted = max(key, base) - base;
          return dot + cast<f32>(mask.load_or(key >= base, query * n_query + min(drafted, n_query - 1u), T{}));
        },
        no_sink, [&](u32, const Val<Index>& d, const Val<f32>& value) { out[row + d] = cast<T>(value); });
  }
};

/// Every query sees every key. q, out: [n_query, heads, D], k, v: [kv heads, n_kv, D]; any D. A threadgroup has
/// shape.queries neighbouring queries of a head; beyond the last it repeats it and stores nothing.
/// bias: f32 [heads, rel_len], added to the score of key j for query i from place j - i + rel_zero; 0 beyond the table.
template <class T>
struct SdpaBidirectional {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v;
  Out<T> out;
  Scalar<u32> heads, n_query, n_kv, heads_per_kv, rel_zero, rel_len;
  Scalar<f32> scale;
  Optional<In<f32>> bias = {};
  DecodeSpec spec;

  Grid grid() const {
    return {Threadgroups{heads.value(), (n_query.value() + spec.shape.queries - 1) / spec.shape.queries},
            Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const u32 dim = spec.shape.dim, queries = spec.shape.queries;
    const auto head = threadgroup_id(), start = threadgroup_id(Axis::y) * queries;
    const auto first = head / heads_per_kv * n_kv;
    const Val<Index> last = cast<Index>(n_query) - 1;
    const auto row = [&](const Val<Index>& query) { return (query * heads + head) * dim; };
    threadgroup_attention(
        spec.shape, spec.simdgroups, n_kv,
        [&](u32 i, const Val<Index>& d) { return cast<f32>(q[row(min(start + i, last)) + d]) * scale; }, every_key,
        attention_rows(k, first, dim), attention_rows(v, first, dim),
        [&](const Val<f32>& dot, const Val<Index>& own, const Val<Index>& key) {
          if (!bias) return Val<f32>(dot);
          const auto query = min(start + own, last), forward = key + rel_zero;
          const auto place = max(forward, query) - query;
          const auto inside = forward >= query && place < rel_len;
          return dot + bias->load_or(inside, head * rel_len + max(min(place, rel_len - 1u), 0), 0.0f);
        },
        no_sink,
        [&](u32 i, const Val<Index>& d, const Val<f32>& value) {
          if_(start + i < n_query) { out[row(start + i) + d] = cast<T>(value); }
        });
  }
};

}  // namespace iron::kernels
