// Region rewriting, cloning and sweeping.
#include "passes/rewrite.h"

#include <algorithm>
#include <limits>

namespace iron::passes {

using namespace ir;

bool Rewriter::run() {
  changed_ = false;
  rewrite(k_.body());
  return changed_;
}

OpId Rewriter::resolve(OpId v) const {
  for (auto it = forward_.find(v); it != forward_.end(); it = forward_.find(v)) v = it->second;
  return v;
}

void Rewriter::update_operands(OpId id) {
  for (u32 i = 0; i < k_.op(id).operand_count; ++i)
    if (const OpId v = k_.operand(id, i), now = resolve(v); now != v) k_.set_operand(id, i, now);
}

void Rewriter::rewrite(RegionId r) {
  const std::vector<OpId> list = std::move(k_.mutable_region(r).ops);
  k_.mutable_region(r).ops.clear();
  const RegionId outer = build_.region();
  const LocId loc = build_.location();
  build_.set_point(r);
  enter(r);
  visit_all(list);
  leave(r);
  build_.set_point(outer);
  build_.set_location(loc);
}

void Rewriter::visit_all(const std::vector<OpId>& list) {
  const auto* outer_list = list_;
  const auto outer_cursor = cursor_;
  list_ = &list;
  for (cursor_ = 0; cursor_ < list.size(); ++cursor_) {
    const OpId id = list[cursor_];
    if (forward_.count(id)) {  // a result whose op was replaced
      drop(id);
      continue;
    }
    update_operands(id);
    build_.set_location(k_.op(id).loc);
    visit(id);
  }
  list_ = outer_list;
  cursor_ = outer_cursor;
}

void Rewriter::emit(OpId id) {
  k_.append(build_.region(), id);
  build_.set_point(build_.region());
}

void Rewriter::rewrite_regions(OpId id) {
  for (u32 i = 0; i < k_.op(id).region_count; ++i) rewrite(k_.region_of(id, i));
}

void Rewriter::keep(OpId id) {
  emit(id);
  rewrite_regions(id);
}

void Rewriter::drop(OpId id) {
  k_.mutable_op(id).region = none;
  changed_ = true;
}

void Rewriter::remove(OpId id) {
  for (u32 i = 0; i < k_.op(id).region_count; ++i) {
    const RegionId r = k_.region_of(id, i);
    while (!k_.region(r).ops.empty()) k_.erase(k_.region(r).ops.back());
    for (const OpId arg : k_.region(r).args) k_.mutable_op(arg).region = none;
  }
  drop(id);
}

void Rewriter::forward(OpId id, OpId value) {
  forward_[id] = value;
  changed_ = true;
}

void Rewriter::replace(OpId id, OpId value) {
  forward(id, value);
  drop(id);
}

std::vector<OpId> Rewriter::splice(RegionId r, bool visited) {
  std::vector<OpId> list = std::move(k_.mutable_region(r).ops);
  k_.mutable_region(r).ops.clear();
  const OpId yield = list.back();
  list.pop_back();
  if (visited)
    for (const OpId id : list) emit(id);
  else
    visit_all(list);
  update_operands(yield);
  const auto o = k_.operands(yield);
  std::vector<OpId> values(o.begin(), o.end());
  drop(yield);
  return values;
}

std::vector<OpId> Rewriter::results(OpId id) const {
  std::vector<OpId> out;
  for (std::size_t i = cursor_ + 1; i < list_->size(); ++i) {
    const OpId next = (*list_)[i];
    if (k_.op(next).code != Opcode::Result || k_.operand(next, 0) != id) break;
    out.push_back(next);
  }
  return out;
}

OpId clone_op(const Kernel& from, OpId id, Kernel& to, RegionId region, ValueMap& map) {
  const Op source = from.op(id);
  std::vector<OpId> operands;
  for (const OpId v : from.operands(id)) {
    const auto it = map.find(v);
    operands.push_back(it == map.end() ? v : it->second);
  }
  u64 imm = source.imm;
  LocId loc = source.loc;
  if (&from != &to) {
    const auto kind = from.info_of(id).imm;
    if (kind == ImmKind::Text || kind == ImmKind::Roles) imm = to.intern_text(from.texts[imm]);
    const auto& place = from.location(id);
    loc = place.line ? to.intern_location(place.file, place.line) : 0;
  }
  const OpId made = to.create(source.code, source.type, operands, imm, loc, source.region_count);
  to.append(region, made);
  map[id] = made;
  for (u32 i = 0; i < source.region_count; ++i) {
    const RegionId inner = source.first_region + i, copy = to.region_of(made, i);
    const auto args = from.region(inner).args;
    for (const OpId arg : args) map[arg] = to.add_arg(copy, from.type(arg), loc);
    clone_ops(from, inner, to, copy, map);
    clone_op(from, from.terminator(inner), to, copy, map);
  }
  return made;
}

void clone_ops(const Kernel& from, RegionId source, Kernel& to, RegionId region, ValueMap& map) {
  const auto ops = from.region(source).ops;
  for (const OpId id : ops)
    if (from.op(id).code != Opcode::Yield) clone_op(from, id, to, region, map);
}

void drop_carried(Kernel& k, OpId loop, const std::vector<bool>& unwanted) {
  const RegionId body = k.region_of(loop, 0);
  const OpId yield = k.terminator(body);
  const auto results = k.results(loop);
  std::vector<OpId> operands(k.operands(loop).begin(), k.operands(loop).begin() + 3), yielded,
      args{k.region(body).args[0]};
  auto until = unpack<UntilImm>(k.op(loop).imm);
  u64 kept = 0;
  u32 until_now = 0;
  for (std::size_t i = 0; i < unwanted.size(); ++i) {
    const OpId arg = k.region(body).args[i + 1];
    if (unwanted[i]) {
      k.mutable_op(arg).region = none;
      if (i < results.size()) k.erase(results[i]);
      continue;
    }
    if (until.carried_plus_one == i + 1) until_now = static_cast<u32>(kept) + 1;
    operands.push_back(k.operand(loop, static_cast<u32>(i) + 3));
    yielded.push_back(k.operand(yield, static_cast<u32>(i)));
    args.push_back(arg);
    k.mutable_op(results[i]).imm = kept++;
    k.mutable_op(arg).imm = kept;
  }
  k.set_operands(loop, operands);
  k.set_operands(yield, yielded);
  k.mutable_region(body).args = std::move(args);
  k.mutable_op(loop).imm = pack(UntilImm{until_now});
}

void drop_results(Kernel& k, OpId branch, const std::vector<bool>& unwanted) {
  const auto results = k.results(branch);
  for (u32 arm = 0; arm < k.op(branch).region_count; ++arm) {
    const OpId yield = k.terminator(k.region_of(branch, arm));
    std::vector<OpId> yielded;
    for (u32 i = 0; i < unwanted.size(); ++i)
      if (!unwanted[i]) yielded.push_back(k.operand(yield, i));
    k.set_operands(yield, yielded);
  }
  u64 kept = 0;
  for (std::size_t i = 0; i < unwanted.size(); ++i) {
    if (unwanted[i])
      k.erase(results[i]);
    else
      k.mutable_op(results[i]).imm = kept++;
  }
}

bool removable(const Kernel& k, OpId id) {
  const auto& op = k.op(id);
  if (op.type.kind == TypeKind::none || op.region_count) return false;
  if (op.code == Opcode::Param || op.code == Opcode::Arg || op.code == Opcode::Result) return false;
  return !k.info_of(id).has(Writes | WritesSlot | AtomicOp | Sync | Waits | Fact | Report | Terminator | TierOp);
}

std::vector<u32> use_counts(const Kernel& k) {
  std::vector<u32> counts(k.op_capacity(), 0);
  k.walk([&](OpId id) {
    for (const OpId v : k.operands(id)) ++counts[v];
  });
  return counts;
}

bool sweep(Kernel& k) {
  auto uses = use_counts(k);
  std::vector<OpId> work;
  k.walk([&](OpId id) {
    if (uses[id] == 0 && removable(k, id)) work.push_back(id);
  });
  if (work.empty()) return false;
  std::set<RegionId> regions;
  while (!work.empty()) {
    const OpId id = work.back();
    work.pop_back();
    regions.insert(k.op(id).region);
    k.mutable_op(id).region = none;
    for (const OpId v : k.operands(id))
      if (--uses[v] == 0 && removable(k, v)) work.push_back(v);
  }
  for (const RegionId r : regions) std::erase_if(k.mutable_region(r).ops, [&](OpId id) { return !k.alive(id); });
  return true;
}

namespace {
bool does_nothing(const Kernel& k, OpId loop) {
  const auto& ops = k.region(k.region_of(loop, 0)).ops;
  return k.op(loop).operand_count == 3 && std::none_of(ops.begin(), ops.end(), [&](OpId id) {
           return k.info_of(id).has(~static_cast<u32>(Alloc | Terminator | Math | Fast | Convergent));
         });
}

bool drop_empty_loops(Kernel& k, RegionId r) {
  bool changed = false;
  const auto ops = k.region(r).ops;
  for (const OpId id : ops) {
    for (u32 i = 0; i < k.op(id).region_count; ++i) changed |= drop_empty_loops(k, k.region_of(id, i));
    if (k.op(id).code != Opcode::For || !does_nothing(k, id)) continue;
    k.erase(id);
    changed = true;
  }
  return changed;
}

bool reduce_shifts(Kernel& k) {
  std::vector<OpId> beyond;
  k.walk([&](OpId id) {
    const auto code = k.op(id).code;
    if (code != Opcode::Shl && code != Opcode::Shr) return;
    const OpId amount = k.operand(id, 1);
    if (is_const(k, amount) && k.op(amount).imm >= dtype_bits(k.type(id).elem)) beyond.push_back(id);
  });
  for (const OpId id : beyond) {
    const Op amount = k.op(k.operand(id, 1));
    Builder b(k);
    b.set_point_before(id);
    k.set_operand(id, 1, b.constant(amount.type, amount.imm % dtype_bits(amount.type.elem)));
  }
  return !beyond.empty();
}
}  // namespace

bool settle(Kernel& k) {
  const bool shifts = reduce_shifts(k), loops = drop_empty_loops(k, k.body());
  if (loops) sweep(k);  // what only the loops used
  return shifts || loops;
}

Kernel compact(const Kernel& k, ValueMap* map) {
  Kernel out;
  out.name = k.name, out.mode = k.mode, out.numerics = k.numerics, out.spec = k.spec, out.file = k.file;
  out.width_generic = k.width_generic;
  out.callees = k.callees;
  ValueMap local;
  ValueMap& values = map ? *map : local;
  for (const auto& p : k.params) {
    const auto& place = k.location(p.op);
    values[p.op] =
        out.add_param(p.name, p.kind, p.elem, place.line ? out.intern_location(place.file, place.line) : 0, p.tensor);
  }
  for (const OpId id : k.region(k.body()).ops)
    if (k.op(id).code != Opcode::Param) clone_op(k, id, out, out.body(), values);
  return out;
}

u64 op_count(const Kernel& k) {
  u64 count = 0;
  k.walk([&](OpId id) {
    const auto code = k.op(id).code;
    count += code != Opcode::Param && code != Opcode::Const && code != Opcode::Result && code != Opcode::Yield;
  });
  return count;
}

u32 effects_of(const Kernel& k, OpId id) {
  u32 effects = k.info_of(id).effects;
  for (u32 i = 0; i < k.op(id).region_count; ++i)
    k.walk(k.region_of(id, i), [&](OpId inner) { effects |= k.info_of(inner).effects; });
  return effects;
}

bool orders_memory(const Kernel&, u32 effects) { return (effects & (Sync | AtomicOp | Waits)) != 0; }

namespace {
void add_touched(const Kernel& k, OpId id, Touched& t) {
  const auto& info = k.info_of(id);
  if (orders_memory(k, info.effects) || k.op(id).code == Opcode::Call) t.ordered = true;
  if (!info.has(Reads | Writes)) return;
  const auto root = [&](u32 i) { return memory_root(k, k.operand(id, i)); };
  switch (k.op(id).code) {
    case Opcode::Load:
    case Opcode::LoadOr:
      t.reads.insert(root(0));
      break;
    case Opcode::Store:
    case Opcode::CopyAsync:
      t.writes.insert(root(0));
      break;
    case Opcode::TileMma:
      t.reads.insert(root(1)), t.reads.insert(root(4));
      break;
    case Opcode::TileLoad:
      t.reads.insert(root(1));
      break;
    case Opcode::TileStore:
      t.writes.insert(root(1));
      break;
    case Opcode::TileZero:
    case Opcode::TileGet:
    case Opcode::TileSet:
      break;  // an accumulator is no memory
    default:
      t.ordered = true;
      break;
  }
}
}  // namespace

Touched touched(const Kernel& k, OpId id) {
  Touched t;
  add_touched(k, id, t);
  for (u32 i = 0; i < k.op(id).region_count; ++i)
    k.walk(k.region_of(id, i), [&](OpId inner) { add_touched(k, inner, t); });
  return t;
}

bool boundary(const Kernel& k, OpId id) {
  const auto code = k.op(id).code;
  if (code == Opcode::Param || code == Opcode::Result || code == Opcode::Call) return true;
  if (fragment_op(k, id)) return true;
  return k.info_of(id).has(Sync | Convergent | AtomicOp | Waits | Fact | Report | HasRegions | Terminator | TileOp |
                           TierOp);
}

namespace {
// 128 bits hold every distance of 64-bit bounds, signed or not.
__extension__ using Wide = __int128;
bool const_wide(const Kernel& k, OpId v, Wide& out) {
  i64 value = 0;
  if (!const_index(k, v, value)) return false;
  out = k.type(v).elem == DType::u64 ? static_cast<Wide>(static_cast<u64>(value)) : static_cast<Wide>(value);
  return true;
}
}  // namespace

std::optional<u64> trip_count(const Kernel& k, OpId loop) {
  Wide start = 0, end = 0, step = 0;
  if (!const_wide(k, k.operand(loop, 0), start) || !const_wide(k, k.operand(loop, 1), end) ||
      !const_wide(k, k.operand(loop, 2), step))
    return std::nullopt;
  if (step < 1) return std::nullopt;
  if (start >= end) return 0;
  const Wide turns = (end - start + step - 1) / step;
  constexpr Wide most = std::numeric_limits<u64>::max();
  return turns > most ? std::nullopt : std::optional(static_cast<u64>(turns));
}

u64 induction_bits(const Kernel& k, OpId loop, u64 turn) {
  const u64 bits = k.op(k.operand(loop, 0)).imm + turn * k.op(k.operand(loop, 2)).imm;
  const u32 width = dtype_bits(k.type(k.operand(loop, 0)).elem);
  return width < 64 ? bits & ((u64{1} << width) - 1) : bits;
}

bool surely_runs(const Kernel& k, OpId loop) {
  const auto turns = trip_count(k, loop);
  if (!turns || *turns == 0) return false;
  const auto until = unpack<UntilImm>(k.op(loop).imm);
  if (!until.carried_plus_one) return true;
  const OpId init = k.operand(loop, until.carried_plus_one + 2);
  return is_const(k, init) && k.op(init).imm == 0;
}

}  // namespace iron::passes
