// What passes share: a walk that rebuilds regions, cloning with a value map, sweeping, memory effects, trip counts.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/kernel.h"

namespace iron::passes {

using ValueMap = std::unordered_map<ir::OpId, ir::OpId>;

/// Takes each region apart and puts it together again, op by op in program order. An op is kept, dropped, replaced by a
/// value that is defined above it, or preceded by new ops. Operands are brought up to date before an op is visited.
class Rewriter {
 public:
  explicit Rewriter(ir::Kernel& k) : k_(k), build_(k) {}
  virtual ~Rewriter() = default;
  /// True if anything was dropped, replaced or built.
  bool run();

 protected:
  virtual void visit(ir::OpId id) { keep(id); }
  virtual void enter(ir::RegionId) {}
  virtual void leave(ir::RegionId) {}

  void keep(ir::OpId id);             ///< emit, then rewrite the regions of the op
  void emit(ir::OpId id);             ///< the op stands here; its regions stay as they are
  void rewrite_regions(ir::OpId id);  ///< may precede emit, for passes that look at rewritten regions first
  void drop(ir::OpId id);
  void remove(ir::OpId id);  ///< drop, with all that its regions hold
  void replace(ir::OpId id, ir::OpId value);
  void forward(ir::OpId id, ir::OpId value);  ///< a value that is not at the point yet: a result, an argument
  void rewrite(ir::RegionId r);
  /// The ops of an owned region run here instead; gives what its yield hands over. `visited`: already rewritten.
  std::vector<ir::OpId> splice(ir::RegionId r, bool visited);
  ir::OpId resolve(ir::OpId v) const;
  /// Results of the region op that is being visited.
  std::vector<ir::OpId> results(ir::OpId id) const;
  ir::Builder& build() { return build_; }
  void touch() { changed_ = true; }

  ir::Kernel& k_;

 private:
  void visit_all(const std::vector<ir::OpId>& list);
  void update_operands(ir::OpId id);
  ir::Builder build_;
  ValueMap forward_;
  const std::vector<ir::OpId>* list_ = nullptr;  ///< the list that is being visited, and where
  std::size_t cursor_ = 0;
  bool changed_ = false;
};

/// Copies an op with its regions to the end of a region; operands and what the copy defines go through the map.
ir::OpId clone_op(const ir::Kernel& from, ir::OpId id, ir::Kernel& to, ir::RegionId region, ValueMap& map);
/// Copies all ops of a region but its yield to the end of another region.
void clone_ops(const ir::Kernel& from, ir::RegionId source, ir::Kernel& to, ir::RegionId region, ValueMap& map);

/// Removes carried values of a loop for which `unwanted` holds: operand, argument, yielded value, result. Their uses
/// must be gone. `until` must not name one of them.
void drop_carried(ir::Kernel& k, ir::OpId loop, const std::vector<bool>& unwanted);
/// Removes results of a branch with what its arms yield for them.
void drop_results(ir::Kernel& k, ir::OpId branch, const std::vector<bool>& unwanted);

/// An op without uses that may go: no writes, no order, no output.
bool removable(const ir::Kernel& k, ir::OpId id);
/// Removes what nothing uses, transitively. Region ops stay.
bool sweep(ir::Kernel& k);
/// Puts right what folding and moving may leave: a shift by a constant beyond the width becomes the shift that it means
/// (R3), and a loop without carried values whose body has become empty goes. True if anything changed.
bool settle(ir::Kernel& k);
/// Copies the kernel in program order with dense ids; `map`, if given, receives old id -> new id.
ir::Kernel compact(const ir::Kernel& k, ValueMap* map = nullptr);

std::vector<u32> use_counts(const ir::Kernel& k);
/// Ops that do something: not parameters, constants, results, yields.
u64 op_count(const ir::Kernel& k);
/// Effect bits of an op with all that its regions hold.
u32 effects_of(const ir::Kernel& k, ir::OpId id);
/// Effects that keep a read from moving across: barriers, fences, atomics, waits, calls.
bool orders_memory(const ir::Kernel& k, u32 effects);

/// Which memory an op reads and writes plainly, with all that its regions hold.
struct Touched {
  std::set<ir::OpId> reads, writes;  ///< roots
  bool ordered = false;              ///< nothing moves across
};
Touched touched(const ir::Kernel& k, ir::OpId id);

/// An op that no access moves across, and that keeps its place among its neighbours: order, control, facts, reports.
bool boundary(const ir::Kernel& k, ir::OpId id);

/// Turns of a loop whose start, end and step are constants; an early exit may end it sooner.
std::optional<u64> trip_count(const ir::Kernel& k, ir::OpId loop);
/// The induction variable's bits in turn `turn` of a loop with constant start and step.
u64 induction_bits(const ir::Kernel& k, ir::OpId loop, u64 turn);
/// True if the body runs at least once whenever the loop is reached.
bool surely_runs(const ir::Kernel& k, ir::OpId loop);

}  // namespace iron::passes
