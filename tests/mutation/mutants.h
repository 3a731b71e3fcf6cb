// Small faults put into a kernel's IR, one at a time.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace iron::mutation {

enum class Fault : u8 {
  drop_barrier,   ///< a barrier goes
  drop_store,     ///< a store goes
  zero_stride,    ///< a product of subscripts becomes 0
  bound_up,       ///< a bound, of a loop or a comparison of subscripts, grows by one
  bound_down,     ///< ... shrinks by one
  swap_operands,  ///< of an op that does not commute
  constant,       ///< a constant changes
  add_sub,        ///< a sum becomes a difference and back
  min_max,        ///< a minimum becomes a maximum and back, in reductions too
  other_lane,     ///< a shuffle or broadcast reads the lane beside
  index_up,       ///< an access touches the element beside
  no_guard        ///< a branch or guarded load is always taken
};
std::string_view name(Fault f);

struct Mutation {
  Fault fault;
  ir::OpId at = ir::none;  ///< an op of the canonical kernel
  u32 operand = 0;
  /// "bound_up:17.1": stable for a kernel's canonical text.
  std::string id() const;
};

/// Every fault that fits a kernel, in program order.
std::vector<Mutation> mutations_of(const ir::Kernel& k);
/// The kernel with the fault; none where the verifier refuses it, since nobody could run that.
std::optional<ir::Kernel> mutate(const ir::Kernel& k, const Mutation& m);

}  // namespace iron::mutation
