// Root-mean-square normalisation of rows: one threadgroup a row, any length.
#pragma once

#include "iron/dsl.h"
#include "norm/inverse_rms.h"
#include "rows.h"

namespace iron::kernels {

/// y[r, i] = x[r, i] * rsqrt(mean_i x[r, i]^2 + eps) * weight[i]        x, y: [rows, n], weight: [n]
/// Zhang and Sennrich 2019, eq. 4, with eps inside the root. Sums in f32; one rounding at the store.
template <class T>
struct RmsNorm {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x, weight;
  Out<T> y;
  Scalar<u32> n;
  Scalar<f32> eps;

  Grid grid() const { return row_groups(y.size(), n.value()); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto scale = row_inverse_rms(n, eps, [&](const Val<Index>& i) { return cast<f32>(x[row + i]); });
    for (auto i : range(thread_id(), n, threads()))
      y[row + i] = cast<T>(cast<f32>(x[row + i]) * scale * cast<f32>(weight[i]));
  }
};

}  // namespace iron::kernels
