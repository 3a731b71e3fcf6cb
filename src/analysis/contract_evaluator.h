// The walk over a kernel's body with the numbers of one launch: every access, trip count and step.
#pragma once

#include <optional>

#include "analysis/contract_impl.h"
#include "analysis/facts.h"

namespace iron::analysis {

/// Walks the body once, loops until what they carry is stable. contract_eval.cpp has ops and branches,
/// contract_loops.cpp loops, contract_access.cpp accesses, contract_messages.cpp what a refusal says.
class BodyEvaluator {
 public:
  BodyEvaluator(const Contract::Impl& c, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                u32 simd_width);
  Verdict run();

 private:
  using OpId = ir::OpId;
  using RegionId = ir::RegionId;

  // --- walking
  void walk(RegionId r);
  void visit(OpId id);
  void define_range(OpId v, const Range& r);
  void note_index(OpId v);

  // --- branches
  struct Outcome {
    bool reached = false;
    std::vector<Range> ranges;
    std::vector<Linear> forms;
  };
  Outcome arm(OpId id, u32 which);
  Outcome yielded(RegionId r, const std::vector<OpId>& results);
  void branch(OpId id);
  bool outlives(const Linear& l, OpId region_op) const;

  // --- loops
  struct Trips {
    Wide lo = 0, hi = 0;
    Range step;
  };
  struct Carried {
    Range inside, after;            ///< in the body, and of the result
    std::optional<Linear> by_trip;  ///< the value as a form of the induction variable
  };
  void loop(OpId id);
  void copy(OpId to, OpId from);
  void enter(OpId id, const Trips& trips, const std::vector<Carried>& carried);
  std::vector<Carried> carry(OpId id, const Trips& trips);
  static Range roomy(DType type);
  bool additive(OpId id, const Trips& trips, std::vector<char>& added, std::vector<Carried>& out);
  Carried advance(OpId id, u32 i, const Trips& trips, const Range& first, const Range& d);
  void widen(OpId id, const Trips& trips, const std::vector<char>& added, std::vector<Carried>& out);
  void finite(OpId id, const Trips& trips);

  // --- accesses
  void access(OpId id, const AccessOf& a);
  void touch(OpId id, OpId memory, OpId index, const Linear& form, const Range& r, u32 lanes, u32 align);
  void aligned(OpId id, OpId memory, OpId index, const Range& r, u32 size, u32 align);
  void tile(OpId id);
  void block(OpId id, u32 at, Wide rows, Wide cols, OpId valid_rows, OpId valid_cols);

  // --- messages
  Diagnostic* refuse(std::string code, OpId id, std::string message);
  void out_of_bounds(OpId id, OpId memory, OpId index, Wide lo, Wide hi, Wide n);
  std::string describe(OpId id) const;
  std::string named(OpId memory) const;
  void note_launch(Diagnostic& d) const;
  void name_source(Diagnostic& d, OpId source) const;
  bool passes_on(OpId v, OpId source, bool above);
  OpId unbounded_source(OpId v, bool above, int depth = 0);

  const Contract::Impl& c_;
  const ir::Kernel& k_;
  const LaunchGeometry& geometry_;
  std::span<const LaunchArg> args_;
  Facts facts_;
  Requirements needs_;
  std::vector<Diagnostic> problems_;
  Wide index_lo_ = 0, index_hi_ = 0, nest_ = 1;
  bool silent_ = false;
};

}  // namespace iron::analysis
