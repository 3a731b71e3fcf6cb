// The rules of rules.h.
#include "rules.h"

#include <algorithm>
#include <array>
#include <map>

namespace iron::mutation {

using namespace ir;

namespace {
constexpr u32 every = ~0u, itself = 1u;  // masks as bits: bit m for the mask m

u32 masks(auto holds) {
  u32 out = 0;
  for (u32 m = 0; m < 32; ++m) out |= static_cast<u32>(holds(m)) << m;
  return out;
}
bool joins(Opcode c) { return c == Opcode::Add || c == Opcode::Min || c == Opcode::Max; }

// lane_id, as an integer of any type.
bool is_lane(const Kernel& k, OpId id) {
  while (k.op(id).code == Opcode::Cast && k.op(id).type.is_value() && !is_float(k.op(id).type.elem))
    id = k.operand(id, 0);
  return k.op(id).code == Opcode::LaneId;
}

/// Under which masks each value is symmetric: the greatest solution of the equations in rules.h.
class Symmetry {
 public:
  explicit Symmetry(const Kernel& k) : k_(k), of_(k.op_capacity(), every) {
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& p : k.params) of_[p.op] = every;
      visit(k.body(), every, changed);
    }
  }
  bool holds(OpId value, u32 mask) const { return mask < 32 && (of_[value] >> mask & 1u); }

 private:
  void visit(RegionId r, u32 control, bool& changed) {
    for (const OpId id : k_.region(r).ops) {
      const auto& op = k_.op(id);
      set(id, rule(id) & control, changed);
      const u32 inner = control & (op.code == Opcode::For || op.code == Opcode::If ? head(id) : itself);
      for (u32 i = 0; i < op.region_count; ++i) {
        const RegionId region = k_.region_of(id, i);
        for (const OpId arg : k_.region(region).args) set(arg, argument(id, region, arg) & inner, changed);
        visit(region, inner, changed);
      }
    }
  }
  void set(OpId id, u32 value, bool& changed) {
    changed |= of_[id] != (of_[id] & value);
    of_[id] &= value;
  }
  // What decides whether and how often the regions run.
  u32 head(OpId id) const {
    if (k_.op(id).code == Opcode::If) return of_[k_.operand(id, 0)];
    if (k_.op(id).imm != 0) return itself;  // until(...)
    return of_[k_.operand(id, 0)] & of_[k_.operand(id, 1)] & of_[k_.operand(id, 2)];
  }
  u32 argument(OpId loop, RegionId r, OpId arg) const {
    if (k_.op(loop).code != Opcode::For) return itself;
    const auto& args = k_.region(r).args;
    const auto i = static_cast<u32>(std::find(args.begin(), args.end(), arg) - args.begin());
    return i == 0 ? every : of_[k_.operand(loop, 2 + i)] & of_[k_.operand(k_.terminator(r), i - 1)];
  }
  u32 result(OpId id) const {
    const OpId of = k_.operand(id, 0);
    const auto i = static_cast<u32>(k_.op(id).imm);
    u32 all = head(of);
    if (k_.op(of).code == Opcode::For) all &= of_[k_.operand(of, 3 + i)];
    for (u32 r = 0; r < k_.op(of).region_count; ++r) all &= of_[k_.operand(k_.terminator(k_.region_of(of, r)), i)];
    return all;
  }
  u32 rule(OpId id) const {
    const auto& op = k_.op(id);
    const auto operands = k_.operands(id);
    u32 all = every;
    for (const OpId v : operands) all &= of_[v];
    i64 c = 0;
    switch (op.code) {
      case Opcode::Const:
      case Opcode::Param:
      case Opcode::GroupId:
      case Opcode::GroupCount:
      case Opcode::GroupSize:
      case Opcode::GroupDim:
      case Opcode::SimdgroupId:
      case Opcode::SimdgroupCount:
      case Opcode::SimdReduce:
      case Opcode::GroupReduce:
      case Opcode::SharedNew:
      case Opcode::View:
        return every;
      case Opcode::Result: {
        const Opcode of = k_.op(operands[0]).code;
        return of == Opcode::For || of == Opcode::If ? result(id) : itself;
      }
      case Opcode::SimdBroadcast:
        return is_const(k_, operands[1]) ? every : all;
      case Opcode::SimdShuffleXor:
        return all;  // x[l ^ s ^ m] = x[l ^ m]
      case Opcode::Load:
        return k_.op(memory_root(k_, operands[0])).code == Opcode::ArrayNew ? itself : of_[operands[1]];
      case Opcode::And:
        if (is_lane(k_, operands[0]) && const_index(k_, operands[1], c))
          return masks([&](u32 m) { return (m & static_cast<u32>(c)) == 0; });
        break;
      case Opcode::Div:
        if (is_lane(k_, operands[0]) && const_index(k_, operands[1], c) && c > 0 && (c & (c - 1)) == 0)
          return masks([&](u32 m) { return m < static_cast<u64>(c); });
        break;
      default:
        break;
    }
    // f(x, x of lane l ^ m), f commutes
    if ((joins(op.code) || op.code == Opcode::Mul) && operands.size() == 2)
      for (const u32 i : {0u, 1u})
        if (const auto& shuffle = k_.op(operands[i]);
            shuffle.code == Opcode::SimdShuffleXor && k_.operand(operands[i], 0) == operands[1 - i]) {
          const u32 x = of_[operands[1 - i]], mask = static_cast<u32>(shuffle.imm) & 31u;
          return masks([&](u32 m) { return (x >> m & 1u) || (x >> (m ^ mask) & 1u); });
        }
    const auto& info = k_.info_of(id);
    const bool pure = info.rule != TypeRule::Tier && info.pure() && op.region_count == 0 && !operands.empty();
    return pure ? all : itself;
  }

