// Decode attention split over the keys by tensor copies and warpgroup products: the Hopper members of the family.
#pragma once

#include "attention/attention_tma.h"

namespace iron::kernels {

/// `splits` threadgroups share the keys of one head of keys; `stages` blocks of 128 keys, and of values, are on their
/// way.
struct DecodeTmaSpec {
  u32 splits = 8, stages = 2;

  static constexpr u32 threads = 384, keys = 128, hd = 128, heads = 64;  ///< heads: most query heads that share keys
};

/// What one threadgroup makes of its keys: two warpgroups, each with half of every block and a softmax of its own,
/// leave the unnormalised sums, the largest score and the sum of weights of 64 rows in threadgroup memory.
struct DecodeParts {
  static constexpr u32 rows = 64, pad = 8;  // eight rows of a fragment lie in different banks
  Shared<f32> sums{2, {rows, DecodeTmaSpec::hd + pad}, Swizzle::none};
  Shared<f32> stats{2, {rows, 8}, Swizzle::none};  ///< columns 0: largest score, 1: sum of weights
};
inline constexpr f32 unseen_score = -1e30f;  ///< finite, so that a block without keys has a difference to the largest

/// The body: blocks [from, end) of keys of the head `pair` = batch * kv heads + kv head.
template <class T>
void decode_part(const TensorMap<T>& q, const TensorMap<T>& k, const TensorMap<T>& v, const DecodeTmaSpec& spec,
                 const Val<Index>& pair, const Val<Index>& from, const Val<Index>& end, const Val<Index>& length,
                 const Val<f32>& scale_log2, const DecodeParts& parts) {
  constexpr u32 rows = DecodeParts::rows, keys = DecodeTmaSpec::keys, hd = DecodeTmaSpec::hd, half = keys / 2;
  Shared<T> sq{1, {rows, hd}, Swizzle::b128};
  Shared<T> sk{spec.stages, {keys, hd}, Swizzle::b128}, sv{spec.stages, {keys, hd}, Swizzle::b128};
  const Pipeline pq{1, "load", "math"}, pk{spec.stages, "load", "math"}, pv{spec.stages, "load", "math"};
  for (auto& role : roles({{"load", 1, {}, Issue::one}, {"math", 2}})) {
    if (role.is("load")) {
      auto oq = pq.producer(), ok = pk.producer(), ov = pv.producer();
      const auto s = oq.acquire();
      q.load(s, sq[s], {0u, 0u, pair});
      for (auto i : range(from, end)) {
        const auto ks = ok.acquire();
        k.load(ks, sk[ks], {0u, i * keys, pair}, {}, Cache::stream);
        const auto vs = ov.acquire();
        v.load(vs, sv[vs], {0u, i * keys, pair}, {}, Cache::stream);
      }
    } else {
      auto rq = pq.consumer(), rk = pk.consumer(), rv = pv.consumer();
      const auto wg = role.index();
      Acc<f32> s{rows, half}, out{rows, hd};
      FragVar<T> p{rows, half};
      RowSoftmax soft{rows, scale_log2};
      out.clear();
      const auto tile = sq[rq.wait()];
      for (auto i : range(from, end)) {
        const auto ks = rk.wait();
        s.mma(tile, sk[ks].rows(wg * half, half).t(), false);
        settle(0);
        rk.release();
        const auto key = s.col();
        const auto unseen = key >= length - (i * keys + wg * half);
        const auto scores = s.value();
        const auto seen = where(unseen, unseen_score, scores);
        const auto weights = soft(seen);
        p = cast<T>(weights);
        out.scale(soft.fix);
        const auto vs = rv.wait();
        out.mma(p, sv[vs].rows(wg * half, half));
        settle(0);
        rv.release();
      }
      rq.release();
      put(parts.sums[wg].cols(0, hd), out.value());
      put(parts.stats[wg], soft.columns());
    }
  }
}

/// o[p, h, :] = sum_j softmax_j(scale * q[p, h, :] . k[p, j, :]) v[p, j, :] over the first `length` keys of each p,
/// which counts the heads of keys of a batch: q, o: [P, group, 128], k, v: [P, length, 128], at any stride between
/// heads. scale_log2 is scale * log2(e). group: 1 to 64 query heads that share keys. length: at least 1. One launch:
/// the threadgroups of a cluster join their parts out of each other's threadgroup memory, ranks ascending.
template <class T>
struct AttentionDecodeCluster {
  static constexpr Mode mode = Mode::Threadgroup;

  TensorMap<T> q, k, v;
  Out<T> o;
  Scalar<u32> length, group;
  Scalar<f32> scale_log2;
  DecodeTmaSpec spec;

