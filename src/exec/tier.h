// The Hopper tier in the interpreter. Simdgroups and asynchronous streams (a warpgroup's products, its stores, the
// copies into a slot) are agents; each simdgroup has two vector clocks, one of what its own accesses may rely on, one
// of what the asynchronous ops that it starts may rely on. Two conflicting accesses that the later one's clock does not
// order are a finding, whatever the schedule made of them.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "exec/machine.h"
#include "exec/tier_plan.h"

namespace iron::exec {

/// Agents of one threadgroup, numbered: simdgroups, then the streams. A touch names a stream by a thread number from
/// `first_stream` on.
struct Agents {
  static constexpr u32 first_stream = 1024;
  u32 simdgroups = 0, warpgroups = 0, slots = 0;
  u32 count() const { return simdgroups + 3 * warpgroups + slots; }
  u32 products(u32 warpgroup) const { return simdgroups + warpgroup; }
  u32 store_reads(u32 warpgroup) const { return simdgroups + warpgroups + warpgroup; }
  u32 store_writes(u32 warpgroup) const { return simdgroups + 2 * warpgroups + warpgroup; }
  u32 copies(u32 slot) const { return simdgroups + 3 * warpgroups + slot; }
  u32 of(const Touch& t) const {
    return t.thread() < first_stream ? t.thread() / 32 : simdgroups + t.thread() - first_stream;
  }
  u32 thread_of(u32 agent) const { return first_stream + agent - simdgroups; }
};

/// For every agent, the time up to which its accesses are known. Other clusters are rare, and kept apart.
class TierClock {
 public:
  TierClock() = default;
  TierClock(u32 first_group, u32 groups, u32 agents) : first_(first_group), agents_(agents), own_(groups * agents) {}
  u32 at(u32 group, u32 agent) const;
  void raise(u32 group, u32 agent, u32 time);
  void merge(const TierClock& other);

 private:
  u32& slot(u32 group, u32 agent);
  u32 first_ = 0, agents_ = 0;
  std::vector<u32> own_;
  std::map<u32, std::vector<u32>> others_;
};

/// What a simdgroup may rely on.
struct Knowledge {
  TierClock plain;         ///< for its own accesses
  TierClock asynchronous;  ///< for the copies and products that it starts
};

/// Where a view lies now.
struct Rectangle {
  u32 mem = 0;
  u64 first = 0;  ///< element of the array
  u32 pitch = 0, rows = 0, cols = 0;
  bool good = true;  ///< inside its slot
  u64 element(u32 row, u32 col) const { return first + u64{row} * pitch + col; }
};

/// A batch of products in flight.
struct Batch {
  ir::OpId op = ir::none;
  u32 time = 0, acc = 0;
  std::optional<Rectangle> a, b;
  std::vector<u32> a_bits;  ///< rows x k, if A is a fragment
  bool accumulate = true, landed = false;
};
struct StartedStore {
  ir::OpId op = ir::none;
  u32 time = 0, number = 0;  ///< of the pending copy
};
/// One warpgroup's place in a pipeline.
struct Use {
  u64 waited = 0, released = 0;
};
struct Warpgroup {
  u32 first = 0;  ///< simdgroup
  std::vector<Batch> in_flight;
  std::vector<StartedStore> stores;  ///< not reclaimed
  std::vector<Use> uses;             ///< a pipeline
};
/// The two barriers of a slot, and what the copies of its current round have done.
struct SlotState {
  bool open = false, armed = false;  ///< acquired and not yet full; expect has come
  u64 rounds = 0, filled = 0;        ///< acquired; full
  u64 expected = 0, started = 0, arrived = 0;
  u32 last_copy = 0;  ///< time
  ir::OpId expect = ir::none, copy = ir::none;
  std::vector<Rectangle> boxes;
  u64 emptied = 0;
  u32 releases = 0;
  TierClock empty;
};
struct TurnState {
  u32 next = 0;  ///< position in the role
  bool taken = false;
  std::vector<u64> entered;
};
struct AccState {
  bool written = false;
};

struct TierGroup {
  std::vector<Group*> cluster;
  u32 rank = 0;
  std::vector<Knowledge> known;  ///< a simdgroup
  std::vector<Warpgroup> warpgroups;
  std::vector<SlotState> slots;
  std::vector<u64> acquired;  ///< a pipeline
  std::vector<TurnState> turns;
  std::vector<std::vector<AccState>> accs;  ///< a warpgroup
};

/// A copy that has been started and takes effect at some point.
struct Pending {
  u32 number = 0;
  Group* group = nullptr;  ///< that started it
  std::function<void()> land;
};

class Tier {
 public:
  Tier(Machine& m, TierPlan plan);
  const TierPlan plan;
  Agents agents;

  // --- threadgroups
  u32 cluster() const { return plan.cluster; }
  void start(std::span<const std::unique_ptr<Group>> cluster);
  /// All threadgroups of a cluster have ended: what is in flight lands, what is unbalanced is reported.
  void finish(std::span<const std::unique_ptr<Group>> cluster);
  /// Lets the agents that stand at one op go on if all have come and its condition holds.
  void meet(Simdgroup& s, u64& progress);
  /// Reports agents that stand at ops where the others of their warpgroup, role or cluster never come.
  bool mismatched(std::span<const std::unique_ptr<Group>> resident);
  /// Lets copies and products take effect, as the schedule likes; all of them where nothing else can go on.
  void land(bool all, u64& progress);
  /// What a waiting simdgroup waits for, for the report of a deadlock.
  std::string waiting_for(const Simdgroup& s) const;

