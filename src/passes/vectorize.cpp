// vectorize: runs of 2, 4 or 8 neighbouring scalar accesses of one thread become one wide access, where the alignment
// is proven; where it is not, a remark names the missing fact. Keeps every bit.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/text.h"
#include "passes/divisibility.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;
using analysis::Polynomial;

namespace {
constexpr u32 widest_bytes = 16;

struct Access {
  OpId id;
  i64 offset;
  std::size_t at;  ///< position in the region
};

/// Accesses that become one: `lanes` of them, ordered by offset.
struct Run {
  std::vector<Access> members;
  OpId built_index = none;
  std::vector<OpId> elements;  ///< extracts, once built
  std::size_t first_at = 0, last_at = 0;
  bool index_ready = false;  ///< the lowest member's subscript is defined above the first member
};

class Planner {
 public:
  Planner(const Kernel& k, PassContext& context) : k_(k), context_(context), affine_(k), divides_(k) {}

  std::vector<Run> runs;

  void region(RegionId r) {
    const auto& ops = k_.region(r).ops;
    for (std::size_t at = 0; at < ops.size(); ++at) {
      const OpId id = ops[at];
      position_[id] = at;
      if (boundary(k_, id)) flush();
      for (u32 i = 0; i < k_.op(id).region_count; ++i) region(k_.region_of(id, i));
      if (k_.op(id).region_count) flush();
      access(id, at);
    }
    flush();
  }

 private:
  struct GroupKey {
    OpId memory;
    bool store;
    u64 epoch, imm;
    std::map<std::vector<OpId>, i64> rest;
    bool operator<(const GroupKey& o) const {
      return std::tie(memory, store, epoch, imm, rest) < std::tie(o.memory, o.store, o.epoch, o.imm, o.rest);
    }
  };

  void access(OpId id, std::size_t at) {
    const auto code = k_.op(id).code;
    if (code == Opcode::LoadOr) ++store_epoch_[memory_root(k_, k_.operand(id, 0))];
    if (code == Opcode::CopyAsync) {  // parts the runs of what it fills
      const OpId filled = memory_root(k_, k_.operand(id, 0));
      ++load_epoch_[filled], ++store_epoch_[filled], last_store_[filled] = {};
      return;
    }
    if (code != Opcode::Load && code != Opcode::Store) return;
    const bool store = code == Opcode::Store;
    const OpId memory = k_.operand(id, 0), root = memory_root(k_, memory);
    // Whatever this access is, it parts the runs that it may overlap.
    if (store)
      ++load_epoch_[root];
    else
      ++store_epoch_[root];
    const Type memory_type = k_.type(memory);
    const Type type = store ? k_.type(k_.operand(id, 2)) : k_.type(id);
    const bool plain = type.is_scalar() && memory_type.space != Space::priv && memory_type.swizzle == Swizzle::none &&
                       memory_type.elem != DType::boolean && unpack<MemoryImm>(k_.op(id).imm).align_log2 == 0;
    GroupKey key{memory, store, 0, k_.op(id).imm, affine_.of(k_.operand(id, 1)).terms};
    i64 offset = 0;
    if (const auto it = key.rest.find({}); it != key.rest.end()) offset = it->second, key.rest.erase(it);
    if (store) {
      // A store elsewhere in this memory may hit the same element: the order of the two counts.
      auto& last = last_store_[root];
      if (!plain || (last.valid && (last.memory != memory || last.rest != key.rest || last.offsets.count(offset))))
        ++store_epoch_[root], last = {};
      last.valid = true, last.memory = memory, last.rest = key.rest;
      last.offsets.insert(offset);
    }
    if (!plain) return;
    key.epoch = store ? store_epoch_[root] : reads_immutable(k_, id) ? 0 : load_epoch_[root];
    auto& group = groups_[key];
    for (const auto& a : group)
      if (a.offset == offset) return;  // the same element read twice
    group.push_back({id, offset, at});
  }

  void flush() {
    for (auto& [key, group] : groups_) form(key, group);
    groups_.clear();
    last_store_.clear();
  }

  void form(const GroupKey& key, std::vector<Access>& group) {
    if (group.size() < 2) return;
    std::sort(group.begin(), group.end(), [](const Access& a, const Access& b) { return a.offset < b.offset; });
    const u32 size = dtype_size(k_.type(key.memory).elem);
    const OpId use = group.front().id;
    const u32 base = divides_.of_base(key.memory);
    bool told = false;
    for (std::size_t i = 0; i < group.size();) {
      std::size_t together = 1;
      while (i + together < group.size() && group[i + together].offset == group[i].offset + static_cast<i64>(together))
        ++together;
      std::size_t lanes = 8;
      while (lanes > 1 && (lanes > together || lanes * size > widest_bytes)) lanes /= 2;
      const std::size_t wished = lanes;
      while (lanes > 1 && !aligned(key, group[i].offset, lanes, size, base, use)) lanes /= 2;
      if (lanes < wished && !told) told = explain(key, group[i], wished, size, base, use);
      if (lanes > 1)
        take(key,
             {group.begin() + static_cast<std::ptrdiff_t>(i), group.begin() + static_cast<std::ptrdiff_t>(i + lanes)});
      i += lanes;
    }
  }

  bool aligned(const GroupKey& key, i64 offset, std::size_t lanes, u32 size, u32 base, OpId use) const {
    if (lanes * size > (u64{1} << base)) return false;
    Polynomial p{key.rest};
    return offset % static_cast<i64>(lanes) == 0 && divides_.of(p, use) >= static_cast<u32>(std::countr_zero(lanes));
  }

