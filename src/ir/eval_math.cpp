// Transcendental functions in f64, and the formats below 16 bits.
#include "ir/eval_math.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "iron/error.h"

namespace iron::ir {

namespace {
// Halley's iteration on erf(y) = x. Near 1 it works on erfc, where 1 - x is exact and erf has lost its digits.
f64 erfinv(f64 x) {
  const f64 a = std::abs(x);
  if (!(a <= 1)) return std::numeric_limits<f64>::quiet_NaN();
  if (a == 1) return std::copysign(std::numeric_limits<f64>::infinity(), x);
  if (a < 1e-8) return x * 0.886226925452758;  // sqrt(pi) / 2: the cubic term is below the last digit
  constexpr f64 c = 0.147;                     // Winitzki's closed form starts within 2e-3
  const f64 l = std::log1p(-a * a), t = 2 / (3.14159265358979323846 * c) + l / 2;
  f64 y = std::sqrt(std::sqrt(t * t - l / c) - t);
  for (int i = 0; i < 4; ++i) {
    const f64 miss = a > 0.5 ? (1 - a) - std::erfc(y) : std::erf(y) - a;
    const f64 slope = 1.1283791670955126 * std::exp(-y * y);  // 2 / sqrt(pi)
    y -= miss / (slope + y * miss);
  }
  return std::copysign(y, x);
}

// A format with `man` mantissa bits and that bias, without special values: exact in f32.
f32 decode(u32 magnitude, int man, int bias) {
  const int exponent = static_cast<int>(magnitude >> man);
  const f32 fraction = static_cast<f32>(magnitude & ((1u << man) - 1));
  const f32 hidden = exponent ? static_cast<f32>(1u << man) : 0.0f;
  return std::ldexp(hidden + fraction, (exponent ? exponent : 1) - bias - man);
}
constexpr u32 quiet_nan = 0x7fc00000u;
}  // namespace

f64 math_value(Opcode code, f64 a, f64 b) {
  switch (code) {
    case Opcode::Exp:
    case Opcode::FastExp:
      return std::exp(a);
    case Opcode::Exp2:
    case Opcode::FastExp2:
      return std::exp2(a);
    case Opcode::Expm1:
      return std::expm1(a);
    case Opcode::Log:
    case Opcode::FastLog:
      return std::log(a);
    case Opcode::Log2:
    case Opcode::FastLog2:
      return std::log2(a);
    case Opcode::Log10:
      return std::log10(a);
    case Opcode::Log1p:
      return std::log1p(a);
    case Opcode::Sin:
    case Opcode::FastSin:
      return std::sin(a);
    case Opcode::Cos:
    case Opcode::FastCos:
      return std::cos(a);
    case Opcode::Tan:
      return std::tan(a);
    case Opcode::Asin:
      return std::asin(a);
    case Opcode::Acos:
      return std::acos(a);
    case Opcode::Atan:
      return std::atan(a);
    case Opcode::Sinh:
      return std::sinh(a);
    case Opcode::Cosh:
      return std::cosh(a);
    case Opcode::Tanh:
    case Opcode::FastTanh:
      return std::tanh(a);
    case Opcode::Asinh:
      return std::asinh(a);
    case Opcode::Acosh:
      return std::acosh(a);
    case Opcode::Atanh:
      return std::atanh(a);
    case Opcode::Erf:
      return std::erf(a);
    case Opcode::Erfinv:
      return erfinv(a);
    case Opcode::Pow:
      return std::pow(a, b);
    case Opcode::Atan2:
      return std::atan2(a, b);
    case Opcode::FastSqrt:
      return std::sqrt(a);
    case Opcode::FastRsqrt:
      return 1 / std::sqrt(a);
    case Opcode::FastRecip:
      return 1 / a;
    default:
      throw Error("EVAL02", fmt::format("{} is no transcendental function", info(code).text));
  }
}

u32 decode_small_float(Opcode code, u32 bits) {
  const auto f32_bits = [](f32 magnitude, bool negative) {
    return std::bit_cast<u32>(magnitude) | (negative ? 0x80000000u : 0u);
  };
  switch (code) {
    case Opcode::DecodeE2M1:
      return f32_bits(decode(bits & 7, 1, 1), bits & 8);
    case Opcode::DecodeE4M3:
      return (bits & 0x7f) == 0x7f ? quiet_nan : f32_bits(decode(bits & 0x7f, 3, 7), bits & 0x80);
    case Opcode::DecodeE5M2: {
      const u32 m = bits & 0x7f;
      if (m > 0x7c) return quiet_nan;
      return m == 0x7c ? f32_bits(std::numeric_limits<f32>::infinity(), bits & 0x80)
                       : f32_bits(decode(m, 2, 15), bits & 0x80);
    }
    case Opcode::DecodeE8M0: {
      const u32 b = bits & 0xff;
      if (b == 255) return quiet_nan;
      return b == 0 ? 0x00400000u : b << 23;  // 2^-127 is a denormal
    }
    default:
      throw Error("EVAL02", fmt::format("{} decodes nothing", info(code).text));
  }
}

}  // namespace iron::ir
