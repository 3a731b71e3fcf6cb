// What the interpreter knows of a kernel's tier ops before it runs: roles, views, pipelines, accumulators, turns.
#pragma once

#include <unordered_map>
#include <vector>

#include "ir/tier.h"

namespace iron::exec {

/// A rectangle of a slot of threadgroup memory. Its slot, row and column are kept in a register of three numbers a
/// lane, as they were where the view was made.
struct ViewPlan {
  u32 mem = 0, reg = 0;
  ir::Type array, type;
  ir::OpId op = ir::none;
};
struct AccPlan {
  u32 reg = 0;  ///< its elements, in the layout of a fragment
  ir::Type type;
  ir::OpId op = ir::none;
};
struct PipePlan {
  u32 slots = 0, first_slot = 0;  ///< numbered through all pipelines
  bool multicast = false;         ///< copies go to all threadgroups of the cluster, and so do releases
  bool plain_reads = false;       ///< ordinary loads read its slots: a release has a proxy fence and a barrier
  u32 first_user = 0, users = 0;  ///< warpgroups of the role that waits and releases
  ir::OpId op = ir::none;
};
struct TurnPlan {
  u32 first = 0, count = 0;  ///< warpgroups that take turns
  ir::OpId op = ir::none;
};
struct RolePlan {
  ir::RoleSpec spec;
  u32 first = 0;  ///< warpgroup
};

struct TierPlan {
  u32 cluster = 1;
  u32 warpgroups = 0;
  u32 slots = 0;  ///< of all pipelines
  std::vector<RolePlan> roles;
  std::vector<ViewPlan> views;
  std::vector<AccPlan> accs;
  std::vector<PipePlan> pipes;
  std::vector<TurnPlan> turns;
  std::unordered_map<ir::OpId, u32> object;         ///< number of a view, accumulator, pipeline or list of turns
  std::unordered_map<ir::OpId, u32> left_fragment;  ///< values that products read from registers, numbered
  /// The role of a warpgroup; null without roles.
  const RolePlan* role_of(u32 warpgroup) const;
};

/// True if the kernel has an op of the Hopper tier.
bool has_tier_ops(const ir::Kernel& k);
/// Throws EXEC80 where the threadgroup does not consist of the roles' warpgroups, EXEC81 for what is not run.
TierPlan plan_tier(const ir::Kernel& k, u32 threads, u32 width);

}  // namespace iron::exec
