// What attention must be, in f64: scores of all keys first, then their softmax, then the mean of the values.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "iron/library.h"

namespace iron::kernels {

/// One query over `keys` keys. score(j, q . k_j) gives the final score, -inf where the key is not attended.
struct AttentionRow {
  u64 dim = 0, keys = 0;
  std::function<f64(u64 d)> q;
  std::function<f64(u64 j, u64 d)> k, v;
  std::function<f64(u64 j, f64 dot)> score;
  std::optional<f64> sink;
};
inline void append_attention(std::vector<f64>& out, const AttentionRow& row) {
  std::vector<f64> w(row.keys);
  f64 top = row.sink.value_or(-std::numeric_limits<f64>::infinity());
  for (u64 j = 0; j < row.keys; ++j) {
    f64 dot = 0;
    for (u64 d = 0; d < row.dim; ++d) dot += row.q(d) * row.k(j, d);
    w[j] = row.score(j, dot);
    top = std::max(top, w[j]);
  }
  f64 total = row.sink ? std::exp(*row.sink - top) : 0.0;
  for (f64& x : w) total += x = std::isinf(x) ? 0.0 : std::exp(x - top);
  for (u64 d = 0; d < row.dim; ++d) {
    f64 sum = 0;
    for (u64 j = 0; j < row.keys; ++j)
      if (w[j] != 0.0) sum += w[j] * row.v(j, d);
    out.push_back(total == 0.0 ? 0.0 : sum / total);
  }
}

/// Every third row of q, from the second on, has one element only: its scores are nearly exact and lie hundreds apart,
/// so that a softmax by anything but the largest of them overflows.
template <class T>
Array<T> with_steep_rows(Array<T> q, u64 dim) {
  const f64 large = 256.0 * std::sqrt(static_cast<f64>(dim));
  for (u64 i = 0; i < q.size(); ++i)
    if (const u64 row = i / dim; row % 3 == 1) q[i] = T(static_cast<f32>(i % dim == row * 7 % dim ? large : 0.0));
  return q;
}

/// Sums of f32 in another order, then one rounding of an output near 1.
inline constexpr Tolerance attention_limit = tolerance(3e-5, 2e-3, 1.6e-2);

}  // namespace iron::kernels
