// Conversions between element types, each with exactly the roundings that R2 and R3 state.
#include "cpu/arith.h"

namespace iron::cpu {

Num num_of(DType type) {
  switch (type) {
    case DType::boolean:
      return Num::i1;
    case DType::i8:
    case DType::u8:
      return Num::i8;
    case DType::i16:
    case DType::u16:
    case DType::f16:
    case DType::bf16:
      return Num::i16;
    case DType::i32:
    case DType::u32:
      return Num::i32;
    case DType::i64:
    case DType::u64:
    case DType::index:
      return Num::i64;
    case DType::f32:
      return Num::f32;
    case DType::f64:
      return Num::f64;
    case DType::none:
      break;
  }
  return Num::i32;
}

V Arith::widen(DType elem, V v) {
  if (elem != DType::f16 && elem != DType::bf16) return v;
  if (elem == DType::f16 && t_.f16c) return c_.half_to_float(v);
  V wide = c_.conv(Conv::zext, Num::i32, v);
  if (elem == DType::bf16) return as_float(c_.bin(Bin::shl, wide, k(wide, 16)));
  // Exponents are rebiased by a multiplication, which normalises denormals as well.
  V magnitude = c_.bin(Bin::and_, wide, k(wide, 0x7fff));
  V shifted = c_.bin(Bin::shl, magnitude, k(wide, 13));
  V finite = as_int(c_.bin(Bin::fmul, as_float(shifted), kf(as_float(shifted), 0x1p112)));
  V special = c_.bin(Bin::or_, shifted, k(wide, 0x7f800000));
  V value = c_.select(c_.cmp(Cmp::uge, magnitude, k(wide, 0x7c00)), special, finite);
  V sign = c_.bin(Bin::shl, c_.bin(Bin::and_, wide, k(wide, 0x8000)), k(wide, 16));
  return as_float(c_.bin(Bin::or_, value, sign));
}

V Arith::narrow(DType elem, V v) {
  if (elem != DType::f16 && elem != DType::bf16) return v;
  if (elem == DType::f16 && t_.f16c) return c_.float_to_half(v);
  V u = as_int(v);
  if (elem == DType::bf16) {
    V odd = c_.bin(Bin::and_, c_.bin(Bin::lshr, u, k(u, 16)), k(u, 1));
    V rounded = c_.bin(Bin::lshr, c_.bin(Bin::add, c_.bin(Bin::add, u, k(u, 0x7fff)), odd), k(u, 16));
    return c_.conv(Conv::trunc, Num::i16, c_.select(c_.cmp(Cmp::uno, v, v), k(u, 0x7fc0), rounded));
  }
  V sign = c_.bin(Bin::and_, c_.bin(Bin::lshr, u, k(u, 16)), k(u, 0x8000));
  V x = c_.bin(Bin::and_, u, k(u, 0x7fffffff));
  V odd = c_.bin(Bin::and_, c_.bin(Bin::lshr, x, k(u, 13)), k(u, 1));
  V normal = c_.bin(Bin::add, c_.bin(Bin::add, x, k(u, 0xfff)), odd);
  normal = c_.bin(Bin::lshr, c_.bin(Bin::sub, normal, k(u, 0x38000000)), k(u, 13));
  // Adding 0.5 puts the unit of f16 denormals into the last bit of an f32, so that the addition rounds.
  V tiny = c_.bin(Bin::sub, as_int(c_.bin(Bin::fadd, as_float(x), kf(v, 0.5))), k(u, 0x3f000000));
  V r = c_.select(c_.cmp(Cmp::ult, x, k(u, 0x38800000)), tiny, normal);
  r = c_.select(c_.cmp(Cmp::uge, x, k(u, 0x477ff000)), k(u, 0x7c00), r);
  r = c_.select(c_.cmp(Cmp::ugt, x, k(u, 0x7f800000)), k(u, 0x7e00), r);
  return c_.conv(Conv::trunc, Num::i16, c_.bin(Bin::or_, r, sign));
}

V Arith::odd_float(V d) {
  V f = c_.conv(Conv::fptrunc, Num::f32, d);
  V back = c_.conv(Conv::fpext, Num::f64, f);
  V bits = as_int(f);
  V low = c_.cmp(Cmp::olt, c_.fn(Fn::fabs, back), c_.fn(Fn::fabs, d));
  V high = c_.cmp(Cmp::ogt, c_.fn(Fn::fabs, back), c_.fn(Fn::fabs, d));
  V even = c_.cmp(Cmp::eq, c_.bin(Bin::and_, bits, k(bits, 1)), k(bits, 0));
  V moved =
      c_.select(low, c_.bin(Bin::add, bits, k(bits, 1)), c_.select(high, c_.bin(Bin::sub, bits, k(bits, 1)), bits));
  return as_float(c_.select(even, moved, bits));
}

V Arith::odd_double(DType from, V v) {
  const bool sign = !is_unsigned_int(from);
  const Conv to_float = sign ? Conv::sitofp : Conv::uitofp;
  if (dtype_bits(from) < 64) return c_.conv(to_float, Num::f64, v);
  // Over 53 bits: a sticky bit in place of the lowest eleven decides every later rounding as they would.
  V low = c_.bin(Bin::and_, v, k(v, 2047));
  V sticky = c_.select(c_.cmp(Cmp::ne, low, k(v, 0)), k(v, 2048), k(v, 0));
  V cut = c_.bin(Bin::or_, c_.bin(Bin::sub, v, low), sticky);
  V top = c_.bin(sign ? Bin::ashr : Bin::lshr, v, k(v, 53));
  V small = c_.cmp(Cmp::eq, top, k(v, 0));
  if (sign) small = c_.bin(Bin::or_, small, c_.cmp(Cmp::eq, top, k(v, ~u64{0})));
  return c_.conv(to_float, Num::f64, c_.select(small, v, cut));
}

V Arith::cast(DType to, DType from, V v) {
  if (to == from) return v;
  const bool from_float = is_float(from), to_float = is_float(to), narrow16 = to == DType::f16 || to == DType::bf16;
  const Num n = num_of(to);
  if (to == DType::boolean) {
    if (!from_float) return c_.cmp(Cmp::ne, v, k(v, 0));
    V w = widen(from, v);
    return c_.cmp(Cmp::une, w, c_.zero_like(w));
  }
  if (from == DType::boolean) {
    if (!to_float) return c_.conv(Conv::zext, n, v);
    if (narrow16)
      return c_.select(v, constant(to, to == DType::f16 ? 0x3c00 : 0x3f80, c_.lanes(v)), constant(to, 0, c_.lanes(v)));
    return c_.conv(Conv::uitofp, n, v);
  }
  if (from_float) {
    V w = widen(from, v);  // f32 or f64
    if (narrow16) return narrow(to, from == DType::f64 ? odd_float(w) : w);
    if (to == DType::f32) return from == DType::f64 ? c_.conv(Conv::fptrunc, n, w) : w;
    if (to == DType::f64) return c_.conv(Conv::fpext, n, w);
    return c_.conv(is_unsigned_int(to) ? Conv::fptoui_sat : Conv::fptosi_sat, n, w);
  }
  const bool sign = !is_unsigned_int(from);
  if (narrow16) {
    if (dtype_bits(from) <= 16) return narrow(to, c_.conv(sign ? Conv::sitofp : Conv::uitofp, Num::f32, v));
    return narrow(to, odd_float(odd_double(from, v)));
  }
  if (to_float) return c_.conv(sign ? Conv::sitofp : Conv::uitofp, n, v);
  const u32 a = bits_of(num_of(from)), b = bits_of(n);
  if (a == b) return v;
  return c_.conv(b < a ? Conv::trunc : sign ? Conv::sext : Conv::zext, n, v);
}

V Arith::decode(ir::Opcode code, V a) {
  const auto part = [&](u64 mask, u64 shift) {
    return c_.bin(Bin::shl, c_.bin(Bin::and_, a, k(a, mask)), k(a, shift));
  };
  if (code == ir::Opcode::DecodeE8M0) {
    V b = c_.bin(Bin::and_, a, k(a, 255));
    V r = c_.select(c_.cmp(Cmp::eq, b, k(a, 0)), k(a, 0x00400000), c_.bin(Bin::shl, b, k(a, 23)));
    return as_float(c_.select(c_.cmp(Cmp::eq, b, k(a, 255)), k(a, 0x7fc00000), r));
  }
  // A shift into f32's fields, then a multiplication that rebiases the exponent and normalises denormals.
  const bool e2m1 = code == ir::Opcode::DecodeE2M1, e4m3 = code == ir::Opcode::DecodeE4M3;
  V m = c_.bin(Bin::and_, a, k(a, e2m1 ? 7 : 0x7f));
  V placed = as_float(c_.bin(Bin::shl, m, k(a, e2m1 ? 22 : e4m3 ? 20 : 21)));
  V r = as_int(c_.bin(Bin::fmul, placed, kf(placed, e2m1 ? 0x1p126 : e4m3 ? 0x1p120 : 0x1p112)));
  if (code == ir::Opcode::DecodeE5M2) r = c_.select(c_.cmp(Cmp::eq, m, k(a, 0x7c)), k(a, 0x7f800000), r);
  r = c_.bin(Bin::or_, r, e2m1 ? part(8, 28) : part(0x80, 24));
  if (!e2m1) r = c_.select(c_.cmp(Cmp::ugt, m, k(a, e4m3 ? 0x7e : 0x7c)), k(a, 0x7fc00000), r);
  return as_float(r);
}

}  // namespace iron::cpu
