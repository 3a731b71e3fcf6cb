// The element types of kernels, as host C++ types, and their run-time tags.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace iron {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using i8 = std::int8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;
using f32 = float;
using f64 = double;

static_assert(std::endian::native == std::endian::little, "Iron's storage formats are little-endian");

/// IEEE 754 binary16, stored as its bits. Conversions round once, to nearest even, and keep denormals.
struct f16 {
  u16 bits = 0;
  f16() = default;
  explicit f16(f32 value);
  explicit f16(f64 value);
  explicit operator f32() const;
  explicit operator f64() const { return f64{static_cast<f32>(*this)}; }
  static f16 from_bits(u16 b) {
    f16 v;
    v.bits = b;
    return v;
  }
  bool operator==(const f16&) const = default;
};

/// bfloat16: the upper half of a binary32, stored as its bits. Conversions round once, to nearest even.
struct bf16 {
  u16 bits = 0;
  bf16() = default;
  explicit bf16(f32 value);
  explicit bf16(f64 value);
  explicit operator f32() const { return std::bit_cast<f32>(static_cast<u32>(bits) << 16); }
  explicit operator f64() const { return f64{static_cast<f32>(*this)}; }
  static bf16 from_bits(u16 b) {
    bf16 v;
    v.bits = b;
    return v;
  }
  bool operator==(const bf16&) const = default;
};

/// The type of ids, ranges and subscripts: a mathematical integer, materialised as 32 or 64 bits by the launch
/// contract.
struct Index {};

/// Run-time tag of an element type. The order is stable: it is written into cache keys.
enum class DType : u8 { none, boolean, i8, u8, i16, u16, i32, u32, i64, u64, f16, bf16, f32, f64, index };
inline constexpr int dtype_count = 15;

/// The name used in IR text and on the command line: "f32", "bool", "index".
std::string_view dtype_name(DType type);
/// The tag for a name, or DType::none.
DType dtype_from_name(std::string_view name);

/// Storage size in bytes; 1 for bool, 8 for index (which is never stored).
constexpr u32 dtype_size(DType type) {
  switch (type) {
    case DType::none:
      return 0;
    case DType::boolean:
    case DType::i8:
    case DType::u8:
      return 1;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return 2;
    case DType::i32:
    case DType::u32:
    case DType::f32:
      return 4;
    case DType::i64:
    case DType::u64:
    case DType::f64:
    case DType::index:
      return 8;
  }
  return 0;
}
constexpr u32 dtype_bits(DType type) { return type == DType::boolean ? 1 : dtype_size(type) * 8; }
constexpr bool is_float(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64; }
constexpr bool is_signed_int(DType t) {
  return t == DType::i8 || t == DType::i16 || t == DType::i32 || t == DType::i64;
}
constexpr bool is_unsigned_int(DType t) {
  return t == DType::u8 || t == DType::u16 || t == DType::u32 || t == DType::u64;
}
/// Machine integers: `index` is not one of them.
constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }

template <class T>
inline constexpr DType dtype_of = DType::none;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<i8> = DType::i8;
template <>
inline constexpr DType dtype_of<u8> = DType::u8;
template <>
inline constexpr DType dtype_of<i16> = DType::i16;
template <>
inline constexpr DType dtype_of<u16> = DType::u16;
template <>
inline constexpr DType dtype_of<i32> = DType::i32;
template <>
inline constexpr DType dtype_of<u32> = DType::u32;
template <>
inline constexpr DType dtype_of<i64> = DType::i64;
template <>
inline constexpr DType dtype_of<u64> = DType::u64;
template <>
inline constexpr DType dtype_of<f16> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<f32> = DType::f32;
template <>
inline constexpr DType dtype_of<f64> = DType::f64;
template <>
inline constexpr DType dtype_of<Index> = DType::index;

/// Bit conversions between the float formats (round to nearest even, one rounding, denormals kept, NaN quieted).
u16 f32_to_f16_bits(f32 value);
u16 f64_to_f16_bits(f64 value);
f32 f16_bits_to_f32(u16 bits);
u16 f32_to_bf16_bits(f32 value);
u16 f64_to_bf16_bits(f64 value);

inline f16::f16(f32 value) : bits(f32_to_f16_bits(value)) {}
inline f16::f16(f64 value) : bits(f64_to_f16_bits(value)) {}
inline f16::operator f32() const { return f16_bits_to_f32(bits); }
inline bf16::bf16(f32 value) : bits(f32_to_bf16_bits(value)) {}
inline bf16::bf16(f64 value) : bits(f64_to_bf16_bits(value)) {}

}  // namespace iron
