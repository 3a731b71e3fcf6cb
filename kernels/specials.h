// Test values on which plausible mistakes show: signed zeros, infinities, NaN, denormals, ties, the ends of the range.
#pragma once

#include <limits>
#include <vector>

#include "iron/library.h"

namespace iron::kernels {

inline constexpr f64 infinity = std::numeric_limits<f64>::infinity();
inline constexpr f64 not_a_number = std::numeric_limits<f64>::quiet_NaN();

/// Finite values that every element type holds, or rounds to a neighbour of: ties, zeros, units.
inline std::vector<f64> plain_specials() {
  return {0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 1.0, -1.0, 0.75, -0.75, 2.0, -2.0, 3.0, 7.0, -7.0, 100.0};
}

/// The smallest denormal, the smallest normal and the largest value of T, of both signs.
template <class T>
std::vector<f64> range_ends() {
  f64 denormal = 0x1p-149, normal = 0x1p-126, largest = 0x1.fffffep127;
  if constexpr (std::same_as<T, f16>) denormal = 0x1p-24, normal = 0x1p-14, largest = 65504.0;
  if constexpr (std::same_as<T, bf16>) denormal = 0x1p-133, largest = 0x1.fep127;
  return {denormal, -denormal, 3 * denormal, normal, -normal, largest, -largest};
}

template <class T>
std::vector<f64> finite_specials() {
  auto v = plain_specials();
  for (const f64 x : range_ends<T>()) v.push_back(x);
  return v;
}
template <class T>
std::vector<f64> all_specials() {
  auto v = finite_specials<T>();
  v.insert(v.end(), {infinity, -infinity});
  return v;
}

/// The value as T holds it: one rounding, so that an overflow is an infinity.
template <class T>
f64 rounded(f64 v) {
  return static_cast<f64>(T(v));
}
template <class T>
std::vector<T> rounded_all(const std::vector<f64>& values) {
  std::vector<T> out;
  for (const f64 v : values) out.push_back(T(v));
  return out;
}
/// An array of exactly these values.
template <class T>
Array<T> listed(Gen& g, const std::vector<f64>& values) {
  return g.from<T>([&](u64 i) { return values[i]; }, values.size());
}

/// One rounding of the storage type, and a few of f32: what a function correct to an f32 ulp or two keeps.
inline constexpr Tolerance one_rounding = tolerance(2e-6, 6e-4, 5e-3);
/// The same where values vanish: the direction alone must agree closely, which an absolute error cannot see.
inline constexpr Tolerance near_zero{2e-6, 6e-4, 5e-3, 0.99999};

}  // namespace iron::kernels
