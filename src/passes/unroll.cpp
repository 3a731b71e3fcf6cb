// unroll: an innermost loop with a small constant trip count becomes its turns, one after another, which are then
// folded, propagated and unified. Keeps every bit.
#include <fmt/format.h>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
constexpr u64 most_turns = 8, most_ops = 256, most_kernel_ops = 8192;

class Unroller : public Rewriter {
 public:
  Unroller(Kernel& k, PassContext& context) : Rewriter(k), context_(context), total_(op_count(k)) {}

 protected:
  void visit(OpId id) override {
    if (k_.op(id).code != Opcode::For) return keep(id);
    rewrite_regions(id);
    const u64 turns = fitting_turns(id);
    if (turns == 0) return emit(id);
    unroll(id, turns);
  }

 private:
  u64 fitting_turns(OpId id) {
    const auto turns = trip_count(k_, id);
    if (!turns || *turns == 0 || *turns > most_turns) return 0;
    const RegionId body = k_.region_of(id, 0);
    bool inner_loop = false, allocates = false;
    u64 size = 0;
    k_.walk(body, [&](OpId v) {
      inner_loop |= k_.op(v).code == Opcode::For;
      allocates |= k_.info_of(v).has(Alloc);
      size += !is_const(k_, v);
    });
    if (inner_loop) return 0;
    if (allocates) {
      context_.missed(k_, id, "the loop declares memory, which is never duplicated", "a declaration outside the loop");
      return 0;
    }
    if (size * *turns > most_ops || total_ + size * *turns > most_kernel_ops) {
      context_.missed(k_, id, fmt::format("{} turns of {} ops are too long to unroll", *turns, size),
                      fmt::format("a body of at most {} ops", most_ops / *turns));
      return 0;
    }
    total_ += size * (*turns - 1);
    return *turns;
  }

  void unroll(OpId id, u64 turns) {
    context_.done(k_, id, fmt::format("unrolled {} turns", turns));
    const auto given = results(id);
    const RegionId body = k_.region_of(id, 0), here = build().region();
    const auto until = unpack<UntilImm>(k_.op(id).imm);
    const LocId loc = k_.op(id).loc;
    std::vector<OpId> carried(k_.operands(id).begin() + 3, k_.operands(id).end());
    std::vector<Type> types;
    for (const OpId v : carried) types.push_back(k_.type(v));
    for (u64 turn = 0; turn < turns; ++turn) {
      if (!until.carried_plus_one) {
        carried = one_turn(id, body, turn, carried, here);
        build().set_point(here);
        continue;
      }
      // The head leaves when the carried bool holds: the turn runs under its complement, and once left nothing changes.
      build().set_location(loc);
      const OpId go = build().op(Opcode::Not, {carried[until.carried_plus_one - 1]});
      const OpId branch = build().if_(go, types);
      const RegionId run = k_.region_of(branch, 0), left = k_.region_of(branch, 1);
      const auto values = one_turn(id, body, turn, carried, run);
      k_.append(run, k_.create(Opcode::Yield, none_type, values, 0, loc));
      k_.append(left, k_.create(Opcode::Yield, none_type, carried, 0, loc));
      carried = k_.results(branch);
      build().set_point(here);
    }
    for (std::size_t i = 0; i < given.size(); ++i) forward(given[i], carried[i]);
    remove(id);
  }

  std::vector<OpId> one_turn(OpId id, RegionId body, u64 turn, const std::vector<OpId>& carried, RegionId to) {
    const auto& args = k_.region(body).args;
    ValueMap map;
    for (std::size_t i = 0; i < carried.size(); ++i) map[args[i + 1]] = carried[i];
    const OpId induction = k_.create(Opcode::Const, k_.type(args[0]), {}, induction_bits(k_, id, turn));
    k_.append(to, induction);
    map[args[0]] = induction;
    clone_ops(k_, body, k_, to, map);
    std::vector<OpId> next;
    for (const OpId v : k_.operands(k_.terminator(body))) {
      const auto it = map.find(v);
      next.push_back(it == map.end() ? v : it->second);
    }
    return next;
  }

  PassContext& context_;
  u64 total_;
};
}  // namespace

Changed run_unroll(Kernel& k, PassContext& context) {
  bool changed = false;
  // An unrolled inner loop may leave its outer loop innermost, and a folded induction variable may fix a trip count.
  for (int turn = 0; turn < 8 && Unroller(k, context).run(); ++turn) {
    changed = true;
    run_const_fold(k, context);
    run_algebraic_simplify(k, context);
    run_copy_prop(k, context);
    run_cse(k, context);
  }
  return changed;
}

}  // namespace iron::passes
