// What dense products must be, in f64, and how far a result may be off.
#pragma once

#include "iron/library.h"

namespace iron::kernels {

/// a: [M, K] times b: [K, N].
template <class T>
std::vector<f64> gemm_oracle(const Array<T>& a, const Array<T>& b, u64 m, u64 n, u64 k) {
  std::vector<f64> c(m * n);
  for (u64 i = 0; i < m; ++i)
    for (u64 t = 0; t < k; ++t)
      for (u64 j = 0; j < n; ++j) c[i * n + j] += a.at(i * k + t) * b.at(t * n + j);
  return c;
}

inline constexpr Tolerance gemm_limit = tolerance(1e-4, 1e-2, 5e-2);

}  // namespace iron::kernels
