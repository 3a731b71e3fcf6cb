// The second step of products split over the depth.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// c[i] = sum_s partials[s, i], s ascending      partials: [splits, count], c: [count]
template <class T>
struct SplitKAccum {
  In<f32> partials;
  Out<T> c;
  Scalar<u32> splits;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto count = item_count();
    Var<f32> sum{0.0f};
    for (auto s : range(splits)) sum += partials[s * count + i];
    c[i] = cast<T>(sum);
  }
};

}  // namespace iron::kernels
