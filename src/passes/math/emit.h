// Expressions over a Builder, so that an expansion reads like the formula that it is.
#pragma once

#include <array>
#include <bit>
#include <initializer_list>
#include <map>
#include <span>
#include <utility>

#include "ir/builder.h"

namespace iron::passes::math {

class Emit;

/// A value in the kernel under construction.
struct Val {
  Emit* emit = nullptr;
  ir::OpId id = ir::none;
};

/// Emits f32 expansions for values of one shape: scalars, vectors, or fragments. Constants are made once a region.
class Emit {
 public:
  Emit(ir::Builder& builder, ir::Type shape) : b_(builder), shape_(shape) {}

  Val wrap(ir::OpId id) { return {this, id}; }
  Val constant(DType elem, u64 bits);
  Val f(f32 v) { return constant(DType::f32, std::bit_cast<u32>(v)); }
  Val i(i32 v) { return constant(DType::i32, static_cast<u32>(v)); }
  Val u(u32 v) { return constant(DType::u32, v); }
  Val op(ir::Opcode code, std::initializer_list<Val> operands);
  Val convert(ir::Opcode code, DType elem, Val a);
  DType elem(Val a) const { return b_.kernel().type(a.id).elem; }

  /// `if condition { then } else { otherwise }`; both give as many values as `otherwise` holds.
  template <std::size_t N, class Then>
  std::array<Val, N> branch(Val condition, const std::array<Val, N>& otherwise, Then&& then) {
    ir::Type types[N];
    ir::OpId no[N], yes[N];
    for (std::size_t n = 0; n < N; ++n) no[n] = otherwise[n].id, types[n] = b_.kernel().type(no[n]);
    const ir::OpId op = b_.if_(condition.id, types);
    const auto outer = std::pair(b_.region(), b_.kernel().results(op).back());
    const auto kept = constants_;
    b_.set_point(b_.kernel().region_of(op, 0));
    const std::array<Val, N> made = then();
    for (std::size_t n = 0; n < N; ++n) yes[n] = made[n].id;
    b_.yield(std::span<const ir::OpId>(yes));
    b_.set_point(b_.kernel().region_of(op, 1));
    b_.yield(std::span<const ir::OpId>(no));
    b_.set_point_after(outer.second);
    constants_ = kept;  // those of the branch do not reach below it
    std::array<Val, N> out;
    const auto results = b_.kernel().results(op);
    for (std::size_t n = 0; n < N; ++n) out[n] = wrap(results[n]);
    return out;
  }

