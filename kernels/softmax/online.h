// The running maximum and sum of exponentials of a thread, joined over its threadgroup: softmax in one pass over the
// data.
#pragma once

#include <limits>

#include "iron/dsl.h"

namespace iron::kernels {

/// top = max of the values, sum = sum of exp(value - top) (Milakov and Gimelshein 2018, algorithm 3, with one
/// exponential a value). `top` starts at the lowest finite number, so that no difference of equal infinities arises
/// from -inf inputs: values of -inf alone leave sum = 0. A NaN makes the sum NaN.
class OnlineSum {
 public:
  OnlineSum() = default;

  void add(const Val<f32>& value) {
    const Val<f32> top = top_, sum = sum_;
    const auto greater = value > top;
    const auto e = exp(-abs(value - top));
    sum_ = select<f32>(greater, sum * e + 1.0f, sum + e);
    top_ = max(top, value);
  }

  struct Result {
    Val<f32> top, sum;
  };
  /// All threads of the threadgroup arrive. A maximum of +inf gives a sum of NaN.
  Result join() const {
    const Val<f32> own = top_, sum = sum_;
    const auto top = threadgroup_max(own);
    const auto total = threadgroup_sum(sum * exp(own - top));
    return {top, total};
  }

 private:
  Var<f32> top_{std::numeric_limits<f32>::lowest()};
  Var<f32> sum_{0.0f};
};

}  // namespace iron::kernels
