// The four associative operations of reductions and scans, as host-side choices.
#pragma once

#include <limits>

#include "iron/dsl.h"
#include "iron/library.h"

namespace iron::kernels {

/// max and min return the other operand for one NaN (R2): they skip NaN. Sum and product carry it on.
enum class Fold : u8 { sum, product, max, min };

constexpr f32 identity(Fold f) {
  constexpr f32 inf = std::numeric_limits<f32>::infinity();
  switch (f) {
    case Fold::sum:
      return 0.0f;
    case Fold::product:
      return 1.0f;
    case Fold::max:
      return -inf;
    case Fold::min:
      break;
  }
  return inf;
}

inline Val<f32> combine(Fold f, const Val<f32>& a, const Val<f32>& b) {
  switch (f) {
    case Fold::sum:
      return a + b;
    case Fold::product:
      return a * b;
    case Fold::max:
      return max(a, b);
    case Fold::min:
      break;
  }
  return min(a, b);
}

inline Val<f32> threadgroup_fold(Fold f, const Val<f32>& v) {
  switch (f) {
    case Fold::sum:
      return threadgroup_sum(v);
    case Fold::product:
      return threadgroup_product(v);
    case Fold::max:
      return threadgroup_max(v);
    case Fold::min:
      break;
  }
  return threadgroup_min(v);
}

/// For each thread the fold of the threads before it.
inline Val<f32> threadgroup_fold_before(Fold f, const Val<f32>& v) {
  switch (f) {
    case Fold::sum:
      return threadgroup_scan_sum_exclusive(v);
    case Fold::product:
      return threadgroup_scan_product_exclusive(v);
    case Fold::max:
      return threadgroup_scan_max_exclusive(v);
    case Fold::min:
      break;
  }
  return threadgroup_scan_min_exclusive(v);
}

/// The same fold on the host, for oracles.
inline f64 combine(Fold f, f64 a, f64 b) {
  switch (f) {
    case Fold::sum:
      return a + b;
    case Fold::product:
      return a * b;
    case Fold::max:
      return std::fmax(a, b);
    case Fold::min:
      break;
  }
  return std::fmin(a, b);
}

/// Test data that a fold does not wash out: factors around +-1 for products, values of one sign for extrema, so that a
/// wrong identity shows.
template <class T>
Array<T> fold_data(Gen& g, Fold f, u64 count) {
  if (f == Fold::product) {
    auto x = g.uniform<T>(0.8, 1.2, count);
    for (u64 i = 0; i < count; ++i)
      if (g.unit() < 0.3) x[i] = T(-x.at(i));
    return x;
  }
  if (f == Fold::max) return g.uniform<T>(-9.0, -1.0, count);
  if (f == Fold::min) return g.uniform<T>(1.0, 9.0, count);
  return g.uniform<T>(-0.5, 1.0, count);
}

}  // namespace iron::kernels
