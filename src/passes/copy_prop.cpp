// copy_prop: values that only pass through (carried values that never change, branches that agree, conditions inside
// their own arms, elements of vectors just made, memory just stored) are used directly. Keeps every bit.
#include <map>

#include "analysis/affine.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
class Propagator : public Rewriter {
 public:
  explicit Propagator(Kernel& k) : Rewriter(k), affine_(k) {}

 protected:
  void enter(RegionId) override { outer_.push_back(std::move(stored_)), stored_.clear(); }
  void leave(RegionId) override { stored_ = std::move(outer_.back()), outer_.pop_back(); }

  void visit(OpId id) override {
    switch (k_.op(id).code) {
      case Opcode::For:
        loop(id);
        break;
      case Opcode::If:
        branch(id);
        break;
      case Opcode::Select:
        if (const auto known = known_.find(k_.operand(id, 0)); known != known_.end())
          return replace(id, k_.operand(id, known->second ? 1 : 2));
        keep(id);
        return;
      case Opcode::VecExtract:
        if (const OpId v = element(k_.operand(id, 0), k_.op(id).imm); v != none) return replace(id, v);
        keep(id);
        return;
      case Opcode::Load:
        if (const OpId v = last_store(id); v != none) return replace(id, v);
        keep(id);
        return;
      default:
        keep(id);
        break;
    }
    remember(id);
  }

 private:
  struct Stored {
    OpId memory, index, value;
  };

  void loop(OpId id) {
    const RegionId body = k_.region_of(id, 0);
    const OpId yield = k_.terminator(body);
    const auto given = results(id);
    const auto until = unpack<UntilImm>(k_.op(id).imm);
    std::vector<bool> same(given.size(), false);
    bool any = false;
    for (u32 i = 0; i < given.size(); ++i) {
      const OpId arg = k_.region(body).args[i + 1], init = k_.operand(id, i + 3);
      if (k_.operand(yield, i) != arg || until.carried_plus_one == i + 1) continue;
      same[i] = any = true;
      forward(arg, init);
      forward(given[i], init);
    }
    if (any) {
      emit(id);
      for (const OpId r : given) k_.append(build().region(), r);  // drop_carried finds results behind their op
      drop_carried(k_, id, same);
      // The kept results come again in the list that is being visited.
      auto& ops = k_.mutable_region(build().region()).ops;
      while (ops.back() != id) ops.pop_back();
      build().set_point(build().region());
      for (u32 i = 0; i < given.size(); ++i)
        if (!same[i]) k_.mutable_op(given[i]).region = build().region();
      rewrite_regions(id);
      return;
    }
    keep(id);
  }

  void branch(OpId id) {
    const auto given = results(id);
    if (const auto known = known_.find(k_.operand(id, 0)); known != known_.end()) {
      const auto values = splice(k_.region_of(id, known->second ? 0 : 1), false);
      for (std::size_t i = 0; i < given.size(); ++i) forward(given[i], values[i]);
      return remove(id);
    }
    const OpId yields[] = {k_.terminator(k_.region_of(id, 0)), k_.terminator(k_.region_of(id, 1))};
    for (u32 i = 0; i < given.size(); ++i) {
      const OpId a = resolve(k_.operand(yields[0], i)), b = resolve(k_.operand(yields[1], i));
      if (a == b && k_.alive(a) && k_.encloses(k_.op(a).region, build().region()))
        forward(given[i], a);
      else if (is_const(k_, a) && is_const(k_, b) && k_.type(a) == k_.type(b) && k_.op(a).imm == k_.op(b).imm)
        forward(given[i], build().constant(k_.type(a), k_.op(a).imm));
    }
    // Results that are replaced leave with what the arms yield for them.
    std::vector<bool> gone;
    bool any = false;
    for (const OpId r : given) gone.push_back(resolve(r) != r), any |= gone.back();
    const OpId condition = k_.operand(id, 0);
    emit(id);
    for (u32 arm = 0; arm < 2; ++arm) {
      known_[condition] = arm == 0;
      rewrite(k_.region_of(id, arm));
    }
    known_.erase(condition);
    if (!any) return;
    u64 kept = 0;
    for (std::size_t i = 0; i < gone.size(); ++i)
      if (!gone[i]) k_.mutable_op(given[i]).imm = kept++;
    for (const OpId yield : yields) {
      std::vector<OpId> values;
      for (u32 i = 0; i < gone.size(); ++i)
        if (!gone[i]) values.push_back(k_.operand(yield, i));
      k_.set_operands(yield, values);
    }
  }

  // The element of a vector that is made or changed above.
  OpId element(OpId vector, u64 lane) const {
    for (;;) {
      const auto& op = k_.op(vector);
      if (op.code == Opcode::VecMake) return k_.operand(vector, static_cast<u32>(lane));
      if (op.code != Opcode::VecInsert) return none;
      if (op.imm == lane) return k_.operand(vector, 1);
      vector = k_.operand(vector, 0);
    }
  }

  OpId last_store(OpId id) {
    for (auto it = stored_.rbegin(); it != stored_.rend(); ++it)
      if (it->memory == k_.operand(id, 0) && k_.type(it->value) == k_.type(id) &&
          affine_.distance(it->index, k_.operand(id, 1)) == 0)
        return it->value;
    return none;
  }

  // Keeps what is known of memory after an op: the store itself, less all that it may have overwritten.
  void remember(OpId id) {
    if (!k_.info_of(id).has(Writes | Reads | AtomicOp | Sync | Waits | HasRegions)) return;
    const auto t = touched(k_, id);
    if (t.ordered) return stored_.clear();
    if (t.writes.empty()) return;
    std::erase_if(stored_, [&](const Stored& s) {
      if (!t.writes.count(memory_root(k_, s.memory))) return false;
      if (k_.op(id).code != Opcode::Store || s.memory != k_.operand(id, 0)) return true;
      // Two stores of one width to one view: apart if their distance is.
      const auto distance = affine_.distance(s.index, k_.operand(id, 1));
      const i64 lanes = std::max(k_.type(s.value).lanes, k_.type(k_.operand(id, 2)).lanes);
      return !distance || (*distance < lanes && *distance > -lanes);
    });
    if (k_.op(id).code == Opcode::Store) stored_.push_back({k_.operand(id, 0), k_.operand(id, 1), k_.operand(id, 2)});
  }

  analysis::Affine affine_;
  std::map<OpId, bool> known_;  ///< conditions of the arms around
  std::vector<Stored> stored_;
  std::vector<std::vector<Stored>> outer_;
};
}  // namespace

Changed run_copy_prop(Kernel& k, PassContext&) {
  bool changed = false;
  for (int turn = 0; turn < 16 && Propagator(k).run(); ++turn) changed = true;
  return sweep(k) || changed;
}

}  // namespace iron::passes
