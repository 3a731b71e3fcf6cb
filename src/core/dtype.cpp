// Names of the element types, and the exact conversions of the 16-bit floats.
#include <array>

#include "iron/types.h"

namespace iron {

namespace {
constexpr std::array<std::string_view, dtype_count> names{"none", "bool", "i8",  "u8",   "i16", "u16", "i32",  "u32",
                                                          "i64",  "u64",  "f16", "bf16", "f32", "f64", "index"};

// Rounds a binary64 to a format of `exp_bits` and `man_bits` (nearest even), keeping denormals. One rounding.
u16 narrow(f64 value, int exp_bits, int man_bits) {
  const u64 in = std::bit_cast<u64>(value);
  const u16 sign = static_cast<u16>((in >> 63) << (exp_bits + man_bits));
  const u64 magnitude = in & 0x7fffffffffffffffull;
  const u16 infinity = static_cast<u16>(((1u << exp_bits) - 1u) << man_bits);
  if (magnitude > 0x7ff0000000000000ull) {  // NaN: quiet, keep the upper payload
    const u64 payload = (magnitude & 0xfffffffffffffull) >> (52 - man_bits);
    return static_cast<u16>(sign | infinity | (1u << (man_bits - 1)) | payload);
  }
  if (magnitude == 0x7ff0000000000000ull) return sign | infinity;
  if (magnitude == 0) return sign;
  const int bias = (1 << (exp_bits - 1)) - 1;
  int exponent = static_cast<int>(magnitude >> 52) - 1023;
  u64 significand = (magnitude & 0xfffffffffffffull) | 0x10000000000000ull;
  if (exponent < -1022) return sign;  // a binary64 denormal lies far below half the smallest denormal here
  int drop = 52 - man_bits;
  const int smallest = 1 - bias;
  if (exponent < smallest) {
    drop += smallest - exponent;
    exponent = smallest;
  }
  if (drop > 62) return sign;
  u64 kept = significand >> drop;
  const u64 rest = significand & ((1ull << drop) - 1), half = 1ull << (drop - 1);
  if (rest > half || (rest == half && (kept & 1))) ++kept;
  // A carry out of the mantissa walks into the exponent by plain addition; a denormal has exponent field 0.
  const u64 hidden = 1ull << man_bits;
  const u64 field = kept >= hidden ? (static_cast<u64>(exponent + bias) << man_bits) + (kept - hidden) : kept;
  return static_cast<u16>(sign | (field >= infinity ? infinity : static_cast<u16>(field)));
}
}  // namespace

std::string_view dtype_name(DType type) { return names[static_cast<std::size_t>(type)]; }

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 1; i < names.size(); ++i)
    if (names[i] == name) return static_cast<DType>(i);
  return DType::none;
}

u16 f64_to_f16_bits(f64 value) { return narrow(value, 5, 10); }
u16 f32_to_f16_bits(f32 value) { return narrow(f64{value}, 5, 10); }  // widening first is exact
u16 f64_to_bf16_bits(f64 value) { return narrow(value, 8, 7); }

u16 f32_to_bf16_bits(f32 value) {
  const u32 in = std::bit_cast<u32>(value);
  if ((in & 0x7fffffffu) > 0x7f800000u) return static_cast<u16>((in >> 16) | 0x40u);
  return static_cast<u16>((in + 0x7fffu + ((in >> 16) & 1u)) >> 16);
}

f32 f16_bits_to_f32(u16 bits) {
  const u32 sign = static_cast<u32>(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
  if (exponent == 31) return std::bit_cast<f32>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    const f32 magnitude = static_cast<f32>(mantissa) * 0x1p-24f;  // exact
    return std::bit_cast<f32>(std::bit_cast<u32>(magnitude) | sign);
  }
  return std::bit_cast<f32>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

}  // namespace iron
