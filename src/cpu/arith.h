// The meaning of pure ops (R1-R3) as instructions, alike for scalars and packets.
#pragma once

#include <span>

#include "cpu/code.h"
#include "ir/op.h"
#include "ir/type.h"

namespace iron::cpu {

/// How an element lies in a register: 16-bit floats as their bits, index as i64.
Num num_of(DType type);

/// Services of the host that compiled code reaches through pointers in its scratch block: the few exact functions that
/// no instruction of the target gives, and reports.
struct HostServices {
  f64 (*fmod)(f64, f64);
  f64 (*fma)(f64, f64, f64);
  void (*report)(void* context, u32 op, u64 thread, const u64* values);
  void* context;
};

class Arith {
 public:
  explicit Arith(Code& code) : c_(code), t_(code.target()) {}

  /// A pure op of one element type applied to operands that are all scalars or all packets of one width. `elem` is the
  /// type of the first operand that is no condition.
  V apply(ir::Opcode code, DType elem, std::span<const V> v, u64 imm);
  V apply(ir::Opcode code, DType elem, std::initializer_list<V> v) {
    return apply(code, elem, std::span<const V>(v.begin(), v.size()), 0);
  }
  /// a * 2^b where b is known to lie between the two bounds.
  V ldexp(DType elem, V a, V b, i64 least, i64 most);
  V cast(DType to, DType from, V v);
  V reduce(ir::ReduceKind kind, DType elem, V a, V b);
  V constant(DType elem, u64 bits, u32 lanes = 0) { return c_.bits(num_of(elem), bits, lanes); }
  V widen(DType elem, V bits16);
  V narrow(DType elem, V value);

 private:
  V floats(ir::Opcode code, V* v);
  V integers(ir::Opcode code, DType elem, V* v, u64 imm);
  V bools(ir::Opcode code, V* v);
  V compare(ir::Opcode code, DType elem, V a, V b);
  V min_max(bool max, V a, V b);
  V divide(DType elem, V a, V b, bool remainder);
  V mulhi(DType elem, V a, V b);
  V dot_bytes(V a, V b, V sum, bool a_signed, bool b_signed);
  V unsigned_by_signed(V a, V b, V sum);
  V fma(V a, V b, V c);
  V ldexp(V a, V b, i64 least, i64 most);
  V rounded(ir::Opcode code, V a);
  V decode(ir::Opcode code, V a);
  V odd_float(V f64_value);  ///< f64 to f32, rounded to odd
  V odd_double(DType from, V integer);
  V each_lane(V a, V b, V c, bool is_fma);
  V k(V like, u64 value) { return c_.integer(c_.num(like), value, c_.lanes(like)); }
  V kf(V like, f64 value) { return c_.real(c_.num(like), value, c_.lanes(like)); }
  V as_int(V v) { return c_.bitcast(c_.num(v) == Num::f32 ? Num::i32 : Num::i64, v); }
  V as_float(V v) { return c_.bitcast(c_.num(v) == Num::i32 ? Num::f32 : Num::f64, v); }

  Code& c_;
  const CpuTarget& t_;
};

}  // namespace iron::cpu
