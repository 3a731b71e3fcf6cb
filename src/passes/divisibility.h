// Which power of two surely divides a value, from its arithmetic and from facts that hold where it is used.
#pragma once

#include <string>
#include <vector>

#include "analysis/affine.h"
#include "ir/kernel.h"

namespace iron::passes {

class Divisibility {
 public:
  explicit Divisibility(const ir::Kernel& k);
  /// The exponent of the power of two that divides the value at `use`; at most 16.
  u32 of(ir::OpId value, ir::OpId use) const;
  u32 of(const analysis::Polynomial& p, ir::OpId use) const;
  /// The leaf that keeps `p` from being a multiple of 2^exponent, or ir::none if it is its constant term.
  ir::OpId culprit(const analysis::Polynomial& p, u32 exponent, ir::OpId use) const;
  /// The exponent of the alignment of memory in bytes; at most 4, the launch contract's 16.
  u32 of_base(ir::OpId memory) const;

 private:
  struct Fact {
    ir::OpId value;
    u32 exponent;
    ir::RegionId region;  ///< where it holds
    u32 order;            ///< from there on
  };
  void learn(ir::OpId condition, ir::RegionId region, u32 order);
  u32 term(const std::vector<ir::OpId>& product, i64 coefficient, ir::OpId use) const;
  u32 of(ir::OpId value, ir::OpId use, int depth) const;

  const ir::Kernel& k_;
  std::vector<u32> order_;
  std::vector<Fact> facts_;
};

}  // namespace iron::passes
