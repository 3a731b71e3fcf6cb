// Replaces Math and Fast ops: dispatch by opcode, type changes around the f32 expansions.
#include "passes/expand_math.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "passes/math/emit.h"

namespace iron::passes {

namespace {
using ir::Opcode;
using ir::OpId;
using math::Val;

Val expansion(Opcode code, Val a, Val b) {
  switch (code) {
    case Opcode::Exp:
      return math::exp(a);
    case Opcode::Exp2:
      return math::exp2(a);
    case Opcode::Expm1:
      return math::expm1(a);
    case Opcode::Log:
      return math::log(a);
    case Opcode::Log2:
      return math::log2(a);
    case Opcode::Log10:
      return math::log10(a);
    case Opcode::Log1p:
      return math::log1p(a);
    case Opcode::Sin:
      return math::sin(a);
    case Opcode::Cos:
      return math::cos(a);
    case Opcode::Tan:
      return math::tan(a);
    case Opcode::Asin:
      return math::asin(a);
    case Opcode::Acos:
      return math::acos(a);
    case Opcode::Atan:
      return math::atan(a);
    case Opcode::Sinh:
      return math::sinh(a);
    case Opcode::Cosh:
      return math::cosh(a);
    case Opcode::Tanh:
      return math::tanh(a);
    case Opcode::Asinh:
      return math::asinh(a);
    case Opcode::Acosh:
      return math::acosh(a);
    case Opcode::Atanh:
      return math::atanh(a);
    case Opcode::Erf:
      return math::erf(a);
    case Opcode::Erfinv:
      return math::erfinv(a);
    case Opcode::Pow:
      return math::pow(a, b);
    case Opcode::Atan2:
      return math::atan2(a, b);
    case Opcode::FastExp:
      return math::fast_exp(a);
    case Opcode::FastExp2:
      return math::fast_exp2(a);
    case Opcode::FastLog:
      return math::fast_log(a);
    case Opcode::FastLog2:
      return math::fast_log2(a);
    default:
      throw Error("MATH0002", fmt::format("{} has no expansion", ir::info(code).text));
  }
}

// Their rare branch is taken element by element, so vectors are expanded element by element as well.
bool branches(Opcode code) { return code == Opcode::Sin || code == Opcode::Cos || code == Opcode::Tan; }

[[noreturn]] void refuse(const ir::Kernel& k, OpId id, std::string_view code, std::string message, std::string fix) {
  Diagnostic d;
  d.code = code, d.message = std::move(message), d.fix = std::move(fix);
  d.file = k.location(id).file;
  d.line = k.location(id).line;
  d.kernel = k.name;
  throw Error(std::move(d));
}

/// Expands one op in front of itself and returns the value that replaces it.
OpId expand(ir::Kernel& k, OpId id) {
  const ir::Op op = k.op(id);  // a copy: the arena grows below
  const std::vector<OpId> operands(k.operands(id).begin(), k.operands(id).end());
  if (op.type.elem == DType::f64)
    refuse(k, id, "MATH0001", fmt::format("{} has no f64 form", k.info_of(id).text),
           "cast the operands to f32 and the result back, or write the f64 form with base ops");
  ir::Builder b(k);
  b.set_point_before(id);
  b.set_location(op.loc);
  const ir::Type f32_type = op.type.with_elem(DType::f32);
  const bool narrow = op.type.elem != DType::f32;
  std::vector<OpId> wide;
  for (const OpId v : operands) wide.push_back(narrow ? b.cast(f32_type, v) : v);
  const auto one = [&](ir::Type shape, const std::vector<OpId>& values) {
    math::Emit e(b, shape);
    return expansion(op.code, e.wrap(values[0]), e.wrap(values.back())).id;
  };
  OpId y;
  if (branches(op.code) && (op.type.is_frag() || op.type.is_row_values()))
    refuse(k, id, "MATH0003", fmt::format("{} has no form for fragments", k.info_of(id).text),
           "compute it before the fragment is made, or write the form with base ops");
  if (op.type.lanes > 1 && branches(op.code)) {
    std::vector<OpId> elements;
    for (u8 lane = 0; lane < op.type.lanes; ++lane)
      elements.push_back(one(ir::Type::value(DType::f32), {b.op(Opcode::VecExtract, {wide[0]}, lane)}));
    y = b.op(Opcode::VecMake, std::span<const OpId>(elements));
  } else {
    y = one(f32_type, wide);
  }
  return narrow ? b.cast(op.type, y) : y;
}

std::vector<OpId> ops_with(const ir::Kernel& k, u32 effect) {
  std::vector<OpId> found;
  k.walk([&](OpId id) {
    if (k.info_of(id).has(effect)) found.push_back(id);
  });
  return found;
}

// Replaces the given ops by their expansions.
void replace(ir::Kernel& k, const std::vector<OpId>& ops) {
  std::unordered_map<OpId, OpId> forward;
  for (const OpId id : ops) {
    // An operand may itself have been replaced already: its uses change here at once, the rest at the end.
    for (u32 n = 0; n < k.op(id).operand_count; ++n)
      if (const auto it = forward.find(k.operand(id, n)); it != forward.end()) k.set_operand(id, n, it->second);
    forward[id] = expand(k, id);
  }
  k.replace_uses(forward);
  for (const OpId id : ops) k.erase(id);
}

// The op of the base set or Math op that stands for a fast op without a cheaper expansion.
bool has_precise_form(Opcode fast, Opcode& out) {
  switch (fast) {
    case Opcode::FastSin:
      out = Opcode::Sin;
      return true;
    case Opcode::FastCos:
      out = Opcode::Cos;
      return true;
    case Opcode::FastTanh:
      out = Opcode::Tanh;
      return true;
    case Opcode::FastSqrt:
      out = Opcode::Sqrt;
      return true;
    case Opcode::FastRsqrt:
      out = Opcode::Rsqrt;
      return true;
    case Opcode::FastRecip:
      out = Opcode::Recip;
      return true;
    default:
      return false;
  }
}
}  // namespace

int expand_math(ir::Kernel& k) {
  const auto found = ops_with(k, ir::Math);
  replace(k, found);
  return static_cast<int>(found.size());
}

int expand_fast(ir::Kernel& k, const std::vector<Opcode>& keep) {
  int replaced = 0;
  std::vector<OpId> cheaper;
  for (const OpId id : ops_with(k, ir::Fast)) {
    const Opcode code = k.op(id).code;
    if (std::find(keep.begin(), keep.end(), code) != keep.end()) continue;
    if (Opcode other{}; has_precise_form(code, other))
      k.mutable_op(id).code = other;
    else
      cheaper.push_back(id);
    ++replaced;
  }
  replace(k, cheaper);
  return replaced;
}

}  // namespace iron::passes
