// Rows of arithmetic, bits, comparisons and float functions (R2, R3).
#include <fmt/format.h>

#include "emit/c_like/rows.h"

namespace iron::emit::rows {

using ir::Opcode;

namespace {
bool is16(DType t) { return t == DType::f16 || t == DType::bf16; }
DType unsigned_of(DType t) {
  switch (dtype_size(t)) {
    case 1:
      return DType::u8;
    case 2:
      return DType::u16;
    case 4:
      return DType::u32;
    default:
      return DType::u64;
  }
}
u32 width(Emitter& e, DType t) { return t == DType::index && e.options().index_is_32 ? 32 : dtype_bits(t); }
// A binary operator on integers that wraps: small types in u32, signed types through their unsigned twin.
Expr wrapping(Emitter& e, DType t, std::string_view op, const Expr& a, const Expr& b, Prec prec) {
  if (t == DType::index || t == DType::u32 || t == DType::u64) return binary(a, op, b, prec);
  const auto wide = e.type_name(dtype_size(t) == 8 ? DType::u64 : DType::u32);
  return c_cast(e.type_name(t), binary(c_cast(wide, a), op, c_cast(wide, b), prec));
}
Expr shift_amount(Emitter& e, const Expr& n, DType t) {
  if (n.literal) return n;
  return binary(n, "&", raw(fmt::format("{}", width(e, t) - 1)), Prec::bit_and);
}
}  // namespace

Expr add_sub_mul(Emitter& e, const LaneCall& c) {
  const bool product = c.code == Opcode::Mul;
  const std::string_view op = c.code == Opcode::Add ? "+" : product ? "*" : "-";
  const Prec prec = product ? Prec::product : Prec::sum;
  if (is16(c.type))
    return narrow(e, binary(widen(e, c.args[0], c.type), op, widen(e, c.args[1], c.type), prec), c.type);
  if (is_float(c.type)) return binary(c.args[0], op, c.args[1], prec);
  return wrapping(e, c.type, op, c.args[0], c.args[1], prec);
}

Expr divide(Emitter& e, const LaneCall& c) {
  if (is16(c.type))
    return narrow(e, binary(widen(e, c.args[0], c.type), "/", widen(e, c.args[1], c.type), Prec::product), c.type);
  if (is_float(c.type)) return binary(c.args[0], "/", c.args[1], Prec::product);
  i64 by = 0;
  if (c.id != ir::none && ir::const_index(e.kernel(), e.kernel().operand(c.id, 1), by) && by > 0 &&
      c.type != DType::u64)
    return dtype_size(c.type) < 4 ? c_cast(e.type_name(c.type), binary(c.args[0], "/", c.args[1], Prec::product))
                                  : binary(c.args[0], "/", c.args[1], Prec::product);
  return e.call("idiv", e.type_name(c.type), {c.args[0], c.args[1]});
}

Expr remainder(Emitter& e, const LaneCall& c) {
  if (is_float(c.type)) {
    if (c.type == DType::f64) return e.call("fmod_f64", {c.args[0], c.args[1]});
    return narrow(e, e.call("fmod_f32", {widen(e, c.args[0], c.type), widen(e, c.args[1], c.type)}), c.type);
  }
  i64 by = 0;
  if (c.id != ir::none && ir::const_index(e.kernel(), e.kernel().operand(c.id, 1), by) && by > 0 &&
      c.type != DType::u64)
    return dtype_size(c.type) < 4 ? c_cast(e.type_name(c.type), binary(c.args[0], "%", c.args[1], Prec::product))
                                  : binary(c.args[0], "%", c.args[1], Prec::product);
  return e.call("irem", e.type_name(c.type), {c.args[0], c.args[1]});
}

Expr min_max(Emitter& e, const LaneCall& c) {
  const std::string_view word = c.code == Opcode::Min ? "min" : "max";
  if (is_float(c.type)) {
    if (c.type == DType::f64) return e.call(fmt::format("{}_f64", word), {c.args[0], c.args[1]});
    return narrow(e, e.call(fmt::format("{}_f32", word), {widen(e, c.args[0], c.type), widen(e, c.args[1], c.type)}),
                  c.type);
  }
  return e.call(fmt::format("i{}", word), e.type_name(c.type), {c.args[0], c.args[1]});
}

Expr fma(Emitter& e, const LaneCall& c) {
  if (c.type == DType::f64) return e.call("fma_f64", {c.args[0], c.args[1], c.args[2]});
  return narrow(
      e, e.call("fma_f32", {widen(e, c.args[0], c.type), widen(e, c.args[1], c.type), widen(e, c.args[2], c.type)}),
      c.type);
}

Expr negate(Emitter& e, const LaneCall& c) {
  if (is16(c.type)) return raw(fmt::format("{}{{(u16)(bits_of({}) ^ 0x8000u)}}", e.type_name(c.type), c.args[0].text));
  if (is_float(c.type) || c.type == DType::index) return unary("-", c.args[0]);
  return wrapping(e, c.type, "-", raw("0"), c.args[0], Prec::sum);
}

Expr absolute(Emitter& e, const LaneCall& c) {
  if (is16(c.type)) return raw(fmt::format("{}{{(u16)(bits_of({}) & 0x7fffu)}}", e.type_name(c.type), c.args[0].text));
  if (c.type == DType::f32) return e.call("abs_f32", {c.args[0]});
  if (c.type == DType::f64) return e.call("abs_f64", {c.args[0]});
  if (is_unsigned_int(c.type)) return c.args[0];
  return e.call("iabs", e.type_name(c.type), {c.args[0]});
}

Expr sign(Emitter& e, const LaneCall& c) {
  if (is_float(c.type))
    return narrow(e, e.call("fsign", c.type == DType::f64 ? "f64" : "f32", {widen(e, c.args[0], c.type)}), c.type);
  return e.call("isign", e.type_name(c.type), {c.args[0]});
}

Expr bitwise(Emitter& e, const LaneCall& c) {
  // Never && and ||: an operand may hold a shuffle, which every lane must reach.
  if (c.type == DType::boolean && c.code == Opcode::Xor) return binary(c.args[0], "!=", c.args[1], Prec::equality);
  const Expr out = c.code == Opcode::And  ? binary(c.args[0], "&", c.args[1], Prec::bit_and)
                   : c.code == Opcode::Or ? binary(c.args[0], "|", c.args[1], Prec::bit_or)
                                          : binary(c.args[0], "^", c.args[1], Prec::bit_xor);
  return dtype_size(c.type) < 4 ? c_cast(e.type_name(c.type), out) : out;
}

Expr complement(Emitter& e, const LaneCall& c) {
  if (c.type == DType::boolean) return unary("!", c.args[0]);
  const Expr out = unary("~", c.args[0]);
  return dtype_size(c.type) < 4 ? c_cast(e.type_name(c.type), out) : out;
}

Expr shift(Emitter& e, const LaneCall& c) {
  const Expr amount = shift_amount(e, c.args[1], c.type);
  const auto type = e.type_name(c.type);
  if (c.code == Opcode::Shr) {
    const Expr value = c.args[0].literal ? c_cast(type, c.args[0]) : c.args[0];
    const Expr out = binary(value, ">>", amount, Prec::shift);
    return dtype_size(c.type) < 4 ? c_cast(type, out) : out;
  }
  const bool direct = c.type == DType::u32 || c.type == DType::u64;
  const auto wide = width(e, c.type) == 64 ? "u64" : "u32";
  const Expr out =
      binary(direct && !c.args[0].literal ? c.args[0] : c_cast(wide, c.args[0]), "<<", amount, Prec::shift);
  return direct ? out : c_cast(type, out);
}

// popcount, clz, ctz, bit_reverse: on 32 or 64 bits, corrected for the narrow types.
Expr count_bits(Emitter& e, const LaneCall& c) {
  const u32 w = width(e, c.type);
  const auto type = e.type_name(c.type);
  const bool wide = w == 64;
  const std::string_view word = c.code == Opcode::Popcount ? "popcount"
                                : c.code == Opcode::Clz    ? "clz"
                                : c.code == Opcode::Ctz    ? "ctz"
                                                           : "bit_reverse";
  Expr bits = c_cast(e.type_name(unsigned_of(c.type)), c.args[0]);
  if (w < 32 && c.code == Opcode::Ctz) bits = binary(bits, "|", raw(fmt::format("{}u", 1u << w)), Prec::bit_or);
  Expr out = e.call(fmt::format("{}_{}", word, wide ? 64 : 32), {bits});
  if (w < 32 && c.code == Opcode::Clz) out = binary(out, "-", raw(fmt::format("{}", 32 - w)), Prec::sum);
  if (w < 32 && c.code == Opcode::BitReverse) out = binary(out, ">>", raw(fmt::format("{}", 32 - w)), Prec::shift);
  return c_cast(type, out);
}

Expr mul_hi(Emitter& e, const LaneCall& c) {
  const auto type = e.type_name(c.type);
  const bool is_signed = is_signed_int(c.type) || c.type == DType::index;
  switch (width(e, c.type)) {
    case 64:
      return e.call(is_signed ? "mul_hi_i64" : "mul_hi_u64", {c.args[0], c.args[1]});
    case 32:
      return e.call(is_signed ? "mul_hi_i32" : "mul_hi_u32", {c.args[0], c.args[1]});
    default: {
      const auto wide = is_signed ? "i32" : "u32";
      const Expr product = binary(c_cast(wide, c.args[0]), "*", c_cast(wide, c.args[1]), Prec::product);
      return c_cast(type, binary(product, ">>", raw(fmt::format("{}", dtype_bits(c.type))), Prec::shift));
    }
  }
}

Expr funnel(Emitter& e, const LaneCall& c) {
  const auto u = e.type_name(unsigned_of(c.type));
  const Expr amount = c_cast("u32", shift_amount(e, c.args[2], c.type));
  const Expr out = e.call(c.code == Opcode::FunnelShl ? "funnel_shl" : "funnel_shr", u,
                          {c_cast(u, c.args[0]), c_cast(u, c.args[1]), amount});
  return c_cast(e.type_name(c.type), out);
}

Expr bit_field(Emitter& e, const LaneCall& c) {
  const auto types = fmt::format("{}, {}", e.type_name(c.type), e.type_name(unsigned_of(c.type)));
  if (c.code == Opcode::BitExtract) return e.call("bit_extract", types, {c.args[0], c.args[1], c.args[2]});
  return e.call("bit_insert", types, {c.args[0], c.args[1], c.args[2], c.args[3]});
}

Expr dot4(Emitter& e, const LaneCall& c) {
  if (width(e, c.type) != 32) e.refuse(c.id, "dot4_i8 works on 32-bit integers", "cast the operands to i32 or u32");
  const auto s = ir::unpack<ir::SignsImm>(c.imm);
  const Expr out = e.call("dot4", {c_cast("u32", c.args[0]), c_cast("u32", c.args[1]), c_cast("u32", c.args[2]),
                                   raw(s.a_signed ? "true" : "false"), raw(s.b_signed ? "true" : "false")});
  return c.type == DType::u32 ? out : c_cast(e.type_name(c.type), out);
}

Expr compare(Emitter& e, const LaneCall& c) {
  const Expr a = widen(e, c.args[0], c.from), b = widen(e, c.args[1], c.from);
  switch (c.code) {
    case Opcode::Eq:
      return binary(a, "==", b, Prec::equality);
    case Opcode::Ne:
      return binary(a, "!=", b, Prec::equality);
    case Opcode::Lt:
      return binary(a, "<", b, Prec::relation);
    case Opcode::Le:
      return binary(a, "<=", b, Prec::relation);
    case Opcode::Gt:
      return binary(a, ">", b, Prec::relation);
    default:
      return binary(a, ">=", b, Prec::relation);
  }
}

Expr is_nan(Emitter& e, const LaneCall& c) {
  return e.call("is_nan", c.from == DType::f64 ? "f64" : "f32", {widen(e, c.args[0], c.from)});
}

Expr select(Emitter& e, const LaneCall& c) {
  const Expr out = ternary(c.args[0], c.args[1], c.args[2]);
  return dtype_size(c.type) < 4 && is_int(c.type) ? c_cast(e.type_name(c.type), out) : out;
}

// Rounding, roots and the approximate instructions: a primitive of the dialect on f32 or f64.
Expr float_function(Emitter& e, const LaneCall& c) {
  const auto& info = ir::info(c.code);
  if (info.has(ir::Fast) && c.type == DType::f64)
    e.refuse(c.id, "there is no approximate instruction on f64", "use the exact function, or f32");
  const std::string_view word = info.text;
  return narrow(e,
                e.call(fmt::format("{}_{}", word, c.type == DType::f64 ? "f64" : "f32"), {widen(e, c.args[0], c.type)}),
                c.type);
}

Expr ldexp(Emitter& e, const LaneCall& c) {
  return narrow(e, e.call(c.type == DType::f64 ? "ldexp_f64" : "ldexp_f32", {widen(e, c.args[0], c.type), c.args[1]}),
                c.type);
}

}  // namespace iron::emit::rows
