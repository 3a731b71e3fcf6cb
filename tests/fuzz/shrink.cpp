// Greedy reduction: one edit at a time, from the end of the kernel to its start, until none is accepted.
#include "shrink.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/builder.h"
#include "passes/rewrite.h"

namespace iron::fuzz {

using namespace ir;
using passes::ValueMap;

namespace {
/// What becomes of one op.
struct Edit {
  enum Kind { remove, constant, operand, arm, skip_loop, one_trip } kind = remove;
  OpId at = none;
  u32 which = 0;
};

/// Copies a kernel with one edit; what is left without a value stops the copy.
class Copier {
 public:
  Copier(const Kernel& from, const Edit& edit, std::set<OpId> removed = {})
      : from_(from), edit_(edit), removed_(std::move(removed)), build_(to_) {}

  std::optional<Kernel> run() {
    to_.name = from_.name, to_.mode = from_.mode, to_.numerics = from_.numerics, to_.file = from_.file;
    for (const auto& p : from_.params) map_[p.op] = to_.add_param(p.name, p.kind, p.elem);
    if (!region(from_.body(), to_.body())) return std::nullopt;
    passes::sweep(to_);
    return passes::compact(to_);
  }

 private:
  bool known(OpId id) const {
    return std::all_of(from_.operands(id).begin(), from_.operands(id).end(),
                       [&](OpId v) { return map_.count(v) != 0; });
  }
  bool region(RegionId r, RegionId into) {
    for (const OpId id : from_.region(r).ops) {
      if (from_.op(id).code == Opcode::Param || removed_.count(id)) continue;
      if (from_.op(id).code == Opcode::Result && removed_.count(from_.operand(id, 0))) continue;
      if (id == edit_.at) {
        if (!edited(id, into)) return false;
      } else if (from_.op(id).code == Opcode::Result && map_.count(id)) {
        continue;  // its op was replaced
      } else if (from_.op(id).code == Opcode::Result && from_.operand(id, 0) == edit_.at) {
        continue;  // removed with its op: a use stops the copy
      } else if (!copy(id, into)) {
        return false;
      }
    }
    return true;
  }
  bool copy(OpId id, RegionId into) {
    const Op source = from_.op(id);
    if (!known(id)) return false;
    std::vector<OpId> operands;
    for (const OpId v : from_.operands(id)) operands.push_back(map_[v]);
    u64 imm = source.imm;
    if (from_.info_of(id).imm == ImmKind::Text) imm = to_.intern_text(from_.texts[imm]);
    const OpId made = to_.create(source.code, source.type, operands, imm, 0, source.region_count);
    to_.append(into, made);
    map_[id] = made;
    for (u32 i = 0; i < source.region_count; ++i) {
      const RegionId inner = source.first_region + i, copied = to_.region_of(made, i);
      for (const OpId arg : from_.region(inner).args) map_[arg] = to_.add_arg(copied, from_.type(arg));
      if (!region(inner, copied)) return false;
    }
    return true;
  }
  // The ops of an owned region in place of the op, whose results become what it yields.
  bool inlined(OpId id, RegionId r, RegionId into) {
    const auto& ops = from_.region(r).ops;
    for (const OpId inner : ops) {
      if (from_.op(inner).code == Opcode::Yield) break;
      if (from_.op(inner).code == Opcode::Result && map_.count(inner)) continue;
      if (!copy(inner, into)) return false;
    }
    const auto results = from_.results(id);
    const OpId yield = from_.terminator(r);
    if (!known(yield)) return false;
    for (u32 i = 0; i < results.size(); ++i) map_[results[i]] = map_[from_.operand(yield, i)];
    return true;
  }
  bool edited(OpId id, RegionId into) {
    switch (edit_.kind) {
      case Edit::remove:
        return true;
      case Edit::constant: {
        build_.set_point(into);
        map_[id] = build_.constant(from_.type(id), edit_.which);
        return true;
      }
      case Edit::operand: {
        const auto it = map_.find(from_.operand(id, edit_.which));
        if (it == map_.end()) return false;
        map_[id] = it->second;
        return true;
      }
      case Edit::arm:
        return inlined(id, from_.region_of(id, edit_.which), into);
      case Edit::skip_loop:
      case Edit::one_trip: {
        if (!known(id)) return false;
        const RegionId body = from_.region_of(id, 0);
        const auto& args = from_.region(body).args;
        const auto results = from_.results(id);
        if (edit_.kind == Edit::skip_loop) {
          for (u32 i = 0; i < results.size(); ++i) map_[results[i]] = map_[from_.operand(id, i + 3)];
          return true;
        }
        map_[args[0]] = map_[from_.operand(id, 0)];
        for (u32 i = 1; i < args.size(); ++i) map_[args[i]] = map_[from_.operand(id, i + 2)];
        return inlined(id, body, into);
      }
    }
    return false;
  }

