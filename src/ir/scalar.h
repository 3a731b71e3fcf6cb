// The scalar ops on native numbers, as functors: the evaluator applies them once, the interpreter in loops over lanes.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#include "iron/types.h"

namespace iron::ir::scalar {

/// How an element type is stored and computed: `Store` holds its bits, `Num` is what ops work on (f32 for 16-bit
/// floats).
template <DType D>
struct Rep;
template <class T>
struct NativeRep {
  using Store = T;
  using Num = T;
  static Num load(Store v) { return v; }
  static Store store(Num v) { return v; }
};
template <>
struct Rep<DType::boolean> : NativeRep<u8> {};
template <>
struct Rep<DType::i8> : NativeRep<i8> {};
template <>
struct Rep<DType::u8> : NativeRep<u8> {};
template <>
struct Rep<DType::i16> : NativeRep<i16> {};
template <>
struct Rep<DType::u16> : NativeRep<u16> {};
template <>
struct Rep<DType::i32> : NativeRep<i32> {};
template <>
struct Rep<DType::u32> : NativeRep<u32> {};
template <>
struct Rep<DType::i64> : NativeRep<i64> {};
template <>
struct Rep<DType::u64> : NativeRep<u64> {};
template <>
struct Rep<DType::f32> : NativeRep<f32> {};
template <>
struct Rep<DType::f64> : NativeRep<f64> {};
template <>
struct Rep<DType::index> : NativeRep<i64> {};
template <>
struct Rep<DType::f16> {
  using Store = u16;
  using Num = f32;
  static Num load(Store v) { return f16_bits_to_f32(v); }
  static Store store(Num v) { return f32_to_f16_bits(v); }
};
template <>
struct Rep<DType::bf16> {
  using Store = u16;
  using Num = f32;
  static Num load(Store v) { return std::bit_cast<f32>(static_cast<u32>(v) << 16); }
  static Store store(Num v) { return f32_to_bf16_bits(v); }
};

[[noreturn]] void no_element_type();
/// Calls f with the element type as a template argument. Throws iron::Error (EVAL01) for none.
template <class F>
auto with_dtype(DType type, F&& f) {
  switch (type) {
    case DType::boolean:
      return f.template operator()<DType::boolean>();
    case DType::i8:
      return f.template operator()<DType::i8>();
    case DType::u8:
      return f.template operator()<DType::u8>();
    case DType::i16:
      return f.template operator()<DType::i16>();
    case DType::u16:
      return f.template operator()<DType::u16>();
    case DType::i32:
      return f.template operator()<DType::i32>();
    case DType::u32:
      return f.template operator()<DType::u32>();
    case DType::i64:
      return f.template operator()<DType::i64>();
    case DType::u64:
      return f.template operator()<DType::u64>();
    case DType::f16:
      return f.template operator()<DType::f16>();
    case DType::bf16:
      return f.template operator()<DType::bf16>();
    case DType::f32:
      return f.template operator()<DType::f32>();
    case DType::f64:
      return f.template operator()<DType::f64>();
    case DType::index:
      return f.template operator()<DType::index>();
    case DType::none:
      break;
  }
  no_element_type();
}

template <u32 Bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = u8;
};
template <>
struct UnsignedOf<2> {
  using type = u16;
};
template <>
struct UnsignedOf<4> {
  using type = u32;
};
template <>
struct UnsignedOf<8> {
  using type = u64;
};
template <class T>
using Bits = typename UnsignedOf<sizeof(T)>::type;
/// Unsigned and at least 32 bits wide, so that C++ promotion never makes an overflow undefined.
template <class T>
using Wide = std::conditional_t<(sizeof(T) < 4), u32, Bits<T>>;

template <class T>
inline constexpr bool floating = std::is_floating_point_v<T>;
template <class T>
inline constexpr int width = static_cast<int>(sizeof(T) * 8);

