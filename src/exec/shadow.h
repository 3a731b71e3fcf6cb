// What the sanitizer remembers of memory: who touched each granule last, and which accesses are ordered (R7).
#pragma once

#include <unordered_map>
#include <vector>

#include "iron/types.h"

namespace iron::exec {

inline constexpr u32 nobody = 0xffffffffu;
inline constexpr u32 collective = 1024;  ///< thread numbers from here: an access of a whole simdgroup (a tile op) ...
inline constexpr u32 everyone = 2047;    ///< ... or of the whole threadgroup
inline constexpr u32 max_instructions = 1u << 20;

/// One access: who, by which instruction, and when. The epochs count barriers of the threadgroup and of the simdgroup.
struct Touch {
  u32 group = nobody;
  u32 time = 0;
  u32 who = 0;    ///< instruction, thread, atomic
  u32 epoch = 0;  ///< barriers of the threadgroup, of the simdgroup
  bool any() const { return group != nobody; }
  u32 instr() const { return who >> 12; }
  u32 thread() const { return (who >> 1) & 2047u; }
  bool atomic() const { return who & 1u; }
  u32 group_epoch() const { return epoch >> 10; }
  static u32 make_who(u32 instr, u32 thread, bool atomic) {
    return instr << 12 | thread << 1 | static_cast<u32>(atomic);
  }
};
static_assert(sizeof(Touch) == 16);

/// The last plain and the last atomic write, and two later reads by different threads: enough to catch a conflict with
/// any third thread. An atomic write does not replace a plain one, with which other threads may still conflict.
struct Cell {
  Touch write, atomic, read0, read1;
};

/// The same where vector clocks order (kernels of the Hopper tier): every reader that no later one covers.
struct TierCell {
  Touch write, atomic;
  std::vector<Touch> reads;
};

struct Shadow {
  u32 granule_log2 = 2;
  bool needs_write = false;  ///< contents undefined before the first write
  bool tier = false;
  bool logs = false;     ///< plain writes are remembered until the threadgroup has ended
  std::vector<u64> log;  ///< their cells
  std::vector<Cell> cells;
  std::vector<TierCell> tier_cells;  ///< instead of `cells`, of the tier
  bool filled_by_copies = false;     ///< threads start copies into it
  std::vector<Touch> flying;         ///< the copy that is to fill each cell and has not arrived; empty without copies
  void reset(u64 bytes) {
    const u64 count = (bytes + (u64{1} << granule_log2) - 1) >> granule_log2;
    if (tier)
      tier_cells.assign(count, TierCell{});
    else
      cells.assign(count, Cell{});
    if (filled_by_copies) flying.assign(count, Touch{});
  }
};

/// Accesses of a group that a release made visible: those before its last barrier, and the releasing thread's own.
struct Known {
  u32 thread = 0, time = 0, epoch = 0;
  bool covers(const Touch& t) const { return t.time <= time && (t.thread() == thread || t.group_epoch() < epoch); }
};

/// What a thread knows of other threads' accesses through acquire and release: happens-before, by threadgroup.
class Clock {
 public:
  bool empty() const { return known_.empty(); }
  void clear() { known_.clear(); }
  void add(u32 group, Known k) {
    auto& list = known_[group];
    for (auto& old : list)
      if (old.thread == k.thread) {
        if (k.time > old.time) old = k;
        return;
      }
    list.push_back(k);
  }
  void merge(const Clock& other) {
    for (const auto& [group, list] : other.known_)
      for (const auto& k : list) add(group, k);
  }
  bool covers(const Touch& t) const {
    const auto it = known_.find(t.group);
    if (it == known_.end()) return false;
    for (const auto& k : it->second)
      if (k.covers(t)) return true;
    return false;
  }

 private:
  std::unordered_map<u32, std::vector<Known>> known_;
};

/// A clock left at an address by a release; one of threadgroup scope is for that group only.
struct Release {
  Clock clock;
  u32 only_group = nobody;
};

}  // namespace iron::exec
