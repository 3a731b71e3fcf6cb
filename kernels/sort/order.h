// A total order of floats as unsigned integers, so that sorting never meets a NaN that compares with nothing.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// The place of a value in IEEE 754's totalOrder: -NaN, -inf, ..., -0, +0, ..., +inf, +NaN. Different bits have
/// different keys.
template <class T>
Val<u32> order_key(const Val<T>& v) {
  if constexpr (std::same_as<T, f32>) {
    const auto bits = bitcast<u32>(v);
    return bits ^ select<u32>(bits >= 0x80000000u, 0xffffffffu, 0x80000000u);
  } else {
    const auto bits = cast<u32>(bitcast<u16>(v));
    return bits ^ select<u32>(bits >= 0x8000u, 0xffffu, 0x8000u);
  }
}
/// The value with that key.
template <class T>
Val<T> from_order_key(const Val<u32>& key) {
  if constexpr (std::same_as<T, f32>)
    return bitcast<f32>(key ^ select<u32>(key >= 0x80000000u, 0x80000000u, 0xffffffffu));
  else
    return bitcast<T>(cast<u16>(key ^ select<u32>(key >= 0x8000u, 0x8000u, 0xffffu)));
}

/// totalOrder on the host, for oracles: by sign and magnitude of the bits.
template <class T>
bool ordered_before(T a, T b) {
  const auto place = [](T v) -> i64 {
    u64 bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    const u64 sign = u64{1} << (8 * sizeof v - 1);
    return bits & sign ? -1 - static_cast<i64>(bits & ~sign) : static_cast<i64>(bits);
  };
  return place(a) < place(b);
}

}  // namespace iron::kernels