  const Kernel& k_;
  std::vector<u32> of_;
};

// The value of an expression of the lane's id and constants.
std::optional<u64> of_lane(const Kernel& k, OpId id, u32 lane) {
  const auto& op = k.op(id);
  if (op.code == Opcode::LaneId) return lane;
  if (op.code == Opcode::Const) return op.imm;
  if (op.code == Opcode::Cast && !is_float(op.type.elem)) return of_lane(k, k.operand(id, 0), lane);
  if (op.operand_count != 2) return std::nullopt;
  const auto a = of_lane(k, k.operand(id, 0), lane), b = of_lane(k, k.operand(id, 1), lane);
  if (!a || !b) return std::nullopt;
  switch (op.code) {
    case Opcode::And:
      return *a & *b;
    case Opcode::Ne:
      return *a != *b;
    case Opcode::Eq:
      return *a == *b;
    default:
      return std::nullopt;
  }
}

/// What one operation has joined in a lane: values of lanes, sorted.
struct Terms {
  std::optional<Opcode> by;  ///< none for a single term
  std::vector<std::pair<OpId, u32>> of;
  bool operator==(const Terms&) const = default;
};
using Forms = std::array<Terms, 32>;

/// The terms of values that a mask changes, before and after.
class Exchange {
 public:
  Exchange(const Kernel& k, OpId shuffle, u32 other) : k_(k), shuffle_(shuffle), other_(other) {}

  bool same_terms() {
    const auto users = use_lists(k_);
    const auto& ops = k_.region(k_.op(shuffle_).region).ops;
    for (auto at = std::find(ops.begin(), ops.end(), shuffle_); at != ops.end(); ++at) {
      const auto operands = k_.operands(*at);
      if (*at != shuffle_ &&
          std::none_of(operands.begin(), operands.end(), [&](OpId v) { return dirty_.count(v) != 0; }))
        continue;
      std::pair<Forms, Forms> forms;
      for (u32 lane = 0; lane < 32; ++lane) {
        if (!step(*at, lane, false, forms.first[lane]) || !step(*at, lane, true, forms.second[lane])) return false;
      }
      seen_.insert({*at, true});
      if (forms.first != forms.second) dirty_.emplace(*at, std::move(forms));
    }
    // Nothing else may see a value that differs: regions inside, or what follows this one.
    for (const auto& [id, forms] : dirty_)
      for (const OpId user : users[id])
        if (!seen_.count(user)) return false;
    return true;
  }

