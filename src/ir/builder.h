// Checked construction: the only way in which the recorder, the parser and the passes make ops.
#pragma once

#include <initializer_list>

#include "ir/kernel.h"

namespace iron::ir {

/// Appends or inserts ops at a point of a region, infers result types from the op table and refuses what it refuses.
class Builder {
 public:
  explicit Builder(Kernel& k) : kernel_(&k), region_(k.body()), at_(k.region(k.body()).ops.size()) {}

  Kernel& kernel() { return *kernel_; }
  RegionId region() const { return region_; }
  void set_point(RegionId r) { region_ = r, at_ = kernel_->region(r).ops.size(); }
  void set_point(RegionId r, std::size_t at) { region_ = r, at_ = at; }
  void set_point_before(OpId id);
  void set_point_after(OpId id);
  void set_location(LocId loc) { loc_ = loc; }
  LocId location() const { return loc_; }

  /// An op whose result type follows from its operands; throws iron::Error (IR0101) if the types do not fit.
  OpId op(Opcode code, std::initializer_list<OpId> operands, u64 imm = 0) {
    return op(code, std::span<const OpId>(operands.begin(), operands.size()), imm);
  }
  OpId op(Opcode code, std::span<const OpId> operands, u64 imm = 0);
  /// An op with a stated result type (TypeRule::Given, casts, loads of vectors).
  OpId op(Opcode code, Type type, std::span<const OpId> operands, u64 imm = 0);
  OpId op(Opcode code, Type type, std::initializer_list<OpId> operands, u64 imm = 0) {
    return op(code, type, std::span<const OpId>(operands.begin(), operands.size()), imm);
  }

  OpId constant(Type type, u64 bits);  ///< the bits of one element; vectors are splats
  OpId const_index(i64 value) { return constant(index_type, static_cast<u64>(value)); }
  OpId const_f32(f32 value) { return constant(Type::value(DType::f32), std::bit_cast<u32>(value)); }
  OpId const_u32(u32 value) { return constant(u32_type, value); }
  OpId const_bool(bool value) { return constant(bool_type, value ? 1 : 0); }
  OpId cast(Type type, OpId value) { return op(Opcode::Cast, type, {value}); }
  /// A float constant of any float type, rounded once from f64.
  OpId const_float(DType elem, f64 value);

  /// A loop with its region open at the end; close it with yield(values) and set_point back.
  OpId for_(OpId start, OpId end, OpId step, std::span<const OpId> init, UntilImm until = {});
  OpId if_(OpId condition, std::span<const Type> results);
  OpId yield(std::span<const OpId> values) { return op(Opcode::Yield, none_type, values); }
  OpId yield(std::initializer_list<OpId> values) { return op(Opcode::Yield, none_type, values); }

 private:
  OpId place(OpId id);
  Kernel* kernel_;
  RegionId region_;
  std::size_t at_;
  LocId loc_ = 0;
};

/// The result type that the table gives, or a sentence that says what is wrong.
struct Inferred {
  Type type;
  std::string problem;
};
Inferred infer(const Kernel& k, Opcode code, std::span<const OpId> operands, u64 imm, Type stated);

}  // namespace iron::ir
