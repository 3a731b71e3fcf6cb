#include "passes/widen_items.h"

#include <algorithm>

#include "passes/pipeline.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
constexpr u32 wide_bytes = 16, most_items = 8;
constexpr u64 most_ops = 320;  // of all items of a thread: more spill, and no longer wait for memory

/// The one `if grid_thread_id < item_count` that holds all effects, or none.
OpId item_guard(const Kernel& k) {
  OpId guard = none;
  for (const OpId id : k.region(k.body()).ops) {
    const auto& op = k.op(id);
    if (op.code == Opcode::If && guard == none) {
      guard = id;
      continue;
    }
    if (op.code != Opcode::Param && op.code != Opcode::Yield && (op.region_count || k.info_of(id).effects)) return none;
  }
  if (guard == none || !k.results(guard).empty()) return none;
  if (op_count(k) == 0 || k.region(k.region_of(guard, 1)).ops.size() != 1) return none;  // its yield
  const OpId condition = k.operand(guard, 0);
  const bool guards = k.op(condition).code == Opcode::Lt &&
                      k.op(k.operand(condition, 0)).code == Opcode::GridThreadId &&
                      k.op(k.operand(condition, 1)).code == Opcode::ItemCount;
  return guards ? guard : none;
}

/// True if the items do nothing but compute, load and store, each for itself.
bool independent(const Kernel& k) {
  bool fine = true;
  k.walk([&](OpId id) {
    switch (k.op(id).code) {
      case Opcode::Param:
      case Opcode::Const:
      case Opcode::Arg:
      case Opcode::Result:
      case Opcode::Yield:
      case Opcode::If:
      case Opcode::Load:
      case Opcode::LoadOr:
      case Opcode::Store:
      case Opcode::GridThreadId:
      case Opcode::ItemCount:
      case Opcode::Length:
      case Opcode::View:
        return;
      case Opcode::Div:
      case Opcode::Rem:  // of subscripts: long sequences, whose results are mostly no neighbours
        fine &= k.type(id).elem != DType::index;
        return;
      case Opcode::ThreadId:
      case Opcode::ThreadPos:
      case Opcode::GroupId:
      case Opcode::GroupCount:
      case Opcode::GroupSize:
      case Opcode::GroupDim:
      case Opcode::GridPos:
      case Opcode::LaneId:
      case Opcode::SimdgroupId:
      case Opcode::SimdgroupCount:
        fine = false;
        return;
      default:
        fine &= (k.info_of(id).effects & ~u32{Math | Fast}) == 0 && k.info_of(id).scope == Scope::lane;
    }
  });
  return fine;
}

/// Bytes of the smallest element that is loaded or stored; 0 if there is none.
u32 smallest_element(const Kernel& k) {
  u32 smallest = 0;
  k.walk([&](OpId id) {
    const auto code = k.op(id).code;
    if (code != Opcode::Load && code != Opcode::Store) return;
    const u32 size = dtype_size(k.type(k.operand(id, 0)).elem);
    smallest = smallest ? std::min(smallest, size) : size;
  });
  return smallest;
}

/// Loads and stores of one element, or of several at once.
u32 accesses(const Kernel& k, Opcode code, bool wide) {
  u32 count = 0;
  k.walk([&](OpId id) {
    if (k.op(id).code == code) count += (unpack<MemoryImm>(k.op(id).imm).align_log2 != 0) == wide;
  });
  return count;
}

/// Rebuilds the guard of a copy of the kernel.
class Widener {
 public:
  Widener(Kernel& k, OpId guard, u32 items) : k_(k), build_(k), guard_(guard), items_(items) {}

  void run() {
    const OpId condition = k_.operand(guard_, 0);
    thread_ = k_.operand(condition, 0), count_ = k_.operand(condition, 1), condition_ = condition;
    const RegionId body = k_.region_of(guard_, 0);
    const OpId aligned = k_.add_param("iron_aligned", ParamKind::scalar, DType::u32);
    auto& ops = k_.mutable_region(k_.body()).ops;
    std::rotate(ops.begin(), ops.end() - 1, ops.end());  // parameters come first

    build_.set_point_before(guard_);
    const OpId base = build_.op(Opcode::Mul, {thread_, build_.const_index(items_)});
    const OpId last = build_.op(Opcode::Add, {base, build_.const_index(items_ - 1)});
    const OpId all = build_.op(Opcode::Lt, {last, count_});
    const OpId wide = build_.op(Opcode::Ne, {aligned, build_.const_u32(0)});
    const OpId branch = build_.if_(build_.op(Opcode::And, {all, wide}), {});
    in_step(body, base, k_.region_of(branch, 0));
    one_by_one(body, base, k_.region_of(branch, 1));
    k_.erase(guard_);
  }

