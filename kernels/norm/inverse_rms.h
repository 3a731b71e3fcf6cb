// 1 / root mean square of a row, by a threadgroup that strides over it.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// rsqrt(sum / n + eps)
inline Val<f32> inverse_rms(Use<f32> sum_of_squares, Use<u32> n, Use<f32> eps) {
  const Val<f32> sum(sum_of_squares), e(eps);
  return rsqrt(sum / cast<f32>(Val<u32>(n)) + e);
}
/// The same of value(i), i < n, in f32; all threads of the threadgroup arrive.
template <class Value>
Val<f32> row_inverse_rms(const Scalar<u32>& n, const Scalar<f32>& eps, Value value) {
  Var<f32> sum{0.0f};
  for (auto i : range(thread_id(), n, threads())) {
    const Val<f32> v = value(i);
    sum += v * v;
  }
  return inverse_rms(threadgroup_sum(sum), n, eps);
}

}  // namespace iron::kernels
