// Attention of a prompt: blocks of queries against all keys that they see, by simdgroups or through tiles.
#pragma once

#include <algorithm>

#include "attention/simd_attention.h"
#include "gemm/tile_gemm.h"

namespace iron::kernels {

/// Which keys a query of a prompt sees. Query i is the token i + k_len - q_len. The arithmetic only adds, so that no
/// index is negative where there are more queries than keys.
struct PromptMask {
  Val<Index> q_len, k_len, reach;  ///< reach: keys that a query sees at the most
  bool causal;
  PromptMask(Use<Index> queries, Use<Index> keys, Use<u32> window, bool is_causal)
      : q_len(Val<Index>(queries)), k_len(Val<Index>(keys)), reach(limit(window, q_len + k_len)), causal(is_causal) {}
  /// One behind the last key that a query sees.
  Val<Index> end(const Val<Index>& query) const {
    if (!causal) return k_len;
    return min(k_len, max(query + k_len + 1, q_len) - q_len);
  }
  /// The first key that a query sees.
  Val<Index> start(const Val<Index>& query) const { return max(query + k_len + 1, reach + q_len) - (reach + q_len); }
  Val<bool> sees(const Val<Index>& query, const Val<Index>& key) const {
    const auto inside = key < k_len && key + q_len + reach > query + k_len;
    return causal ? Val<bool>(inside && key + q_len <= query + k_len) : Val<bool>(inside);
  }

 private:
  static Val<Index> limit(const Use<u32>& window, const Val<Index>& all) {
    const Val<u32> w(window);
    return select(w == 0u, all, cast<Index>(w));
  }
};

/// out[b, h, i] = sum_j softmax_j(scale * q[b, h, i] . k[b, h / group, j]) v[b, h / group, j] over the keys j that
/// token i + k_len - q_len sees: where `causal`, those up to it; the last `window` of them where window is not 0. q,
/// out: [batch, heads, q_len, D], k, v: [batch, kv heads, k_len, D]; sinks: f32 [heads] as in SdpaDecode. A simdgroup
/// has shape.queries neighbouring queries; a query that sees no key gives zeros.
template <class T>
struct SdpaPrefill {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q, k, v;
  Out<T> out;
  Scalar<u32> q_len, k_len, heads, heads_per_kv, window;
  Scalar<f32> scale;
  Optional<In<f32>> sinks = {};
  AttentionShape shape;
  bool causal = true;
  u32 simdgroups = 4;

  u32 block() const { return shape.queries * simdgroups; }
  Grid grid() const {
    const u32 rows = static_cast<u32>(out.size() / shape.dim);  // queries of all heads and batches
    return {Threadgroups{(q_len.value() + block() - 1) / block(), rows / std::max(q_len.value(), 1u)},
            Threads{32 * simdgroups}};
  }

  void operator()() const {
    const u32 dim = shape.dim, queries = shape.queries, keys = shape.keys;
    const auto start = threadgroup_id() * block() + simdgroup_id() * queries, row = threadgroup_id(Axis::y);
    const Val<Index> batch = row / heads, head = row % heads, kv_heads = cast<Index>(heads) / heads_per_kv;
    const auto first_key = (batch * kv_heads + head / heads_per_kv) * k_len;
    const Val<Index> last = cast<Index>(q_len) - 1;
    const auto at = [&](const Val<Index>& query) { return (row * q_len + query) * dim; };
    const PromptMask mask(q_len, k_len, window, causal);
    SimdAttention own(shape,
                      [&](u32 i, const Val<Index>& d) { return cast<f32>(q[at(min(start + i, last)) + d]) * scale; });
    const Val<Index> first_query = min(start, last), last_query = min(start + (queries - 1), last);
    const Val<Index> from = mask.start(first_query), to = mask.end(last_query);
    for (auto first : range(from, to, keys))
      own.step([&](u32 slot) { return min(first + slot, to - 1); }, attention_rows(k, first_key, dim),
               attention_rows(v, first_key, dim),
               [&](const Val<f32>& dot, const Val<Index>& query, const Val<Index>& slot) {
                 const auto key = first + slot;
                 return select(key < to && mask.sees(min(start + query, last), key), dot, constant<f32>(no_score));
               });
    const auto softmax = own.softmax();
    const auto sink = sink_of(sinks, head);
    std::vector<Val<f32>> factors;
    for (u32 i = 0; i < queries; ++i) {
      const auto of_query = own.softmax(softmax, i);
      const Val<f32> top = sink ? Val<f32>(max(of_query.top, *sink)) : Val<f32>(of_query.top);
      const Val<f32> own_scale = exp(of_query.top - top);
      const Val<f32> total = sink ? Val<f32>(of_query.total * own_scale + exp(*sink - top)) : Val<f32>(of_query.total);
      factors.push_back(attention_quotient(own_scale, total));
    }
    own.each([&](u32 i, const Val<Index>& d, const Val<f32>& value) {
      if_(start + i < q_len) { out[at(start + i) + d] = cast<T>(value * factors[i]); }
    });
  }
};

/// Blocking of the tile form: a threadgroup has bq queries and takes bk keys a step. bk divides 32; bq is a multiple of
/// the threads over bk.
struct PrefillTileSpec {
  u32 dim = 128, bq = 32, bk = 32, simdgroups = 4;
  bool causal = true;
  constexpr u32 threads() const { return 32 * simdgroups; }
};

/// SdpaPrefill through tiles: scores = Q K^T into a tile, softmax by rows in threadgroup memory, output += P V in a
/// tile that stays in registers. Weights are rounded to T before the second product, as q, k and v are given in T.
template <class T>
struct SdpaPrefillTile {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> q, k, v;
  Out<T> out;
  Scalar<u32> q_len, k_len, heads, heads_per_kv, window;
  Scalar<f32> scale;
  PrefillTileSpec spec;

