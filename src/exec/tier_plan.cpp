// Reads roles, pipelines and the other objects of the tier from a kernel.
#include "exec/tier_plan.h"

#include <fmt/format.h>

#include <map>
#include <set>

namespace iron::exec {

using namespace ir;

namespace {
constexpr u32 most_slots = 900;  // streams of one threadgroup that a shadow's thread number can name

bool of_tier(const Kernel& k, OpId id) {
  const auto& info = k.info_of(id);
  const auto code = k.op(id).code;
  return info.has(TierOp) || info.rule == TypeRule::Tier || code == Opcode::Roles || code == Opcode::ClusterRank;
}

/// Warpgroups of the role that holds an op; all of them outside roles.
RolePlan role_holding(const Kernel& k, const TierPlan& plan, OpId id) {
  const RegionId r = role_region(k, id);
  if (r == none) return {{"", plan.warpgroups, 0, false}, 0};
  return plan.roles[r - k.region_of(k.region(r).parent, 0)];
}

void find_roles(const Kernel& k, TierPlan& plan, u32 threads) {
  const OpId roles = ir::find_roles(k);
  if (roles == none) return;
  u32 first = 0;
  for (auto& spec : roles_of(k, roles)) {
    const u32 count = spec.warpgroups;
    plan.roles.push_back({std::move(spec), first});
    first += count;
  }
  if (first * Type::warpgroup_threads != threads)
    throw Error("EXEC80",
                fmt::format("kernel {} has roles of {} warpgroups, {} threads; the threadgroup has {} threads", k.name,
                            first, first * Type::warpgroup_threads, threads),
                "launch as many threads as the roles have");
}
}  // namespace

const RolePlan* TierPlan::role_of(u32 warpgroup) const {
  for (const auto& r : roles)
    if (warpgroup >= r.first && warpgroup < r.first + r.spec.warpgroups) return &r;
  return nullptr;
}

bool has_tier_ops(const Kernel& k) {
  bool found = false;
  k.walk([&](OpId id) { found |= of_tier(k, id); });
  return found;
}

TierPlan plan_tier(const Kernel& k, u32 threads, u32 width) {
  TierPlan plan;
  if (width != 32)
    throw Error("EXEC81", fmt::format("kernel {} has warpgroups, which are made of simdgroups of 32", k.name));
  plan.warpgroups = threads / Type::warpgroup_threads;
  plan.cluster = cluster_size(k);
  find_roles(k, plan, threads);
  std::map<OpId, std::set<u32>> filled;  // memory: by copies of which pipelines
  k.walk([&](OpId id) {
    const auto& op = k.op(id);
    switch (op.code) {
      case Opcode::SharedView:
        plan.object[id] = static_cast<u32>(plan.views.size());
        plan.views.push_back({0, 0, k.type(k.operand(id, 0)), op.type, id});
        break;
      case Opcode::AccNew:
        plan.object[id] = static_cast<u32>(plan.accs.size());
        plan.accs.push_back({0, op.type, id});
        break;
      case Opcode::PipeNew: {
        plan.object[id] = static_cast<u32>(plan.pipes.size());
        const auto slots = static_cast<u32>(op.imm);
        plan.pipes.push_back({slots, plan.slots, false, false, 0, plan.warpgroups, id});
        plan.slots += slots;
        break;
      }
      case Opcode::TurnNew:
        plan.object[id] = static_cast<u32>(plan.turns.size());
        plan.turns.push_back({0, plan.warpgroups, id});
        break;
      case Opcode::TmaLoad:
        if (unpack<CopyImm>(op.imm).multicast) plan.pipes[plan.object.at(k.operand(id, 2))].multicast = true;
        filled[memory_root(k, k.operand(k.operand(id, 1), 0))].insert(plan.object.at(k.operand(id, 2)));
        break;
      case Opcode::PipeWait:
      case Opcode::PipeRelease: {
        const RolePlan role = role_holding(k, plan, id);
        auto& pipe = plan.pipes[plan.object.at(k.operand(id, 0))];
        pipe.first_user = role.first, pipe.users = role.spec.warpgroups;
        break;
      }
      case Opcode::TurnEnter:
      case Opcode::TurnLeave: {
        const RolePlan role = role_holding(k, plan, id);
        auto& turn = plan.turns[plan.object.at(k.operand(id, 0))];
        turn.first = role.first, turn.count = role.spec.warpgroups;
        break;
      }
      case Opcode::AccMma:
        if (const OpId a = k.operand(id, 1); k.type(a).is_value())
          plan.left_fragment.emplace(a, static_cast<u32>(plan.left_fragment.size()));
        break;
      default:
        break;
    }
  });
  k.walk([&](OpId id) {
    const auto code = k.op(id).code;
    if (code != Opcode::Load && code != Opcode::LoadOr) return;
    if (const auto it = filled.find(memory_root(k, k.operand(id, 0))); it != filled.end())
      for (const u32 pipe : it->second) plan.pipes[pipe].plain_reads = true;
  });
  if (plan.slots > most_slots)
    throw Error("EXEC81", fmt::format("kernel {} has {} slots in its pipelines; the interpreter runs up to {}", k.name,
                                      plan.slots, most_slots));
  return plan;
}

}  // namespace iron::exec