  Grid grid() const {
    const u32 pairs = static_cast<u32>(o.size() / std::max<u64>(u64{group.value()} * DecodeTmaSpec::hd, 1));
    return {Threadgroups{pairs * spec.splits}, Threads{DecodeTmaSpec::threads}};
  }
  void operator()() const {
    constexpr u32 hd = DecodeTmaSpec::hd;
    const Cluster cluster{spec.splits};
    const auto rank = cluster.rank();
    const auto pair = threadgroup_id() / spec.splits;
    const auto blocks = ceil_div(length, DecodeTmaSpec::keys);
    const auto part = ceil_div(blocks, spec.splits);
    const auto from = min(rank * part, blocks);
    const DecodeParts parts;
    const Val<f32> scale(scale_log2);
    decode_part(q, k, v, spec, pair, from, min(from + part, blocks), Val<Index>(length), scale, parts);
    cluster.sync();
    const u32 slice = hd / spec.splits;  // columns of this rank
    for (auto e : range(thread_id(), Val<Index>(group) * slice, DecodeTmaSpec::threads)) {
      const auto row = e / slice, col = rank * slice + e % slice;
      Var<f32> top{unseen_score}, num{0.0f}, den{0.0f};
      for (u32 i = 0; i < spec.splits; ++i)
        for (u32 wg = 0; wg < 2; ++wg) {
          const auto its_top = parts.stats.peer(i)(row + wg * DecodeParts::rows, 0u);
          top = max(top, its_top);
        }
      for (u32 i = 0; i < spec.splits; ++i)
        for (u32 wg = 0; wg < 2; ++wg) {
          const auto at = row + wg * DecodeParts::rows;
          const auto its_top = parts.stats.peer(i)(at, 0u), its_weights = parts.stats.peer(i)(at, 1u);
          const auto its_sum = parts.sums.peer(i)(at, col);
          const auto weight = fast_exp2((its_top - top) * scale);
          num += weight * its_sum;
          den += weight * its_weights;
        }
      o[(pair * group + row) * hd + col] = cast<T>(num / den);
    }
  }
};

/// First pass of the form without clusters: partial_out: f32 [P * group, splits, 128], partial_top, partial_total: f32
/// [P * group, splits], as SdpaDecodePass2 joins them; else as AttentionDecodeCluster. Any number of splits.
template <class T>
struct AttentionDecodeSplit {
  static constexpr Mode mode = Mode::Threadgroup;

  TensorMap<T> q, k, v;
  Out<f32> partial_out, partial_top, partial_total;
  Scalar<u32> length, group, splits;
  Scalar<f32> scale_log2;
  DecodeTmaSpec spec{.splits = 1};

  Grid grid() const {
    const u64 a_pair = std::max<u64>(u64{group.value()} * splits.value(), 1);
    return {Threadgroups{static_cast<u32>(partial_top.size() / a_pair), splits.value()},
            Threads{DecodeTmaSpec::threads}};
  }
  void operator()() const {
    constexpr u32 hd = DecodeTmaSpec::hd;
    constexpr f32 ln_2 = 0.6931471805599453f;
    const auto pair = threadgroup_id(), split = threadgroup_id(Axis::y);
    const auto blocks = ceil_div(length, DecodeTmaSpec::keys);
    const auto part = ceil_div(blocks, splits);
    const auto from = min(split * part, blocks);
    const DecodeParts parts;
    const Val<f32> scale(scale_log2);
    decode_part(q, k, v, spec, pair, from, min(from + part, blocks), Val<Index>(length), scale, parts);
    barrier();
    for (auto e : range(thread_id(), Val<Index>(group) * hd, DecodeTmaSpec::threads)) {
      const auto row = e / hd, col = e % hd, other = row + DecodeParts::rows;
      const Val<f32> top_0 = parts.stats(row, 0u), top_1 = parts.stats(other, 0u);
      const auto top = max(max(top_0, top_1), unseen_score);
      const auto weight_0 = fast_exp2((top_0 - top) * scale), weight_1 = fast_exp2((top_1 - top) * scale);
      const auto at = (pair * group + row) * splits + split;
      // Named: what is read from threadgroup memory keeps the order in which it is written.
      const auto sum_0 = weight_0 * parts.sums(row, col), sum_1 = weight_1 * parts.sums(other, col);
      partial_out[at * hd + col] = sum_0 + sum_1;
      IRON_IF(col == 0u) {
        partial_top[at] = top * (scale * ln_2);  // as a natural logarithm
        const auto total_0 = weight_0 * parts.stats(row, 1u), total_1 = weight_1 * parts.stats(other, 1u);
        partial_total[at] = total_0 + total_1;
      }
    }
  }
};

/// How decode is launched.
struct DecodeTmaChoice {
  u32 cluster = 1;  ///< above 1: attention_decode_tma_cluster<n>
  u32 splits = 1;   ///< else: attention_decode_tma with so many, then sdpa_decode_2pass_pass2
};
/// The smallest power of two of splits, each with a block of keys, that gives 45 % of `units` a threadgroup: one draws
/// about twice its share of the memory's bandwidth, and clusters that share a multiprocessor's wait cost more than idle
/// ones. A cluster up to 8. LIB03 for no heads or keys.
DecodeTmaChoice attention_decode_for(u32 pairs, u32 length, u32 units);

}  // namespace iron::kernels
