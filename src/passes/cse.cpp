// cse: one op for equal values. Index arithmetic is equal when its polynomials are, so address trees unify however they
// were written. Keeps every bit.
#include <algorithm>

#include "analysis/affine.h"
#include "analysis/uniformity.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;
using analysis::Polynomial;

namespace {
using Key = std::vector<u64>;

bool commutes(Opcode c) {
  switch (c) {
    case Opcode::Add:
    case Opcode::Mul:
    case Opcode::Min:
    case Opcode::Max:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
    case Opcode::Eq:
    case Opcode::Ne:
    case Opcode::MulHi:
      return true;
    default:
      return false;
  }
}

bool index_arithmetic(const Kernel& k, OpId id) {
  if (!k.type(id).is_index() || k.type(id).lanes != 1) return false;
  switch (k.op(id).code) {
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Neg:
    case Opcode::Shl:
    case Opcode::Cast:
      return true;
    default:
      return false;
  }
}

class Unifier : public Rewriter {
 public:
  explicit Unifier(Kernel& k) : Rewriter(k), affine_(k), uniform_(k), known_ops_(k.op_capacity()) {}

 protected:
  void enter(RegionId) override {
    scopes_.emplace_back();
    reads_.emplace_back();
    ++epoch_;
  }
  void leave(RegionId) override {
    scopes_.pop_back();
    reads_.pop_back();
    ++epoch_;
  }

  void visit(OpId id) override {
    const auto& info = k_.info_of(id);
    const auto& op = k_.op(id);
    if (op.region_count) {
      note_writes(id);
      keep(id);
      note_writes(id);
      return;
    }
    if (index_arithmetic(k_, id)) return address(id);
    if (op.code == Opcode::Load || op.code == Opcode::LoadOr) return load(id);
    const bool value =
        op.type.is_value() && op.code != Opcode::Param && op.code != Opcode::Arg && op.code != Opcode::Result;
    const bool checked = op.code == Opcode::Bounded || op.code == Opcode::AssumeUniform;
    if ((value && !fragment_op(k_, id) && (info.pure() || checked)) || op.code == Opcode::View)
      return unify(id, key(id));
    keep(id);
    note_writes(id);
  }

 private:
  Key key(OpId id) const {
    const auto& op = k_.op(id);
    Key key{static_cast<u64>(op.code), std::bit_cast<u64>(op.type), op.imm};
    for (const OpId v : k_.operands(id)) key.push_back(v);
    if (commutes(op.code)) std::sort(key.begin() + 3, key.end());
    return key;
  }

  OpId find(const Key& key, OpId id) const {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto it = scope->find(key); it != scope->end() && not_less_uniform(it->second, id)) return it->second;
    return none;
  }
  // An equal value that is known to be uniform over less would take a proof away (R5).
  bool not_less_uniform(OpId leader, OpId id) const {
    return leader >= known_ops_ || id >= known_ops_ || uniform_.of(leader) >= uniform_.of(id);
  }

  void unify(OpId id, const Key& key) {
    if (const OpId leader = find(key, id); leader != none) return replace(id, leader);
    scopes_.back()[key] = id;
    keep(id);
  }

  static Key key_of(const Polynomial& p, u64 tag) {
    Key key{tag};
    for (const auto& [product, coefficient] : p.terms) {
      key.push_back(product.size());
      for (const OpId leaf : product) key.push_back(leaf);
      key.push_back(static_cast<u64>(coefficient));
    }
    return key;
  }

  // An address is its polynomial; one that differs from an earlier one by a constant is that one plus the constant.
  void address(OpId id) {
    const Polynomial p = affine_.of(id);
    constexpr u64 whole = ~u64{0}, varying = ~u64{1};
    const Key exact = key_of(p, whole);
    if (const OpId leader = find(exact, id); leader != none) return replace(id, leader);
    if (const auto c = p.as_constant(); c) {
      const OpId made = build().const_index(*c);
      return replace(id, made);
    }
    Polynomial rest = p;
    i64 offset = 0;
    if (const auto it = rest.terms.find({}); it != rest.terms.end()) offset = it->second, rest.terms.erase(it);
    const Key family = key_of(rest, varying);
    const OpId base = find(family, id);
    if (base != none && k_.op(id).code == Opcode::Add) {
      const auto distance = offset - constant_term(base);
      const bool short_form = is_const(k_, k_.operand(id, 1)) || is_const(k_, k_.operand(id, 0));
      if (distance > 0 && !short_form) {
        const OpId operands[] = {base, build().const_index(distance)};
        k_.set_operands(id, operands);
        touch();
      }
    } else if (base == none) {
      scopes_.back()[family] = id;
    }
    scopes_.back()[exact] = id;
    keep(id);
  }
  i64 constant_term(OpId v) {
    const auto& terms = affine_.of(v).terms;
    const auto it = terms.find({});
    return it == terms.end() ? 0 : it->second;
  }

  void load(OpId id) {
    Key k = key(id);
    if (reads_immutable(k_, id)) return unify(id, k);
    // Mutable memory: within one region, while nothing wrote it.
    const OpId root = memory_root(k_, k_.operand(id, 0));
    k.push_back(epoch_of(root));
    auto& here = reads_.back();
    if (const auto it = here.find(k); it != here.end()) return replace(id, it->second);
    here[k] = id;
    keep(id);
  }
  u64 epoch_of(OpId root) const {
    const auto it = written_.find(root);
    return std::max(all_written_, it == written_.end() ? 0 : it->second);
  }
  void note_writes(OpId id) {
    if (!k_.info_of(id).has(Writes | AtomicOp | Sync | Waits | HasRegions)) return;
    const auto t = touched(k_, id);
    ++epoch_;
    if (t.ordered) all_written_ = epoch_;
    for (const OpId root : t.writes) written_[root] = epoch_;
  }

  analysis::Affine affine_;
  const analysis::Uniformity uniform_;
  const u32 known_ops_;
  std::vector<std::map<Key, OpId>> scopes_, reads_;
  std::map<OpId, u64> written_;
  u64 all_written_ = 0, epoch_ = 1;
};
}  // namespace

Changed run_cse(Kernel& k, PassContext&) {
  bool changed = false;
  for (int turn = 0; turn < 8 && Unifier(k).run(); ++turn) changed = true;
  return sweep(k) || changed;
}

}  // namespace iron::passes
