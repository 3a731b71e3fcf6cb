// The rotation of one head in f64, for tests.
#pragma once

#include <vector>

#include "iron/library.h"

namespace iron::kernels {

/// Rotates the head of `dim` values at `row` by the angles theta(pair).
template <class T, class Theta>
void turn_row(const Array<T>& x, std::vector<f64>& out, u64 row, u64 dim, bool halves, Theta theta, f64 size = 1.0) {
  for (u64 i = 0; i < dim / 2; ++i) {
    const u64 first = row + (halves ? i : 2 * i), second = row + (halves ? i + dim / 2 : 2 * i + 1);
    const f64 angle = theta(i), c = size * std::cos(angle), s = size * std::sin(angle);
    out[first] = c * x.at(first) - s * x.at(second);
    out[second] = s * x.at(first) + c * x.at(second);
  }
}

}  // namespace iron::kernels
