// The instructions of block programs.
#include "block_eval.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace iron::test {

using ir::Opcode;
using ir::OpId;

namespace {
constexpr std::size_t n = block_size;

template <class A, class R, class F>
void map(R* out, const A* a, F f) {
  for (std::size_t i = 0; i < n; ++i) out[i] = f(a[i]);
}
template <class A, class B, class R, class F>
void map(R* out, const A* a, const B* b, F f) {
  for (std::size_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

// a * 2^b is exact in f64 for every b that can matter; the conversion is the one rounding.
f32 scale(f32 a, i32 b) {
  const i64 e = b < -400 ? -400 : b > 400 ? 400 : b;
  return static_cast<f32>(static_cast<f64>(a) * std::bit_cast<f64>(static_cast<u64>(e + 1023) << 52));
}

[[noreturn]] void unknown(Opcode code) {
  throw std::logic_error("block_eval does not know " + std::string(ir::info(code).text));
}
}  // namespace

BlockProgram::BlockProgram(const ir::Kernel& k) : register_of_(k.op_capacity(), 0) { compile(k, k.body(), false); }

void BlockProgram::compile(const ir::Kernel& k, ir::RegionId r, bool inside) {
  for (const OpId id : k.region(r).ops) {
    const ir::Op& op = k.op(id);
    const auto reg = [&](u32 i) { return register_of_[k.operand(id, i)]; };
    if (op.code == Opcode::Param || op.code == Opcode::GridThreadId || op.code == Opcode::Yield) continue;
    if (op.code == Opcode::Result) continue;  // set with its If
    if (op.code == Opcode::Store) {
      output_ = reg(2);
      continue;
    }
    if (op.code == Opcode::If) {
      const u32 condition = reg(0);
      const auto at = code_.size();
      code_.push_back({Opcode::If, DType::none, DType::none, 0, condition, 0, 0, 0});
      compile(k, k.region_of(id, 0), true);
      code_[at].skip = static_cast<u32>(code_.size() - at);
      compile(k, k.region_of(id, 1), true);
      const auto results = k.results(id);
      const OpId yes = k.terminator(k.region_of(id, 0)), no = k.terminator(k.region_of(id, 1));
      for (u32 i = 0; i < results.size(); ++i) {
        register_of_[results[i]] = static_cast<u32>(registers_.size());
        registers_.emplace_back();
        const DType elem = k.type(results[i]).elem;
        code_.push_back({Opcode::Select, elem, elem, register_of_[results[i]], condition,
                         register_of_[k.operand(yes, i)], register_of_[k.operand(no, i)], 0});
      }
      ++cost_;
      continue;
    }
    const u32 out = register_of_[id] = static_cast<u32>(registers_.size());
    registers_.emplace_back();
    if (op.code == Opcode::Load) {
      inputs_.push_back(out);
      continue;
    }
    if (op.code == Opcode::Const) {
      if (dtype_size(op.type.elem) == 8)
        std::fill_n(registers_[out].as<u64>(), n, op.imm);
      else
        std::fill_n(registers_[out].as<u32>(), n, static_cast<u32>(op.imm));
      continue;
    }
    Instr i{op.code, op.type.elem, k.type(k.operand(id, 0)).elem, out, reg(0), 0, 0, 0};
    if (op.operand_count > 1) i.b = reg(1);
    if (op.operand_count > 2) i.c = reg(2);
    code_.push_back(i);
    if (op.code != Opcode::Bitcast) ++(inside ? branch_cost_ : cost_);
  }
}

void BlockProgram::run(std::span<const u32* const> inputs, u32* output) {
  for (std::size_t i = 0; i < inputs_.size(); ++i) std::memcpy(registers_[inputs_[i]].bytes, inputs[i], n * 4);
  for (std::size_t at = 0; at < code_.size(); ++at) {
    const Instr& i = code_[at];
    if (i.code == Opcode::If) {
      u32 any = 0;
      const u32* condition = registers_[i.a].as<u32>();
      for (std::size_t lane = 0; lane < n; ++lane) any |= condition[lane];
      if (!any) at += i.skip - 1;
      continue;
    }
    step(i);
  }
  std::memcpy(output, registers_[output_].bytes, n * 4);
}

namespace {
template <class T, class Reg>
bool compare(Opcode code, Reg& out, Reg& a, Reg& b) {
  u32* o = out.template as<u32>();
  const T *x = a.template as<T>(), *y = b.template as<T>();
  switch (code) {
    case Opcode::Eq:
      map(o, x, y, [](T p, T q) -> u32 { return p == q; });
      return true;
    case Opcode::Ne:
      map(o, x, y, [](T p, T q) -> u32 { return p != q; });
      return true;
    case Opcode::Lt:
      map(o, x, y, [](T p, T q) -> u32 { return p < q; });
      return true;
    case Opcode::Le:
      map(o, x, y, [](T p, T q) -> u32 { return p <= q; });
      return true;
    case Opcode::Gt:
      map(o, x, y, [](T p, T q) -> u32 { return p > q; });
      return true;
    case Opcode::Ge:
      map(o, x, y, [](T p, T q) -> u32 { return p >= q; });
      return true;
    default:
      return false;
  }
}

// T is unsigned; signed right shifts, maxima and products of high halves go through S.
template <class T, class S, class Reg>
bool integer(Opcode code, bool is_signed, Reg& out, Reg& a, Reg& b) {
  T* o = out.template as<T>();
  const T *x = a.template as<T>(), *y = b.template as<T>();
  constexpr T mask = sizeof(T) * 8 - 1;
  switch (code) {
    case Opcode::Add:
      map(o, x, y, [](T p, T q) -> T { return p + q; });
      return true;
    case Opcode::Sub:
      map(o, x, y, [](T p, T q) -> T { return p - q; });
      return true;
    case Opcode::Mul:
      map(o, x, y, [](T p, T q) -> T { return p * q; });
      return true;
    case Opcode::And:
      map(o, x, y, [](T p, T q) -> T { return p & q; });
      return true;
    case Opcode::Or:
      map(o, x, y, [](T p, T q) -> T { return p | q; });
      return true;
    case Opcode::Xor:
      map(o, x, y, [](T p, T q) -> T { return p ^ q; });
      return true;
    case Opcode::Shl:
      map(o, x, y, [](T p, T q) -> T { return p << (q & mask); });
      return true;
    case Opcode::Shr:
      if (is_signed)
        map(o, x, y, [](T p, T q) { return static_cast<T>(static_cast<S>(p) >> (q & mask)); });
      else
        map(o, x, y, [](T p, T q) -> T { return p >> (q & mask); });
      return true;
    case Opcode::Max:
      if (is_signed)
        map(o, x, y, [](T p, T q) -> T { return static_cast<S>(p) > static_cast<S>(q) ? p : q; });
      else
        map(o, x, y, [](T p, T q) -> T { return p > q ? p : q; });
      return true;
    case Opcode::Min:
      if (is_signed)
        map(o, x, y, [](T p, T q) -> T { return static_cast<S>(p) < static_cast<S>(q) ? p : q; });
      else
        map(o, x, y, [](T p, T q) -> T { return p < q ? p : q; });
      return true;
    default:
      return false;
  }
}

template <class Reg>
bool floating(Opcode code, Reg& out, Reg& a, Reg& b, Reg& c) {
  f32* o = out.template as<f32>();
  const f32 *x = a.template as<f32>(), *y = b.template as<f32>(), *z = c.template as<f32>();
  switch (code) {
    case Opcode::Add:
      map(o, x, y, [](f32 p, f32 q) { return p + q; });
      return true;
    case Opcode::Sub:
      map(o, x, y, [](f32 p, f32 q) { return p - q; });
      return true;
    case Opcode::Mul:
      map(o, x, y, [](f32 p, f32 q) { return p * q; });
      return true;
    case Opcode::Div:
      map(o, x, y, [](f32 p, f32 q) { return p / q; });
      return true;
    case Opcode::Fma:
      for (std::size_t i = 0; i < n; ++i) o[i] = std::fma(x[i], y[i], z[i]);
      return true;
    case Opcode::Neg:
      map(o, x, [](f32 p) { return -p; });
      return true;
    case Opcode::Abs:
      map(o, x, [](f32 p) { return std::fabs(p); });
      return true;
    case Opcode::Sqrt:
      map(o, x, [](f32 p) { return std::sqrt(p); });
      return true;
    case Opcode::Trunc:
      map(o, x, [](f32 p) { return std::trunc(p); });
      return true;
    case Opcode::Round:
      map(o, x, [](f32 p) { return std::nearbyint(p); });
      return true;
    case Opcode::Floor:
      map(o, x, [](f32 p) { return std::floor(p); });
      return true;
    case Opcode::Ldexp:
      map(o, x, b.template as<i32>(), [](f32 p, i32 q) { return scale(p, q); });
      return true;
    default:
      return false;
  }
}

template <class Reg>
bool cast(DType to, DType from, Reg& out, Reg& a) {
  const auto is = [&](DType t, DType f) { return to == t && from == f; };
  if (is(DType::f32, DType::i32))
    map(out.template as<f32>(), a.template as<i32>(), [](i32 v) { return static_cast<f32>(v); });
  else if (is(DType::f32, DType::i64))
    map(out.template as<f32>(), a.template as<i64>(), [](i64 v) { return static_cast<f32>(v); });
  else if (is(DType::i64, DType::f32))
    map(out.template as<i64>(), a.template as<f32>(), [](f32 v) { return static_cast<i64>(v); });
  else if (is(DType::u64, DType::u32))
    map(out.template as<u64>(), a.template as<u32>(), [](u32 v) { return u64{v}; });
  else if (is(DType::i32, DType::u64))
    map(out.template as<u32>(), a.template as<u64>(), [](u64 v) { return static_cast<u32>(v); });
  else if (is(DType::f32, DType::f16))
    map(out.template as<f32>(), a.template as<u32>(), [](u32 v) { return f16_bits_to_f32(static_cast<u16>(v)); });
  else if (is(DType::f32, DType::bf16))
    map(out.template as<u32>(), a.template as<u32>(), [](u32 v) { return v << 16; });
  else if (is(DType::f16, DType::f32))
    map(out.template as<u32>(), a.template as<f32>(), [](f32 v) { return u32{f32_to_f16_bits(v)}; });
  else if (is(DType::bf16, DType::f32))
    map(out.template as<u32>(), a.template as<f32>(), [](f32 v) { return u32{f32_to_bf16_bits(v)}; });
  else
    return false;
  return true;
}
}  // namespace

void BlockProgram::step(const Instr& i) {
  Register &out = registers_[i.out], &a = registers_[i.a], &b = registers_[i.b], &c = registers_[i.c];
  const bool long_int = i.elem == DType::i64 || i.elem == DType::u64;
  switch (i.code) {
    case Opcode::Select: {
      const u32* condition = a.as<u32>();
      if (long_int)
        for (std::size_t l = 0; l < n; ++l) out.as<u64>()[l] = condition[l] ? b.as<u64>()[l] : c.as<u64>()[l];
      else
        for (std::size_t l = 0; l < n; ++l) out.as<u32>()[l] = condition[l] ? b.as<u32>()[l] : c.as<u32>()[l];
      return;
    }
    case Opcode::Bitcast:
      std::memcpy(out.bytes, a.bytes, sizeof out.bytes);
      return;
    case Opcode::IsNan:
      map(out.as<u32>(), a.as<f32>(), [](f32 v) -> u32 { return std::isnan(v); });
      return;
    case Opcode::Not:
      if (i.elem == DType::boolean)
        map(out.as<u32>(), a.as<u32>(), [](u32 v) { return v ^ 1u; });
      else
        map(out.as<u32>(), a.as<u32>(), [](u32 v) { return ~v; });
      return;
    case Opcode::FunnelShl:
      for (std::size_t l = 0; l < n; ++l) {
        const u64 both = (u64{a.as<u32>()[l]} << 32) | b.as<u32>()[l];
        out.as<u32>()[l] = static_cast<u32>((both << (c.as<u32>()[l] & 31)) >> 32);
      }
      return;
    case Opcode::Cast:
      if (!cast(i.elem, i.from, out, a)) unknown(i.code);
      return;
    default:
      break;
  }
  bool done = false;
  if (i.elem == DType::boolean && i.from != DType::boolean)
    done = i.from == DType::f32   ? compare<f32>(i.code, out, a, b)
           : i.from == DType::i32 ? compare<i32>(i.code, out, a, b)
           : i.from == DType::u32 ? compare<u32>(i.code, out, a, b)
                                  : false;
  else if (i.elem == DType::f32)
    done = floating(i.code, out, a, b, c);
  else if (long_int)
    done = integer<u64, i64>(i.code, i.elem == DType::i64, out, a, b);
  else
    done = integer<u32, i32>(i.code, i.elem == DType::i32, out, a, b);
  if (!done) unknown(i.code);
}

}  // namespace iron::test
