// Powers of two in values: constants, arithmetic, induction variables, assumed and tested remainders.
#include "passes/divisibility.h"

#include <algorithm>
#include <bit>

namespace iron::passes {

using namespace ir;
using analysis::Polynomial;

namespace {
constexpr u32 cap = 16;
u32 exponent_of(u64 bits) { return bits == 0 ? cap : std::min<u32>(cap, static_cast<u32>(std::countr_zero(bits))); }
bool whole_number(Type t) { return t.is_scalar() && (is_int(t.elem) || t.is_index()); }
}  // namespace

Divisibility::Divisibility(const Kernel& k) : k_(k), order_(k.op_capacity(), 0) {
  u32 next = 1;
  k.walk([&](OpId id) {
    order_[id] = next++;
    if (k.op(id).code == Opcode::Assume) learn(k.operand(id, 0), k.op(id).region, order_[id]);
    if (k.op(id).code == Opcode::If) learn(k.operand(id, 0), k.region_of(id, 0), order_[id]);
  });
}

// (v rem c) == 0 and (v and c) == 0, and conjunctions of such.
void Divisibility::learn(OpId condition, RegionId region, u32 order) {
  const auto& op = k_.op(condition);
  if (op.code == Opcode::And && op.type == bool_type) {
    learn(k_.operand(condition, 0), region, order);
    learn(k_.operand(condition, 1), region, order);
    return;
  }
  if (op.code != Opcode::Eq) return;
  const OpId rest = k_.operand(condition, 0), zero = k_.operand(condition, 1);
  if (!is_const(k_, zero) || k_.op(zero).imm != 0 || k_.op(rest).operand_count != 2 ||
      !is_const(k_, k_.operand(rest, 1)))
    return;
  if (!whole_number(k_.type(rest))) return;
  const u64 c = k_.op(k_.operand(rest, 1)).imm;
  u32 exponent = 0;
  if (k_.op(rest).code == Opcode::Rem && c != 0)
    exponent = exponent_of(c);
  else if (k_.op(rest).code == Opcode::And)
    exponent = std::min<u32>(cap, static_cast<u32>(std::countr_one(c)));
  if (!exponent) return;
  const OpId v = k_.operand(rest, 0);
  facts_.push_back({v, exponent, region, order});
  // Address polynomials name a parameter, not its cast to index.
  if (k_.op(v).code == Opcode::Cast && whole_number(k_.type(k_.operand(v, 0))))
    facts_.push_back({k_.operand(v, 0), exponent, region, order});
}

u32 Divisibility::of(OpId value, OpId use) const { return of(value, use, 0); }

u32 Divisibility::of(OpId value, OpId use, int depth) const {
  u32 known = 0;
  for (const Fact& f : facts_)
    if (f.value == value && f.order < order_[use] && k_.encloses(f.region, k_.op(use).region))
      known = std::max(known, f.exponent);
  if (depth > 16 || !whole_number(k_.type(value))) return known;
  const auto at = [&](u32 i) { return of(k_.operand(value, i), use, depth + 1); };
  const auto& op = k_.op(value);
  u32 derived = 0;
  // Powers of two survive wrap: they divide 2^width.
  switch (op.code) {
    case Opcode::Const:
      derived = exponent_of(op.imm);
      break;
    case Opcode::Cast:
      derived = whole_number(k_.type(k_.operand(value, 0))) ? at(0) : 0;
      break;
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Rem:
    case Opcode::Min:
    case Opcode::Max:
    case Opcode::Or:
    case Opcode::Xor:
      derived = std::min(at(0), at(1));
      break;
    case Opcode::Neg:
    case Opcode::AssumeUniform:
      derived = at(0);
      break;
    case Opcode::Mul:
      derived = at(0) + at(1);
      break;
    case Opcode::And:
      derived = std::max(at(0), at(1));
      break;
    case Opcode::Shl:
      derived = at(0) + (is_const(k_, k_.operand(value, 1))
                             ? static_cast<u32>(std::min<u64>(k_.op(k_.operand(value, 1)).imm, cap))
                             : 0);
      break;
    case Opcode::Select:
      derived = std::min(at(1), at(2));
      break;
    case Opcode::SimdWidth:
      derived = k_.width_generic ? 0 : 5;
      break;
    case Opcode::Arg: {
      const OpId loop = k_.region(op.region).parent;
      if (op.imm == 0 && k_.op(loop).code == Opcode::For)
        derived = std::min(of(k_.operand(loop, 0), use, depth + 1), of(k_.operand(loop, 2), use, depth + 1));
      break;
    }
    default:
      break;
  }
  return std::min(cap, std::max(known, derived));
}

u32 Divisibility::term(const std::vector<OpId>& product, i64 coefficient, OpId use) const {
  u32 exponent = exponent_of(static_cast<u64>(coefficient));
  for (const OpId leaf : product) exponent += of(leaf, use);
  return std::min(cap, exponent);
}

u32 Divisibility::of(const Polynomial& p, OpId use) const {
  u32 exponent = cap;
  for (const auto& [product, coefficient] : p.terms) exponent = std::min(exponent, term(product, coefficient, use));
  return exponent;
}

OpId Divisibility::culprit(const Polynomial& p, u32 exponent, OpId use) const {
  for (const auto& [product, coefficient] : p.terms)
    if (!product.empty() && term(product, coefficient, use) < exponent) {
      // A parameter is what the author can speak about; ids vary by one.
      for (const OpId leaf : product)
        if (k_.op(leaf).code == Opcode::Param) return leaf;
      return product.front();
    }
  return none;
}

u32 Divisibility::of_base(OpId memory) const {
  const auto& op = k_.op(memory);
  if (op.code == Opcode::View || op.code == Opcode::SharedAlias)
    return std::min(of_base(k_.operand(memory, 0)), exponent_of(op.imm));
  return op.type.space == Space::priv ? 0 : 4;
}

}  // namespace iron::passes