  bool explain(const GroupKey& key, const Access& first, std::size_t lanes, u32 size, u32 base, OpId use) {
    const auto what = fmt::format("{} neighbouring {} of {} stay scalar or narrow", lanes,
                                  key.store ? "stores" : "loads", value_name(key.memory));
    if (lanes * size > (u64{1} << base)) {
      context_.missed(k_, first.id, what,
                      fmt::format("{} does not start at a multiple of {} bytes", value_name(key.memory), lanes * size));
      return true;
    }
    const OpId leaf = divides_.culprit(Polynomial{key.rest}, static_cast<u32>(std::countr_zero(lanes)), use);
    if (leaf == none) return false;  // the run starts off a multiple; a later one may start on it
    context_.missed(k_, first.id, what, fmt::format("{} is not known to be a multiple of {}", value_name(leaf), lanes));
    return true;
  }
  std::string value_name(OpId v) const {
    if (k_.op(v).code == Opcode::Param) return k_.params[k_.op(v).imm].name;
    if (k_.op(v).code == Opcode::Arg) return "the loop's variable";
    return std::string(k_.info_of(v).text);
  }

  void take(const GroupKey& key, std::vector<Access> members) {
    Run run;
    run.first_at = run.last_at = members.front().at;
    for (const auto& a : members)
      run.first_at = std::min(run.first_at, a.at), run.last_at = std::max(run.last_at, a.at);
    const OpId index = k_.operand(members.front().id, 1);
    const auto it = position_.find(index);
    const bool here = k_.op(index).region == k_.op(members.front().id).region && it != position_.end();
    run.index_ready = key.store || !here || it->second < run.first_at;
    context_.done(
        k_, members.front().id,
        fmt::format("{} {} of {} became one", members.size(), key.store ? "stores" : "loads", value_name(key.memory)));
    run.members = std::move(members);
    runs.push_back(std::move(run));
  }

  struct LastStore {
    bool valid = false;
    OpId memory = none;
    std::map<std::vector<OpId>, i64> rest;
    std::set<i64> offsets;
  };

  const Kernel& k_;
  PassContext& context_;
  analysis::Affine affine_;
  const Divisibility divides_;
  std::map<GroupKey, std::vector<Access>> groups_;
  std::map<OpId, u64> load_epoch_, store_epoch_;
  std::map<OpId, LastStore> last_store_;
  std::unordered_map<OpId, std::size_t> position_;
};

class Vectorizer : public Rewriter {
 public:
  Vectorizer(Kernel& k, std::vector<Run> runs) : Rewriter(k), runs_(std::move(runs)) {
    for (auto& run : runs_)
      for (std::size_t lane = 0; lane < run.members.size(); ++lane) member_[run.members[lane].id] = {&run, lane};
  }

 protected:
  void visit(OpId id) override {
    const auto it = member_.find(id);
    if (it == member_.end()) return keep(id);
    auto& [run, lane] = it->second;
    if (k_.op(id).code == Opcode::Load) {
      if (run->elements.empty()) load(*run, id, lane);
      return replace(id, run->elements[lane]);
    }
    if (run->members[lane].at == run->last_at) store(*run);
    drop(id);
  }

 private:
  u64 wide_imm(const Run& run) const {
    auto imm = unpack<MemoryImm>(k_.op(run.members[0].id).imm);
    const u32 bytes = dtype_size(k_.type(k_.operand(run.members[0].id, 0)).elem) * static_cast<u32>(run.members.size());
    imm.align_log2 = static_cast<u8>(std::countr_zero(bytes));
    return pack(imm);
  }

  // At the first member, which may not be the lowest.
  void load(Run& run, OpId first, std::size_t lane) {
    const OpId lowest = run.members[0].id, memory = resolve(k_.operand(first, 0));
    OpId index = resolve(k_.operand(lowest, 1));
    if (!run.index_ready) {
      const OpId back = build().const_index(-static_cast<i64>(lane));
      index = build().op(Opcode::Add, {k_.operand(first, 1), back});
    }
    const auto lanes = static_cast<u8>(run.members.size());
    const OpId wide = build().op(Opcode::Load, Type::value(k_.type(first).elem, lanes), {memory, index}, wide_imm(run));
    for (u64 i = 0; i < lanes; ++i) run.elements.push_back(build().op(Opcode::VecExtract, {wide}, i));
  }

  // At the last member, when every value is there.
  void store(const Run& run) {
    std::vector<OpId> values;
    for (const auto& a : run.members) values.push_back(resolve(k_.operand(a.id, 2)));
    const OpId lowest = run.members[0].id;
    const OpId wide = build().op(Opcode::VecMake, values);
    build().op(Opcode::Store, {resolve(k_.operand(lowest, 0)), resolve(k_.operand(lowest, 1)), wide}, wide_imm(run));
  }

  std::vector<Run> runs_;
  std::unordered_map<OpId, std::pair<Run*, std::size_t>> member_;
};
}  // namespace

Changed run_vectorize(Kernel& k, PassContext& context) {
  bool changed = sweep(k);  // an unused load would keep two stores apart
  for (;;) {
    const auto told = static_cast<std::ptrdiff_t>(context.remarks.size());
    Planner planner(k, context);
    planner.region(k.body());
    if (planner.runs.empty()) return changed;
    changed = true;
    Vectorizer(k, std::move(planner.runs)).run();
    run_algebraic_simplify(k, context);  // a vector taken apart and put together again is that vector
    // What is still missed is said by the last look.
    const auto since = context.remarks.begin() + told;
    context.remarks.erase(
        std::remove_if(since, context.remarks.end(), [](const Remark& r) { return r.kind == RemarkKind::missed; }),
        context.remarks.end());
  }
}

}  // namespace iron::passes
