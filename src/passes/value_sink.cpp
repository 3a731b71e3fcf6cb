// value_sink: what only one arm of a branch needs is computed there. Keeps every bit; never into loops, never across
// barriers.
#include <algorithm>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
class Sinker {
 public:
  explicit Sinker(Kernel& k) : k_(k), users_(use_lists(k)) {}

  bool region(RegionId r) {
    bool changed = false;
    // From the end: a user sinks before what it uses.
    for (std::size_t at = k_.region(r).ops.size(); at-- > 0;) {
      const OpId id = k_.region(r).ops[at];
      const RegionId arm = target(id, r, at);
      if (arm == none) continue;
      auto& ops = k_.mutable_region(r).ops;
      ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at));
      k_.insert(arm, 0, id);
      changed |= !is_const(k_, id);
    }
    for (const OpId id : k_.region(r).ops)
      for (u32 i = 0; i < k_.op(id).region_count; ++i) changed |= region(k_.region_of(id, i));
    return changed;
  }

 private:
  // The arm that holds every use, if the op may go there.
  RegionId target(OpId id, RegionId r, std::size_t at) const {
    const auto& op = k_.op(id);
    if (!op.type.is_value() || op.region_count || op.code == Opcode::Result || op.code == Opcode::Param) return none;
    if ((!k_.info_of(id).pure() && !reads_immutable(k_, id)) || fragment_op(k_, id)) return none;
    if (users_[id].empty()) return none;
    RegionId arm = none;
    for (const OpId user : users_[id]) {
      RegionId u = k_.op(user).region;
      if (u == r) return none;
      while (k_.op(k_.region(u).parent).region != r) u = k_.op(k_.region(u).parent).region;
      if (arm != none && arm != u) return none;
      arm = u;
    }
    const OpId branch = k_.region(arm).parent;
    if (k_.op(branch).code != Opcode::If) return none;
    const auto& ops = k_.region(r).ops;
    for (std::size_t i = at + 1; ops[i] != branch; ++i)
      if (effects_of(k_, ops[i]) & Sync) return none;
    return arm;
  }

  Kernel& k_;
  const std::vector<std::vector<OpId>> users_;
};
}  // namespace

Changed run_value_sink(Kernel& k, PassContext&) { return Sinker(k).region(k.body()); }

}  // namespace iron::passes
