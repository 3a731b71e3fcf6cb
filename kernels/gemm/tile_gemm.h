// The body that every dense GEMM shares: blocks of A and B staged in threadgroup memory, multiplied into a tile.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// Blocking of a GEMM: a threadgroup computes bm x bn of C, bk terms a step, with that many simdgroups.
struct GemmSpec {
  u32 bm = 64, bn = 64, bk = 16, simdgroups = 4;
  u32 pad = 4;  ///< elements between staged rows, against bank conflicts

  constexpr u32 threads() const { return 32 * simdgroups; }
  Grid grid(u32 m, u32 n, u32 depth = 1) const {
    return {Threadgroups{(n + bn - 1) / bn, (m + bm - 1) / bm, depth}, Threads{threads()}};
  }
};

/// Staging memory and accumulator of one threadgroup. f32 accumulation whatever T is.
template <class T>
struct GemmTile {
  explicit GemmTile(const GemmSpec& s) : spec(s), a(s.bm * (s.bk + s.pad)), b(s.bk * (s.bn + s.pad)), sum(s.bm, s.bn) {}

  /// sum += A[.., from .. end) * B[from .. end, ..): load_a(row, k, inside) and load_b(k, col, inside) give elements of
  /// this threadgroup's block, zero where they are not `inside` or lie outside their matrix. The bounds are the same
  /// for the whole threadgroup.
  template <class LoadA, class LoadB>
  void multiply(Use<Index> from, Use<Index> end, LoadA load_a, LoadB load_b) {
    const Val<Index> last(end);
    for (auto k0 : range(from, last, spec.bk)) {
      for (auto i : range(thread_id(), spec.bm * spec.bk, threads())) {
        const auto r = i / spec.bk, k = i % spec.bk;
        const auto at = k0 + k;
        const auto v = load_a(r, at, at < last);
        a[r * (spec.bk + spec.pad) + k] = v;
      }
      for (auto i : range(thread_id(), spec.bk * spec.bn, threads())) {
        const auto k = i / spec.bn, c = i % spec.bn;
        const auto at = k0 + k;
        const auto v = load_b(at, c, at < last);
        b[k * (spec.bn + spec.pad) + c] = v;
      }
      barrier();
      sum.mma(Block(a, 0, spec.bk + spec.pad), Block(b, 0, spec.bn + spec.pad), spec.bk);
      barrier();
    }
  }

  GemmSpec spec;
  Shared<T> a, b;
  Tile<T, f32> sum;
};

/// Rows (or columns) of a block of `size` from `first` on that lie inside `extent`.
inline Val<Index> valid(Use<Index> extent, Use<Index> first, u32 size) {
  const Val<Index> all(extent), start(first);
  return min(all - start, size);
}

}  // namespace iron::kernels