/// Arithmetic makes one NaN only, so that folding gives the same bits under every host compiler (NaNs are one class,
/// R2).
template <class T>
T quiet(T v) {
  if constexpr (floating<T>)
    return v == v ? v : std::numeric_limits<T>::quiet_NaN();
  else
    return v;
}

struct Add {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (floating<T>)
      return quiet(a + b);
    else
      return static_cast<T>(static_cast<Wide<T>>(a) + static_cast<Wide<T>>(b));
  }
};
struct Sub {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (floating<T>)
      return quiet(a - b);
    else
      return static_cast<T>(static_cast<Wide<T>>(a) - static_cast<Wide<T>>(b));
  }
};
struct Mul {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (floating<T>)
      return quiet(a * b);
    else
      return static_cast<T>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
  }
};
struct Div {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (floating<T>)
      return quiet(a / b);
    else {
      if (b == 0) return static_cast<T>(~Bits<T>{0});
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));  // MIN / -1 is MIN
      return static_cast<T>(a / b);
    }
  }
};
struct Rem {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (floating<T>)
      return quiet(std::fmod(a, b));
    else {
      if (b == 0) return a;
      if constexpr (std::is_signed_v<T>)
        if (b == -1) return 0;
      return static_cast<T>(a % b);
    }
  }
};
struct Min {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (floating<T>) {
      if (a != a) return quiet(b);
      if (b != b) return a;
      if (a == b)
        return std::bit_cast<T>(
            static_cast<Bits<T>>(std::bit_cast<Bits<T>>(a) | std::bit_cast<Bits<T>>(b)));  // -0 wins
    }
    return b < a ? b : a;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (floating<T>) {
      if (a != a) return quiet(b);
      if (b != b) return a;
      if (a == b)
        return std::bit_cast<T>(
            static_cast<Bits<T>>(std::bit_cast<Bits<T>>(a) & std::bit_cast<Bits<T>>(b)));  // +0 wins
    }
    return a < b ? b : a;
  }
};
struct Fma {
  template <class T>
  static T apply(T a, T b, T c) {
    return quiet(std::fma(a, b, c));
  }
};
struct Neg {  // of integers; floats flip their sign bit
  template <class T>
  static T apply(T a) {
    return static_cast<T>(Wide<T>{0} - static_cast<Wide<T>>(a));
  }
};
struct Abs {
  template <class T>
  static T apply(T a) {
    if constexpr (std::is_signed_v<T>)
      return a < 0 ? Neg::apply(a) : a;
    else
      return a;
  }
};
struct Sign {
  template <class T>
  static T apply(T a) {
    if constexpr (floating<T>)
      return a > 0 ? T{1} : a < 0 ? T{-1} : a == 0 ? T{0} : std::numeric_limits<T>::quiet_NaN();
    else if constexpr (std::is_signed_v<T>)
      return static_cast<T>((a > 0) - (a < 0));
    else
      return static_cast<T>(a != 0);
  }
};
struct MulHi {
  template <class T>
  static T apply(T a, T b) {
    if constexpr (sizeof(T) < 8) {
      using Double = std::conditional_t<std::is_signed_v<T>, i64, u64>;
      return static_cast<T>((static_cast<Double>(a) * static_cast<Double>(b)) >> width<T>);
    } else {
      // Schoolbook in halves: no 128-bit type in ISO C++.
      const u64 x = static_cast<u64>(a), y = static_cast<u64>(b);
      const u64 x0 = x & 0xffffffffu, x1 = x >> 32, y0 = y & 0xffffffffu, y1 = y >> 32;
      const u64 mid = x1 * y0 + ((x0 * y0) >> 32), low = x0 * y1 + (mid & 0xffffffffu);
      u64 high = x1 * y1 + (mid >> 32) + (low >> 32);
      if constexpr (std::is_signed_v<T>) high -= (a < 0 ? y : 0) + (b < 0 ? x : 0);
      return static_cast<T>(high);
    }
  }
};
struct And {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(~a);
  }
};
template <class T>
int shift_amount(T b) {
  return static_cast<int>(static_cast<Bits<T>>(b) & (width<T> - 1));
}
struct Shl {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(static_cast<Wide<T>>(a) << shift_amount(b));
  }
};
struct Shr {
  template <class T>
  static T apply(T a, T b) {
    return static_cast<T>(a >> shift_amount(b));
  }
};
struct Popcount {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::popcount(static_cast<Bits<T>>(a)));
  }
};
struct Clz {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::countl_zero(static_cast<Bits<T>>(a)));
  }
};
struct Ctz {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(std::countr_zero(static_cast<Bits<T>>(a)));
  }
};
struct BitReverse {
  template <class T>
  static T apply(T a) {
    u64 v = static_cast<Bits<T>>(a);
    v = ((v >> 1) & 0x5555555555555555ull) | ((v & 0x5555555555555555ull) << 1);
    v = ((v >> 2) & 0x3333333333333333ull) | ((v & 0x3333333333333333ull) << 2);
    v = ((v >> 4) & 0x0f0f0f0f0f0f0f0full) | ((v & 0x0f0f0f0f0f0f0f0full) << 4);
    v = ((v >> 8) & 0x00ff00ff00ff00ffull) | ((v & 0x00ff00ff00ff00ffull) << 8);
    v = ((v >> 16) & 0x0000ffff0000ffffull) | ((v & 0x0000ffff0000ffffull) << 16);
    v = (v >> 32) | (v << 32);
    return static_cast<T>(v >> (64 - width<T>));
  }
};
struct FunnelShl {
  template <class T>
  static T apply(T a, T b, T c) {
    const int s = shift_amount(c);
    if (s == 0) return a;
    return static_cast<T>((static_cast<Wide<T>>(a) << s) |
                          (static_cast<Wide<T>>(static_cast<Bits<T>>(b)) >> (width<T> - s)));
  }
};
struct FunnelShr {
  template <class T>
  static T apply(T a, T b, T c) {
    const int s = shift_amount(c);
    if (s == 0) return b;
    return static_cast<T>((static_cast<Wide<T>>(a) << (width<T> - s)) |
                          (static_cast<Wide<T>>(static_cast<Bits<T>>(b)) >> s));
  }
};
/// A count of bits, read as unsigned, cut to those from bit `at` upwards.
template <class T>
int bit_count(T count, int at) {
  const auto there = static_cast<Bits<T>>(width<T> - at);
  return static_cast<int>(std::min(static_cast<Bits<T>>(count), there));
}
struct BitExtract {
  template <class T>
  static T apply(T a, T b, T c) {
    const int at = shift_amount(b), n = bit_count(c, at);
    if (n == 0) return 0;
    const auto top = static_cast<T>(static_cast<Wide<T>>(a) << (width<T> - at - n));
    return static_cast<T>(top >> (width<T> - n));  // arithmetic for signed types
  }
};
struct BitInsert {
  template <class T>
  static T apply(T a, T b, T c, T d) {
    const int at = shift_amount(c), n = bit_count(d, at);
    if (n == 0) return a;
    const auto ones = static_cast<Bits<T>>(static_cast<Bits<T>>(~Bits<T>{0}) >> (width<T> - n));
    const auto mask = static_cast<Wide<T>>(ones) << at;
    return static_cast<T>((static_cast<Wide<T>>(a) & ~mask) | ((static_cast<Wide<T>>(b) << at) & mask));
  }
};

