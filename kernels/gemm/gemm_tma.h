// Dense products by tensor copies and warpgroup products: the Hopper member of the GEMM family.
#pragma once

#include "iron/hopper.h"

namespace iron::kernels {

/// Blocking of GemmTma: each of `cluster` threadgroups computes bm x bn of C with two warpgroups and shares its part of
/// B with the others; `stages` blocks of 64 terms are on their way. Super-rows of `group` rows of tiles share B.
struct GemmTmaSpec {
  u32 bm = 128, bn = 256, stages = 4, cluster = 1, group = 8;
  u32 units = 132;  ///< threadgroups that run at once: the device's multiprocessors

  static constexpr u32 threads = 384;
  Grid grid(u32 m, u32 n) const {
    const u32 tiles = (m + bm * cluster - 1) / (bm * cluster) * ((n + bn - 1) / bn);
    return {Threadgroups{std::min(units / cluster, tiles) * cluster}, Threads{threads}};
  }
};

/// The body: `epilogue` makes of each fragment of sums what is rounded once and stored.
template <class T, class Out, class Epilogue>
void gemm_tma(const TensorMap<T>& a, const TensorMap<T>& b, const TensorMapOut<Out>& c, const Scalar<u32>& m,
              const Scalar<u32>& n, const Scalar<u32>& k, const GemmTmaSpec& spec, Epilogue epilogue) {
  constexpr u32 bk = 128 / sizeof(T);  // terms a stage: one swizzle of 128 bytes
  const u32 share = spec.bn / spec.cluster, rows = spec.bm / 2;
  const Cluster cluster{spec.cluster};
  Shared<T> sa{spec.stages, {spec.bm, bk}, Swizzle::b128}, sb{spec.stages, {spec.bn, bk}, Swizzle::b128};
  const u32 chunk = spec.bn % 128 ? 64 : 128;  // columns stored at once
  Shared<Out> sc{2, {rows, chunk}, Swizzle::b128};
  const Pipeline pipe{spec.stages, "load", "mma"};
  const Tiles tiles{ceil_div(m, spec.bm * spec.cluster), ceil_div(n, spec.bn), spec.group, cluster};
  const auto rank = cluster.rank();
  const auto steps = ceil_div(k, bk);
  const auto first_row = [&](const TileId& t) { return (t.m * spec.cluster + rank) * spec.bm; };

  for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"mma", 2, Regs{232}}})) {
    if (role.is("load")) {
      auto out = pipe.producer();
      for (auto t : tiles)
        for (auto i : range(steps)) {
          const auto s = out.acquire();
          a.load(s, sa[s], {i * bk, first_row(t)});
          b.load(s, sb[s].rows(rank * share, share), {i * bk, t.n * spec.bn + rank * share}, Multicast{cluster});
        }
    } else {
      auto in = pipe.consumer();
      const auto wg = role.index();
      Acc<f32> acc{rows, spec.bn};
      for (auto t : tiles) {
        for (auto i : range(steps)) {
          const auto s = in.wait();
          acc.mma(sa[s].rows(wg * rows, rows), sb[s].t(), i != 0u);
          settle(1);
          in.release(1);  // the batch before this one has ended
        }
        settle(0);
        in.release();
        for (u32 j = 0; j < spec.bn; j += chunk) {
          const auto stage = sc[wg];
          reclaim(stage);
          put(stage, cast<Out>(epilogue(acc.value().cols(j, chunk))));
          c.store(stage, {t.n * spec.bn + j, first_row(t) + wg * rows});
        }
      }
    }
  }
}

/// c[m, n] = sum_k a[m, k] * b[n, k]      a: [M, K], b: [N, K], c: [M, N], rows 16-byte aligned
/// f32 accumulation in the matrix unit's order; one rounding at the store.
template <class T>
struct GemmTma {
  static constexpr Mode mode = Mode::Threadgroup;

  TensorMap<T> a, b;
  TensorMapOut<T> c;
  Scalar<u32> m, n, k;
  GemmTmaSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value()); }
  void operator()() const {
    gemm_tma(a, b, c, m, n, k, spec, [](const Frag<f32>& sum) { return sum; });
  }
};

/// c[m, n] = scale * sum_k a[m, k] * b[n, k] with a and b in E4M3, c in T: one scale for both tensors. The matrix unit
/// keeps some 14 bits of each partial sum.
template <class T>
struct GemmTmaE4M3 {
  static constexpr Mode mode = Mode::Threadgroup;

  TensorMap<e4m3> a, b;
  TensorMapOut<T> c;
  Scalar<u32> m, n, k;
  Scalar<f32> scale;
  GemmTmaSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value()); }
  void operator()() const {
    const Val<f32> s(scale);
    gemm_tma(a, b, c, m, n, k, spec, [&](const Frag<f32>& sum) { return sum * s; });
  }
};

}  // namespace iron::kernels
