// The Hopper tier in CUDA: roles, tensor copies, pipelines, warpgroup products, in the form that ptxas keeps fast.
#pragma once

#include "analysis/tier_flow.h"
#include "emit/c_like/emitter.h"

namespace iron::emit::cuda {

std::span<const Helper> tier_helpers();

/// What is known of a pipeline while its kernel is written.
struct PipeText {
  std::string full, empty;  ///< addresses of the first barriers
  u32 stages = 1;
  u32 arrivals = 1;  ///< on each empty barrier
  bool multicast = false;
  bool counted = false;        ///< what is released is known at run time only
  bool generic_reads = false;  ///< ordinary loads read its slots
  std::string slot, phase;     ///< the cursor of the role that is being written
  std::string tail, held;      ///< the oldest slot held, and how many
};

/// The tier's state of one kernel.
struct Tier final : Extension {
  explicit Tier(const Emitter& e);

  const ir::Kernel& k;
  analysis::TierFlow flow;
  std::vector<ir::RoleSpec> roles;
  ir::OpId roles_op = ir::none;
  u32 warpgroups = 0, cluster = 1;
  std::map<ir::OpId, PipeText> pipes;
  std::map<ir::OpId, std::vector<std::string>> accs;       ///< names of an accumulator's registers
  std::map<ir::RegionId, std::vector<ir::OpId>> declared;  ///< accumulators declared where a region begins
  std::map<ir::OpId, std::vector<std::string>> fragments;  ///< registers of A, per product that is in flight
  std::map<ir::OpId, u32> turns;                           ///< first named barrier
  u32 role = 0, first_warpgroup = 0, role_barrier = 0;
  bool stores = false;  ///< the role stores tensors: it waits for them at its end
  bool peers = false;   ///< threadgroups of the cluster reach into each other
};

}  // namespace iron::emit::cuda