  Grid grid() const {
    const u32 rows = static_cast<u32>(out.size() / spec.dim);
    return {Threadgroups{(q_len.value() + spec.bq - 1) / spec.bq, rows / std::max(q_len.value(), 1u)},
            Threads{spec.threads()}};
  }

  void operator()() const {
    const u32 dim = spec.dim, bq = spec.bq, bk = spec.bk;
    const auto start = threadgroup_id() * bq, row = threadgroup_id(Axis::y);
    const Val<Index> batch = row / heads, head = row % heads, kv_heads = cast<Index>(heads) / heads_per_kv;
    const auto first_key = (batch * kv_heads + head / heads_per_kv) * k_len, first_query = row * q_len;
    const PromptMask mask(q_len, k_len, window, spec.causal);
    const Val<Index> last = cast<Index>(q_len) - 1;

    const Shared<T> queries(bq * dim), rows(bk * dim), weights(bq * bk);
    const Shared<f32> scores(bq * bk), factors(bq);
    // Rows beyond the end are zeros: they meet only weights that are zero, or are not stored.
    const auto stage = [&](const Shared<T>& to, const In<T>& from, const Val<Index>& base, const Val<Index>& first,
                           const Val<Index>& end, u32 count) {
      for (auto i : range(thread_id(), count * dim, spec.threads())) {
        const auto r = first + i / dim;
        const Val<T> value = from.load_or(r < end, (base + min(r, end - 1)) * dim + i % dim, T{});
        to[i] = value;
      }
    };
    stage(queries, q, first_query, start, Val<Index>(q_len), bq);
    // A row of scores lies in bk neighbouring lanes, the same ones in every step: they keep its softmax.
    const u32 rows_at_once = spec.threads() / bk, passes = (bq + rows_at_once - 1) / rows_at_once;
    const auto lane_row = thread_id() / bk, c = thread_id() % bk;
    const auto over_row = [&](const Val<f32>& own, auto f) {
      std::vector<Val<f32>> chain{own};
      for (u32 m = bk / 2; m > 0; m /= 2) chain.push_back(f(chain.back(), simd_shuffle_xor(chain.back(), m)));
      return chain.back();
    };
    Vars<f32> tops(passes, std::numeric_limits<f32>::lowest()), totals(passes, 0.0f);
    Tile<T, f32> sum(bq, dim), products(bq, bk);
    sum.zero();
    const Val<Index> last_query = min(start + (bq - 1), last);
    for (auto first : range(mask.start(start), mask.end(last_query), bk)) {
      stage(rows, k, first_key, first, Val<Index>(k_len), bk);
      barrier();
      products.zero();
      products.mma(Block(queries, 0, dim), Block(rows, 0, dim), dim, {.b = true});
      products.store(Block(scores, 0, bk), bq, bk);
      barrier();
      stage(rows, v, first_key, first, Val<Index>(k_len), bk);
      for (u32 pass = 0; pass < passes; ++pass) {
        const auto r = lane_row + pass * rows_at_once;
        const Val<f32> dot = scores[r * bk + c];
        const Val<f32> score = select(mask.sees(min(start + r, last), first + c), dot * scale, constant<f32>(no_score));
        const Val<f32> old = tops[pass], before = totals[pass];
        const Val<f32> now = max(old, over_row(score, [](auto x, auto y) { return max(x, y); }));
        const Val<f32> keep = exp(old - now), weight = exp(score - now);
        tops[pass] = now;
        totals[pass] = fma(before, keep, weight);
        weights[r * bk + c] = cast<T>(weight);
        if_(c == 0) { factors[r] = keep; }
      }
      barrier();
      for (auto e : range(sum.elements())) {
        const Val<Index> r = min(sum.row(e), bq - 1);
        const Val<f32> keep = factors[r], value = sum.get(e);
        sum.set(e, value * keep);
      }
      sum.mma(Block(weights, 0, bk), Block(rows, 0, dim), bk);
      barrier();
    }
    for (u32 pass = 0; pass < passes; ++pass) {
      const Val<f32> own = totals[pass];
      const Val<f32> total = over_row(own, [](auto x, auto y) { return x + y; });
      if_(c == 0) { factors[lane_row + pass * rows_at_once] = total; }
    }
    barrier();
    for (auto e : range(sum.elements())) {
      const Val<Index> r = min(sum.row(e), bq - 1);
      const Val<f32> total = factors[r], value = sum.get(e);
      sum.set(e, attention_quotient(value, total));
    }
    sum.store(Block(out, (first_query + start) * dim, dim), valid(q_len, start, bq), dim);
  }
};

/// Which prefill kernel a prompt gets.
enum class PrefillForm : u8 { simd, tile };
/// The tile form for 16 queries or more of a head size that is a multiple of 16: below that most of a tile is empty.
constexpr PrefillForm sdpa_prefill_for(u32 q_len, u32 dim) {
  return q_len >= 16 && dim % 16 == 0 ? PrefillForm::tile : PrefillForm::simd;
}

}  // namespace iron::kernels
