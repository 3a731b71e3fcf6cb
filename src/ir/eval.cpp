// Dispatch of the scalar evaluator over ops and element types.
#include "ir/eval.h"

#include <fmt/format.h>

#include "ir/decode.h"
#include "ir/scalar.h"
#include "iron/error.h"

namespace iron::ir {

namespace {
using namespace scalar;

[[noreturn]] void refuse(Opcode code, DType type) {
  throw Error("EVAL02", fmt::format("{} has no value on {}", info(code).text, dtype_name(type)));
}

template <DType D>
typename Rep<D>::Num from_bits(u64 bits) {
  using Store = typename Rep<D>::Store;
  return Rep<D>::load(std::bit_cast<Store>(static_cast<Bits<Store>>(bits)));
}
template <DType D>
u64 to_bits(typename Rep<D>::Num v) {
  return std::bit_cast<Bits<typename Rep<D>::Store>>(Rep<D>::store(v));
}

u64 ones(DType type) { return dtype_bits(type) == 64 ? ~u64{0} : (u64{1} << dtype_bits(type)) - 1; }
u64 sign_bit(DType type) { return u64{1} << (dtype_bits(type) - 1); }

template <DType D>
u64 eval_bool(Opcode code, std::span<const u64> v) {
  switch (code) {
    case Opcode::And:
      return v[0] & v[1] & 1;
    case Opcode::Or:
      return (v[0] | v[1]) & 1;
    case Opcode::Xor:
    case Opcode::Ne:
      return (v[0] ^ v[1]) & 1;
    case Opcode::Eq:
      return (v[0] ^ v[1] ^ 1) & 1;
    case Opcode::Not:
      return (v[0] ^ 1) & 1;
    default:
      refuse(code, D);
  }
}

template <DType D>
u64 eval_float(Opcode code, std::span<const u64> v) {
  using Num = typename Rep<D>::Num;
  const auto x = [&](std::size_t i) { return from_bits<D>(v[i]); };
  const auto out = [](Num r) { return to_bits<D>(r); };
  switch (code) {
    case Opcode::Rem:
      return out(Rem::apply(x(0), x(1)));
    case Opcode::Fma:
      return out(Fma::apply(x(0), x(1), x(2)));
    case Opcode::Neg:
      return (v[0] ^ sign_bit(D)) & ones(D);
    case Opcode::Abs:
      return v[0] & ones(D) & ~sign_bit(D);
    case Opcode::IsNan:
      return IsNan::apply(x(0));
    case Opcode::Sqrt:
      return out(Sqrt::apply(x(0)));
    case Opcode::Rsqrt:
      return out(Rsqrt::apply(x(0)));
    case Opcode::Recip:
      return out(Recip::apply(x(0)));
    case Opcode::Floor:
      return out(Floor::apply(x(0)));
    case Opcode::Ceil:
      return out(Ceil::apply(x(0)));
    case Opcode::Trunc:
      return out(Trunc::apply(x(0)));
    case Opcode::Round:
      return out(Round::apply(x(0)));
    case Opcode::Ldexp:
      return out(Ldexp::apply(x(0), static_cast<i32>(static_cast<u32>(v[1]))));
    default:
      break;
  }
  refuse(code, D);
}

template <DType D>
u64 eval_int(Opcode code, std::span<const u64> v, u64 imm) {
  using Num = typename Rep<D>::Num;
  const auto x = [&](std::size_t i) { return from_bits<D>(v[i]); };
  const auto out = [](Num r) { return to_bits<D>(r); };
  switch (code) {
    case Opcode::Rem:
      return out(Rem::apply(x(0), x(1)));
    case Opcode::Neg:
      return out(Neg::apply(x(0)));
    case Opcode::Abs:
      return out(Abs::apply(x(0)));
    case Opcode::MulHi:
      return out(MulHi::apply(x(0), x(1)));
    case Opcode::And:
      return out(And::apply(x(0), x(1)));
    case Opcode::Or:
      return out(Or::apply(x(0), x(1)));
    case Opcode::Xor:
      return out(Xor::apply(x(0), x(1)));
    case Opcode::Not:
      return out(Not::apply(x(0)));
    case Opcode::Shl:
      return out(Shl::apply(x(0), x(1)));
    case Opcode::Shr:
      return out(Shr::apply(x(0), x(1)));
    case Opcode::Popcount:
      return out(Popcount::apply(x(0)));
    case Opcode::Clz:
      return out(Clz::apply(x(0)));
    case Opcode::Ctz:
      return out(Ctz::apply(x(0)));
    case Opcode::BitReverse:
      return out(BitReverse::apply(x(0)));
    case Opcode::FunnelShl:
      return out(FunnelShl::apply(x(0), x(1), x(2)));
    case Opcode::FunnelShr:
      return out(FunnelShr::apply(x(0), x(1), x(2)));
    case Opcode::BitExtract:
      return out(BitExtract::apply(x(0), x(1), x(2)));
    case Opcode::BitInsert:
      return out(BitInsert::apply(x(0), x(1), x(2), x(3)));
    case Opcode::Dot4I8: {
      const auto s = unpack<SignsImm>(imm);
      const u32 r =
          dot4_i8(static_cast<u32>(v[0]), static_cast<u32>(v[1]), static_cast<u32>(v[2]), s.a_signed, s.b_signed);
      return to_bits<D>(static_cast<Num>(static_cast<i32>(r)));
    }
    default:
      refuse(code, D);
  }
}

template <DType D>
u64 eval_typed(Opcode code, std::span<const u64> v, u64 imm) {
  if constexpr (D == DType::boolean)
    return eval_bool<D>(code, v);
  else {
    const auto x = [&](std::size_t i) { return from_bits<D>(v[i]); };
    const auto out = [](typename Rep<D>::Num r) { return to_bits<D>(r); };
    switch (code) {  // what integers and floats share
      case Opcode::Add:
        return out(Add::apply(x(0), x(1)));
      case Opcode::Sub:
        return out(Sub::apply(x(0), x(1)));
      case Opcode::Mul:
        return out(Mul::apply(x(0), x(1)));
      case Opcode::Div:
        return out(Div::apply(x(0), x(1)));
      case Opcode::Min:
        return out(Min::apply(x(0), x(1)));
      case Opcode::Max:
        return out(Max::apply(x(0), x(1)));
      case Opcode::Sign:
        return out(Sign::apply(x(0)));
      case Opcode::Eq:
        return Eq::apply(x(0), x(1));
      case Opcode::Ne:
        return Ne::apply(x(0), x(1));
      case Opcode::Lt:
        return Lt::apply(x(0), x(1));
      case Opcode::Le:
        return Le::apply(x(0), x(1));
      case Opcode::Gt:
        return Gt::apply(x(0), x(1));
      case Opcode::Ge:
        return Ge::apply(x(0), x(1));
      default:
        break;
    }
    if constexpr (is_float(D))
      return eval_float<D>(code, v);
    else
      return eval_int<D>(code, v, imm);
  }
}

u64 eval_cast(DType to, DType from, u64 bits) {
  if (to == from) return bits & ones(to);  // a move keeps its bits
  return with_dtype(from, [&]<DType From>() {
    const auto v = from_bits<From>(bits);
    return with_dtype(to,
                      [&]<DType To>() -> u64 { return std::bit_cast<Bits<typename Rep<To>::Store>>(cast_to<To>(v)); });
  });
}
}  // namespace

void scalar::no_element_type() { throw Error("EVAL01", "a value without an element type cannot be evaluated"); }

bool can_eval(Opcode code) { return code >= Opcode::Add && code <= Opcode::DecodeE8M0 && !info(code).has(Math | Fast); }

u64 eval(Opcode code, Type result, std::span<const Type> operand_types, std::span<const u64> operands, u64 imm) {
  const DType type = operand_types[0].elem;
  switch (code) {
    case Opcode::Select:
      return operands[0] & 1 ? operands[1] : operands[2];
    case Opcode::Bitcast:
      return operands[0] & ones(type);
    case Opcode::Cast:
      return eval_cast(result.elem, type, operands[0]);
    case Opcode::DecodeE2M1:
    case Opcode::DecodeE4M3:
    case Opcode::DecodeE5M2:
    case Opcode::DecodeE8M0:
      return decode_small_float(code, static_cast<u32>(operands[0]));
    default:
      break;
  }
  if (!can_eval(code)) refuse(code, type);
  return with_dtype(type, [&]<DType D>() { return eval_typed<D>(code, operands, imm); });
}

u64 reduce_identity(ReduceKind kind, DType elem) {
  const bool has_sign = is_signed_int(elem) || elem == DType::index;
  switch (kind) {
    case ReduceKind::sum:
      return is_float(elem) ? sign_bit(elem) : 0;
    case ReduceKind::prod:
      return eval_cast(elem, DType::u32, 1);
    case ReduceKind::min:
      if (is_float(elem)) return eval_cast(elem, DType::f64, std::bit_cast<u64>(std::numeric_limits<f64>::infinity()));
      return has_sign ? ones(elem) ^ sign_bit(elem) : ones(elem);
    case ReduceKind::max:
      if (is_float(elem)) return eval_cast(elem, DType::f64, std::bit_cast<u64>(-std::numeric_limits<f64>::infinity()));
      return has_sign ? sign_bit(elem) : 0;
    case ReduceKind::and_:
      return ones(elem);
    case ReduceKind::or_:
    case ReduceKind::xor_:
      return 0;
  }
  return 0;
}

u64 reduce_step(ReduceKind kind, DType elem, u64 a, u64 b) {
  static constexpr Opcode steps[] = {Opcode::Add, Opcode::Mul, Opcode::Min, Opcode::Max,
                                     Opcode::And, Opcode::Or,  Opcode::Xor};
  const u64 v[] = {a, b};
  return with_dtype(elem, [&]<DType D>() { return eval_typed<D>(steps[static_cast<int>(kind)], v, 0); });
}

}  // namespace iron::ir