 private:
  Terms terms(OpId v, u32 lane, bool after) const {
    const auto found = dirty_.find(v);
    if (found == dirty_.end()) return {std::nullopt, {{v, lane}}};
    return (after ? found->second.second : found->second.first)[lane];
  }
  bool step(OpId id, u32 lane, bool after, Terms& out) const {
    const auto& op = k_.op(id);
    if (op.code == Opcode::SimdShuffleXor) {
      const u32 mask = id == shuffle_ && after ? other_ : static_cast<u32>(op.imm);
      out = terms(k_.operand(id, 0), lane ^ (mask & 31u), after);
      return true;
    }
    if (op.code == Opcode::Select) {
      const auto upper = of_lane(k_, k_.operand(id, 0), lane);
      if (upper) out = terms(k_.operand(id, *upper ? 1 : 2), lane, after);
      return upper.has_value();
    }
    if (!joins(op.code)) return false;
    out.by = op.code;
    for (const u32 i : {0u, 1u}) {
      const Terms part = terms(k_.operand(id, i), lane, after);
      if (part.by && part.by != op.code) return false;
      out.of.insert(out.of.end(), part.of.begin(), part.of.end());
    }
    std::sort(out.of.begin(), out.of.end());
    return true;
  }

  const Kernel& k_;
  OpId shuffle_;
  u32 other_;
  std::map<OpId, std::pair<Forms, Forms>> dirty_;
  std::map<OpId, bool> seen_;
};

constexpr std::string_view copies = "the lane beside holds the same value";

bool reads_copy(const Kernel& k, const Symmetry& symmetry, OpId broadcast) {
  i64 lane = 0;
  return k.op(broadcast).code == Opcode::SimdBroadcast && const_index(k, k.operand(broadcast, 1), lane) && lane >= 0 &&
         lane < 31 && symmetry.holds(k.operand(broadcast, 0), static_cast<u32>(lane ^ (lane + 1)));
}
bool runs_once(const Kernel& k, OpId loop, OpId step) {
  i64 end = 0, by = 0;
  return k.op(loop).code == Opcode::For && k.operand(loop, 2) == step && k.operand(loop, 0) != step &&
         k.operand(loop, 1) != step && k.op(k.operand(loop, 0)).code == Opcode::ThreadId &&
         const_index(k, k.operand(loop, 1), end) && const_index(k, step, by) && end <= by;
}
}  // namespace

std::optional<std::string_view> invisible(const Kernel& k, const Mutation& m) {
  const auto& op = k.op(m.at);
  if (m.fault == Fault::other_lane && op.code == Opcode::SimdBroadcast) {
    if (reads_copy(k, Symmetry(k), m.at)) return copies;
  }
  if (m.fault == Fault::other_lane && op.code == Opcode::SimdShuffleXor) {
    const auto mask = static_cast<u32>(op.imm), other = mask == 31 ? 30 : mask + 1;
    if (Symmetry(k).holds(k.operand(m.at, 0), mask ^ other)) return copies;
    if (Exchange(k, m.at, other).same_terms()) return "the lanes exchange the same terms in another order";
  }
  if (m.fault == Fault::constant) {
    const auto users = use_lists(k)[m.at];
    if (users.empty()) return std::nullopt;
    const Symmetry symmetry(k);
    const auto all = [&](auto holds) { return std::all_of(users.begin(), users.end(), holds); };
    if (all([&](OpId u) { return k.operand(u, 0) != m.at && reads_copy(k, symmetry, u); })) return copies;
    if (all([&](OpId u) { return runs_once(k, u, m.at); })) return "the loop runs once at most";
  }
  return std::nullopt;
}

}  // namespace iron::mutation
