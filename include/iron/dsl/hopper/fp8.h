// 8-bit floats of products, stored as bytes.
#pragma once

#include <cmath>

#include "iron/types.h"

namespace iron {

/// OCP E4M3: 4 bits of exponent, 3 of mantissa, no infinities, 448 the largest. Conversion rounds to nearest even and
/// saturates.
struct e4m3 {
  u8 bits = 0;
  e4m3() = default;
  explicit e4m3(f64 value) : bits(encode(value)) {}
  explicit operator f64() const {
    const int exponent = bits >> 3 & 15, mantissa = bits & 7;
    if (exponent == 15 && mantissa == 7) return std::nan("");
    const f64 size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
    return bits & 0x80 ? -size : size;
  }
  bool operator==(const e4m3&) const = default;

 private:
  static u8 encode(f64 value) {
    const auto sign = static_cast<u8>(std::signbit(value) ? 0x80 : 0);
    if (std::isnan(value)) return static_cast<u8>(sign | 0x7f);
    const f64 size = std::abs(value);
    if (size > 464) return static_cast<u8>(sign | 0x7e);  // past halfway to the next step: saturated
    int exponent = 0;
    std::frexp(size, &exponent);
    const int step = std::max(exponent - 4, -9);  // of the value's binade; denormals step by 2^-9
    const auto steps = static_cast<int>(std::nearbyint(std::ldexp(size, -step)));
    const int code = step == -9 ? steps : (step + 9) * 8 + steps;  // 8 steps a binade, carries included
    return static_cast<u8>(sign | std::min(code, 0x7e));
  }
};
template <>
inline constexpr DType dtype_of<e4m3> = DType::u8;

}  // namespace iron
