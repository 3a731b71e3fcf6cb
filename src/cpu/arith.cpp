// Arithmetic, comparisons and bit operations.
#include "cpu/arith.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <vector>

#include "iron/error.h"

namespace iron::cpu {

using ir::Opcode;

V Arith::apply(Opcode code, DType elem, std::span<const V> operands, u64 imm) {
  std::array<V, 4> v{};
  std::copy(operands.begin(), operands.end(), v.begin());
  switch (code) {
    case Opcode::Select:
      return c_.select(v[0], v[1], v[2]);
    case Opcode::DecodeE2M1:
    case Opcode::DecodeE4M3:
    case Opcode::DecodeE5M2:
    case Opcode::DecodeE8M0:
      return decode(code, v[0]);
    case Opcode::Eq:
    case Opcode::Ne:
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge:
      return compare(code, elem, v[0], v[1]);
    default:
      break;
  }
  if (elem == DType::boolean) return bools(code, v.data());
  if (!is_float(elem)) return integers(code, elem, v.data(), imm);
  if (code == Opcode::IsNan) {
    V w = widen(elem, v[0]);
    return c_.cmp(Cmp::uno, w, w);
  }
  if (code == Opcode::Neg || code == Opcode::Abs) {
    const bool wide = elem == DType::f32 || elem == DType::f64;
    V bits = wide ? as_int(v[0]) : v[0];
    const u64 sign = u64{1} << (dtype_bits(elem) - 1);
    V r = code == Opcode::Neg ? c_.bin(Bin::xor_, bits, k(bits, sign)) : c_.bin(Bin::and_, bits, k(bits, sign - 1));
    return wide ? as_float(r) : r;
  }
  if (elem == DType::f32 || elem == DType::f64) return floats(code, v.data());
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (code != Opcode::Ldexp || i == 0) v[i] = widen(elem, v[i]);
  return narrow(elem, floats(code, v.data()));
}

V Arith::reduce(ir::ReduceKind kind, DType elem, V a, V b) {
  static constexpr Opcode ops[] = {Opcode::Add, Opcode::Mul, Opcode::Min, Opcode::Max,
                                   Opcode::And, Opcode::Or,  Opcode::Xor};
  return apply(ops[static_cast<int>(kind)], elem, {a, b});
}

V Arith::bools(Opcode code, V* v) {
  switch (code) {
    case Opcode::And:
      return c_.bin(Bin::and_, v[0], v[1]);
    case Opcode::Or:
      return c_.bin(Bin::or_, v[0], v[1]);
    case Opcode::Xor:
      return c_.bin(Bin::xor_, v[0], v[1]);
    case Opcode::Not:
      return c_.not_(v[0]);
    default:
      throw Error("CPU03", fmt::format("{} does not work on bools", ir::info(code).text));
  }
}

V Arith::compare(Opcode code, DType elem, V a, V b) {
  const int at = static_cast<int>(code) - static_cast<int>(Opcode::Eq);
  static constexpr Cmp on_float[] = {Cmp::oeq, Cmp::une, Cmp::olt, Cmp::ole, Cmp::ogt, Cmp::oge};
  static constexpr Cmp on_signed[] = {Cmp::eq, Cmp::ne, Cmp::slt, Cmp::sle, Cmp::sgt, Cmp::sge};
  static constexpr Cmp on_unsigned[] = {Cmp::eq, Cmp::ne, Cmp::ult, Cmp::ule, Cmp::ugt, Cmp::uge};
  if (is_float(elem)) return c_.cmp(on_float[at], widen(elem, a), widen(elem, b));
  return c_.cmp((is_signed_int(elem) || elem == DType::index ? on_signed : on_unsigned)[at], a, b);
}

V Arith::min_max(bool max, V a, V b) {
  // Beside a number other than zero a NaN gives the number, which is what a comparison gives that fails.
  f64 number = 0;
  if (c_.constant_real(a, number)) std::swap(a, b);
  if (c_.constant_real(b, number) && number == number && number != 0)
    return c_.select(c_.cmp(max ? Cmp::ogt : Cmp::olt, a, b), a, b);
  V r = c_.select(c_.cmp(max ? Cmp::ogt : Cmp::olt, a, b), a, b);
  // Equal operands differ at most in the sign of zero; a NaN in b gives a (a NaN in a has given b already).
  V ia = as_int(a), ib = as_int(b);
  r = c_.select(c_.cmp(Cmp::oeq, a, b), as_float(c_.bin(max ? Bin::and_ : Bin::or_, ia, ib)), r);
  return c_.select(c_.cmp(Cmp::uno, b, b), a, r);
}

V Arith::floats(Opcode code, V* v) {
  switch (code) {
    case Opcode::Add:
      return c_.bin(Bin::fadd, v[0], v[1]);
    case Opcode::Sub:
      return c_.bin(Bin::fsub, v[0], v[1]);
    case Opcode::Mul:
      return c_.bin(Bin::fmul, v[0], v[1]);
    case Opcode::Div:
      return c_.bin(Bin::fdiv, v[0], v[1]);
    case Opcode::Rem:
      return each_lane(v[0], v[1], nullptr, false);
    case Opcode::Min:
      return min_max(false, v[0], v[1]);
    case Opcode::Max:
      return min_max(true, v[0], v[1]);
    case Opcode::Fma:
      return fma(v[0], v[1], v[2]);
    case Opcode::Sign: {
      V zero = c_.zero_like(v[0]);
      V r = c_.select(c_.cmp(Cmp::ogt, v[0], zero), kf(v[0], 1),
                      c_.select(c_.cmp(Cmp::olt, v[0], zero), kf(v[0], -1), zero));
      return c_.select(c_.cmp(Cmp::uno, v[0], v[0]), v[0], r);
    }
    case Opcode::Sqrt:
    case Opcode::FastSqrt:
      return c_.fn(Fn::sqrt, v[0]);
    case Opcode::Rsqrt:
    case Opcode::FastRsqrt:
      return c_.bin(Bin::fdiv, kf(v[0], 1), c_.fn(Fn::sqrt, v[0]));
    case Opcode::Recip:
    case Opcode::FastRecip:
      return c_.bin(Bin::fdiv, kf(v[0], 1), v[0]);
    case Opcode::Floor:
    case Opcode::Ceil:
    case Opcode::Trunc:
    case Opcode::Round:
      return rounded(code, v[0]);
    case Opcode::Ldexp:
      return ldexp(v[0], v[1], std::numeric_limits<i32>::min(), std::numeric_limits<i32>::max());
    default:
      throw Error("CPU03", fmt::format("the CPU device has no code for {} on floats", ir::info(code).text),
                  "run expand_math first");
  }
}

V Arith::each_lane(V a, V b, V c, bool is_fma) {
  const bool single = c_.num(a) == Num::f32;
  const u32 n = c_.lanes(a);
  // Of f32 operands the exact remainder is an f32, so f64's function serves both.
  const u64 at = is_fma ? offsetof(HostServices, fma) : offsetof(HostServices, fmod);
  V fn = c_.load(c_.type(Num::ptr), c_.gep(c_.scratch(), at), 8);
  const auto one = [&](V x, V y, V z) {
    const auto wide = [&](V q) { return single ? c_.conv(Conv::fpext, Num::f64, q) : q; };
    V r = is_fma ? c_.call(fn, c_.type(Num::f64), {wide(x), wide(y), wide(z)})
                 : c_.call(fn, c_.type(Num::f64), {wide(x), wide(y)});
    return single ? c_.conv(Conv::fptrunc, Num::f32, r) : r;
  };
  if (!n) return one(a, b, c);
  // A loop over the lanes, which lie in the stack frame.
  const u32 size = single ? 4 : 8;
  const Ty scalar = c_.type(c_.num(a)), packet = c_.type(c_.num(a), n);
  std::vector<V> kept;
  for (V v : {a, b, c})
    if (v) kept.push_back(c_.alloca_array(packet, 1, 64)), c_.store(v, kept.back(), 64);
  Block before = c_.here(), run = c_.block("lane"), after = c_.block("lanes_done");
  c_.br(run);
  c_.set(run);
  V lane = c_.phi(c_.type(Num::i64));
  c_.incoming(lane, c_.i64(0), before);
  V offset = c_.bin(Bin::mul, lane, c_.i64(size));
  const auto element = [&](std::size_t i) {
    return i < kept.size() ? c_.load(scalar, c_.gep(kept[i], offset), size) : nullptr;
  };
  c_.store(one(element(0), element(1), element(2)), c_.gep(kept[0], offset), size);
  V next = c_.bin(Bin::add, lane, c_.i64(1));
  c_.incoming(lane, next, run);
  c_.br(c_.cmp(Cmp::ult, next, c_.i64(n)), run, after);
  c_.set(after);
  return c_.load(packet, kept[0], 64);
}

V Arith::fma(V a, V b, V c) {
  if (t_.fma) return c_.fn(Fn::fma, a, b, c);
  if (c_.num(a) == Num::f64) return each_lane(a, b, c, true);
  // The product is exact in f64; the sum is rounded to odd there, so that the last rounding is the only one.
  V p = c_.bin(Bin::fmul, c_.conv(Conv::fpext, Num::f64, a), c_.conv(Conv::fpext, Num::f64, b));
  V z = c_.conv(Conv::fpext, Num::f64, c);
  V s = c_.bin(Bin::fadd, p, z), bb = c_.bin(Bin::fsub, s, p);
  V err = c_.bin(Bin::fadd, c_.bin(Bin::fsub, p, c_.bin(Bin::fsub, s, bb)), c_.bin(Bin::fsub, z, bb));
  V bits = as_int(s);
  V inexact = c_.cmp(Cmp::ogt, c_.fn(Fn::fabs, err), kf(s, 0));  // false for NaN, which infinities give
  V even = c_.cmp(Cmp::eq, c_.bin(Bin::and_, bits, k(bits, 1)), k(bits, 0));
  V away = c_.cmp(Cmp::sge, c_.bin(Bin::xor_, as_int(err), bits), k(bits, 0));
  V moved = c_.select(away, c_.bin(Bin::add, bits, k(bits, 1)), c_.bin(Bin::sub, bits, k(bits, 1)));
  return c_.conv(Conv::fptrunc, Num::f32, as_float(c_.select(c_.bin(Bin::and_, inexact, even), moved, bits)));
}

V Arith::ldexp(DType elem, V a, V b, i64 least, i64 most) {
  return narrow(elem, ldexp(widen(elem, a), b, least, most));
}

V Arith::ldexp(V a, V b, i64 least, i64 most) {
  const bool single = c_.num(a) == Num::f32;
  const i64 lo = single ? -126 : -1022, hi = single ? 127 : 1023, mantissa = single ? 23 : 52;
  const auto clamp = [&](V x, i64 from, i64 to, i64 known_from, i64 known_to) {
    V l = k(x, static_cast<u64>(from)), h = k(x, static_cast<u64>(to));
    if (known_from < from) x = c_.select(c_.cmp(Cmp::slt, x, l), l, x);
    if (known_to > to) x = c_.select(c_.cmp(Cmp::sgt, x, h), h, x);
    return x;
  };
  const auto power = [&](V e) {
    V biased = c_.bin(Bin::add, e, k(e, static_cast<u64>(hi)));
    if (!single) biased = c_.conv(Conv::zext, Num::i64, biased);
    return as_float(c_.bin(Bin::shl, biased, k(biased, static_cast<u64>(mantissa))));
  };
  i64 exact = 0;
  if (c_.constant_int(b, exact)) least = most = exact;
  // Beyond these the result is zero or infinite whatever the operand.
  const i64 end = single ? 300 : 2200;
  V e = clamp(b, -end, end, least, most);
  least = std::clamp(least, -end, end), most = std::clamp(most, -end, end);
  // Up to three factors, the remainders first: a step that rounds can only precede a result of zero.
  std::vector<V> factors;
  for (;;) {
    V part = clamp(e, lo, hi, least, most);
    factors.push_back(power(part));
    if (least >= lo && most <= hi) break;
    e = c_.bin(Bin::sub, e, part);
    least = std::min<i64>(least - lo, 0), most = std::max<i64>(most - hi, 0);
  }
  for (std::size_t i = factors.size(); i-- > 0;) a = c_.bin(Bin::fmul, a, factors[i]);
  return a;
}

V Arith::rounded(Opcode code, V a) {
  if (t_.sse41) {
    const Fn f = code == Opcode::Floor   ? Fn::floor
                 : code == Opcode::Ceil  ? Fn::ceil
                 : code == Opcode::Trunc ? Fn::trunc
                                         : Fn::roundeven;
    return c_.fn(f, a);
  }
  const f64 magic = c_.num(a) == Num::f32 ? 0x1p23 : 0x1p52;
  V m = c_.fn(Fn::fabs, a);
  V near = c_.bin(Bin::fsub, c_.bin(Bin::fadd, m, kf(a, magic)), kf(a, magic));
  V has_fraction = c_.cmp(Cmp::olt, m, kf(a, magic));
  if (code == Opcode::Round) return c_.fn(Fn::copysign, c_.select(has_fraction, near, m), a);
  if (code == Opcode::Trunc) {
    V t = c_.select(c_.cmp(Cmp::ogt, near, m), c_.bin(Bin::fsub, near, kf(a, 1)), near);
    return c_.fn(Fn::copysign, c_.select(has_fraction, t, m), a);
  }
  V r = c_.fn(Fn::copysign, near, a);
  V fixed = code == Opcode::Floor ? c_.select(c_.cmp(Cmp::ogt, r, a), c_.bin(Bin::fsub, r, kf(a, 1)), r)
                                  : c_.select(c_.cmp(Cmp::olt, r, a), c_.bin(Bin::fadd, r, kf(a, 1)), r);
  return c_.fn(Fn::copysign, c_.select(has_fraction, fixed, a), a);
}

V Arith::divide(DType elem, V a, V b, bool remainder) {
  const bool sign = is_signed_int(elem) || elem == DType::index;
  const u32 bits = dtype_bits(elem);
  V zero = k(a, 0), ones = k(a, ~u64{0}), one = k(a, 1);
  V by_zero = c_.cmp(Cmp::eq, b, zero);
  V by_minus = sign ? c_.cmp(Cmp::eq, b, ones) : by_zero;
  i64 constant = 0;
  const bool plain = c_.constant_int(b, constant) && constant != 0 && (!sign || constant != -1);
  V safe = plain ? b : c_.select(c_.bin(Bin::or_, by_zero, by_minus), one, b);
  V q = nullptr;
  if (!plain && c_.lanes(a) && bits <= 32) {
    // A quotient in a float of more than twice the bits truncates to the integer quotient.
    const Num f = bits <= 16 ? Num::f32 : Num::f64;
    const Conv in = sign ? Conv::sitofp : Conv::uitofp, out = sign ? Conv::fptosi : Conv::fptoui;
    V x = c_.conv(in, f, a), y = c_.conv(in, f, safe);
    q = c_.bin(Bin::fdiv, x, y);
    q = bits < 32 ? c_.conv(Conv::trunc, num_of(elem), c_.conv(Conv::fptosi, Num::i32, q)) : c_.conv(out, Num::i32, q);
  } else {
    q = c_.bin(sign ? Bin::sdiv : Bin::udiv, a, safe);
  }
  if (remainder) {
    V r = c_.bin(Bin::sub, a, c_.bin(Bin::mul, q, safe));
    if (plain) return r;
    if (sign) r = c_.select(by_minus, zero, r);
    return c_.select(by_zero, a, r);
  }
  if (plain) return q;
  if (sign) q = c_.select(by_minus, c_.bin(Bin::sub, zero, a), q);
  return c_.select(by_zero, ones, q);
}

V Arith::mulhi(DType elem, V a, V b) {
  const bool sign = is_signed_int(elem) || elem == DType::index;
  const u32 bits = dtype_bits(elem);
  if (bits < 64) {
    const Num wide = bits == 8 ? Num::i16 : bits == 16 ? Num::i32 : Num::i64;
    const Conv ext = sign ? Conv::sext : Conv::zext;
    V p = c_.bin(Bin::mul, c_.conv(ext, wide, a), c_.conv(ext, wide, b));
    return c_.conv(Conv::trunc, num_of(elem), c_.bin(Bin::lshr, p, k(p, bits)));
  }
  V low = k(a, 0xffffffff), half = k(a, 32);
  V a0 = c_.bin(Bin::and_, a, low), a1 = c_.bin(Bin::lshr, a, half), b0 = c_.bin(Bin::and_, b, low),
    b1 = c_.bin(Bin::lshr, b, half);
  V mid = c_.bin(Bin::add, c_.bin(Bin::mul, a1, b0), c_.bin(Bin::lshr, c_.bin(Bin::mul, a0, b0), half));
  V cross = c_.bin(Bin::add, c_.bin(Bin::mul, a0, b1), c_.bin(Bin::and_, mid, low));
  V r = c_.bin(Bin::add, c_.bin(Bin::mul, a1, b1),
               c_.bin(Bin::add, c_.bin(Bin::lshr, mid, half), c_.bin(Bin::lshr, cross, half)));
  if (!sign) return r;
  const auto if_negative = [&](V x, V y) { return c_.bin(Bin::and_, c_.bin(Bin::ashr, x, k(x, 63)), y); };
  return c_.bin(Bin::sub, c_.bin(Bin::sub, r, if_negative(a, b)), if_negative(b, a));
}

V Arith::integers(Opcode code, DType elem, V* v, u64 imm) {
  const bool sign = is_signed_int(elem) || elem == DType::index;
  const u32 w = dtype_bits(elem);
  V a = v[0], b = v[1];
  const auto amount = [&](V x) { return c_.bin(Bin::and_, x, k(a, w - 1)); };
  switch (code) {
    case Opcode::Add:
      return c_.bin(Bin::add, a, b);
    case Opcode::Sub:
      return c_.bin(Bin::sub, a, b);
    case Opcode::Mul:
      return c_.bin(Bin::mul, a, b);
    case Opcode::Div:
      return divide(elem, a, b, false);
    case Opcode::Rem:
      return divide(elem, a, b, true);
    case Opcode::Min:
      return c_.select(c_.cmp(sign ? Cmp::slt : Cmp::ult, b, a), b, a);
    case Opcode::Max:
      return c_.select(c_.cmp(sign ? Cmp::slt : Cmp::ult, a, b), b, a);
    case Opcode::Neg:
      return c_.bin(Bin::sub, k(a, 0), a);
    case Opcode::Abs:
      return sign ? c_.select(c_.cmp(Cmp::slt, a, k(a, 0)), c_.bin(Bin::sub, k(a, 0), a), a) : a;
    case Opcode::Sign: {
      V positive = c_.conv(Conv::zext, num_of(elem), c_.cmp(sign ? Cmp::sgt : Cmp::ne, a, k(a, 0)));
      return sign ? c_.bin(Bin::sub, positive, c_.conv(Conv::zext, num_of(elem), c_.cmp(Cmp::slt, a, k(a, 0))))
                  : positive;
    }
    case Opcode::MulHi:
      return mulhi(elem, a, b);
    case Opcode::And:
      return c_.bin(Bin::and_, a, b);
    case Opcode::Or:
      return c_.bin(Bin::or_, a, b);
    case Opcode::Xor:
      return c_.bin(Bin::xor_, a, b);
    case Opcode::Not:
      return c_.not_(a);
    case Opcode::Shl:
      return c_.bin(Bin::shl, a, amount(b));
    case Opcode::Shr:
      return c_.bin(sign ? Bin::ashr : Bin::lshr, a, amount(b));
    case Opcode::Popcount:
      return c_.fn(Fn::ctpop, a);
    case Opcode::Clz:
      return c_.fn(Fn::clz, a);
    case Opcode::Ctz:
      return c_.fn(Fn::ctz, a);
    case Opcode::BitReverse:
      return c_.fn(Fn::bitreverse, a);
    case Opcode::FunnelShl:
      return c_.fn(Fn::fshl, a, b, v[2]);
    case Opcode::FunnelShr:
      return c_.fn(Fn::fshr, a, b, v[2]);
    case Opcode::BitExtract:
    case Opcode::BitInsert: {
      const bool insert = code == Opcode::BitInsert;
      V at = amount(insert ? v[2] : v[1]), n = insert ? v[3] : v[2];
      V there = c_.bin(Bin::sub, k(a, w), at);
      n = c_.select(c_.cmp(Cmp::ult, n, there), n, there);
      V empty = c_.cmp(Cmp::eq, n, k(a, 0));
      V unused = amount(c_.bin(Bin::sub, k(a, w), n));
      if (!insert) {
        V top = c_.bin(Bin::shl, a, amount(c_.bin(Bin::sub, c_.bin(Bin::sub, k(a, w), at), n)));
        return c_.select(empty, k(a, 0), c_.bin(sign ? Bin::ashr : Bin::lshr, top, unused));
      }
      V mask = c_.bin(Bin::shl, c_.bin(Bin::lshr, k(a, ~u64{0}), unused), at);
      V put = c_.bin(Bin::or_, c_.bin(Bin::and_, a, c_.not_(mask)), c_.bin(Bin::and_, c_.bin(Bin::shl, b, at), mask));
      return c_.select(empty, a, put);
    }
    case Opcode::Dot4I8: {
      const auto signs = ir::unpack<ir::SignsImm>(imm);
      return dot_bytes(a, b, v[2], signs.a_signed, signs.b_signed);
    }
    default:
      throw Error("CPU03", fmt::format("the CPU device has no code for {} on integers", ir::info(code).text));
  }
}

// Machines multiply unsigned by signed bytes. Two of a kind: x - 128 and x + 128 are x with the top bit flipped, and
// the 128 times the other operand's bytes are a sum of the same form.
V Arith::dot_bytes(V a, V b, V sum, bool a_signed, bool b_signed) {
  const u32 n = c_.lanes(a);
  if (n < 4 || !t_.sse41) {
    const auto byte = [&](V x, u32 i, bool is_signed) {
      V top = c_.bin(Bin::shl, x, k(x, 24 - 8 * i));
      return c_.bin(is_signed ? Bin::ashr : Bin::lshr, top, k(x, 24));
    };
    for (u32 i = 0; i < 4; ++i)
      sum = c_.bin(Bin::add, sum, c_.bin(Bin::mul, byte(a, i, a_signed), byte(b, i, b_signed)));
    return sum;
  }
  V tops = k(a, 0x80808080);
  if (a_signed && !b_signed) std::swap(a, b);
  if (a_signed && b_signed) {
    sum = c_.bin(Bin::sub, sum, unsigned_by_signed(tops, b, k(a, 0)));
    a = c_.bin(Bin::xor_, a, tops);
  } else if (!a_signed && !b_signed) {
    sum = c_.bin(Bin::sub, sum, unsigned_by_signed(a, tops, k(a, 0)));  // -128 times each byte of a
    b = c_.bin(Bin::xor_, b, tops);
  }
  return unsigned_by_signed(a, b, sum);
}

V Arith::unsigned_by_signed(V a, V b, V sum) {
  if (t_.dot_bytes) return c_.dot_bytes(sum, a, b);
  // Two products fit into 16 bits where the unsigned bytes have seven; the eighth bits are a second sum, times 128.
  V ones = k(a, 0x00010001);
  const bool seven = c_.known_zero(a, 0x80808080);
  V low = seven ? a : c_.bin(Bin::and_, a, k(a, 0x7f7f7f7f));
  V r = c_.bin(Bin::add, sum, c_.pair_dot_halves(c_.pair_dot_bytes(low, b), ones));
  if (seven) return r;
  V high = c_.bin(Bin::and_, c_.bin(Bin::lshr, a, k(a, 7)), k(a, 0x01010101));
  return c_.bin(Bin::add, r, c_.pair_dot_halves(c_.pair_dot_bytes(high, b), k(a, 0x00800080)));
}

}  // namespace iron::cpu
