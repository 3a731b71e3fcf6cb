// Dense C = A * B with its blockings, and which of them a shape gets.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "gemm/tile_gemm.h"

namespace iron::kernels {

/// c[m, n] = sum_k a[m, k] * b[k, n]      a: [M, K], b: [K, N], c: [M, N], row-major; any M, N, K
/// f32 accumulation, k ascending; one rounding at the store.
template <class T>
struct SteelGemm {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> a, b;
  Out<T> c;
  Scalar<u32> m, n, k;
  GemmSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value()); }

  void operator()() const {
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    GemmTile<T> tile(spec);
    tile.sum.zero();
    tile.multiply(0, k, block_rows(a, m0, m, k), block_columns(b, n0, n));
    tile.sum.store(Block(c, m0 * n + n0, n), valid(m, m0, spec.bm), valid(n, n0, spec.bn));
  }
};

/// out[r, n] = sum_k weight[n, k] * input[r, k]      weight: [N, K], input: [R, K], out: [R, N]
template <class T>
struct Gemm {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> weight, input;
  Out<T> out;
  Scalar<u32> n, k, rows;
  static constexpr GemmSpec usual{.bm = 32, .bn = 32, .bk = 16, .simdgroups = 32, .pad = 1};
  GemmSpec spec = usual;

  Grid grid() const { return spec.grid(rows.value(), n.value()); }

  void operator()() const {
    const auto r0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    GemmTile<T> tile(spec, true);
    tile.sum.zero();
    tile.multiply(0, k, block_rows(input, r0, rows, k), weight_rows(weight, n0, n, k));
    tile.sum.store(Block(out, r0 * n + n0, n), valid(rows, r0, spec.bm), valid(n, n0, spec.bn));
  }
};

/// A blocking and the name of the library kernel that has it, without prefix and element type.
struct GemmChoice {
  std::string name;
  GemmSpec spec;
};

/// A blocking that is staged by accesses of 16 bytes into two stages: for devices whose copies to threadgroup memory
/// are instructions, not a packing.
struct WideGemm {
  std::string name;
  bool weight_major;  ///< a form of Gemm, else of SteelGemm
  GemmSpec spec;

  /// With the depth of a step for that element: 64 bytes, and twice that for the smallest blocks. Without a matrix unit
  /// a thread has 64 sums at most.
  template <class T>
  GemmSpec spec_for() const {
    GemmSpec s = spec;
    s.bk = (s.bm == 64 && sizeof(T) == 2 ? 128 : 64) / sizeof(T);
    if (sizeof(T) == 4) s.simdgroups = std::max(s.simdgroups, s.bm * s.bn / 2048);
    return s;
  }
  bool takes(DType t) const { return t != DType::f32 || spec.bn <= 128; }  ///< 256 columns of f32 spill
};
/// Largest blocks first for each layout of B.
const std::vector<WideGemm>& wide_gemm_members();
/// The largest blocks that give every one of `cores` a threadgroup, or the smallest ones.
const WideGemm& wide_gemm_for(u32 m, u32 n, bool weight_major, DType dtype, u32 cores);

/// The blockings of steel_gemm, largest first.
std::vector<GemmChoice> steel_gemm_members();

/// The blocking for C[M, N] += A[M, K] * B[K, N]: the largest tile that wastes least on the edges and still gives every
/// one of `cores` a threadgroup. LIB03 for a zero dimension.
GemmChoice steel_gemm_for(u32 m, u32 n, u32 k, DType dtype, u32 cores = 1);

/// The blocking for a CPU with that many worker threads: one simdgroup a threadgroup, blocks as large as the second
/// cache level bears, rows near an even share of M and a multiple of 6 (the register block's rows), and at least two
/// threadgroups a worker where the shape allows it. LIB03 for a zero dimension.
GemmSpec cpu_gemm_for(u32 m, u32 n, u32 k, u32 workers = 1);

}  // namespace iron::kernels