  const Kernel& from_;
  const Edit& edit_;
  std::set<OpId> removed_;
  Kernel to_;
  Builder build_;
  ValueMap map_;
};

std::vector<Edit> edits_of(const Kernel& k, OpId id) {
  const auto& op = k.op(id);
  switch (op.code) {
    case Opcode::Param:
    case Opcode::Yield:
      return {};
    case Opcode::For:
      return {{Edit::remove, id, 0}, {Edit::skip_loop, id, 0}, {Edit::one_trip, id, 0}};
    case Opcode::If:
      return {{Edit::remove, id, 0}, {Edit::arm, id, 0}, {Edit::arm, id, 1}};
    case Opcode::Const:
      if (op.imm == 0) return {};
      if (op.imm == 1) return {{Edit::constant, id, 0}};  // each edit must lead on, or none would be the last
      return {{Edit::constant, id, 0}, {Edit::constant, id, 1}};
    default:
      break;
  }
  std::vector<Edit> out{{Edit::remove, id, 0}};
  if (!op.type.is_value()) return out;
  out.push_back({Edit::constant, id, 0});
  if (op.code == Opcode::Result) return out;
  for (u32 i = 0; i < op.operand_count; ++i)
    if (k.type(k.operand(id, i)) == op.type) out.push_back({Edit::operand, id, i});
  return out;
}

// Parameters that nothing uses go, with their sizes.
bool drop_params(Subject& s) {
  const auto uses = passes::use_counts(s.kernel);
  Kernel out;
  out.name = s.kernel.name, out.mode = s.kernel.mode, out.numerics = s.kernel.numerics, out.file = s.kernel.file;
  std::vector<u64> sizes;
  ValueMap map;
  for (std::size_t i = 0; i < s.kernel.params.size(); ++i) {
    const auto& p = s.kernel.params[i];
    if (uses[p.op] == 0) continue;
    map[p.op] = out.add_param(p.name, p.kind, p.elem);
    sizes.push_back(s.sizes[i]);
  }
  if (sizes.size() == s.sizes.size()) return false;
  for (const OpId id : s.kernel.region(s.kernel.body()).ops)
    if (s.kernel.op(id).code != Opcode::Param) passes::clone_op(s.kernel, id, out, out.body(), map);
  s.kernel = std::move(out), s.sizes = std::move(sizes);
  return true;
}

// Loops and branches lose results that nothing uses.
bool drop_unused_results(Kernel& k) {
  const auto uses = passes::use_counts(k);
  std::vector<OpId> owners;
  k.walk([&](OpId id) {
    if (k.op(id).code == Opcode::If) owners.push_back(id);
  });
  bool changed = false;
  for (const OpId id : owners) {
    std::vector<bool> unwanted;
    for (const OpId r : k.results(id)) unwanted.push_back(uses[r] == 0);
    if (std::find(unwanted.begin(), unwanted.end(), true) == unwanted.end()) continue;
    passes::drop_results(k, id, unwanted);
    changed = true;
  }
  if (changed) passes::sweep(k);
  return changed;
}
}  // namespace

Subject shrink(const Subject& start, const std::function<bool(const Subject&)>& fails) {
  Subject best = start;
  best.kernel = passes::compact(best.kernel);
  if (!fails(best)) return start;
  const auto accept = [&](Subject candidate) {
    if (!fails(candidate)) return false;
    best = std::move(candidate);
    return true;
  };
  const auto launch = [&] {
    for (const Dim3 threads : {Dim3{1, 1, 1}, Dim3{32, 1, 1}, Dim3{64, 1, 1}}) {
      Subject c = best;
      c.geometry.threads = threads, c.geometry.groups = {1, 1, 1};
      if (c.geometry.items) c.geometry.items = threads.count();
      if (threads.count() < best.geometry.threads.count() && accept(c)) return;
      c.geometry.threads = best.geometry.threads;
      if (c.geometry.items) c.geometry.items = std::min(best.geometry.items, c.geometry.threads.count());
      if (best.geometry.groups.count() > 1 && accept(std::move(c))) return;
    }
  };
  launch();
  // Long stretches first, from the end: most of a generated kernel has nothing to do with the fault.
  for (std::size_t length = best.kernel.region(best.kernel.body()).ops.size() / 2; length >= 2; length /= 2) {
    for (std::size_t end = best.kernel.region(best.kernel.body()).ops.size(); end > 0;) {
      const auto& ops = best.kernel.region(best.kernel.body()).ops;
      end = std::min(end, ops.size());
      const std::size_t begin = end > length ? end - length : 0;
      std::set<OpId> gone(ops.begin() + static_cast<std::ptrdiff_t>(begin),
                          ops.begin() + static_cast<std::ptrdiff_t>(end));
      const Edit nothing;
      if (auto kernel = Copier(best.kernel, nothing, std::move(gone)).run()) {
        Subject c = best;
        c.kernel = std::move(*kernel);
        accept(std::move(c));
      }
      end = begin;
    }
  }
  for (bool progress = true; progress;) {
    progress = false;
    std::vector<OpId> order;
    best.kernel.walk([&](OpId id) { order.push_back(id); });
    for (std::size_t i = order.size(); i-- > 0;) {
      if (i >= order.size()) continue;
      for (const Edit& e : edits_of(best.kernel, order[i])) {
        auto kernel = Copier(best.kernel, e).run();
        if (!kernel) continue;
        Subject c = best;
        c.kernel = std::move(*kernel);
        drop_unused_results(c.kernel);
        if (!accept(std::move(c))) continue;
        progress = true;
        order.clear();
        best.kernel.walk([&](OpId id) { order.push_back(id); });
        i = std::min(i + 1, order.size());
        break;
      }
    }
    Subject c = best;
    if (drop_params(c)) progress |= accept(std::move(c));
    launch();
  }
  return best;
}

}  // namespace iron::fuzz