  // --- order
  void note_read(const Simdgroup& s, const Instr& in, const Mem& mem, Shadow& shadow, u64 byte, u32 size, Touch now,
                 bool keep);
  void note_write(const Simdgroup& s, const Instr& in, const Mem& mem, Shadow& shadow, u64 byte, u32 size, Touch now);
  void barrier(std::span<Simdgroup* const> who);
  void release(const Simdgroup& s, const u8* at, bool releases, bool keeps, ir::Scope scope);
  void acquire(const Simdgroup& s, const u8* at, bool now);
  void fence(const Simdgroup& s, bool releases, bool acquires);

  std::string who_is(const Touch& t) const;

  // --- ops of one thread or simdgroup
  Status acquire_slot(Simdgroup& s, const Instr& in);
  void expect(Simdgroup& s, const Instr& in);
  void load(Simdgroup& s, const Instr& in);
  void peer_load(Simdgroup& s, const Instr& in);
  void put(Simdgroup& s, const Instr& in);
  bool usable(const Simdgroup& s, const Instr& in, bool reads);
  void set_written(const Simdgroup& s, u32 acc) { of(s).accs[warpgroup_of(s)][acc].written = true; }
  void forget(const Simdgroup& s, u32 acc) { of(s).accs[warpgroup_of(s)][acc].written = false; }
  void check_fragment(const Simdgroup& s, const Instr& in, ir::OpId value);
  u32 role_index(const Simdgroup& s) const;

 private:
  static TierGroup& of(const Simdgroup& s) { return *s.group->tier; }
  static u32 warpgroup_of(const Simdgroup& s) { return s.index / 4; }
  u32 warpgroup_of(const Touch& t) const;
  Knowledge& known(const Simdgroup& s) { return of(s).known[s.index]; }
  Warpgroup& warpgroup(const Simdgroup& s) { return of(s).warpgroups[warpgroup_of(s)]; }
  std::vector<Simdgroup*> members(const Simdgroup& s, ir::Scope scope) const;
  bool all_here(const Simdgroup& s, std::span<Simdgroup* const> who) const;
  bool work(std::span<Simdgroup* const> who, const Instr& in);

  // --- order
  bool ordered(const Simdgroup& s, const Touch& before, const Touch& now) const;
  bool knows(const TierClock& c, const Touch& before) const {
    return c.at(before.group, agents.of(before)) >= before.time;
  }
  void fence_proxies(const Simdgroup& s);
  Knowledge starter(std::span<Simdgroup* const> who);
  void stream_read(const Knowledge& starter, const Group& g, const Instr& in, const Mem& mem, Shadow& shadow, u64 byte,
                   u32 size, Touch now);
  void stream_write(const Knowledge& starter, const Mem& mem, Shadow& shadow, u64 byte, u32 size, Touch now);
  Touch stream_touch(const Group& g, const Instr& in, u32 agent) const;
  /// Reports the use of a slot's contents by a warpgroup that gave the slot back.
  void check_held(const Group& g, const Mem& mem, u64 byte, const Touch& copy, const Touch& now);
  void conflict(const Mem& mem, u64 byte, const Touch& before, const Touch& now, std::string_view before_does,
                std::string_view now_does, bool plain_order);
  std::string remedy(const Touch& before, const Touch& now, bool plain_order) const;

  // --- ops of a warpgroup
  bool wait_slot(std::span<Simdgroup* const> who, const Instr& in);
  void release_slots(std::span<Simdgroup* const> who, const Instr& in);
  void check_release(Group& g, u32 wg, const Instr& in, const SlotState& slot, const TierClock& published);
  void check_bytes(const SlotState& slot, ir::OpId at);
  void complete(SlotState& slot);
  void store(std::span<Simdgroup* const> who, const Instr& in);
  void reclaim(std::span<Simdgroup* const> who);
  void multiply(std::span<Simdgroup* const> who, const Instr& in);
  void settle(std::span<Simdgroup* const> who, u64 keep);
  void land_batch(Group& g, u32 wg, Batch& b);
  bool enter_turn(std::span<Simdgroup* const> who, const Instr& in);
  void leave_turn(std::span<Simdgroup* const> who, const Instr& in);
  u8* shared_at(Group& g, const Mem& mem, u64 element) const {
    return g.shared[mem.root].data() + mem.offset + element * mem.size;
  }

  // --- operands
  struct Box;
  i64 uniform(std::span<Simdgroup* const> who, const Instr& in, u32 at, std::string_view what);
  Rectangle rectangle(std::span<Simdgroup* const> who, const Instr& in, u32 view);
  Box box(std::span<Simdgroup* const> who, const Instr& in, u32 leading);
  SlotState* named_slot(Simdgroup& s, const Instr& in, u32 pipe, u32 at);

  Machine& m_;
  std::vector<Pending> pending_;
  u32 next_pending_ = 1;
  std::mt19937_64 random_;
  struct TierRelease {
    TierClock clock;
    u32 only_group = nobody;
  };
  std::unordered_map<const u8*, TierRelease> releases_;
  std::map<std::pair<u32, u32>, TierClock> fenced_, seen_;  ///< of a simdgroup of a threadgroup
};

/// Handlers of the tier's ops; null for other ops.
Handler tier_handler(ir::Opcode code);
Handler fragment_check_handler();
struct RoleHandlers {
  Handler begin, end;
};
const RoleHandlers& role_handlers();

}  // namespace iron::exec
