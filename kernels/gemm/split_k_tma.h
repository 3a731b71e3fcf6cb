// Dense products split over the depth by tensor copies and warpgroup products, for shapes whose tiles leave
// multiprocessors idle: partial sums in slices of their own, or joined inside a cluster.
#pragma once

#include "iron/hopper.h"

namespace iron::kernels {

/// Blocking: a threadgroup sums bm x bn of C over its part of the depth, 64 rows a warpgroup; `stages` blocks of 64
/// terms are on their way.
struct SplitKTmaSpec {
  u32 bm = 64, bn = 128, stages = 3;
  u32 cluster = 1;      ///< threadgroups that share the depth and join their sums: 1 (slices in memory), 2, 4 or 8
  bool turned = false;  ///< rows of B are the rows of a tile, those of A its columns: the tile of C is turned

  u32 threads() const { return 128 + 2 * bm; }
  u32 tiles(u32 m, u32 n) const {
    const u32 rows = turned ? n : m, cols = turned ? m : n;
    return (rows + bm - 1) / bm * ((cols + bn - 1) / bn);
  }
};
/// The blocking of a member of the library. Slices: two threadgroups share a multiprocessor. Clusters: one has it
/// alone, with as many blocks on their way as fit; measured best of 64 x 64, 64 x 128 and 128 x 128 with 3 to 10
/// stages.
constexpr SplitKTmaSpec split_k_spec(u32 cluster) {
  if (cluster == 1) return {};
  if (cluster == 2) return {.bm = 64, .bn = 128, .stages = 7, .cluster = 2};
  return {.bm = 64, .bn = 64, .stages = 10, .cluster = cluster};
}

/// For up to `rows` rows of A (16, 32 or 64): the warpgroup's 64 rows are rows of B, of which there are many.
constexpr SplitKTmaSpec few_rows_spec(u32 rows) {
  return {.bm = 64, .bn = rows, .stages = rows == 16 ? 18u : rows == 32 ? 15u : 12u, .turned = true};
}

/// How many slices the depth is cut into: enough that `units` multiprocessors hold two threadgroups each, at least four
/// blocks of 64 terms a part, and no part empty. LIB03 for a zero dimension.
u32 split_k_parts(u32 m, u32 n, u32 k, u32 units);

/// The member for a shape, and its parts.
struct SplitKChoice {
  u32 cluster = 1;  ///< above 1: gemm_splitk_tma_cluster<n>
  u32 splits = 1;   ///< else: gemm_splitk_tma with so many slices, then splitk_accum
};
/// The largest cluster of which all tiles have one at the same time (clusters of 4 and 8 do not fill the device: three
/// quarters of `units`); slices where there are more tiles than half of `units`.
SplitKChoice split_k_tma_for(u32 m, u32 n, u32 k, u32 units);

/// The body: rows of A and B from m0 and n0 on, over part `split` of `splits` of the depth in blocks of 64 terms. No
/// barrier of the threadgroup in the loop: a pipeline's. `finish(warpgroup, sums)` ends each warpgroup.
template <class T, class Finish>
void split_k_part(const TensorMap<T>& a, const TensorMap<T>& b, const SplitKTmaSpec& spec, const Val<Index>& m0,
                  const Val<Index>& n0, const Scalar<u32>& k, const Val<Index>& split, Use<Index> splits,
                  Finish finish) {
  constexpr u32 bk = 64, rows = 64;
  const auto blocks = ceil_div(k, bk);
  const auto part = ceil_div(blocks, splits);
  const auto first = split * part;
  // A part past the end has a block of zeros: the first product of each sets the sums.
  const auto trips = max(min(blocks - first, part), 1u);
  Shared<T> sa{spec.stages, {spec.bm, bk}, Swizzle::b128}, sb{spec.stages, {spec.bn, bk}, Swizzle::b128};
  const Pipeline pipe{spec.stages, "load", "mma"};
  for (auto& role : roles({{"load", 1, {}, Issue::one}, {"mma", spec.bm / rows}})) {
    if (role.is("load")) {
      auto out = pipe.producer();
      for (auto i : range(trips)) {
        const auto s = out.acquire();
        a.load(s, sa[s], {(first + i) * bk, m0});
        b.load(s, sb[s], {(first + i) * bk, n0});
      }
    } else {
      auto in = pipe.consumer();
      const auto wg = role.index();
      Acc<f32> acc{rows, spec.bn};
      for (auto i : range(trips)) {
        const auto s = in.wait();
        acc.mma(sa[s].rows(wg * rows, rows), sb[s].t(), i != 0u);
        settle(1);
        in.release(1);  // the batch before this one has ended
      }
      settle(0);
      in.release();
      finish(wg, acc.value());
    }
  }
}

/// partials[s, m, n] = sum over the s-th part of the depth of a[m, k] * b[n, k]
/// a: [M, K], b: [N, K], partials: f32 [splits, M, N]; rows of all three 16-byte aligned. The depth is cut into
/// `splits` parts of whole blocks of 64 terms; the last ones may be shorter or empty (zeros). SplitKAccum adds the
/// slices in ascending order.
template <class T>
struct GemmSplitKTma {
  static constexpr Mode mode = Mode::Threadgroup;

