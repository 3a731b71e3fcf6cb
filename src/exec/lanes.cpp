// Lane loops of the pure ops: the evaluator's own functors, compiled once an op and element type.
#include "exec/machine.h"
#include "exec/rows.h"
#include "ir/eval.h"
#include "ir/scalar.h"

namespace iron::exec {

namespace {
using namespace ir;
namespace sc = ir::scalar;

// 16-bit floats are widened and narrowed a row of so many numbers at a time, others computed where they lie.
constexpr u32 row = 64;
template <DType D>
constexpr bool narrow_float = D == DType::f16 || D == DType::bf16;
template <DType D>
void widen(const u16* in, f32* out, u32 n) {
  D == DType::f16 ? widen_f16_row(in, out, n) : widen_bf16_row(in, out, n);
}
template <DType D>
void narrow(const f32* in, u16* out, u32 n) {
  D == DType::f16 ? narrow_f16_row(in, out, n) : narrow_bf16_row(in, out, n);
}
/// Calls f(n, out, in...) for rows of numbers: f writes n results from n numbers of each operand.
template <DType D, class F, class... Operand>
void by_rows(const Simdgroup& s, const Instr& in, F&& f, Operand... at) {
  static_assert(narrow_float<D>);
  for (u32 i = 0; i < in.n; i += row) {
    const u32 n = std::min(row, in.n - i);
    f32 out[row], numbers[sizeof...(at)][row];
    u32 o = 0;
    (widen<D>(reg<u16>(s, at) + i, numbers[o++], n), ...);
    f(n, out, numbers);
    narrow<D>(out, reg<u16>(s, in.dst) + i, n);
  }
}

template <class Op, DType D>
Status unary(Machine&, Simdgroup& s, const Instr& in) {
  using R = sc::Rep<D>;
  if constexpr (narrow_float<D>) {
    by_rows<D>(
        s, in,
        [](u32 n, f32* out, const f32(*v)[row]) {
          for (u32 i = 0; i < n; ++i) out[i] = Op::apply(v[0][i]);
        },
        in.a);
  } else {
    const auto* a = reg<typename R::Store>(s, in.a);
    auto* __restrict out = reg<typename R::Store>(s, in.dst);
    for (u32 i = 0; i < in.n; ++i) out[i] = R::store(Op::apply(R::load(a[i])));
  }
  return Status::next;
}
template <class Op, DType D>
Status binary(Machine&, Simdgroup& s, const Instr& in) {
  using R = sc::Rep<D>;
  if constexpr (narrow_float<D>) {
    by_rows<D>(
        s, in,
        [](u32 n, f32* out, const f32(*v)[row]) {
          for (u32 i = 0; i < n; ++i) out[i] = Op::apply(v[0][i], v[1][i]);
        },
        in.a, in.b);
  } else {
    const auto *a = reg<typename R::Store>(s, in.a), *b = reg<typename R::Store>(s, in.b);
    auto* __restrict out = reg<typename R::Store>(s, in.dst);
    for (u32 i = 0; i < in.n; ++i) out[i] = R::store(Op::apply(R::load(a[i]), R::load(b[i])));
  }
  return Status::next;
}
template <DType D>
Status fused_multiply_add(Machine&, Simdgroup& s, const Instr& in) {
  if constexpr (narrow_float<D>) {
    by_rows<D>(s, in, [](u32 n, f32* out, const f32(*v)[row]) { fma_row(v[0], v[1], v[2], out, n); }, in.a, in.b, in.c);
  } else if constexpr (D == DType::f32) {
    fma_row(reg<f32>(s, in.a), reg<f32>(s, in.b), reg<f32>(s, in.c), reg<f32>(s, in.dst), in.n);
  } else {
    const auto *a = reg<f64>(s, in.a), *b = reg<f64>(s, in.b), *c = reg<f64>(s, in.c);
    for (u32 i = 0; i < in.n; ++i) reg<f64>(s, in.dst)[i] = sc::Fma::apply(a[i], b[i], c[i]);
  }
  return Status::next;
}
template <class Op, DType D>
Status ternary(Machine&, Simdgroup& s, const Instr& in) {
  using R = sc::Rep<D>;
  const auto *a = reg<typename R::Store>(s, in.a), *b = reg<typename R::Store>(s, in.b),
             *c = reg<typename R::Store>(s, in.c);
  auto* __restrict out = reg<typename R::Store>(s, in.dst);
  for (u32 i = 0; i < in.n; ++i) out[i] = R::store(Op::apply(R::load(a[i]), R::load(b[i]), R::load(c[i])));
  return Status::next;
}
// A number times a power of two: by a product in f64 where that is exact, so that one rounding remains.
template <DType D>
Status ldexp(Machine&, Simdgroup& s, const Instr& in) {
  using R = sc::Rep<D>;
  const auto* a = reg<typename R::Store>(s, in.a);
  const auto* power = reg<i32>(s, in.b);
  auto* const out = reg<typename R::Store>(s, in.dst);
  for (u32 i = 0; i < in.n; ++i) {
    if constexpr (D == DType::f32) {
      const i32 p = std::clamp(power[i], -1000, 1000);  // beyond, every product is infinite or 0 in f32 anyway
      const f64 factor = std::bit_cast<f64>(static_cast<u64>(1023 + p) << 52);
      out[i] = sc::quiet(static_cast<f32>(static_cast<f64>(a[i]) * factor));
    } else {
      out[i] = R::store(sc::Ldexp::apply(R::load(a[i]), power[i]));
    }
  }
  return Status::next;
}
template <class Op, DType D>
Status compare(Machine&, Simdgroup& s, const Instr& in) {
  using R = sc::Rep<D>;
  auto* __restrict out = reg<u8>(s, in.dst);
  if constexpr (narrow_float<D>) {
    for (u32 at = 0; at < in.n; at += row) {
      const u32 n = std::min(row, in.n - at);
      f32 a[row], b[row];
      widen<D>(reg<u16>(s, in.a) + at, a, n), widen<D>(reg<u16>(s, in.b) + at, b, n);
      for (u32 i = 0; i < n; ++i) out[at + i] = Op::apply(a[i], b[i]);
    }
  } else {
    const auto *a = reg<typename R::Store>(s, in.a), *b = reg<typename R::Store>(s, in.b);
    for (u32 i = 0; i < in.n; ++i) out[i] = Op::apply(R::load(a[i]), R::load(b[i]));
  }
  return Status::next;
}
template <DType D>
Status is_nan(Machine&, Simdgroup& s, const Instr& in) {
  using R = sc::Rep<D>;
  const auto* a = reg<typename R::Store>(s, in.a);
  auto* __restrict out = reg<u8>(s, in.dst);
  for (u32 i = 0; i < in.n; ++i) out[i] = sc::IsNan::apply(R::load(a[i]));
  return Status::next;
}
// Negation and absolute value of floats work on the bits.
template <class U, bool Negate>
Status sign_bits(Machine&, Simdgroup& s, const Instr& in) {
  constexpr U sign = static_cast<U>(U{1} << (sizeof(U) * 8 - 1));
  for (u32 i = 0; i < in.n; ++i) {
    U v;
    std::memcpy(&v, s.regs + in.a + i * sizeof(U), sizeof(U));
    v = static_cast<U>(Negate ? v ^ sign : v & static_cast<U>(~sign));
    std::memcpy(s.regs + in.dst + i * sizeof(U), &v, sizeof(U));
  }
  return Status::next;
}
template <class Op>
Status logic(Machine&, Simdgroup& s, const Instr& in) {
  const auto *a = reg<u8>(s, in.a), *b = reg<u8>(s, in.b);
  auto* __restrict out = reg<u8>(s, in.dst);
  for (u32 i = 0; i < in.n; ++i) out[i] = Op::apply(a[i], b[i]) & 1;
  return Status::next;
}
Status logic_not(Machine&, Simdgroup& s, const Instr& in) {
  const auto* a = reg<u8>(s, in.a);
  auto* __restrict out = reg<u8>(s, in.dst);
  for (u32 i = 0; i < in.n; ++i) out[i] = a[i] ^ 1;
  return Status::next;
}
// The condition is a scalar for all elements of a vector, or one an element.
template <class U>
Status select(Machine& m, Simdgroup& s, const Instr& in) {
  const auto* c = reg<u8>(s, in.a);
  const bool each = in.imm != 0;
  const U *yes = reg<U>(s, in.b), *no = reg<U>(s, in.c);
  U* const out = reg<U>(s, in.dst);
  for (u32 e = 0; e < in.n; e += m.width)
    for (u32 i = 0; i < m.width; ++i) {
      const U keep = static_cast<U>(U{0} - static_cast<U>(c[each ? e + i : i] & 1));
      out[e + i] = static_cast<U>((yes[e + i] & keep) | (no[e + i] & ~keep));
    }
  return Status::next;
}
template <DType To, DType From>
Status cast(Machine&, Simdgroup& s, const Instr& in) {
  const auto* a = reg<typename sc::Rep<From>::Store>(s, in.a);
  auto* __restrict out = reg<typename sc::Rep<To>::Store>(s, in.dst);
  if constexpr (narrow_float<From> && To == DType::f32) {
    widen<From>(a, out, in.n);
    for (u32 i = 0; i < in.n; ++i) out[i] = sc::quiet(out[i]);
    return Status::next;
  }
  if constexpr (From == DType::f32 && narrow_float<To>) {
    for (u32 at = 0; at < in.n; at += row) {
      const u32 n = std::min(row, in.n - at);
      f32 v[row];
      for (u32 i = 0; i < n; ++i) v[i] = sc::quiet(a[at + i]);
      narrow<To>(v, out + at, n);
    }
    return Status::next;
  }
  for (u32 i = 0; i < in.n; ++i) {
    if constexpr (To == From)
      out[i] = a[i];
    else
      out[i] = sc::cast_to<To>(sc::Rep<From>::load(a[i]));
  }
  return Status::next;
}

Status dot4(Machine&, Simdgroup& s, const Instr& in) {
  const auto signs = unpack<SignsImm>(in.imm);
  const u32 *a = reg<u32>(s, in.a), *b = reg<u32>(s, in.b), *c = reg<u32>(s, in.c);
  for (u32 i = 0; i < in.n; ++i) reg<u32>(s, in.dst)[i] = sc::dot4_i8(a[i], b[i], c[i], signs.a_signed, signs.b_signed);
  return Status::next;
}

// Any op on any type, one application at a time.
Status by_eval(Machine& m, Simdgroup& s, const Instr& in) {
  const OpId id = in.op;
  const auto& k = m.kernel;
  const auto count = k.op(id).operand_count;
  Type types[4];
  u64 values[4];
  const u32 regs[4] = {in.a, in.b, in.c, in.d};
  for (u32 o = 0; o < count; ++o) types[o] = Type::value(k.type(k.operand(id, o)).elem);
  const Type result = Type::value(in.elem);
  for (u32 i = 0; i < in.n; ++i) {
    for (u32 o = 0; o < count; ++o) values[o] = lane_bits(s, regs[o], dtype_size(types[o].elem), i);
    set_lane_bits(s, in.dst, dtype_size(in.elem), i,
                  eval(k.op(id).code, result, {types, count}, {values, count}, k.op(id).imm));
  }
  return Status::next;
}

template <DType D>
Handler arithmetic(Opcode code) {
  switch (code) {
    case Opcode::Add:
      return binary<sc::Add, D>;
    case Opcode::Sub:
      return binary<sc::Sub, D>;
    case Opcode::Mul:
      return binary<sc::Mul, D>;
    case Opcode::Div:
      return binary<sc::Div, D>;
    case Opcode::Rem:
      return binary<sc::Rem, D>;
    case Opcode::Min:
      return binary<sc::Min, D>;
    case Opcode::Max:
      return binary<sc::Max, D>;
    case Opcode::Eq:
      return compare<sc::Eq, D>;
    case Opcode::Ne:
      return compare<sc::Ne, D>;
    case Opcode::Lt:
      return compare<sc::Lt, D>;
    case Opcode::Le:
      return compare<sc::Le, D>;
    case Opcode::Gt:
      return compare<sc::Gt, D>;
    case Opcode::Ge:
      return compare<sc::Ge, D>;
    default:
      break;
  }
  if constexpr (is_float(D)) {
    using U = sc::Bits<typename sc::Rep<D>::Store>;
    switch (code) {
      case Opcode::Ldexp:
        return ldexp<D>;
      case Opcode::Fma:
        return fused_multiply_add<D>;
      case Opcode::Neg:
        return sign_bits<U, true>;
      case Opcode::Abs:
        return sign_bits<U, false>;
      case Opcode::IsNan:
        return is_nan<D>;
      case Opcode::Sqrt:
        return unary<sc::Sqrt, D>;
      case Opcode::Rsqrt:
        return unary<sc::Rsqrt, D>;
      case Opcode::Recip:
        return unary<sc::Recip, D>;
      case Opcode::Floor:
        return unary<sc::Floor, D>;
      case Opcode::Ceil:
        return unary<sc::Ceil, D>;
      case Opcode::Trunc:
        return unary<sc::Trunc, D>;
      case Opcode::Round:
        return unary<sc::Round, D>;
      default:
        return nullptr;
    }
  } else {
    switch (code) {
      case Opcode::Neg:
        return unary<sc::Neg, D>;
      case Opcode::Abs:
        return unary<sc::Abs, D>;
      case Opcode::And:
        return binary<sc::And, D>;
      case Opcode::Or:
        return binary<sc::Or, D>;
      case Opcode::Xor:
        return binary<sc::Xor, D>;
      case Opcode::Not:
        return unary<sc::Not, D>;
      case Opcode::Shl:
        return binary<sc::Shl, D>;
      case Opcode::Shr:
        return binary<sc::Shr, D>;
      case Opcode::Popcount:
        return unary<sc::Popcount, D>;
      case Opcode::Clz:
        return unary<sc::Clz, D>;
      case Opcode::Ctz:
        return unary<sc::Ctz, D>;
      case Opcode::BitReverse:
        return unary<sc::BitReverse, D>;
      case Opcode::FunnelShl:
        return ternary<sc::FunnelShl, D>;
      case Opcode::FunnelShr:
        return ternary<sc::FunnelShr, D>;
      case Opcode::BitExtract:
        return ternary<sc::BitExtract, D>;
      case Opcode::MulHi:
        return binary<sc::MulHi, D>;
      default:
        return nullptr;
    }
  }
}

Handler cast_handler(DType from, DType to) {
  const auto stored = [](DType t) { return t == DType::index ? DType::i64 : t; };  // one handler for both
  return sc::with_dtype(stored(from), [&]<DType From>() {
    return sc::with_dtype(stored(to), []<DType To>() -> Handler { return cast<To, From>; });
  });
}

Handler select_handler(u32 size) {
  switch (size) {
    case 1:
      return select<u8>;
    case 2:
      return select<u16>;
    case 4:
      return select<u32>;
    default:
      return select<u64>;
  }
}
}  // namespace

Handler eval_handler() { return by_eval; }

Handler pure_handler(Opcode code, DType operand, DType result) {
  if (code == Opcode::Cast) return cast_handler(operand, result);
  if (code == Opcode::Dot4I8 && dtype_size(operand) == 4 && dtype_size(result) == 4) return dot4;
  if (code == Opcode::Select) return select_handler(dtype_size(result));
  switch (operand) {
    case DType::boolean:
      switch (code) {
        case Opcode::And:
          return logic<sc::And>;
        case Opcode::Or:
          return logic<sc::Or>;
        case Opcode::Xor:
        case Opcode::Ne:
          return logic<sc::Xor>;
        case Opcode::Eq:
          return logic<sc::Eq>;
        case Opcode::Not:
          return logic_not;
        default:
          return nullptr;
      }
    case DType::f32:
      return arithmetic<DType::f32>(code);
    case DType::f64:
      return arithmetic<DType::f64>(code);
    case DType::f16:
      return arithmetic<DType::f16>(code);
    case DType::bf16:
      return arithmetic<DType::bf16>(code);
    case DType::i8:
      return arithmetic<DType::i8>(code);
    case DType::u8:
      return arithmetic<DType::u8>(code);
    case DType::i16:
      return arithmetic<DType::i16>(code);
    case DType::u16:
      return arithmetic<DType::u16>(code);
    case DType::i32:
      return arithmetic<DType::i32>(code);
    case DType::u32:
      return arithmetic<DType::u32>(code);
    case DType::u64:
      return arithmetic<DType::u64>(code);
    case DType::i64:
    case DType::index:
      return arithmetic<DType::i64>(code);
    default:
      return nullptr;
  }
}

}  // namespace iron::exec
