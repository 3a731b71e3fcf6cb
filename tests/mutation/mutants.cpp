// What each fault does to the IR.
#include "mutants.h"

#include <fmt/format.h>

#include <array>

#include "analysis/verify.h"
#include "ir/builder.h"
#include "ir/eval.h"
#include "passes/rewrite.h"

namespace iron::mutation {

using namespace ir;

std::string_view name(Fault f) {
  static constexpr std::array<std::string_view, 12> names{"drop_barrier", "drop_store", "zero_stride", "bound_up",
                                                          "bound_down",   "swap",       "constant",    "add_sub",
                                                          "min_max",      "other_lane", "index_up",    "no_guard"};
  return names[static_cast<std::size_t>(f)];
}

std::string Mutation::id() const { return fmt::format("{}:{}.{}", name(fault), at, operand); }

namespace {
bool compares(Opcode c) { return c == Opcode::Lt || c == Opcode::Le || c == Opcode::Gt || c == Opcode::Ge; }

void faults_of(const Kernel& k, OpId id, const std::vector<std::vector<OpId>>& users, std::vector<Mutation>& out) {
  const auto& op = k.op(id);
  const auto add = [&](Fault f, u32 operand = 0) { out.push_back({f, id, operand}); };
  switch (op.code) {
    case Opcode::Barrier:
    case Opcode::SimdBarrier:
    case Opcode::CopyCommit:
    case Opcode::CopyWait:
      return add(Fault::drop_barrier);
    case Opcode::CopyAsync:
    case Opcode::Store:
      add(Fault::drop_store);
      return add(Fault::index_up, 1);
    case Opcode::TileStore:
      return add(Fault::drop_store);
    case Opcode::AtomicRmw:
      if (users[id].empty()) add(Fault::drop_store);
      return add(Fault::index_up, 1);
    case Opcode::Load:
      return add(Fault::index_up, 1);
    case Opcode::LoadOr:
      add(Fault::index_up, 1);
      return add(Fault::no_guard, 2);
    case Opcode::If:
      return add(Fault::no_guard, 0);
    case Opcode::For:
      add(Fault::bound_up, 0);
      add(Fault::bound_up, 1);
      return add(Fault::bound_down, 1);
    case Opcode::Const:
      if (op.type.is_value() && !users[id].empty()) add(Fault::constant);
      return;
    case Opcode::Mul:
      if (op.type.is_index()) add(Fault::zero_stride, 1);
      return;
    case Opcode::Add:
      return add(Fault::add_sub);
    case Opcode::Sub:
      add(Fault::add_sub);
      return add(Fault::swap_operands);
    case Opcode::Div:
    case Opcode::Rem:
    case Opcode::Shl:
    case Opcode::Shr:
    case Opcode::Pow:
    case Opcode::Atan2:
      return add(Fault::swap_operands);
    case Opcode::Fma:
    case Opcode::Select:
      return add(Fault::swap_operands, 1);
    case Opcode::Min:
    case Opcode::Max:
    case Opcode::SimdReduce:
    case Opcode::GroupReduce:
    case Opcode::SimdScan:
    case Opcode::GroupScan:
      return add(Fault::min_max);
    case Opcode::SimdShuffleXor:
    case Opcode::SimdShuffleUp:
    case Opcode::SimdShuffleDown:
    case Opcode::GroupBroadcast:
      return add(Fault::other_lane);
    case Opcode::SimdShuffle:
    case Opcode::SimdBroadcast:
      return add(Fault::other_lane, 1);
    default:
      break;
  }
  if (!compares(op.code)) return;
  add(Fault::swap_operands);
  if (k.type(k.operand(id, 0)).is_index()) {
    add(Fault::bound_up, 1);
    add(Fault::bound_down, 1);
  }
}

// Another value of the type: the next integer, another float of ordinary size, the other truth.
u64 changed(DType t, u64 bits) {
  if (t == DType::boolean) return bits ^ 1;
  const Type type = Type::value(t);
  const Type two[] = {type, type};
  const Type u32_of[] = {u32_type};
  const u64 number[] = {1};
  const u64 sum[] = {bits, t == DType::index ? 1 : eval(Opcode::Cast, type, u32_of, number)};
  return eval(Opcode::Add, type, two, sum);
}

ReduceKind other(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::min:
      return ReduceKind::max;
    case ReduceKind::max:
      return ReduceKind::min;
    case ReduceKind::sum:
      return ReduceKind::max;
    case ReduceKind::prod:
      return ReduceKind::sum;
    case ReduceKind::and_:
      return ReduceKind::or_;
    default:
      return ReduceKind::and_;
  }
}
}  // namespace

std::vector<Mutation> mutations_of(const Kernel& k) {
  std::vector<Mutation> out;
  const auto users = use_lists(k);
  k.walk([&](OpId id) { faults_of(k, id, users, out); });
  return out;
}

std::optional<Kernel> mutate(const Kernel& original, const Mutation& m) {
  Kernel k = original;
  Builder b(k);
  b.set_point_before(m.at);
  const auto beside = [&](u32 operand, i64 by) {
    const OpId v = k.operand(m.at, operand);
    const OpId step = b.constant(k.type(v), static_cast<u64>(by < 0 ? -by : by));
    k.set_operand(m.at, operand, b.op(by < 0 ? Opcode::Sub : Opcode::Add, {v, step}));
  };
  const auto swap = [&](u32 i, u32 j) {
    const OpId x = k.operand(m.at, i), y = k.operand(m.at, j);
    if (x == y || k.type(x) != k.type(y)) return false;
    k.set_operand(m.at, i, y);
    k.set_operand(m.at, j, x);
    return true;
  };
  auto& op = k.mutable_op(m.at);
  switch (m.fault) {
    case Fault::drop_barrier:
    case Fault::drop_store:
      k.erase(m.at);
      break;
    case Fault::zero_stride:
      k.set_operand(m.at, m.operand, b.const_index(0));
      break;
    case Fault::bound_up:
      beside(m.operand, 1);
      break;
    case Fault::bound_down:
      beside(m.operand, -1);
      break;
    case Fault::swap_operands:
      if (!swap(m.operand, m.operand + 1)) return std::nullopt;
      break;
    case Fault::constant:
      op.imm = changed(op.type.elem, op.imm);
      break;
    case Fault::add_sub:
      op.code = op.code == Opcode::Add ? Opcode::Sub : Opcode::Add;
      break;
    case Fault::min_max:
      if (op.code == Opcode::Min || op.code == Opcode::Max) {
        op.code = op.code == Opcode::Min ? Opcode::Max : Opcode::Min;
      } else if (k.info_of(m.at).imm == ImmKind::Scan) {
        auto s = unpack<ScanImm>(op.imm);
        s.kind = other(s.kind);
        op.imm = pack(s);
      } else {
        op.imm = pack(other(unpack<ReduceKind>(op.imm)));
      }
      break;
    case Fault::other_lane:
      if (m.operand)
        beside(m.operand, 1);
      else
        op.imm = op.imm == 31 ? 30 : op.imm + 1;
      break;
    case Fault::index_up:
      beside(m.operand, 1);
      break;
    case Fault::no_guard:
      k.set_operand(m.at, m.operand, b.const_bool(true));
      break;
  }
  if (!analysis::verify(k).empty()) return std::nullopt;
  return k;
}

}  // namespace iron::mutation
