// Expressions over every pure op of the table, and subscripts that are in bounds by their shape.
#include <algorithm>

#include "writer.h"

namespace iron::fuzz {

using namespace ir;

namespace {
constexpr DType every[] = {DType::boolean, DType::i8,  DType::u8,  DType::i16,  DType::u16, DType::i32, DType::u32,
                           DType::i64,     DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64};
constexpr i64 widest = i64{1} << 40;

bool has_expansion(DType t) { return t == DType::f16 || t == DType::bf16 || t == DType::f32; }
}  // namespace

Value Writer::push(Value v) {
  values_.push_back(v);
  return v;
}

Value Writer::emit(Opcode code, std::span<const Value> operands, u64 imm, Type stated) {
  std::vector<OpId> ids;
  Value v;
  for (const auto& o : operands) {
    ids.push_back(o.id);
    v.scope = std::min(v.scope, o.scope);
  }
  v.id = stated.kind == TypeKind::none ? build_.op(code, ids, imm) : build_.op(code, stated, ids, imm);
  v.type = k_.type(v.id);
  return v.type.is_value() ? push(v) : v;
}

Value Writer::constant_bits(Type t, u64 bits) { return {build_.constant(t, bits), t, Scope::grid}; }
Value Writer::const_index(i64 v) { return {build_.const_index(v), index_type, Scope::grid, v, v}; }
Value Writer::constant(Type t) {
  if (t.is_index()) return const_index(static_cast<i64>(random_.below(40)));
  return constant_bits(t, random_.pick(interesting(t.elem)));
}

bool Writer::in_scope(Type t, Scope least, Value& out) {
  u64 seen = 0;
  for (std::size_t i = values_.size(); i-- > 0;) {
    const Value& v = values_[i];
    if (v.type != t || v.scope < least) continue;
    if (random_.below(++seen) == 0) out = v;
    if (seen >= 6) break;
  }
  return seen > 0;
}

Value Writer::value(Type t, Scope least, int depth) {
  if (t.is_index()) return any_index(least, depth);
  Value v;
  if (random_.chance(55) && in_scope(t, least, v)) return v;
  if (depth <= 0) {
    if (in_scope(t, least, v)) return v;
    // Any value of as many lanes, rather than a constant.
    for (int i = 0; i < 4; ++i)
      if (const Type other = Type::value(random_.pick(every), t.lanes); in_scope(other, least, v))
        return emit(Opcode::Cast, {v}, 0, t);
    return constant(t);
  }
  if (random_.chance(12)) return constant(t);
  return make(t, least, depth - 1);
}

Value Writer::make(Type t, Scope least, int depth) {
  const u64 how = random_.below(100);
  if (how < 14) return convert(t, least, depth);
  if (how < 20 && t.elem != DType::boolean) return reinterpret(t, least, depth);
  if (how < 32 && (t.lanes > 1 || random_.chance(50))) return rearrange(t, least, depth);
  if (how < 40) {
    const u8 lanes = random_.chance(50) ? u8{1} : t.lanes;
    const Value c = value(Type::value(DType::boolean, lanes), least, depth);
    const Value a = value(t, least, depth);
    const Value b = value(t, least, depth);
    return emit(Opcode::Select, {c, a, b});
  }
  if (t.elem == DType::boolean) return make_bool(t, least, depth);
  return is_float(t.elem) ? make_float(t, least, depth) : make_int(t, least, depth);
}

Value Writer::make_float(Type t, Scope least, int depth) {
  static constexpr Opcode one[] = {Opcode::Neg,   Opcode::Abs,   Opcode::Sign, Opcode::Sqrt,  Opcode::Rsqrt,
                                   Opcode::Recip, Opcode::Floor, Opcode::Ceil, Opcode::Trunc, Opcode::Round};
  static constexpr Opcode two[] = {Opcode::Add, Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Mul,
                                   Opcode::Div, Opcode::Rem, Opcode::Min, Opcode::Max};
  static constexpr Opcode math[] = {
      Opcode::Exp,  Opcode::Exp2, Opcode::Expm1, Opcode::Log,   Opcode::Log2,  Opcode::Log10, Opcode::Log1p,
      Opcode::Sin,  Opcode::Cos,  Opcode::Tan,   Opcode::Asin,  Opcode::Acos,  Opcode::Atan,  Opcode::Sinh,
      Opcode::Cosh, Opcode::Tanh, Opcode::Asinh, Opcode::Acosh, Opcode::Atanh, Opcode::Erf,   Opcode::Erfinv};
  static constexpr Opcode fast[] = {Opcode::FastExp,   Opcode::FastExp2, Opcode::FastLog,  Opcode::FastLog2,
                                    Opcode::FastSin,   Opcode::FastCos,  Opcode::FastTanh, Opcode::FastSqrt,
                                    Opcode::FastRsqrt, Opcode::FastRecip};
  const u64 how = random_.below(100);
  if (how < 50) {
    const Value a = value(t, least, depth);
    const Value b = value(t, least, depth);
    return emit(random_.pick(two), {a, b});
  }
  const Value a = value(t, least, depth);
  if (how < 72) return emit(random_.pick(one), {a});
  if (how < 82) {
    const Value b = value(t, least, depth);
    const Value c = value(t, least, depth);
    return emit(Opcode::Fma, {a, b, c});
  }
  if (how < 86) {
    const Value b = value(Type::value(DType::i32, t.lanes), least, depth);
    return emit(Opcode::Ldexp, {a, b});
  }
  if (t == Type::value(DType::f32) && how < 90) {
    static constexpr Opcode decode[] = {Opcode::DecodeE2M1, Opcode::DecodeE4M3, Opcode::DecodeE5M2, Opcode::DecodeE8M0};
    const Value bits = value(u32_type, least, depth);
    return emit(random_.pick(decode), {bits});
  }
  if (!has_expansion(t.elem)) return emit(random_.pick(one), {a});
  if (how < 96) return emit(random_.pick(math), {a});
  if (how < 98) return emit(random_.pick(fast), {a});
  const Value b = value(t, least, depth);
  return emit(how == 98 ? Opcode::Pow : Opcode::Atan2, {a, b});
}

Value Writer::shift_amount(Type t, Scope least, int depth) {
  const Value v = value(t, least, depth);
  if (random_.chance(60) && !is_const(k_, v.id)) return v;
  return constant_bits(t, random_.below(dtype_bits(t.elem)));  // a constant beyond the width is an error (D23)
}

Value Writer::make_int(Type t, Scope least, int depth) {
  static constexpr Opcode one[] = {Opcode::Neg,      Opcode::Abs, Opcode::Sign, Opcode::Not,
                                   Opcode::Popcount, Opcode::Clz, Opcode::Ctz,  Opcode::BitReverse};
  static constexpr Opcode two[] = {Opcode::Add, Opcode::Add, Opcode::Sub, Opcode::Mul, Opcode::Mul,
                                   Opcode::Div, Opcode::Rem, Opcode::Min, Opcode::Max, Opcode::MulHi,
                                   Opcode::And, Opcode::Or,  Opcode::Xor};
  const u64 how = random_.below(100);
  const Value a = value(t, least, depth);
  if (how < 55) {
    const Value b = value(t, least, depth);
    return emit(random_.pick(two), {a, b});
  }
  if (how < 72) return emit(random_.pick(one), {a});
  const Value amount = shift_amount(t, least, depth);
  if (how < 84) return emit(random_.chance(50) ? Opcode::Shl : Opcode::Shr, {a, amount});
  const Value b = value(t, least, depth);
  if (how < 90) return emit(random_.chance(50) ? Opcode::FunnelShl : Opcode::FunnelShr, {a, b, amount});
  if (how < 94) return emit(Opcode::BitExtract, {a, amount, b});
  if (how < 97 || dtype_bits(t.elem) != 32) {
    const Value c = value(t, least, depth);
    return emit(Opcode::BitInsert, {a, b, amount, c});
  }
  SignsImm signs;
  signs.a_signed = random_.chance(50);
  signs.b_signed = random_.chance(50);
  return emit(Opcode::Dot4I8, {a, b, amount}, pack(signs));
}

Value Writer::make_bool(Type t, Scope least, int depth) {
  const u64 how = random_.below(100);
  if (how < 15) {
    static constexpr Opcode two[] = {Opcode::And, Opcode::Or, Opcode::Xor, Opcode::Eq, Opcode::Ne};
    const Value a = value(t, least, depth);
    const Value b = value(t, least, depth);
    return emit(random_.pick(two), {a, b});
  }
  if (how < 22) return emit(Opcode::Not, {value(t, least, depth)});
  if (how < 30) {
    static constexpr DType floats[] = {DType::f32, DType::f16, DType::bf16, DType::f64};
    return emit(Opcode::IsNan, {value(Type::value(random_.pick(floats), t.lanes), least, depth)});
  }
  static constexpr Opcode compares[] = {Opcode::Eq, Opcode::Ne, Opcode::Lt, Opcode::Le, Opcode::Gt, Opcode::Ge};
  DType elem = random_.pick(every);
  if (elem == DType::boolean) elem = DType::index;
  if (elem == DType::index && t.lanes > 1) elem = DType::i32;
  const Value a = value(Type::value(elem, t.lanes), least, depth);
  const Value b = value(Type::value(elem, t.lanes), least, depth);
  return emit(random_.pick(compares), {a, b});
}

Value Writer::convert(Type t, Scope least, int depth) {
  DType from = random_.pick(every);
  if (t.lanes == 1 && random_.chance(20)) from = DType::index;
  return emit(Opcode::Cast, {value(Type::value(from, t.lanes), least, depth)}, 0, t);
}

// The bits of a NaN that arithmetic made have no meaning (R2): zero stands in for it.
Value Writer::reinterpret(Type t, Scope least, int depth) {
  Type from;
  do {
    const DType elem = random_.pick(every);
    from = Type::value(elem, static_cast<u8>(std::max<u32>(1, t.bytes() / dtype_size(elem))));
  } while (from.is_bool() || from.bytes() != t.bytes() || from.lanes > 8);
  Value v = value(from, least, depth);
  if (is_float(from.elem)) {
    const Value nan = emit(Opcode::IsNan, {v});
    v = emit(Opcode::Select, {nan, constant_bits(from, 0), v});
  }
  return emit(Opcode::Bitcast, {v}, 0, t);
}

Value Writer::rearrange(Type t, Scope least, int depth) {
  if (t.lanes == 1) {
    static constexpr u8 wide[] = {2, 4, 8};
    const Value v = value(Type::value(t.elem, random_.pick(wide)), least, depth);
    return emit(Opcode::VecExtract, {v}, random_.below(v.type.lanes));
  }
  const Type one = Type::value(t.elem);
  if (random_.chance(40)) {
    const Value v = value(t, least, depth);
    const Value e = value(one, least, depth);
    return emit(Opcode::VecInsert, {v, e}, random_.below(t.lanes));
  }
  std::vector<Value> parts;
  for (u32 i = 0; i < t.lanes; ++i) parts.push_back(value(one, least, i < 2 ? depth : 0));
  return emit(Opcode::VecMake, parts);
}

// --- subscripts
Value Writer::any_index(Scope least, int depth) {
  Value a;
  u64 seen = 0;
  for (const auto& v : values_)
    if (v.type == index_type && v.ranged() && v.scope >= least && random_.below(++seen) == 0) a = v;
  if (!seen) a = const_index(random_.between(0, 20));
  if (depth <= 0 || random_.chance(35)) return a;
  const auto result = [&](Opcode code, const Value& b, i64 lo, i64 hi) {
    if (lo < -widest || hi > widest) return a;
    emit(code, {a, b});
    values_.back().lo = lo, values_.back().hi = hi;
    return values_.back();
  };
  switch (random_.below(12)) {
    case 0:
    case 1: {
      const Value b = any_index(least, depth - 1);
      return result(Opcode::Add, b, a.lo + b.lo, a.hi + b.hi);
    }
    case 2: {
      const Value b = any_index(least, depth - 1);
      return result(Opcode::Sub, b, a.lo - b.hi, a.hi - b.lo);
    }
    case 3: {
      const i64 n = random_.chance(5) ? i64{1} << 33 : random_.between(1, 9);
      if (a.hi > widest / n || a.lo < -widest / n) return a;
      return result(Opcode::Mul, const_index(n), a.lo * n, a.hi * n);
    }
    case 4: {
      const i64 n = random_.between(1, 9);
      return a.lo < 0 ? a : result(Opcode::Div, const_index(n), a.lo / n, a.hi / n);
    }
    case 5: {
      const i64 n = random_.between(1, 33);
      return a.lo < 0 ? a : result(Opcode::Rem, const_index(n), 0, std::min(a.hi, n - 1));
    }
    case 6: {
      const Value b = any_index(least, depth - 1);
      return result(Opcode::Min, b, std::min(a.lo, b.lo), std::min(a.hi, b.hi));
    }
    case 7: {
      const Value b = any_index(least, depth - 1);
      return result(Opcode::Max, b, std::max(a.lo, b.lo), std::max(a.hi, b.hi));
    }
    case 8: {
      const i64 n = random_.between(0, 4);
      return a.lo < 0 ? a : result(Opcode::Shr, const_index(n), a.lo >> n, a.hi >> n);
    }
    case 9: {
      const i64 n = random_.between(0, 5);
      if (a.lo < 0 || a.hi > (widest >> n)) return a;
      return result(Opcode::Shl, const_index(n), a.lo << n, a.hi << n);
    }
    case 10: {
      const i64 n = random_.between(0, 63);
      return a.lo < 0 ? a : result(Opcode::And, const_index(n), 0, std::min(a.hi, n));
    }
    default: {
      const Value b = any_index(least, depth - 1);
      const Value c = value(bool_type, least, depth - 1);
      emit(Opcode::Select, {c, a, b});
      values_.back().lo = std::min(a.lo, b.lo), values_.back().hi = std::max(a.hi, b.hi);
      return values_.back();
    }
  }
}

Value Writer::index(i64 lo, i64 hi, Scope least) {
  const i64 n = hi - lo + 1;
  if (n == 1 || random_.chance(12)) return const_index(random_.between(lo, hi));
  Value v;
  if (random_.chance(20)) {
    static constexpr DType small[] = {DType::u8, DType::u16, DType::u32};
    v = emit(Opcode::Cast, {value(Type::value(random_.pick(small)), least, 1)}, 0, index_type);
    v.lo = 0, v.hi = i64{0xffffffff};
  } else if (random_.chance(8)) {  // carried values: nothing is known of them
    u64 seen = 0;
    for (const auto& c : values_)
      if (c.type == index_type && !c.ranged() && c.scope >= least && random_.below(++seen) == 0) v = c;
    if (seen) {
      v = emit(Opcode::Max, {v, const_index(0)});
      v.lo = 0, v.hi = widest;
    }
  }
  if (!v.ranged()) v = any_index(least, 2);
  const auto known = [&](Value r, i64 low, i64 high) {
    values_.back().lo = r.lo = low, values_.back().hi = r.hi = high;
    return r;
  };
  if (v.lo >= lo && v.hi <= hi) {
    if (!random_.chance(15)) return v;
    const Value low = const_index(lo), high = const_index(hi);
    return known(emit(Opcode::Bounded, {v, low, high}), v.lo, v.hi);
  }
  if (v.lo < 0) v = known(emit(Opcode::Max, {v, const_index(0)}), 0, std::max<i64>(v.hi, 0));
  if (random_.chance(25))
    v = known(emit(Opcode::Min, {v, const_index(n - 1)}), 0, n - 1);
  else if ((n & (n - 1)) == 0 && random_.chance(40))
    v = known(emit(Opcode::And, {v, const_index(n - 1)}), 0, n - 1);
  else
    v = known(emit(Opcode::Rem, {v, const_index(n)}), 0, n - 1);
  return lo == 0 ? v : known(emit(Opcode::Add, {v, const_index(lo)}), lo, hi);
}

}  // namespace iron::fuzz