struct Eq {
  template <class T>
  static u8 apply(T a, T b) {
    return a == b;
  }
};
struct Ne {
  template <class T>
  static u8 apply(T a, T b) {
    return a != b;
  }
};
struct Lt {
  template <class T>
  static u8 apply(T a, T b) {
    return a < b;
  }
};
struct Le {
  template <class T>
  static u8 apply(T a, T b) {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  static u8 apply(T a, T b) {
    return a > b;
  }
};
struct Ge {
  template <class T>
  static u8 apply(T a, T b) {
    return a >= b;
  }
};
struct IsNan {
  template <class T>
  static u8 apply(T a) {
    return a != a;
  }
};

struct Sqrt {
  template <class T>
  static T apply(T a) {
    return quiet(std::sqrt(a));
  }
};
struct Rsqrt {
  template <class T>
  static T apply(T a) {
    return quiet(T{1} / std::sqrt(a));
  }
};
struct Recip {
  template <class T>
  static T apply(T a) {
    return quiet(T{1} / a);
  }
};
struct Floor {
  template <class T>
  static T apply(T a) {
    return quiet(std::floor(a));
  }
};
struct Ceil {
  template <class T>
  static T apply(T a) {
    return quiet(std::ceil(a));
  }
};
struct Trunc {
  template <class T>
  static T apply(T a) {
    return quiet(std::trunc(a));
  }
};
struct Round {
  template <class T>
  static T apply(T a) {
    return quiet(std::nearbyint(a));
  }  // the host keeps the default rounding
};
struct Ldexp {
  template <class T>
  static T apply(T a, i32 b) {
    return quiet(std::ldexp(a, b));
  }
};

/// c + four products of bytes, in 32 bits.
inline u32 dot4_i8(u32 a, u32 b, u32 c, bool a_signed, bool b_signed) {
  for (int i = 0; i < 32; i += 8) {
    const u8 x = static_cast<u8>(a >> i), y = static_cast<u8>(b >> i);
    const i32 p = a_signed ? i32{static_cast<i8>(x)} : i32{x}, q = b_signed ? i32{static_cast<i8>(y)} : i32{y};
    c += static_cast<u32>(p * q);
  }
  return c;
}

/// Float to integer: truncates, saturates, NaN gives 0 (R3).
template <class I, class F>
I saturate(F v) {
  const F above = std::ldexp(F{1}, std::numeric_limits<I>::digits);
  if (v != v) return 0;
  if (v >= above) return std::numeric_limits<I>::max();
  if (v <= static_cast<F>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  return static_cast<I>(v);
}

/// An f64 that rounds to any format of up to 51 bits as the integer itself would: exact, or with a sticky last bit.
template <class I>
f64 integer_to_odd(I v) {
  if constexpr (sizeof(I) < 8)
    return static_cast<f64>(v);
  else {
    const bool negative = v < 0;
    const u64 magnitude = negative ? u64{0} - static_cast<u64>(v) : static_cast<u64>(v);
    f64 out = 0;
    if (magnitude >> 53)
      out = static_cast<f64>((magnitude >> 11) | ((magnitude & 2047u) != 0)) * 2048.0;
    else
      out = static_cast<f64>(magnitude);
    return negative ? -out : out;
  }
}

/// The numeric conversion of a native number to an element type: one rounding, or wrapping, or saturation; to bool it
/// asks whether the number differs from zero.
template <DType To, class N>
typename Rep<To>::Store cast_to(N v) {
  using Store = typename Rep<To>::Store;
  if constexpr (To == DType::boolean)
    return v != 0;
  else if constexpr (To == DType::f16 || To == DType::bf16) {
    const auto narrow = [](auto x) { return To == DType::f16 ? f64_to_f16_bits(x) : f64_to_bf16_bits(x); };
    if constexpr (std::is_same_v<N, f32>)
      return Rep<To>::store(quiet(v));
    else if constexpr (floating<N>)
      return narrow(quiet(v));
    else
      return narrow(integer_to_odd(v));
  } else if constexpr (floating<Store>)
    return quiet(static_cast<Store>(v));
  else if constexpr (floating<N>)
    return saturate<Store>(v);
  else
    return static_cast<Store>(v);
}

}  // namespace iron::ir::scalar
