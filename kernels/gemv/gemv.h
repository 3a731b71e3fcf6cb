// Dense matrix times vector.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// out[m] = sum_k mat[m, k] * vec[k]      mat: [M, K], vec: [K], out: [M]; one threadgroup a row, f32 sums
template <class T>
struct Gemv {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> mat, vec;
  Out<T> out;
  Scalar<u32> k;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id();
    Var<f32> sum{0.0f};
    for (auto i : range(thread_id(), k, threads())) sum += cast<f32>(mat[row * k + i]) * cast<f32>(vec[i]);
    const auto total = threadgroup_sum(sum);
    if_(thread_id() == 0) { out[row] = cast<T>(total); }
  }
};

/// out[m] = sum_k mat[m, k] * vec[k] * mask[k]      mask: [K]
template <class T>
struct GemvMasked {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> mat, vec, mask;
  Out<T> out;
  Scalar<u32> k;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id();
    Var<f32> sum{0.0f};
    for (auto i : range(thread_id(), k, threads()))
      sum += cast<f32>(mat[row * k + i]) * cast<f32>(vec[i]) * cast<f32>(mask[i]);
    const auto total = threadgroup_sum(sum);
    if_(thread_id() == 0) { out[row] = cast<T>(total); }
  }
};

/// The same as Gemv with one row a simdgroup, eight a threadgroup, four neighbouring elements a lane: for many rows and
/// few columns.
template <class T>
struct GemvWarpRows {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 rows = 8, wide = 4;

  In<T> mat, vec;
  Out<T> out;
  Scalar<u32> m, k;

  Grid grid() const { return {Threadgroups{(m.value() + rows - 1) / rows}, Threads{32 * rows}}; }

  void operator()() const {
    const auto row = threadgroup_id() * rows + simdgroup_id();
    if_(row < m) {
      Vars<f32> sums(wide, 0.0f);
      for (auto i : range(lane_id() * wide, k, 32 * wide))
        for (u32 j = 0; j < wide; ++j) {
          const auto at = i + j;
          const auto inside = at < k;
          const auto w = mat.load_or(inside, row * k + at, T{});
          const auto x = vec.load_or(inside, at, T{});
          sums[j] += cast<f32>(w) * cast<f32>(x);
        }
      const auto low = sums[0] + sums[1], high = sums[2] + sums[3];
      const auto total = simd_sum(low + high);
      if_(lane_id() == 0) { out[row] = cast<T>(total); }
    }
  }
};

}  // namespace iron::kernels
