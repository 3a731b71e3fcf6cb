// Over which set of threads a value is equal, and over which set control flow reaches a region together (R5).
#pragma once

#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

/// Scopes are ordered lane < simdgroup < ... < grid: a value of scope s is equal for all threads of each s.
class Uniformity {
 public:
  explicit Uniformity(const ir::Kernel& k);
  ir::Scope of(ir::OpId value) const { return values_[value]; }
  /// The largest scope whose threads all run the region or none does, in step.
  ir::Scope control(ir::RegionId r) const { return control_[r]; }
  bool uniform(ir::OpId value, ir::Scope over) const { return values_[value] >= over; }

 private:
  bool update(const ir::Kernel& k, ir::RegionId r);
  bool lower(ir::OpId id, ir::Scope s);
  ir::Scope transfer(const ir::Kernel& k, ir::OpId id) const;
  std::vector<ir::Scope> values_;
  std::vector<ir::Scope> control_;
};

/// Violations of R5: convergent ops under control flow that is not uniform over their scope (D22, D30), with the
/// condition's own line as a note.
std::vector<Diagnostic> verify_convergence(const ir::Kernel& k, std::string_view after_pass = {});

}  // namespace iron::analysis
