// The body that every dense GEMM shares: blocks of A and B staged in threadgroup memory, multiplied into a tile.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// Blocking of a GEMM: a threadgroup computes bm x bn of C, bk terms a step, with that many simdgroups.
struct GemmSpec {
  u32 bm = 64, bn = 64, bk = 16, simdgroups = 4;
  u32 pad =
      8;  ///< elements between staged rows, against bank conflicts; rows of 16-bit elements stay aligned to 16 bytes

  constexpr u32 threads() const { return 32 * simdgroups; }
  Grid grid(u32 m, u32 n, u32 depth = 1) const {
    return {Threadgroups{(n + bn - 1) / bn, (m + bm - 1) / bm, depth}, Threads{threads()}};
  }
};

/// Staging memory and accumulator of one threadgroup. f32 accumulation whatever T is. B is staged as [k][n], or as
/// [n][k] where its rows run along k (`weight_major`), so that neighbouring threads read neighbouring elements.
template <class T>
struct GemmTile {
  explicit GemmTile(const GemmSpec& s, bool b_weight_major = false)
      : spec(s),
        weight_major(b_weight_major),
        a_stride(s.bk + s.pad),
        b_stride((weight_major ? s.bk : s.bn) + s.pad),
        a(s.bm * a_stride),
        b((weight_major ? s.bn : s.bk) * b_stride),
        sum(s.bm, s.bn) {}

  /// sum += A[.., k0 .. k0 + bk) * B[k0 .. k0 + bk, ..), of which only terms below `end` count: load_a(row, k, inside)
  /// and load_b(k, col, inside) give elements of this threadgroup's block, zero where they are not `inside` or lie
  /// outside their matrix.
  template <class LoadA, class LoadB>
  void step(Use<Index> k0, Use<Index> end, LoadA load_a, LoadB load_b) {
    const Val<Index> first(k0), last(end);
    for (auto i : range(thread_id(), spec.bm * spec.bk, threads())) {
      const auto r = i / spec.bk, k = i % spec.bk;
      const auto at = first + k;
      const Val<T> v = load_a(r, at, at < last);
      a[r * a_stride + k] = v;
    }
    for (auto i : range(thread_id(), spec.bk * spec.bn, threads())) {
      const u32 inner = weight_major ? spec.bk : spec.bn;
      const auto outer_index = i / inner, inner_index = i % inner;
      const auto k = weight_major ? inner_index : outer_index, c = weight_major ? outer_index : inner_index;
      const auto at = first + k;
      const Val<T> v = load_b(at, c, at < last);
      b[outer_index * b_stride + inner_index] = v;
    }
    barrier();
    sum.mma(Block(a, 0, a_stride), Block(b, 0, b_stride), spec.bk, {.b = weight_major});
    barrier();
  }

  /// The terms from .. end. The bounds are the same for the whole threadgroup.
  template <class LoadA, class LoadB>
  void multiply(Use<Index> from, Use<Index> end, LoadA load_a, LoadB load_b) {
    const Val<Index> last(end);
    for (auto k0 : range(from, last, spec.bk)) step(k0, last, load_a, load_b);
  }

  GemmSpec spec;
  bool weight_major;
  u32 a_stride, b_stride;
  Shared<T> a, b;
  Tile<T, f32> sum;
};

/// Elements of the blocks of a GEMM, for GemmTile::multiply: zero beyond the matrix. block_rows: rows from `first` on
/// of x [rows, depth], as A; weight_rows: the same as a weight-major B; block_columns: columns from `first` on of x
/// [depth, columns], as B.
template <class T>
auto block_rows(const In<T>& x, const Val<Index>& first, Use<Index> rows, Use<Index> depth) {
  return [&x, first, rows = Val<Index>(rows), depth = Val<Index>(depth)](const Val<Index>& r, const Val<Index>& at,
                                                                         const Val<bool>& inside) {
    return x.load_or(inside && first + r < rows, (first + r) * depth + at, T{});
  };
}
template <class T>
auto block_columns(const In<T>& x, const Val<Index>& first, Use<Index> columns) {
  return
      [&x, first, columns = Val<Index>(columns)](const Val<Index>& at, const Val<Index>& c, const Val<bool>& inside) {
        return x.load_or(inside && first + c < columns, at * columns + first + c, T{});
      };
}
template <class T>
auto weight_rows(const In<T>& x, const Val<Index>& first, Use<Index> rows, Use<Index> depth) {
  return [load = block_rows(x, first, rows, depth)](const Val<Index>& at, const Val<Index>& c,
                                                    const Val<bool>& inside) { return load(c, at, inside); };
}

/// Rows (or columns) of a block of `size` from `first` on that lie inside `extent`.
inline Val<Index> valid(Use<Index> extent, Use<Index> first, u32 size) {
  const Val<Index> all(extent), start(first);
  return min(all - start, size);
}

}  // namespace iron::kernels
