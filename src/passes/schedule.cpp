// schedule: loads that depend on nothing near start early, so that their latencies overlap. Keeps every bit; barriers,
// atomics, convergent ops and region ops are not crossed, and a load of mutable memory crosses no store.
#include <set>
#include <unordered_map>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
constexpr std::size_t loads_in_flight = 16;  // more would only hold registers

class Scheduler {
 public:
  explicit Scheduler(Kernel& k) : k_(k) {}

  bool region(RegionId r) {
    const auto before = k_.region(r).ops;
    std::vector<OpId> after, window;
    std::size_t loads = 0;
    const auto flush = [&] {
      hoist(window, after);
      window.clear();
      loads = 0;
    };
    for (const OpId id : before) {
      if (boundary(k_, id)) {
        flush();
        after.push_back(id);
        for (u32 i = 0; i < k_.op(id).region_count; ++i) changed_ |= region(k_.region_of(id, i));
        continue;
      }
      if (is_load(id) && ++loads > loads_in_flight) flush(), loads = 1;
      window.push_back(id);
    }
    flush();
    // Constants do not show and cost nothing: their order alone is no change.
    for (std::size_t i = 0, j = 0; i < before.size() && j < after.size(); ++i, ++j) {
      while (i < before.size() && is_const(k_, before[i])) ++i;
      while (j < after.size() && is_const(k_, after[j])) ++j;
      if (i < before.size() && j < after.size() && before[i] != after[j]) changed_ = true;
    }
    k_.mutable_region(r).ops = std::move(after);
    return changed_;
  }

 private:
  bool is_load(OpId id) const { return k_.op(id).code == Opcode::Load || k_.op(id).code == Opcode::LoadOr; }

  void hoist(const std::vector<OpId>& window, std::vector<OpId>& out) {
    // What may go first: pure ops and loads whose operands may too.
    std::unordered_map<OpId, bool> free;
    bool wrote = false;
    for (const OpId id : window) {
      const auto& info = k_.info_of(id);
      wrote |= info.has(Writes);
      bool may = k_.op(id).type.is_value() && (info.pure() || (is_load(id) && (reads_immutable(k_, id) || !wrote)));
      for (const OpId v : k_.operands(id))
        if (const auto it = free.find(v); it != free.end()) may &= it->second;
      free[id] = may;
    }
    std::set<OpId> placed;
    const auto place = [&](auto& self, OpId id) -> void {
      if (!free.count(id) || !placed.insert(id).second) return;
      for (const OpId v : k_.operands(id)) self(self, v);
      out.push_back(id);
    };
    for (const OpId id : window)
      if (is_load(id) && free[id]) place(place, id);
    for (const OpId id : window)
      if (placed.insert(id).second) out.push_back(id);
  }

  Kernel& k_;
  bool changed_ = false;
};
}  // namespace

Changed run_schedule(Kernel& k, PassContext&) { return Scheduler(k).region(k.body()); }

}  // namespace iron::passes
