// Floats of a type known at run time, as bits and as numbers.
#pragma once

#include <bit>

#include "iron/types.h"

namespace iron::ir {

/// The bits of v rounded once to the float type, nearest even. The type must be a float type.
inline u64 float_bits(DType type, f64 v) {
  switch (type) {
    case DType::f16:
      return f64_to_f16_bits(v);
    case DType::bf16:
      return f64_to_bf16_bits(v);
    case DType::f32:
      return std::bit_cast<u32>(static_cast<f32>(v));
    default:
      return std::bit_cast<u64>(v);
  }
}

/// The number that the bits mean; every value of the float types fits.
inline f64 float_value(DType type, u64 bits) {
  switch (type) {
    case DType::f16:
      return f64{f16_bits_to_f32(static_cast<u16>(bits))};
    case DType::bf16:
      return f64{std::bit_cast<f32>(static_cast<u32>(bits) << 16)};
    case DType::f32:
      return f64{std::bit_cast<f32>(static_cast<u32>(bits))};
    default:
      return std::bit_cast<f64>(bits);
  }
}

/// Whether the bits are a NaN of the type; false for types that have none.
inline bool is_nan(DType type, u64 bits) {
  switch (type) {
    case DType::f16:
      return (bits & 0x7fff) > 0x7c00;
    case DType::bf16:
      return (bits & 0x7fff) > 0x7f80;
    case DType::f32:
      return (bits & 0x7fffffff) > 0x7f800000;
    case DType::f64:
      return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000;
    default:
      return false;
  }
}

}  // namespace iron::ir
