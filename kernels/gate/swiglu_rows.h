// The gated product of a feed-forward layer whose gate and up projections are one matrix.
#pragma once

#include "iron/dsl.h"
#include "rows.h"

namespace iron::kernels {

/// y[t, i] = silu(x[t, i]) * x[t, n + i]        x: [tokens, 2 n], y: [tokens, n] (Shazeer 2020)
struct SwigluRows {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "swiglu_rows";

  In<f32> x;
  Out<f32> y;
  Scalar<u32> n;

  Grid grid() const {
    return {Threadgroups{(n.value() + 255) / 256, row_groups(y.size(), n.value()).groups.x}, Threads{256}};
  }

  void operator()() const {
    const Val<Index> i = threadgroup_id() * 256 + thread_id(), token = threadgroup_id(Axis::y);
    if_(i < n) {
      const Val<Index> at = token * (2u * n) + i;
      y[token * n + i] = silu(x[at]) * x[at + n];
    }
  }
};

}  // namespace iron::kernels