 private:
  void close(RegionId r) { k_.append(r, k_.create(Opcode::Yield, none_type, {})); }

  ValueMap item(OpId index) const { return {{thread_, index}}; }

  void in_step(RegionId body, OpId base, RegionId to) {
    build_.set_point(to);
    const OpId yes = build_.const_bool(true);
    std::vector<ValueMap> maps;
    for (u32 i = 0; i < items_; ++i) {
      maps.push_back(item(build_.op(Opcode::Add, {base, build_.const_index(i)})));
      maps.back()[condition_] = yes;
    }
    const auto ops = k_.region(body).ops;
    for (std::size_t at = 0, next = 0; at < ops.size(); at = next) {
      for (next = at + 1; next < ops.size() && k_.op(ops[next]).code == Opcode::Result;) ++next;
      if (k_.op(ops[at]).code == Opcode::Yield) continue;
      for (auto& map : maps)  // results stay behind their op
        for (std::size_t i = at; i < next; ++i) copy(ops[i], to, map);
    }
    close(to);
  }

  void one_by_one(RegionId body, OpId base, RegionId to) {
    build_.set_point(to);
    const OpId loop = build_.for_(build_.const_index(0), build_.const_index(items_), build_.const_index(1), {});
    const RegionId turn = k_.region_of(loop, 0);
    build_.set_point(turn);
    const OpId index = build_.op(Opcode::Add, {base, k_.region(turn).args[0]});
    const OpId exists = build_.op(Opcode::Lt, {index, count_});
    const OpId branch = build_.if_(exists, {});
    ValueMap map = item(index);
    map[condition_] = exists;
    const auto ops = k_.region(body).ops;
    for (const OpId id : ops)
      if (k_.op(id).code != Opcode::Yield) copy(id, k_.region_of(branch, 0), map);
    close(k_.region_of(branch, 0));
    close(k_.region_of(branch, 1));
    close(turn);
    close(to);
  }

  /// What stands above the guard and follows from the thread's id is made anew for each item.
  void copy(OpId id, RegionId to, ValueMap& map) {
    bring_operands(id, to, map);
    clone_op(k_, id, k_, to, map);
  }
  void bring_operands(OpId id, RegionId to, ValueMap& map) {
    for (const OpId v : std::vector<OpId>(k_.operands(id).begin(), k_.operands(id).end())) bring(v, to, map);
    for (u32 i = 0; i < k_.op(id).region_count; ++i) {
      const auto inner = k_.region(k_.region_of(id, i)).ops;
      for (const OpId v : inner) bring_operands(v, to, map);
    }
  }
  void bring(OpId v, RegionId to, ValueMap& map) {
    if (map.count(v)) return;
    if (k_.op(v).code == Opcode::GridThreadId) {
      map[v] = map.at(thread_);
      return;
    }
    if (k_.op(v).region != k_.body() || k_.operands(v).empty()) return;
    const std::vector<OpId> operands(k_.operands(v).begin(), k_.operands(v).end());
    bool varies = false;
    for (const OpId o : operands) {
      bring(o, to, map);
      varies |= map.count(o) != 0;
    }
    if (varies) clone_op(k_, v, k_, to, map);
  }

  Kernel& k_;
  Builder build_;
  OpId guard_, thread_ = none, count_ = none, condition_ = none;
  u32 items_;
};
}  // namespace

WideItems widen_items(const Kernel& optimised) {
  WideItems out;
  if (optimised.mode != Mode::Elementwise) return out;
  const u32 smallest = smallest_element(optimised);
  if (smallest == 0 || !independent(optimised)) return out;
  u32 items = std::min(most_items, wide_bytes / smallest);
  while (items > 1 && op_count(optimised) * items > most_ops) items /= 2;
  if (items < 2) return out;

  Kernel k = compact(optimised);
  const OpId guard = item_guard(k);
  if (guard == none) return out;
  Widener(k, guard, items).run();
  static const std::vector<std::string> clean{"const_fold", "algebraic_simplify", "cse", "vectorize",
                                              "cse",        "dead_store_elim"};
  run_passes(k, clean);
  // The slow path holds the original's narrow stores; further ones would be scattered over the lanes.
  if (accesses(k, Opcode::Store, false) != accesses(optimised, Opcode::Store, false)) return out;
  out.kernel = compact(k);
  out.items_per_thread = items;
  return out;
}

}  // namespace iron::passes
