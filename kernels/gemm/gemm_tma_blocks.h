// Products of E4M3 with a scale a block, by tensor copies and warpgroup products.
#pragma once

#include <vector>

#include "iron/hopper.h"

namespace iron::kernels {

/// Blocking: two warpgroups of 64 x 128, `stages` blocks of 128 terms on their way; `cluster` threadgroups share their
/// blocks of B. Super-rows of `group` rows of tiles share B.
struct GemmTmaBlocksSpec {
  u32 stages = 5, cluster = 2, group = 8;
  u32 trip = 4;     ///< blocks of terms a trip of the loop, which drains at its end: 2 or more
  u32 units = 132;  ///< threadgroups that run at once: the device's multiprocessors

  static constexpr u32 threads = 384, bm = 128, bn = 128;
  Grid grid(u32 m, u32 n) const {
    const u32 tiles = (m + bm * cluster - 1) / (bm * cluster) * ((n + bn - 1) / bn);
    return {Threadgroups{std::min(units / cluster, tiles) * cluster}, Threads{threads}};
  }
};

/// c[m, n] = sum_g a_scales[g, m] * b_scales[n / 128, g] * (sum of a[m, k] * b[n, k] over the 128 terms k of block g)
/// a: E4M3 [M, K], b: E4M3 [N, K], rows 16-byte aligned; a_scales: f32 [ceil(K / 128), M], M a multiple of 4;
/// b_scales: f32 [ceil(N / 128), ceil(K / 128)]; c: [M, N], rows 16-byte aligned. (DeepSeek-AI 2024, DeepSeek-V3
/// Technical Report, 3.3.) The matrix unit keeps some 14 bits of the partial sums of a block; blocks are added in f32,
/// k ascending.
template <class T>
struct GemmTmaE4M3Blocks {
  static constexpr Mode mode = Mode::Threadgroup;

  TensorMap<e4m3> a, b;
  TensorMap<f32> a_scales;
  In<f32> b_scales;
  TensorMapOut<T> c;
  Scalar<u32> m, n, k;
  GemmTmaBlocksSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value()); }
  void operator()() const {
    constexpr u32 bk = 128, bm = GemmTmaBlocksSpec::bm, bn = GemmTmaBlocksSpec::bn, rows = 64;
    const u32 share = bn / spec.cluster;
    const Cluster cluster{spec.cluster};
    Shared<e4m3> sa{spec.stages, {bm, bk}, Swizzle::b128}, sb{spec.stages, {bn, bk}, Swizzle::b128};
    Shared<f32> scales{spec.stages, {2, rows}, Swizzle::none};  // a row a warpgroup
    Shared<T> sc{2, {rows, bn}, Swizzle::b128};
    const Pipeline pipe{spec.stages, "load", "mma"};
    const Tiles tiles{ceil_div(m, bm * spec.cluster), ceil_div(n, bn), spec.group, cluster};
    const auto rank = cluster.rank();
    const auto blocks = ceil_div(k, bk), down = ceil_div(n, bn);
    const auto trips = ceil_div(blocks, spec.trip);  // blocks past the end are zeros
    const auto first_row = [&](const TileId& t) { return (t.m * spec.cluster + rank) * bm; };

    for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"mma", 2, Regs{232}}})) {
      if (role.is("load")) {
        auto out = pipe.producer();
        for (auto t : tiles)
          for (auto i : range(trips))
            for (u32 nth = 0; nth < spec.trip; ++nth) {
              const auto block = i * spec.trip + nth;
              const auto s = out.acquire();
              a.load(s, sa[s], {block * bk, first_row(t)});
              for (u32 wg = 0; wg < 2; ++wg) a_scales.load(s, scales[s].rows(wg, 1), {first_row(t) + wg * rows, block});
              b.load(s, sb[s].rows(rank * share, share), {block * bk, t.n * bn + rank * share}, Multicast{cluster});
            }
      } else {
        auto in = pipe.consumer();
        const auto wg = role.index();
        const OwnRows own;
        Acc<f32> even{rows, bn}, odd{rows, bn}, total{rows, bn};
        for (auto t : tiles) {
          total.clear();
          for (auto i : range(trips)) {
            // What both operands of a block are scaled by, a value a row.
            const auto scale = [&](const Slot& s, u32 of_trip) {
              const auto block = i * spec.trip + of_trip;
              const auto weight = b_scales.load_or(t.n < down && block < blocks, t.n * blocks + block, 0.0f);
              return own.make([&](const Val<Index>& row) { return Val<f32>(scales[s](wg, row)); }) * weight;
            };
            const auto promote = [&](u32 of_trip, const Rows<f32>& by) {
              const auto part = (of_trip % 2 ? odd : even).value(), sum = total.value();
              total.set(fma(part, by, sum));
            };
            std::vector<Rows<f32>> by;
            for (u32 nth = 0; nth < spec.trip; ++nth) {
              const auto s = in.wait();
              (nth % 2 ? odd : even).mma(sa[s].rows(wg * rows, rows), sb[s].t(), false);
              by.push_back(scale(s, nth));
              if (nth == 0) continue;
              settle(1);
              promote(nth - 1, by[nth - 1]);  // hidden by the products of the block after it
              in.release(1);
            }
            settle(0);
            promote(spec.trip - 1, by.back());  // hidden by the other warpgroup
            in.release();
          }
          const auto stage = sc[wg];
          reclaim(stage);
          put(stage, cast<T>(total.value()));
          c.store(stage, {t.n * bn, first_row(t) + wg * rows});
        }
      }
    }
  }
};

}  // namespace iron::kernels
