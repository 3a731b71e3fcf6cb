// Result types from the op table, and placement of new ops.
#include "ir/builder.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/float_bits.h"
#include "ir/text.h"
#include "ir/tier.h"

namespace iron::ir {

namespace {
std::string types_of(const Kernel& k, std::span<const OpId> operands) {
  std::string out;
  for (const OpId v : operands) out += (out.empty() ? "" : ", ") + to_string(k.type(v));
  return out;
}

bool int_or_index(Type t) { return t.is_value() && (is_int(t.elem) || t.elem == DType::index); }
bool arithmetic(Type t) { return t.is_value() && t.elem != DType::boolean && t.elem != DType::none; }

std::string expect_memory(const Kernel& k, std::span<const OpId> o) {
  if (!k.type(o[0]).is_memory())
    return fmt::format("the first operand must be memory, it is {}", to_string(k.type(o[0])));
  if (!k.type(o[1]).is_index()) return fmt::format("the subscript must be index, it is {}", to_string(k.type(o[1])));
  return {};
}
}  // namespace

Inferred infer(const Kernel& k, Opcode code, std::span<const OpId> o, u64 imm, Type stated) {
  const auto& i = info(code);
  if (i.operands >= 0 && static_cast<std::size_t>(i.operands) != o.size())
    return {stated, fmt::format("{} takes {} operands, not {}", i.text, i.operands, o.size())};
  const auto type = [&](std::size_t n) { return k.type(o[n]); };
  const auto bad = [&](std::string_view rule) {
    return Inferred{stated, fmt::format("{} {}; operands are {}", i.text, rule, types_of(k, o))};
  };
  const auto all_same = [&] { return std::all_of(o.begin(), o.end(), [&](OpId v) { return k.type(v) == type(0); }); };
  switch (i.rule) {
    case TypeRule::Given:
      return {stated, {}};
    case TypeRule::NoResult:
      return {none_type, {}};
    case TypeRule::Same: {
      if (!type(0).is_value() || !all_same()) return bad("needs operands of one type");
      const bool logical = i.imm == ImmKind::Reduce && (unpack<ReduceKind>(imm) >= ReduceKind::and_);
      const bool moves = code == Opcode::SimdShuffleXor || code == Opcode::SimdShuffleUp ||
                         code == Opcode::SimdShuffleDown || code == Opcode::GroupBroadcast ||
                         code == Opcode::AssumeUniform;
      if (logical ? is_float(type(0).elem) : !moves && !arithmetic(type(0))) return bad("does not work on this type");
      return {type(0), {}};
    }
    case TypeRule::SameFloat:
      return type(0).is_value() && is_float(type(0).elem) && all_same() ? Inferred{type(0), {}}
                                                                        : bad("needs floats of one type");
    case TypeRule::SameInt:
      return int_or_index(type(0)) && all_same() ? Inferred{type(0), {}} : bad("needs integers of one type");
    case TypeRule::SameBits:
      return (int_or_index(type(0)) || type(0).is_bool()) && all_same() ? Inferred{type(0), {}}
                                                                        : bad("needs integers or bools of one type");
    case TypeRule::Compare:
      if (!type(0).is_value() || !all_same()) return bad("needs operands of one type");
      if (type(0).is_bool() && code != Opcode::Eq && code != Opcode::Ne) return bad("does not order bools");
      return {type(0).with_elem(DType::boolean), {}};
    case TypeRule::IsNan:
      return is_float(type(0).elem) ? Inferred{type(0).with_elem(DType::boolean), {}} : bad("needs a float");
    case TypeRule::Select:
      if (!type(0).is_bool() || type(1) != type(2) || !type(1).is_value() ||
          (type(0).lanes != 1 && type(0) != type(1).with_elem(DType::boolean)))
        return bad("needs a bool and two values of one type");
      return {type(1), {}};
    case TypeRule::Ldexp:
      return is_float(type(0).elem) && type(1) == type(0).with_elem(DType::i32) ? Inferred{type(0), {}}
                                                                                : bad("needs a float and an i32");
    case TypeRule::Cast:
      if (!stated.is_value() || !type(0).is_value() || stated != type(0).with_elem(stated.elem))
        return bad("converts values of equal lanes");
      return {stated, {}};
    case TypeRule::Bitcast:
      if (!stated.is_value() || !type(0).is_value() || stated.bytes() != type(0).bytes() || type(0).is_index() ||
          stated.is_index() || type(0).is_bool() || stated.is_bool())
        return bad("needs types of equal size, not bool or index");
      return {stated, {}};
    case TypeRule::Decode:
      return type(0).elem == DType::u32 ? Inferred{type(0).with_elem(DType::f32), {}} : bad("needs a u32");
    case TypeRule::VecMake: {
      const auto n = o.size();
      if ((n != 2 && n != 4 && n != 8) || !all_same() || !type(0).is_scalar() || type(0).is_index())
        return bad("needs 2, 4 or 8 scalars of one stored type");
      return {Type::value(type(0).elem, static_cast<u8>(n)), {}};
    }
    case TypeRule::VecExtract:
      return type(0).is_value() && imm < type(0).lanes && type(0).lanes > 1
                 ? Inferred{Type::value(type(0).elem), {}}
                 : bad("needs a vector and an element in it");
    case TypeRule::VecInsert:
      return type(0).lanes > 1 && imm < type(0).lanes && type(1) == Type::value(type(0).elem)
                 ? Inferred{type(0), {}}
                 : bad("needs a vector, an element in it and its new value");
    case TypeRule::IndexResult:
      if (code == Opcode::Length && !type(0).is_memory()) return bad("needs a buffer");
      if (code == Opcode::Ticket)
        if (auto p = expect_memory(k, o); !p.empty()) return {stated, p};
      return {index_type, {}};
    case TypeRule::BoolResult:
      return type(0).is_bool() ? Inferred{bool_type, {}} : bad("needs a bool");
    case TypeRule::Ballot:
      return type(0).is_bool() ? Inferred{u32_type, {}} : bad("needs a bool");
    case TypeRule::ShuffleIndex:
      return type(0).is_value() && type(1).is_index() ? Inferred{type(0), {}}
                                                      : bad("needs a value and a lane of type index");
    case TypeRule::Load:
    case TypeRule::LoadOr: {
      if (auto p = expect_memory(k, o); !p.empty()) return {stated, p};
      Type t = Type::value(type(0).elem);
      if (stated.is_value()) t.lanes = stated.lanes;
      if (stated.is_value() && stated != t) return bad(fmt::format("cannot give {}", to_string(stated)));
      if (i.rule == TypeRule::LoadOr && (!type(2).is_bool() || type(3) != t))
        return bad("needs a bool and another value of the element type");
      return {t, {}};
    }
    case TypeRule::Store:
      if (auto p = expect_memory(k, o); !p.empty()) return {none_type, p};
      if (!type(2).is_value() || type(2).elem != type(0).elem)
        return bad(fmt::format("cannot put {} into memory of {}: write an explicit cast", to_string(type(2)),
                               dtype_name(type(0).elem)));
      return {none_type, {}};
    case TypeRule::AtomicValue:
    case TypeRule::AtomicStore:
    case TypeRule::AtomicLoad: {
      if (auto p = expect_memory(k, o); !p.empty()) return {stated, p};
      const Type t = Type::value(type(0).elem);
      for (std::size_t n = 2; n < o.size(); ++n)
        if (type(n) != t) return bad("needs values of the element type");
      return {i.rule == TypeRule::AtomicStore ? none_type : t, {}};
    }
    case TypeRule::Tier:
      return infer_tier(k, code, o, imm, stated);
  }
  return bad("has no rule");
}

void Builder::set_point_before(OpId id) {
  region_ = kernel_->op(id).region;
  const auto& list = kernel_->region(region_).ops;
  at_ = static_cast<std::size_t>(std::find(list.begin(), list.end(), id) - list.begin());
}
void Builder::set_point_after(OpId id) {
  set_point_before(id);
  ++at_;
}

OpId Builder::place(OpId id) {
  kernel_->insert(region_, at_, id);
  ++at_;
  return id;
}

OpId Builder::op(Opcode code, std::span<const OpId> operands, u64 imm) { return op(code, none_type, operands, imm); }

OpId Builder::op(Opcode code, Type stated, std::span<const OpId> operands, u64 imm) {
  const auto [type, problem] = infer(*kernel_, code, operands, imm, stated);
  if (!problem.empty()) {
    Diagnostic d;
    d.code = "IR0101";
    d.message = problem;
    d.file = kernel_->locations()[loc_].file;
    d.line = kernel_->locations()[loc_].line;
    d.kernel = kernel_->name;
    throw Error(std::move(d));
  }
  return place(kernel_->create(code, type, operands, imm, loc_));
}

OpId Builder::constant(Type type, u64 bits) { return place(kernel_->create(Opcode::Const, type, {}, bits, loc_)); }

OpId Builder::const_float(DType elem, f64 value) {
  if (!is_float(elem)) throw Error("IR0101", fmt::format("a float constant cannot be {}", dtype_name(elem)));
  return constant(Type::value(elem), float_bits(elem, value));
}

OpId Builder::for_(OpId start, OpId end, OpId step, std::span<const OpId> init, UntilImm until) {
  std::vector<OpId> operands{start, end, step};
  operands.insert(operands.end(), init.begin(), init.end());
  const OpId loop = place(kernel_->create(Opcode::For, none_type, operands, pack(until), loc_, 1));
  const RegionId body = kernel_->region_of(loop, 0);
  kernel_->add_arg(body, kernel_->type(start), loc_);
  for (const OpId v : init) kernel_->add_arg(body, kernel_->type(v), loc_);
  const OpId self[] = {loop};
  for (std::size_t i = 0; i < init.size(); ++i)
    place(kernel_->create(Opcode::Result, kernel_->type(init[i]), self, i, loc_));
  return loop;
}

OpId Builder::if_(OpId condition, std::span<const Type> results) {
  const OpId operands[] = {condition};
  const OpId branch = place(kernel_->create(Opcode::If, none_type, operands, 0, loc_, 2));
  const OpId self[] = {branch};
  for (std::size_t i = 0; i < results.size(); ++i) place(kernel_->create(Opcode::Result, results[i], self, i, loc_));
  return branch;
}

}  // namespace iron::ir