 private:
  ir::Builder& b_;
  ir::Type shape_;
  std::map<std::pair<DType, u64>, ir::OpId> constants_;
};

// Operators mean the op of that name; a plain number takes the other operand's type.
#define IRON_MATH_BINARY(symbol, Code)                                                      \
  inline Val operator symbol(Val a, Val b) { return a.emit->op(ir::Opcode::Code, {a, b}); } \
  inline Val operator symbol(Val a, f32 b) { return a symbol a.emit->f(b); }                \
  inline Val operator symbol(f32 a, Val b) { return b.emit->f(a) symbol b; }                \
  inline Val operator symbol(Val a, i32 b) { return a symbol a.emit->constant(a.emit->elem(a), static_cast<u32>(b)); }
IRON_MATH_BINARY(+, Add)
IRON_MATH_BINARY(-, Sub)
IRON_MATH_BINARY(*, Mul)
IRON_MATH_BINARY(/, Div)
IRON_MATH_BINARY(<, Lt)
IRON_MATH_BINARY(<=, Le)
IRON_MATH_BINARY(>, Gt)
IRON_MATH_BINARY(>=, Ge)
IRON_MATH_BINARY(==, Eq)
IRON_MATH_BINARY(!=, Ne)
IRON_MATH_BINARY(&, And)
IRON_MATH_BINARY(|, Or)
IRON_MATH_BINARY(^, Xor)
IRON_MATH_BINARY(<<, Shl)
IRON_MATH_BINARY(>>, Shr)
#undef IRON_MATH_BINARY

inline Val operator!(Val a) { return a.emit->op(ir::Opcode::Not, {a}); }
inline Val operator-(Val a) { return a.emit->op(ir::Opcode::Neg, {a}); }
inline Val abs(Val a) { return a.emit->op(ir::Opcode::Abs, {a}); }
inline Val sqrt(Val a) { return a.emit->op(ir::Opcode::Sqrt, {a}); }
inline Val trunc(Val a) { return a.emit->op(ir::Opcode::Trunc, {a}); }
inline Val is_nan(Val a) { return a.emit->op(ir::Opcode::IsNan, {a}); }
inline Val fma(Val a, Val b, Val c) { return a.emit->op(ir::Opcode::Fma, {a, b, c}); }
inline Val fma(Val a, f32 b, Val c) { return fma(a, a.emit->f(b), c); }
inline Val fma(Val a, Val b, f32 c) { return fma(a, b, a.emit->f(c)); }
inline Val fma(Val a, f32 b, f32 c) { return fma(a, a.emit->f(b), a.emit->f(c)); }
inline Val ldexp(Val a, Val b) { return a.emit->op(ir::Opcode::Ldexp, {a, b}); }
inline Val max_int(Val a, i32 b) { return a.emit->op(ir::Opcode::Max, {a, a.emit->i(b)}); }
inline Val select(Val c, Val a, Val b) { return a.emit->op(ir::Opcode::Select, {c, a, b}); }
inline Val select(Val c, Val a, f32 b) { return select(c, a, a.emit->f(b)); }
inline Val select(Val c, f32 a, Val b) { return select(c, b.emit->f(a), b); }
inline Val select(Val c, f32 a, f32 b) { return select(c, c.emit->f(a), c.emit->f(b)); }
inline Val bits(Val a) { return a.emit->convert(ir::Opcode::Bitcast, DType::i32, a); }
inline Val as_float(Val a) { return a.emit->convert(ir::Opcode::Bitcast, DType::f32, a); }
inline Val cast(DType to, Val a) { return a.emit->convert(ir::Opcode::Cast, to, a); }

/// x where x < high, else high; NaN becomes `high`. One machine instruction, unlike `min`.
inline Val below(Val x, f32 high) { return select(x < high, x, high); }
/// x where x > low, else low; NaN becomes `low`.
inline Val above(Val x, f32 low) { return select(x > low, x, low); }
/// The magnitude of the first (which must not be negative) with the sign of the second.
inline Val with_sign(Val magnitude, Val sign_of) { return as_float(bits(magnitude) | sign_of); }
/// The sign bit alone, as i32.
inline Val sign_bit(Val x) { return bits(x) & static_cast<i32>(0x80000000u); }

/// y, but x itself where |x| <= 2^-40 (the sign of zero) or NaN: for functions with f(x) = x + O(x^2).
inline Val keep_tiny(Val x, Val y) { return select(abs(x) > 0x1p-40f, y, x); }

/// c[0] + c[1] x + ... by Horner's rule.
inline Val poly(Val x, std::span<const f32> c) {
  Val p = x.emit->f(c.back());
  for (std::size_t n = c.size() - 1; n-- > 0;) p = fma(p, x, c[n]);
  return p;
}

// --- the functions ---------------------------------------------------------------------------------------------------
Val exp(Val x);
Val exp2(Val x);
Val expm1(Val x);
Val log(Val x);
Val log2(Val x);
Val log10(Val x);
Val log1p(Val x);
Val sin(Val x);
Val cos(Val x);
Val tan(Val x);
Val asin(Val x);
Val acos(Val x);
Val atan(Val x);
Val sinh(Val x);
Val cosh(Val x);
Val tanh(Val x);
Val asinh(Val x);
Val acosh(Val x);
Val atanh(Val x);
Val erf(Val x);
Val erfinv(Val x);
Val pow(Val x, Val y);
Val atan2(Val y, Val x);

Val fast_exp(Val x);
Val fast_exp2(Val x);
Val fast_log(Val x);
Val fast_log2(Val x);

// --- pieces that several functions share -----------------------------------------------------------------------------

/// 1.5 * 2^23: adding it to |v| < 2^22 rounds v to an integer that then stands in the low bits.
inline constexpr f32 round_magic = 0x1.8p23f;
inline constexpr i32 round_magic_bits = 0x4b400000;

/// e^(r) and 2^k of e^x = 2^k (1 + r + tail), |r| <= ln2 / 2, for finite |x| < 2^20.
struct ExpParts {
  Val k, r, tail;
};
ExpParts exp_parts(Val x);
/// 2^t for t in [-126, 127.5], to about 1 ULP, without range checks.
Val exp2_core(Val t);
/// 2^(t + low) for |t| <= 2^20 and a low part that changes t by little.
Val exp2_sum(Val t, Val low);

/// log1p for 0 <= x < infinity, without special cases.
Val log1p_core(Val x);
/// log(1 + f) = f + tail with 1 + f in [sqrt(1/2), sqrt(2)].
Val log_tail(Val f);
/// The exponent k as i32 that puts a * 2^-k into [sqrt(1/2), sqrt(2)), for positive normal a, from a's bits.
Val log_exponent(Val bits_of_a);
/// k * ln2 + (f + tail).
Val log_sum(Val k_float, Val f, Val tail);
/// The same with what the last rounding lost.
struct ExactSum {
  Val sum, lost;
};
ExactSum log_sum_exact(Val k_float, Val f, Val tail);

}  // namespace iron::passes::math
