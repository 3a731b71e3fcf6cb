// Matrix times vector: one row a threadgroup, one row a simdgroup, streamed rows, and the masked form.
#pragma once

#include <vector>

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

/// out[r] = sum_k mat[r, k] * vec[k], for k a multiple of 16 bytes of elements: `rows` rows a threadgroup, `loads`
/// accesses of 16 bytes a thread and row in one turn, before the first is used.
/// A thread adds its products in ascending order of k by fma, then R4.
template <class T>
struct GemvStream {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 width = 16 / sizeof(T);

  In<T> mat, vec;
  Out<T> out;
  Scalar<u32> m, k;
  u32 simdgroups = 8, rows = 1, loads = 2;

  Grid grid() const { return {Threadgroups{(m.value() + rows - 1) / rows}, Threads{32 * simdgroups}}; }

  void operator()() const {
    const Val<Index> depth(k), height(m), r0(threadgroup_id() * rows);
    std::vector<Val<Index>> row;  // rows beyond the edge repeat the last one; they are not stored
    for (u32 r = 0; r < rows; ++r) row.push_back(min(r0 + r, height - 1) * depth);
    Vars<f32> sums(rows, 0.0f);
    const u32 step = 32 * simdgroups * width;
    const auto add = [&](const Val<Index>& first, u32 count) {
      std::vector<std::vector<Vec<T, width>>> w(rows);
      std::vector<Vec<T, width>> v;
      for (u32 l = 0; l < count; ++l) {
        for (u32 r = 0; r < rows; ++r) w[r].push_back(load_vec<width>(mat, row[r] + first + l * step));
        v.push_back(load_vec<width>(vec, first + l * step));
      }
      for (u32 l = 0; l < count; ++l)
        for (u32 j = 0; j < width; ++j) {
          const auto x = cast<f32>(v[l][j]);
          for (u32 r = 0; r < rows; ++r) sums[r] = fma(cast<f32>(w[r][l][j]), x, sums[r]);
        }
    };
    const auto whole = depth / (loads * step) * (loads * step);
    const auto lane_first = thread_id() * width;
    for (auto base : range(0u, whole, loads * step)) add(base + lane_first, loads);
    for (auto first : range(whole + lane_first, depth, step)) add(first, 1);
    for (u32 r = 0; r < rows; ++r) {
      const auto total = threadgroup_sum(sums[r]);
      if_(thread_id() == 0u && r0 + r < height) { out[r0 + r] = cast<T>(total); }
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

enum class GemvForm : u8 { rows, warp_rows, stream };
/// A threadgroup of 256 threads is idle in part on rows shorter than a few trips of it. On a device of several
/// multiprocessors (`units`), rows that all start on 16 bytes are streamed; element_bytes: the size of T.
constexpr GemvForm gemv_for(u32 m, u32 k, u32 element_bytes, u32 units) {
  if (k <= 1024 && m >= 64) return GemvForm::warp_rows;
  return units > 1 && k >= 1024 && k * u64{element_bytes} % 16 == 0 ? GemvForm::stream : GemvForm::rows;
}

}  // namespace iron::kernels
