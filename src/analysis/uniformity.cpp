// An optimistic fixed point over the lattice of scopes.
#include "analysis/uniformity.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.h"
#include "ir/tier.h"

namespace iron::analysis {

using namespace ir;

Uniformity::Uniformity(const Kernel& k)
    : values_(k.op_capacity(), Scope::grid), control_(k.region_capacity(), Scope::grid) {
  while (update(k, k.body())) {
  }
}

bool Uniformity::lower(OpId id, Scope s) {
  if (values_[id] <= s) return false;
  values_[id] = s;
  return true;
}

Scope Uniformity::transfer(const Kernel& k, OpId id) const {
  Scope s = Scope::grid;
  for (const OpId v : k.operands(id)) s = std::min(s, values_[v]);
  switch (k.op(id).code) {
    case Opcode::ThreadId:
    case Opcode::ThreadPos:
    case Opcode::GridThreadId:
    case Opcode::GridPos:
    case Opcode::LaneId:
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas:
    case Opcode::AtomicLoad:
    case Opcode::WaitUntil:
    case Opcode::TileGet:
    case Opcode::TileRow:
    case Opcode::TileCol:
    case Opcode::SlotLoad:
      return Scope::lane;
    case Opcode::SimdgroupId:
      return Scope::simdgroup;
    case Opcode::PeerLoad:
    case Opcode::AccNew:
    case Opcode::AccValue:
    case Opcode::FragRow:
    case Opcode::FragCol:
    case Opcode::FragFold:
      return Scope::lane;
    case Opcode::RoleIndex:
    case Opcode::PipeAcquire:
    case Opcode::PipeWait:
      return Scope::warpgroup;
    case Opcode::PipeNew:
    case Opcode::TurnNew:
    case Opcode::ClusterRank:
      return Scope::threadgroup;
    case Opcode::GroupId:
      return Scope::threadgroup;
    case Opcode::SharedNew:
      return Scope::threadgroup;
    case Opcode::ArrayNew:
      return Scope::lane;
    case Opcode::Load:
    case Opcode::LoadOr: {
      if (reads_immutable(k, id)) return s;
      // Race-free by R7, so one address holds one value for the threads that read it between two barriers.
      return std::min(s, k.type(k.operand(id, 0)).space == Space::priv ? Scope::lane : Scope::threadgroup);
    }
    case Opcode::SimdReduce:
    case Opcode::SimdBallot:
    case Opcode::SimdAny:
    case Opcode::SimdAll:
      return std::max(s, Scope::simdgroup);
    case Opcode::SimdBroadcast:
      return std::max(values_[k.operand(id, 0)], Scope::simdgroup);
    case Opcode::SimdScan:
    case Opcode::GroupScan:
      return Scope::lane;
    case Opcode::SimdShuffleXor:
    case Opcode::SimdShuffleUp:
    case Opcode::SimdShuffleDown:
    case Opcode::SimdShuffle:
      return values_[k.operand(id, 0)] >= Scope::simdgroup ? values_[k.operand(id, 0)] : s;
    case Opcode::GroupReduce:
    case Opcode::GroupAny:
    case Opcode::GroupAll:
    case Opcode::GroupBroadcast:
    case Opcode::Ticket:
      return std::max(s, Scope::threadgroup);
    case Opcode::AssumeUniform:
      return std::max(s, unpack<Scope>(k.op(id).imm));
    default:
      return s;
  }
}

bool Uniformity::update(const Kernel& k, RegionId r) {
  bool changed = false;
  for (const OpId id : k.region(r).ops) {
    const auto& op = k.op(id);
    if (op.code == Opcode::Result) continue;  // set by its region op
    if (op.region_count == 0) {
      changed |= lower(id, transfer(k, id));
      continue;
    }
    Scope enter = control_[r];
    std::vector<RoleSpec> roles;
    if (op.code == Opcode::For) {
      Scope bounds = Scope::grid;
      for (u32 i = 0; i < 3; ++i) bounds = std::min(bounds, values_[k.operand(id, i)]);
      const RegionId body = k.region_of(id, 0);
      const auto& args = k.region(body).args;
      const auto until = unpack<UntilImm>(op.imm);
      if (until.carried_plus_one) bounds = std::min(bounds, values_[args[until.carried_plus_one]]);
      enter = std::min(enter, bounds);
      changed |= lower(args[0], std::min({values_[k.operand(id, 0)], values_[k.operand(id, 2)]}));
      const OpId yield = k.terminator(body);
      const auto results = k.results(id);
      for (u32 i = 0; i < results.size(); ++i) {
        const Scope s = std::min(values_[k.operand(id, i + 3)], values_[k.operand(yield, i)]);
        changed |= lower(args[i + 1], s);
        changed |= lower(results[i], std::min(s, bounds));
      }
    } else if (op.code == Opcode::If) {
      const Scope condition = values_[k.operand(id, 0)];
      enter = std::min(enter, condition);
      const auto results = k.results(id);
      for (u32 i = 0; i < results.size(); ++i) {
        Scope s = condition;
        for (u32 arm = 0; arm < 2; ++arm) s = std::min(s, values_[k.operand(k.terminator(k.region_of(id, arm)), i)]);
        changed |= lower(results[i], s);
      }
    } else {
      roles = roles_of(k, id);
    }
    for (u32 i = 0; i < op.region_count; ++i) {
      const RegionId nested = k.region_of(id, i);
      // A role's body: whole warpgroups come to it, and all those of the role; or one thread alone.
      const Scope role = roles.empty() ? Scope::grid : roles[i].one_thread ? Scope::lane : Scope::role;
      const Scope inside = std::min(enter, role);
      if (control_[nested] > inside) control_[nested] = inside, changed = true;
      changed |= update(k, nested);
    }
  }
  return changed;
}

namespace {
// The innermost region op around `r` whose condition or bounds are not uniform over `over`, and the value at fault.
std::pair<OpId, OpId> culprit(const Kernel& k, const Uniformity& u, RegionId r, Scope over) {
  for (OpId parent = k.region(r).parent; parent != none; parent = k.region(k.op(parent).region).parent) {
    for (u32 i = 0; i < std::min<u32>(k.op(parent).operand_count, 3); ++i)
      if (!u.uniform(k.operand(parent, i), over)) return {parent, k.operand(parent, i)};
    if (const auto until = unpack<UntilImm>(k.op(parent).imm);
        k.op(parent).code == Opcode::For && until.carried_plus_one) {
      const OpId arg = k.region(k.region_of(parent, 0)).args[until.carried_plus_one];
      if (!u.uniform(arg, over)) return {parent, arg};
    }
  }
  return {none, none};
}
}  // namespace

std::vector<Diagnostic> verify_convergence(const Kernel& k, std::string_view after_pass) {
  const Uniformity u(k);
  std::vector<Diagnostic> found;
  k.walk([&](OpId id) {
    const auto& i = k.info_of(id);
    if (!i.has(Convergent)) return;
    Scope need = i.scope;
    if (need == Scope::tile) {
      OpId tile = k.operand(id, 0);
      need = unpack<TileImm>(k.op(tile).imm).scope;
    }
    Diagnostic d;
    d.kernel = k.name, d.after_pass = after_pass, d.file = k.location(id).file, d.line = k.location(id).line;
    if (u.control(k.op(id).region) < need) {
      const auto [parent, value] = culprit(k, u, k.op(id).region, need);
      const bool loop = parent != none && k.op(parent).code == Opcode::For;
      d.code = loop ? "D30" : "D22";
      d.message = fmt::format(
          "{} needs control flow that is uniform over the {}, but the {} around it differs between its threads", i.text,
          name(need), loop ? "loop" : "branch");
      if (parent != none)
        d.notes.push_back(
            {fmt::format("the {} is here; it depends on {}", loop ? "loop" : "branch", expression(k, value)),
             k.location(parent).file, k.location(parent).line});
      d.fix =
          loop ? "let every thread run the same trips, range(0, n, threads()), and guard the load with load_or"
               : fmt::format(
                     "move {} out of the branch, or make the condition depend on values that are uniform over the {}",
                     i.text, name(need));
      if (parent == none && role_region(k, id) != none) {
        d.message = fmt::format("{} needs the whole {}, but it stands in a role, which other warpgroups never run",
                                i.text, name(need));
        d.fix = "use role.barrier() among the role's threads; roles wait for each other through pipelines";
      }
      found.push_back(d);
    }
    if (id != none && k.op(id).code == Opcode::SimdBroadcast && !u.uniform(k.operand(id, 1), Scope::simdgroup)) {
      d.code = "D22", d.message = "the lane of simd_broadcast differs between the lanes";
      d.fix = "use simd_shuffle for a lane that varies";
      d.notes.clear();
      found.push_back(d);
    }
  });
  return found;
}

}  // namespace iron::analysis
