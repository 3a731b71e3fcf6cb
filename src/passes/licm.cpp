// licm: what a loop computes anew with the same operands is computed once before it. Keeps every bit.
#include <fmt/format.h>

#include <algorithm>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
class Mover {
 public:
  Mover(Kernel& k, PassContext& context) : k_(k), context_(context) {}

  bool region(RegionId r) {
    bool changed = false;
    const auto ops = k_.region(r).ops;
    for (const OpId id : ops) {
      for (u32 i = 0; i < k_.op(id).region_count; ++i) changed |= region(k_.region_of(id, i));
      if (k_.op(id).code == Opcode::For) changed |= loop(id);
    }
    return changed;
  }

 private:
  bool loop(OpId id) {
    const RegionId body = k_.region_of(id, 0), outer = k_.op(id).region;
    const bool runs = surely_runs(k_, id);
    std::vector<OpId> stay, move;
    for (const OpId v : k_.region(body).ops) {
      if (invariant(v, body) && may_move(v, runs)) {
        k_.mutable_op(v).region = outer;
        move.push_back(v);
      } else
        stay.push_back(v);
    }
    if (move.empty()) return false;
    k_.mutable_region(body).ops = std::move(stay);
    auto& ops = k_.mutable_region(outer).ops;
    ops.insert(std::find(ops.begin(), ops.end(), id), move.begin(), move.end());
    const auto moved = std::count_if(move.begin(), move.end(), [&](OpId v) { return !is_const(k_, v); });
    if (moved) context_.done(k_, id, fmt::format("moved {} ops out of the loop", moved));
    return moved > 0;
  }

  bool invariant(OpId id, RegionId body) const {
    for (const OpId v : k_.operands(id))
      if (k_.encloses(body, k_.op(v).region)) return false;
    return true;
  }
  // A pure op is total and may run although the loop does not. A load is in bounds only where it was written.
  bool may_move(OpId id, bool runs) const {
    const auto& info = k_.info_of(id);
    const auto& op = k_.op(id);
    if (op.code == Opcode::Result || op.code == Opcode::Arg || op.region_count) return false;
    if (op.type.is_value() && info.pure()) return !fragment_op(k_, id);
    return runs && reads_immutable(k_, id);
  }

  Kernel& k_;
  PassContext& context_;
};
}  // namespace

Changed run_licm(Kernel& k, PassContext& context) { return Mover(k, context).region(k.body()); }

}  // namespace iron::passes
