// algebraic_simplify: identities that keep every value, from the table in rules.cpp, and those of casts and vectors.
#include <array>

#include "passes/pass.h"
#include "passes/rewrite.h"
#include "passes/rules.h"

namespace iron::passes {

using namespace ir;

namespace {
std::span<const Rule* const> rules_of(Opcode code) {
  static const auto index = [] {
    std::array<std::vector<const Rule*>, opcode_count> by_root;
    for (const auto& r : rules()) by_root[static_cast<std::size_t>(r.from.code)].push_back(&r);
    return by_root;
  }();
  return index[static_cast<std::size_t>(code)];
}

class Simplifier : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  void visit(OpId id) override {
    OpId now = by_table(id);
    if (now == none) now = by_shape(id);
    if (now == none) return keep(id);
    replace(id, now);
  }

 private:
  OpId by_table(OpId id) {
    for (const Rule* rule : rules_of(k_.op(id).code)) {
      Bindings bound;
      if (!match(k_, *rule, id, bound)) continue;
      const auto x = bound.find('x');
      const Type type = x == bound.end() ? k_.type(id) : k_.type(x->second);
      const OpId made = build_term(build(), rule->to, bound, type);
      if (made != none && k_.type(made) == k_.type(id)) return made;
    }
    return none;
  }

  // Identities whose types the table's language does not say.
  OpId by_shape(OpId id) {
    const Op op = k_.op(id);
    if (op.operand_count == 0) return none;
    const OpId a = k_.operand(id, 0);
    switch (op.code) {
      case Opcode::Cast:
        return cast(id, a);
      case Opcode::Bitcast:
        if (k_.type(a) == op.type) return a;
        if (k_.op(a).code == Opcode::Bitcast) {
          const OpId inner = k_.operand(a, 0);
          return k_.type(inner) == op.type ? inner : build().op(Opcode::Bitcast, op.type, {inner});
        }
        return none;
      case Opcode::LoadOr: {
        const OpId condition = k_.operand(id, 2);
        if (!is_const(k_, condition) || op.type.lanes != 1) return none;
        if (!k_.op(condition).imm) return k_.operand(id, 3);
        return build().op(Opcode::Load, op.type, {a, k_.operand(id, 1)}, op.imm);
      }
      case Opcode::VecMake:
        return whole_vector(id);
      default:
        return none;
    }
  }

  OpId cast(OpId id, OpId a) {
    const DType to = k_.type(id).elem, from = k_.type(a).elem;
    if (to == from) return a;
    if (k_.op(a).code != Opcode::Cast) return none;
    const OpId inner = k_.operand(a, 0);
    const DType first = k_.type(inner).elem;
    if (!widens(first, from)) return none;
    if (first == to) return inner;
    // first -> from loses nothing, so the second conversion sees the number itself.
    if (from == DType::index || first == DType::index) return none;
    // Integers wrap into integers, floats saturate into them: that step must stay what it was.
    if (!is_float(first) && is_float(from) && !is_float(to)) return none;
    return build().cast(k_.type(id), inner);
  }
  // Every value of `a` is a value of `b`.
  static bool widens(DType a, DType b) {
    if (a == DType::boolean) return b != DType::boolean && b != DType::none;
    const u32 bits_a = dtype_bits(a), bits_b = dtype_bits(b);
    if (is_float(a)) return is_float(b) && bits_b > bits_a;
    if (a == DType::index) return b == DType::i64;
    if (b == DType::index) return is_int(a) && a != DType::u64;
    if (is_float(b)) {
      const u32 significand = b == DType::f16 ? 11 : b == DType::bf16 ? 8 : b == DType::f32 ? 24 : 53;
      return bits_a - (is_signed_int(a) ? 1 : 0) <= significand && !(b == DType::f16 && bits_a > 11);
    }
    if (is_unsigned_int(a)) return bits_b > bits_a || (is_unsigned_int(b) && bits_b == bits_a);
    return is_signed_int(b) && bits_b >= bits_a;
  }

  OpId whole_vector(OpId id) const {
    OpId vector = none;
    for (u32 i = 0; i < k_.op(id).operand_count; ++i) {
      const OpId v = k_.operand(id, i);
      if (k_.op(v).code != Opcode::VecExtract || k_.op(v).imm != i) return none;
      if (i > 0 && k_.operand(v, 0) != vector) return none;
      vector = k_.operand(v, 0);
    }
    return k_.type(vector) == k_.type(id) ? vector : none;
  }
};
}  // namespace

Changed run_algebraic_simplify(Kernel& k, PassContext&) {
  bool changed = false;
  for (int turn = 0; turn < 16 && Simplifier(k).run(); ++turn) changed = true;
  return sweep(k) || changed;
}

}  // namespace iron::passes
