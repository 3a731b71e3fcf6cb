// What is in flight and what is held, along the control flow of a role: accumulators of warpgroup products and slots of
// pipelines. The emitter reads where registers must be pinned and how slots are given back; the verifier reads the
// faults.
#pragma once

#include <map>
#include <set>

#include "ir/tier.h"

namespace iron::analysis {

/// How a pipe.release gives back slots.
struct ReleasePlan {
  std::vector<ir::OpId> waits;  ///< exactly the slots that these waits gave, oldest first, if `exact`
  bool exact = true;
  u32 least = 0, most = 0;  ///< else that many, known only at run time
};

struct TierFlow {
  std::map<ir::OpId, std::vector<ir::OpId>> settled;  ///< per acc.settle: the products that may end there
  std::map<ir::OpId, ReleasePlan> releases;           ///< per pipe.release
  std::set<ir::OpId> counted;                         ///< pipelines some release of which is not exact
  std::vector<Diagnostic> problems;                   ///< TIER03: accumulators, TIER04: pipelines
};

/// Follows every role once, loops to their fixed point.
TierFlow tier_flow(const ir::Kernel& k);

}  // namespace iron::analysis