  TensorMap<T> a, b;
  TensorMapOut<f32> partials;
  Scalar<u32> m, n, k, splits;
  SplitKTmaSpec spec;

  Grid grid() const {
    return {Threadgroups{(n.value() + spec.bn - 1) / spec.bn, (m.value() + spec.bm - 1) / spec.bm, splits.value()},
            Threads{spec.threads()}};
  }
  void operator()() const {
    const auto split = threadgroup_id(Axis::z);
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    Shared<f32> sums{spec.bm / 64, {64, spec.bn}, Swizzle::b128};
    split_k_part(a, b, spec, m0, n0, k, split, splits, [&](const Slot& wg, const Frag<f32>& sum) {
      put(sums[wg], sum);
      partials.store(sums[wg], {n0, m0 + wg * 64u, split});
    });
  }
};

/// c[m, n] = sum_k a[m, k] * b[n, k] in one launch: the threadgroups of a cluster share the depth, then each adds an
/// equal share of the rows of all of them, ranks ascending, out of their threadgroup memory; one rounding at the store.
/// a: [M, K], b: [N, K] with rows 16-byte aligned, c: [M, N]
template <class T>
struct GemmSplitKCluster {
  static constexpr Mode mode = Mode::Threadgroup;

  TensorMap<T> a, b;
  Out<T> c;
  Scalar<u32> m, n, k;
  SplitKTmaSpec spec = split_k_spec(8);

  Grid grid() const { return {Threadgroups{spec.tiles(m.value(), n.value()) * spec.cluster}, Threads{spec.threads()}}; }
  void operator()() const {
    const Cluster cluster{spec.cluster};
    const auto rank = cluster.rank();
    const Scalar<u32>&height = spec.turned ? n : m, &width = spec.turned ? m : n;
    const auto across = ceil_div(width, spec.bn);
    const auto tile = threadgroup_id() / spec.cluster;
    const auto m0 = tile / across * spec.bm, n0 = tile % across * spec.bn;
    constexpr u32 pad = 8;  // eight rows of a fragment lie in different banks
    Shared<f32> sums{spec.bm / 64, {64, spec.bn + pad}, Swizzle::none};
    split_k_part(spec.turned ? b : a, spec.turned ? a : b, spec, m0, n0, k, rank, spec.cluster,
                 [&](const Slot& wg, const Frag<f32>& sum) { put(sums[wg].cols(0, spec.bn), sum); });
    cluster.sync();
    const u32 rows = spec.bm / spec.cluster;
    for (auto e : range(thread_id(), rows * spec.bn, spec.threads())) {
      // Neighbouring threads have neighbours of a row of C.
      const auto row = spec.turned ? rank * rows + e % rows : rank * rows + e / spec.bn;
      const auto col = spec.turned ? e / rows : e % spec.bn;
      Var<f32> sum{0.0f};
      for (u32 i = 0; i < spec.cluster; ++i) sum += sums.peer(i)(row, col);
      IRON_IF(m0 + row < height && n0 + col < width) {
        const auto at = spec.turned ? (n0 + col) * n + m0 + row : (m0 + row) * n + n0 + col;
        c[at] = cast<T>(sum);
      }
    }
  }
};

}  // namespace iron::kernels
