// Small floats inside kernels and in f64: FP4 E2M1, FP8 E4M3 and E5M2 (OCP), rounded to nearest even, saturating.
#pragma once

#include <cmath>

#include "iron/dsl.h"

namespace iron::kernels {

enum class SmallFloat : u8 { e2m1, e4m3, e5m2 };

struct SmallFloatFormat {
  u32 bits, mantissa, bias;
  u32 largest_code;  ///< of the largest finite magnitude
  f64 largest;
  bool has_nan;
};
constexpr SmallFloatFormat format_of(SmallFloat f) {
  switch (f) {
    case SmallFloat::e2m1:
      return {4, 1, 1, 0x7, 6.0, false};
    case SmallFloat::e4m3:
      return {8, 3, 7, 0x7e, 448.0, true};
    case SmallFloat::e5m2:
      return {8, 2, 15, 0x7b, 57344.0, true};
  }
  return {};
}

/// The code of a number: nearest, ties to even, the largest magnitude where it is beyond. NaN gives the NaN code 0x7f,
/// or 0 where the format has none.
inline Val<u32> encode_small_float(SmallFloat format, Use<f32> value) {
  const auto f = format_of(format);
  const Val<f32> x(value), a = abs(x);
  const Val<u32> word = bitcast<u32>(x), magnitude = word & 0x7fffffffu;
  const u32 drop = 23 - f.mantissa;
  // Of a normal number the dropped bits round the code; a carry reaches the exponent by itself.
  const Val<u32> odd = magnitude >> drop & 1u;
  const Val<u32> normal = ((magnitude + odd + ((1u << (drop - 1)) - 1)) >> drop) - ((127u - f.bias) << f.mantissa);
  // Below the smallest normal number codes are even steps.
  const auto steps = std::ldexp(1.0, static_cast<int>(f.bias + f.mantissa) - 1);
  const Val<u32> small = cast<u32>(round(a * static_cast<f32>(steps)));
  const auto least = std::ldexp(1.0, 1 - static_cast<int>(f.bias));
  const Val<u32> code = min(select(a < static_cast<f32>(least), small, normal), f.largest_code);
  const Val<u32> sign = (word >> 31) << (f.bits - 1);
  return select(is_nan(x), constant<u32>(f.has_nan ? 0x7fu : 0u), code | sign);
}
inline Val<f32> decode_small_float(SmallFloat format, Use<u32> code) {
  return format == SmallFloat::e2m1   ? decode_e2m1(code)
         : format == SmallFloat::e4m3 ? decode_e4m3(code)
                                      : decode_e5m2(code);
}
/// What a block of largest magnitude `amax` is divided by, so that its largest element has the largest code; 1 for a
/// block of zeros.
inline Val<f32> small_float_scale(SmallFloat format, const Val<f32>& amax) {
  return select(amax == 0.0f, constant<f32>(1.0f), amax / static_cast<f32>(format_of(format).largest));
}

/// The number of a code, by the definition of the format. Codes of NaN are not asked for.
inline f64 small_float_value(SmallFloat format, u32 code) {
  const auto f = format_of(format);
  const u32 sign = code >> (f.bits - 1), exponent = code >> f.mantissa & ((1u << (f.bits - 1 - f.mantissa)) - 1);
  const f64 fraction = std::ldexp(static_cast<f64>(code & ((1u << f.mantissa) - 1)), -static_cast<int>(f.mantissa));
  const int power = static_cast<int>(exponent == 0 ? 1 : exponent) - static_cast<int>(f.bias);
  const f64 magnitude = std::ldexp(exponent == 0 ? fraction : 1.0 + fraction, power);
  return sign ? -magnitude : magnitude;
}
/// The code of a finite number by search over all codes: the nearest, of two equally near the even one.
inline u32 small_float_code(SmallFloat format, f64 x) {
  const auto f = format_of(format);
  u32 best = 0;
  for (u32 code = 1; code <= f.largest_code; ++code) {
    const f64 now = std::fabs(std::fabs(x) - small_float_value(format, code)),
              before = std::fabs(std::fabs(x) - small_float_value(format, best));
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return best | (std::signbit(x) ? 1u << (f.bits - 1) : 0u);
}

}  // namespace iron::kernels
