// The most probable token, and the threshold of top-k.
#pragma once

#include <limits>

#include "iron/dsl.h"

namespace iron::kernels {

/// out[r] = the smallest i with logits[r, i] = max. A NaN is never chosen; a row without numbers above -inf gives 0.
/// logits: [rows, n], out: [rows]
struct SampleGreedy {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr std::string_view name = "sample_greedy";

  In<f32> logits;
  Out<u32> out;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size())}, Threads{256}}; }

  void operator()() const {
    const Val<Index> row = threadgroup_id(), start = row * n;
    Var<f32> best{-std::numeric_limits<f32>::infinity()};
    Var<u32> place{0xffffffffu};
    for (auto i : range(thread_id(), n, threads())) {
      const Val<f32> x = logits[start + i], old = best;
      const Val<u32> here = cast<u32>(i), older = place;
      place = select(x > old, here, older);
      best = select(x > old, x, old);
    }
    const Val<f32> own = best, top = threadgroup_max(own);
    const Val<u32> own_place = place;
    const Val<u32> found = threadgroup_min(select(own == top, own_place, 0xffffffffu));
    if_(thread_id() == 0) { out[row] = select(found == 0xffffffffu, 0u, found); }
  }
};

}  // namespace iron::kernels
