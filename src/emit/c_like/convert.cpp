// Rows of conversions: casts, bitcasts, decoding of small floats.
#include <fmt/format.h>

#include "emit/c_like/rows.h"

namespace iron::emit::rows {

using ir::Opcode;

Expr widen(Emitter& e, const Expr& x, DType type) {
  return type == DType::f16 || type == DType::bf16 ? e.call("widen", {x}) : x;
}

Expr narrow(Emitter& e, const Expr& x, DType type) {
  if (type == DType::f16) return e.call("narrow_f16", {x});
  if (type == DType::bf16) return e.call("narrow_bf16", {x});
  return x;
}

namespace {
bool is16(DType t) { return t == DType::f16 || t == DType::bf16; }

Expr float_to_integer(Emitter& e, const Expr& x, DType from, DType to) {
  const Expr source = widen(e, x, from);
  const std::string_view f = from == DType::f64 ? "f64" : "f32";
  if (to == DType::index) to = e.options().index_is_32 ? DType::i32 : DType::i64;
  return e.call(fmt::format("{}_to_{}", f, dtype_name(to)), {source});
}

Expr integer_to_float(Emitter& e, const Expr& x, DType from, DType to) {
  if (to == DType::f32 || to == DType::f64) return c_cast(e.type_name(to), x);
  // Integers that f32 rounds are beyond the largest f16; a bf16 goes through f32 rounded to odd.
  if (to == DType::f16) return e.call("narrow_f16", {c_cast("f32", x)});
  const bool wide = dtype_size(from) == 8;
  const bool is_signed = is_signed_int(from) || from == DType::index;
  const std::string_view through = is_signed ? (wide ? "i64" : "i32") : (wide ? "u64" : "u32");
  return e.call("narrow_bf16",
                {e.call(fmt::format("odd_f32_of_{}", through), {dtype_size(from) < 4 ? c_cast(through, x) : x})});
}
}  // namespace

Expr convert(Emitter& e, const Expr& x, DType from, DType to) {
  if (from == to) return x;
  if (to == DType::boolean) return binary(widen(e, x, from), "!=", raw("0"), Prec::equality);
  if (from == DType::boolean) {
    if (is16(to)) return narrow(e, c_cast("f32", x), to);
    return c_cast(e.type_name(to), x);
  }
  if (is_float(from) && is_float(to)) {
    if (is16(to))
      return from == DType::f64 && to == DType::bf16 ? e.call("narrow_bf16", {e.call("odd_f32_of_f64", {x})})
             : from == DType::f64                    ? e.call("narrow_f16_of_f64", {x})
                                                     : narrow(e, widen(e, x, from), to);
    const Expr source = widen(e, x, from);
    return to == DType::f32 && is16(from) ? source : c_cast(e.type_name(to), source);
  }
  if (is_float(from)) return float_to_integer(e, x, from, to);
  if (is_float(to)) return integer_to_float(e, x, from, to);
  return c_cast(e.type_name(to), x);
}

Expr cast(Emitter& e, const LaneCall& c) { return convert(e, c.args[0], c.from, c.type); }

Expr to_bits(Emitter& e, const Expr& x, DType t) {
  switch (t) {
    case DType::f32:
      e.need("float_bits");
      return e.call("bits_of", {x});
    case DType::f64:
      e.need("double_bits");
      return e.call("bits_of", {x});
    case DType::f16:
    case DType::bf16:
      return e.call("bits_of", {x});
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return x;
    case DType::i8:
      return c_cast("u8", x);
    case DType::i16:
      return c_cast("u16", x);
    case DType::i32:
      return c_cast("u32", x);
    default:
      return c_cast("u64", x);
  }
}
Expr from_bits(Emitter& e, const Expr& x, DType t) {
  switch (t) {
    case DType::f32:
      e.need("float_bits");
      return e.call("as_f32", {x});
    case DType::f64:
      e.need("double_bits");
      return e.call("as_f64", {x});
    case DType::f16:
    case DType::bf16:
      return raw(fmt::format("{}{{(u16)({})}}", e.type_name(t), x.text));
    default:
      return c_cast(e.type_name(t), x);
  }
}

namespace {
std::string_view bits_type(u32 size) { return size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64"; }
}  // namespace

void bitcast(Emitter& e, ir::OpId id) {
  const auto& k = e.kernel();
  const auto from = k.type(k.operand(id, 0)), to = k.type(id);
  const u32 from_size = dtype_size(from.elem), to_size = dtype_size(to.elem);
  std::vector<Expr> out;
  for (u32 lane = 0; lane < to.lanes; ++lane) {
    if (from_size == to_size) {
      out.push_back(from.elem == to.elem ? e.arg(id, 0, lane)
                                         : from_bits(e, to_bits(e, e.arg(id, 0, lane), from.elem), to.elem));
      continue;
    }
    if (from_size > to_size) {  // one source element gives several, the low bits first
      const u32 ratio = from_size / to_size, shift = lane % ratio * to_size * 8;
      const Expr bits = to_bits(e, e.arg(id, 0, lane / ratio), from.elem);
      out.push_back(from_bits(
          e, c_cast(bits_type(to_size), binary(bits, ">>", raw(fmt::format("{}", shift)), Prec::shift)), to.elem));
      continue;
    }
    const u32 ratio = to_size / from_size;
    Expr bits;
    for (u32 part = 0; part < ratio; ++part) {
      const Expr piece = c_cast(bits_type(to_size), to_bits(e, e.arg(id, 0, lane * ratio + part), from.elem));
      bits = part == 0
                 ? piece
                 : binary(bits, "|", binary(piece, "<<", raw(fmt::format("{}", part * from_size * 8)), Prec::shift),
                          Prec::bit_or);
    }
    out.push_back(from_bits(e, c_cast(bits_type(to_size), bits), to.elem));
  }
  e.define(id, "bits", out);
}

Expr decode(Emitter& e, const LaneCall& c) {
  switch (c.code) {
    case Opcode::DecodeE2M1:
      return e.call("decode_e2m1", {c.args[0]});
    case Opcode::DecodeE4M3:
      return e.call("decode_e4m3", {c.args[0]});
    case Opcode::DecodeE5M2:
      return e.call("decode_e5m2", {c.args[0]});
    default:
      return e.call("decode_e8m0", {c.args[0]});
  }
}

}  // namespace iron::emit::rows
