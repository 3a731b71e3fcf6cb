// The vocabulary in which kernels are lowered: LLVM's instructions without LLVM's headers.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cpu/target.h"

namespace llvm {
class BasicBlock;
class Type;
class Value;
}  // namespace llvm

namespace iron::cpu {

using V = llvm::Value*;
using Ty = llvm::Type*;
using Block = llvm::BasicBlock*;

enum class Num : u8 { i1, i8, i16, i32, i64, f32, f64, ptr };
enum class Bin : u8 { add, sub, mul, udiv, sdiv, urem, srem, and_, or_, xor_, shl, lshr, ashr, fadd, fsub, fmul, fdiv };
enum class Cmp : u8 { eq, ne, ult, ule, ugt, uge, slt, sle, sgt, sge, oeq, une, olt, ole, ogt, oge, uno };
enum class Fn : u8 {
  sqrt,
  floor,
  ceil,
  trunc,
  roundeven,
  fabs,
  ctpop,
  clz,
  ctz,
  bitreverse,
  fma,
  copysign,
  fshl,
  fshr
};
enum class Conv : u8 { zext, sext, trunc, fpext, fptrunc, sitofp, uitofp, fptosi, fptoui, fptosi_sat, fptoui_sat };
enum class Rmw : u8 { add, sub, smin, smax, umin, umax, and_, or_, xor_, xchg, fadd };

u32 bits_of(Num n);

/// A parameter of the compiled function's body.
struct BodyParam {
  Num num = Num::ptr;
  u32 slot = 0;           ///< 64-bit word of the argument block
  bool readonly = false;  ///< of a buffer that nothing writes
  bool noalias = true;    ///< of a buffer that nothing else overlaps
};

/// One module with one kernel in it, under construction at a point.
class Code {
 public:
  Code(const CpuTarget& target, std::string name);
  ~Code();
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;

  /// Begins `void name(const u64* args, u32 first, u32 last, void* scratch)` and the body that it calls with loaded
  /// arguments; the point is the body's entry.
  void begin(std::span<const BodyParam> params);
  V param(std::size_t i);
  V first();
  V last();
  V scratch();
  void finish();  ///< returns from the body

  Ty type(Num n, u32 lanes = 0);  ///< 0 lanes: a scalar
  Num num(V v) const;
  u32 lanes(V v) const;  ///< 0 for scalars
  bool is_constant(V v) const;
  bool constant_int(V v, i64& out) const;   ///< scalars and splats
  bool constant_real(V v, f64& out) const;  ///< f32 and f64, likewise

  V integer(Num n, u64 bits, u32 lanes = 0);
  V real(Num n, f64 value, u32 lanes = 0);
  V bits(Num n, u64 bits, u32 lanes = 0);  ///< any number by its bits
  V constants(Num n, std::span<const u64> bits);
  V i32(u32 v) { return integer(Num::i32, v); }
  V i64(i64 v) { return integer(Num::i64, static_cast<u64>(v)); }
  V zero_like(V v);

  V bin(Bin op, V a, V b);
  V cmp(Cmp op, V a, V b);
  V select(V c, V a, V b);
  V not_(V a);
  V fneg(V a);
  V fn(Fn f, V a);
  V fn(Fn f, V a, V b);
  V fn(Fn f, V a, V b, V c);
  V conv(Conv c, Num to, V a);
  V half_to_float(V bits16);  ///< by the hardware's conversion
  V float_to_half(V value);   ///< the same, rounding to nearest even
  V bitcast(Num to, V a);     ///< lanes as they are
  V mask_bits(V mask);        ///< a vector of i1 as an integer of that many bits, zero-extended to i32
  V splat(V scalar, u32 lanes);
  V extract(V vec, u32 lane);
  V extract(V vec, V lane);
  V insert(V vec, V scalar, u32 lane);
  V shuffle(V a, V b, std::span<const int> mask);
  V poison(Ty t);
  V or_reduce(V mask);
  V freeze(V v);
  /// acc + the sums of four products of a's unsigned and b's signed bytes, on a target with dot_bytes.
  V dot_bytes(V acc, V a, V b);
  /// Sums of two neighbouring products of a's unsigned and b's signed bytes, saturated to 16 bits; i32 packets.
  V pair_dot_bytes(V a, V b);
  /// Sums of two neighbouring products of signed 16-bit halves; i32 packets.
  V pair_dot_halves(V a, V b);
  bool known_zero(V v, u64 mask) const;  ///< these bits are zero in every lane, provably

  // --- memory
  V alloca_array(Ty t, u32 count, u32 align);  ///< in the entry block
  V gep(V base, V byte_offset);
  V gep(V base, u64 byte_offset);
  V address(V ptr);  ///< as an i64
  V load(Ty t, V ptr, u32 align);
  void store(V value, V ptr, u32 align);
  void store_nontemporal(V value, V ptr, u32 align);
  V masked_load(Ty t, V ptr, u32 align, V mask, V other);
  void masked_store(V value, V ptr, u32 align, V mask);
  V atomic_rmw(Rmw op, V ptr, V value, bool relaxed);
  V compare_exchange(V ptr, V expected, V desired);  ///< the old value
  V atomic_load(Ty t, V ptr, u32 align);             ///< acquire
  void atomic_store(V value, V ptr, u32 align);      ///< release
  void fence();
  void prefetch(V ptr);  ///< into the second-level cache, which has room for more lines on their way
  void pause();
  void sfence();

  // --- flow
  Block block(const char* name);
  Block here() const;
  void set(Block b);
  void br(Block to);
  void br(V cond, Block yes, Block no, bool rarely = false);
  V phi(Ty t);
  void incoming(V phi, V value, Block from);
  /// Calls a function pointer found at run time; `result` may be void (ptr type null).
  V call(V fn, Ty result, std::initializer_list<V> args);
  bool terminated() const;

  const CpuTarget& target() const { return target_; }
  const std::string& name() const { return name_; }
  struct Module;
  Module& module() { return *module_; }
  std::size_t instructions() const;

 private:
  CpuTarget target_;
  std::string name_;
  std::unique_ptr<Module> module_;
};

}  // namespace iron::cpu
