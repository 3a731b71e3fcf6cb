// dead_store_elim: stores that nothing reads, ops that nothing needs, and the loops and branches that only held such.
// Keeps every bit.
#include <algorithm>

#include "analysis/affine.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
// Stores that a later store of the same region overwrites before anyone may look.
class Overwritten {
 public:
  explicit Overwritten(Kernel& k) : k_(k), affine_(k) {}

  bool region(RegionId r) {
    bool changed = false;
    std::vector<OpId> later;  // stores below that surely run, with nothing between that reads them
    const auto ops = k_.region(r).ops;
    for (std::size_t at = ops.size(); at-- > 0;) {
      const OpId id = ops[at];
      for (u32 i = 0; i < k_.op(id).region_count; ++i) changed |= region(k_.region_of(id, i));
      if (k_.op(id).code == Opcode::Store) {
        if (std::any_of(later.begin(), later.end(), [&](OpId s) { return covers(s, id); })) {
          k_.erase(id);
          changed = true;
        } else
          later.push_back(id);
        continue;
      }
      if (!k_.info_of(id).has(Reads | Writes | AtomicOp | Sync | Waits | HasRegions)) continue;
      const auto t = touched(k_, id);
      if (t.ordered) later.clear();
      std::erase_if(later, [&](OpId s) { return t.reads.count(memory_root(k_, k_.operand(s, 0))) > 0; });
    }
    return changed;
  }

 private:
  bool covers(OpId later, OpId store) {
    if (k_.operand(later, 0) != k_.operand(store, 0)) return false;
    const auto distance = affine_.distance(k_.operand(later, 1), k_.operand(store, 1));
    return distance && *distance >= 0 &&
           *distance + k_.type(k_.operand(store, 2)).lanes <= k_.type(k_.operand(later, 2)).lanes;
  }
  Kernel& k_;
  analysis::Affine affine_;
};

// Stores into threadgroup and thread arrays that nothing reads.
bool unread_arrays(Kernel& k) {
  std::set<OpId> read;
  bool calls = false;
  k.walk([&](OpId id) {
    if (k.op(id).code == Opcode::Call) calls = true;
    if (k.op(id).code == Opcode::Store || k.op(id).code == Opcode::View || k.op(id).code == Opcode::SharedAlias) return;
    for (const OpId v : k.operands(id))
      if (k.type(v).is_memory()) read.insert(memory_root(k, v));
  });
  if (calls) return false;
  std::vector<OpId> dead;
  k.walk([&](OpId id) {
    if (k.op(id).code != Opcode::Store) return;
    const OpId root = memory_root(k, k.operand(id, 0));
    if (k.type(root).space != Space::global && !read.count(root)) dead.push_back(id);
  });
  for (const OpId id : dead) k.erase(id);
  return !dead.empty();
}

// Liveness from effects upwards. A loop lives by what its body does or by a carried value that someone needs.
class Liveness {
 public:
  explicit Liveness(Kernel& k) : k_(k), live_(k.op_capacity(), false) {}

  bool run() {
    k_.walk([&](OpId id) {
      if (k_.info_of(id).has(Writes | WritesSlot | AtomicOp | Sync | Waits | Fact | Report) ||
          k_.op(id).code == Opcode::Prefetch)
        mark(id);
    });
    return clean(k_.body());
  }

 private:
  void mark(OpId first) {
    work_.push_back(first);
    while (!work_.empty()) {
      const OpId id = work_.back();
      work_.pop_back();
      if (live_[id]) continue;
      live_[id] = true;
      need(id);
    }
  }
  void need(OpId id) {
    const auto& op = k_.op(id);
    if (const OpId parent = k_.region(op.region).parent; parent != none) work_.push_back(parent);
    switch (op.code) {
      case Opcode::Result: {
        const OpId owner = k_.operand(id, 0);
        work_.push_back(owner);
        if (k_.op(owner).code == Opcode::For)
          carry(owner, static_cast<u32>(op.imm));
        else
          for (u32 i = 0; i < k_.op(owner).region_count; ++i)
            work_.push_back(k_.operand(k_.terminator(k_.region_of(owner, i)), static_cast<u32>(op.imm)));
        break;
      }
      case Opcode::Arg:
        if (op.imm > 0) carry(k_.region(op.region).parent, static_cast<u32>(op.imm) - 1);
        break;
      case Opcode::For:
        for (u32 i = 0; i < 3; ++i) work_.push_back(k_.operand(id, i));
        if (const auto until = unpack<UntilImm>(op.imm); until.carried_plus_one) carry(id, until.carried_plus_one - 1);
        break;
      default:
        for (const OpId v : k_.operands(id)) work_.push_back(v);
        break;
    }
  }
  void carry(OpId loop, u32 i) {
    if (!carried_.insert({loop, i}).second) return;
    work_.push_back(k_.operand(loop, i + 3));
    work_.push_back(k_.operand(k_.terminator(k_.region_of(loop, 0)), i));
    work_.push_back(k_.results(loop)[i]);
  }

  bool clean(RegionId r) {
    bool changed = false;
    const auto ops = k_.region(r).ops;
    for (const OpId id : ops) {
      if (!k_.alive(id)) continue;
      const auto code = k_.op(id).code;
      if (code == Opcode::Param || code == Opcode::Result || code == Opcode::Yield) continue;
      if (!live_[id]) {
        changed |= code != Opcode::Const;
        const auto results = k_.op(id).region_count ? k_.results(id) : std::vector<OpId>{};
        for (const OpId result : results) k_.erase(result);
        k_.erase(id);
        continue;
      }
      if (k_.op(id).region_count == 0) continue;
      std::vector<bool> unwanted;
      for (const OpId result : k_.results(id)) unwanted.push_back(!live_[result]);
      if (std::find(unwanted.begin(), unwanted.end(), true) != unwanted.end()) {
        if (code == Opcode::For)
          drop_carried(k_, id, unwanted);
        else
          drop_results(k_, id, unwanted);
        changed = true;
      }
      for (u32 i = 0; i < k_.op(id).region_count; ++i) changed |= clean(k_.region_of(id, i));
    }
    return changed;
  }

  Kernel& k_;
  std::vector<bool> live_;
  std::vector<OpId> work_;
  std::set<std::pair<OpId, u32>> carried_;
};
}  // namespace

Changed run_dead_store_elim(Kernel& k, PassContext&) {
  bool changed = false;
  for (bool again = true; again; changed |= again) {
    again = Overwritten(k).region(k.body());
    again |= unread_arrays(k);
    again |= Liveness(k).run();
  }
  return changed;
}

}  // namespace iron::passes
