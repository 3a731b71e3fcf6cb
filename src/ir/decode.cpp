// The formats below 16 bits.
#include "ir/decode.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "iron/error.h"

namespace iron::ir {

namespace {
// A format with `man` mantissa bits and that bias, without special values: exact in f32.
f32 decode(u32 magnitude, int man, int bias) {
  const int exponent = static_cast<int>(magnitude >> man);
  const f32 fraction = static_cast<f32>(magnitude & ((1u << man) - 1));
  const f32 hidden = exponent ? static_cast<f32>(1u << man) : 0.0f;
  return std::ldexp(hidden + fraction, (exponent ? exponent : 1) - bias - man);
}
constexpr u32 quiet_nan = 0x7fc00000u;
}  // namespace

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
