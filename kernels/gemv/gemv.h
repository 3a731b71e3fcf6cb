// Matrix times vector: one row a threadgroup, one row a simdgroup, and the masked form.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// out[r] = sum_k mat[r, k] * vec[k]        mat: [m, k], vec: [k], out: [m]
/// A threadgroup a row. Sums in f32, one rounding at the store.
template <class T>
struct Gemv {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> mat, vec;
  Out<T> out;
  Scalar<u32> k;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id() * k;
    Var<f32> sum{0.0f};
    for (auto i : range(thread_id(), k, threads())) sum += cast<f32>(mat[row + i]) * cast<f32>(vec[i]);
    const auto total = threadgroup_sum(sum);
    if_(thread_id() == 0u) { out[threadgroup_id()] = cast<T>(total); }
  }
};

/// The same, a simdgroup a row and 8 rows a threadgroup, 4 consecutive elements a lane: for short rows and many of
/// them.
template <class T>
struct GemvWarpRows {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 rows = 8, width = 4;

  In<T> mat, vec;
  Out<T> out;
  Scalar<u32> m, k;

  Grid grid() const { return {Threadgroups{(m.value() + rows - 1) / rows}, Threads{32 * rows}}; }

  void operator()() const {
    const auto r = threadgroup_id() * rows + simdgroup_id();
    if_(r < m) {
      const auto row = r * k;
      Vars<f32> sums(width, 0.0f);
      const auto whole = cast<Index>(k) / (32 * width) * (32 * width);
      for (auto base : range(0u, whole, 32 * width)) {
        const auto first = base + lane_id() * width;
        for (u32 j = 0; j < width; ++j) sums[j] += cast<f32>(mat[row + first + j]) * cast<f32>(vec[first + j]);
      }
      for (auto i : range(whole + lane_id(), k, 32u)) sums[0] += cast<f32>(mat[row + i]) * cast<f32>(vec[i]);
      const auto total = simd_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
      if_(lane_id() == 0u) { out[r] = cast<T>(total); }
    }
  }
};

/// out[r] = sum_k mat[r, k] * vec[k] * mask[k]        mat: [m, k], vec, mask: [k], out: [m]
template <class T>
struct GemvMasked {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> mat, vec, mask;
  Out<T> out;
  Scalar<u32> k;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id() * k;
    Var<f32> sum{0.0f};
    for (auto i : range(thread_id(), k, threads()))
      sum += cast<f32>(mat[row + i]) * cast<f32>(vec[i]) * cast<f32>(mask[i]);
    const auto total = threadgroup_sum(sum);
    if_(thread_id() == 0u) { out[threadgroup_id()] = cast<T>(total); }
  }
};

enum class GemvForm : u8 { rows, warp_rows };
/// A threadgroup of 256 threads is idle in part on rows shorter than a few trips of it.
constexpr GemvForm gemv_for(u32 m, u32 k) { return k <= 1024 && m >= 64 ? GemvForm::warp_rows : GemvForm::rows; }

}  // namespace iron::kernels
