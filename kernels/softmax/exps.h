// The exponentials of a softmax whose row lies in registers: few operations an element, and none for special values.
#pragma once

#include <vector>

#include "iron/dsl.h"

namespace iron::kernels {

/// 2^32 e^d for d <= 0, within a unit of the last place; 2^-118 for all d below -104, where e^d rounds to 0. The
/// scaling keeps every result a normal number, so that the exponent is set by one integer addition and a product with
/// a small number rounds once. NaN counts as -104. d = (k - 32) ln 2 + r ln 2, |r| <= 1/2; 2^r by the polynomial of
/// exp2 (passes/math/exp.cpp).
inline Val<f32> scaled_exp(const Val<f32>& d) {
  constexpr f32 log2_e = 0x1.715476p+0f, log2_e_low = 0x1.4ae0cp-26f;  // together 1 / ln 2
  constexpr f32 magic = 0x1.8p+23f + 32;  // the sum with a small number is an integer, in the low bits
  constexpr f32 slope[] = {0x1.62e432p-1f, 0x1.ebfbe6p-3f,  0x1.c6adc8p-5f,
                           0x1.3b2538p-7f, 0x1.5fa8e2p-10f, 0x1.47b6e2p-13f};
  const Val<f32> x = max(d, -104.0f);
  const Val<f32> whole = fma(x, log2_e, magic);
  const Val<f32> k = whole - magic;
  const Val<f32> rest = fma(x, log2_e_low, fma(x, log2_e, -k));
  std::vector<Val<f32>> p{constant<f32>(slope[5])};
  for (int i = 4; i >= 0; --i) p.push_back(fma(p.back(), rest, slope[i]));
  p.push_back(fma(p.back(), rest, 1.0f));
  return bitcast<f32>(bitcast<u32>(p.back()) + (bitcast<u32>(whole) << 23));
}
inline constexpr f32 scaled_exp_unit = 0x1p+32f;  ///< scaled_exp(0)

/// The exponentials of a thread's elements, all scaled by 2^32, and their sum over the thread in the order of the
/// elements.
struct ScaledExps {
  std::vector<Val<f32>> values;
  Val<f32> sum;
};
/// Of e^(v - top), top the largest of the row. The sum is NaN where a value is NaN or +inf, or top is -inf.
inline ScaledExps scaled_exps(const std::vector<Val<f32>>& v, const Val<f32>& top) {
  std::vector<Val<f32>> e, sums, differences;
  for (const auto& value : v) {
    const Val<f32> d = value - top;
    // inf - inf is NaN, and no sum of numbers below 0 makes one.
    differences.push_back(differences.empty() ? d : differences.back() + d);
    e.push_back(scaled_exp(d));
    sums.push_back(sums.empty() ? e.back() : sums.back() + e.back());
  }
  const Val<f32> own = select(is_nan(differences.back()), differences.back(), sums.back());
  return {std::move(e), own};
}

}  // namespace iron::kernels
