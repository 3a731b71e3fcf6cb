// The gated product of a feed-forward layer whose gate and up projections are one matrix.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// y[t, i] = silu(x[t, i]) * x[t, n + i]        x: [tokens, 2 n], y: [tokens, n] (Shazeer 2020)
struct SwigluRows {
  static constexpr std::string_view name = "swiglu_rows";

  In<f32> x;
  Out<f32> y;
  Scalar<u32> n;

  Grid grid() const { return Grid::for_items(y.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> at = (i / n) * (2u * n) + i % n;
    y[i] = silu(x[at]) * x[at + n];
  }
};

}  // namespace iron::kernels
