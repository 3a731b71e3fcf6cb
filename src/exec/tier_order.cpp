// Happens-before for kernels of the Hopper tier: vector clocks, a shadow that keeps every reader, findings.
#include <fmt/format.h>

#include <algorithm>

#include "exec/tier.h"

namespace iron::exec {

using namespace ir;

// --- clocks
u32& TierClock::slot(u32 group, u32 agent) {
  if (group - first_ < own_.size() / agents_) return own_[(group - first_) * agents_ + agent];
  auto& v = others_[group];
  v.resize(agents_);
  return v[agent];
}
u32 TierClock::at(u32 group, u32 agent) const {
  if (agents_ == 0) return 0;
  if (group - first_ < own_.size() / agents_) return own_[(group - first_) * agents_ + agent];
  const auto it = others_.find(group);
  return it == others_.end() ? 0 : it->second[agent];
}
void TierClock::raise(u32 group, u32 agent, u32 time) {
  u32& t = slot(group, agent);
  t = std::max(t, time);
}
void TierClock::merge(const TierClock& other) {
  if (other.agents_ == 0) return;
  if (agents_ == 0) {
    *this = other;
    return;
  }
  if (first_ == other.first_ && own_.size() == other.own_.size()) {
    for (std::size_t i = 0; i < own_.size(); ++i) own_[i] = std::max(own_[i], other.own_[i]);
  } else {
    for (u32 i = 0; i < other.own_.size(); ++i) raise(other.first_ + i / agents_, i % agents_, other.own_[i]);
  }
  for (const auto& [group, times] : other.others_)
    for (u32 a = 0; a < agents_; ++a) raise(group, a, times[a]);
}

// --- what is ordered
// Within a simdgroup: the same thread, or a barrier between. Elsewhere: the later one's clock knows the earlier one.
bool Tier::ordered(const Simdgroup& s, const Touch& before, const Touch& now) const {
  if (before.group == now.group && before.thread() < Agents::first_stream && before.thread() / 32 == now.thread() / 32)
    return before.thread() == now.thread() || before.epoch != now.epoch;
  return knows(of(s).known[s.index].plain, before);
}

Touch Tier::stream_touch(const Group& g, const Instr& in, u32 agent) const {
  return {g.id, m_.time, Touch::make_who(m_.index_of(in), agents.thread_of(agent), false), 0};
}

void Tier::note_read(const Simdgroup& s, const Instr& in, const Mem& mem, Shadow& shadow, u64 byte, u32 size, Touch now,
                     bool keep) {
  for (u64 c = byte >> shadow.granule_log2, last = (byte + size - 1) >> shadow.granule_log2; c <= last; ++c) {
    TierCell& cell = shadow.tier_cells[c];
    const u64 at = c << shadow.granule_log2;
    if (cell.write.any() && !ordered(s, cell.write, now))
      conflict(mem, at, cell.write, now, "written", "read", false);
    else
      check_held(*s.group, mem, at, cell.write, now);
    if (cell.atomic.any() && !now.atomic() && !ordered(s, cell.atomic, now))
      conflict(mem, at, cell.atomic, now, "written", "read", false);
    if (shadow.needs_write && !cell.write.any() && !cell.atomic.any())
      m_.uninitialised(in, mem, (at - mem.offset) / mem.size, m_.thread_name(s, now.thread() % 32));
    if (!keep) continue;
    // Readers before this one that it knows are covered by it; of one simdgroup two unordered lanes tell all.
    u32 mates = 0;
    std::erase_if(cell.reads, [&](const Touch& t) {
      if (ordered(s, t, now)) return true;
      const bool mate = t.group == now.group && t.thread() / 32 == now.thread() / 32;
      return mate && ++mates > 1;
    });
    cell.reads.push_back(now);
  }
}

void Tier::note_write(const Simdgroup& s, const Instr&, const Mem& mem, Shadow& shadow, u64 byte, u32 size, Touch now) {
  for (u64 c = byte >> shadow.granule_log2, last = (byte + size - 1) >> shadow.granule_log2; c <= last; ++c) {
    TierCell& cell = shadow.tier_cells[c];
    const auto against = [&](const Touch& t, std::string_view does) {
      if (t.any() && !(t.atomic() && now.atomic()) && !ordered(s, t, now))
        conflict(mem, c << shadow.granule_log2, t, now, does, "written", false);
    };
    against(cell.write, "written");
    against(cell.atomic, "written");
    for (const auto& t : cell.reads) against(t, "read");
    if (cell.write.any() && ordered(s, cell.write, now))
      check_held(*s.group, mem, c << shadow.granule_log2, cell.write, now);
    if (now.atomic()) {
      cell.atomic = now;
    } else {
      cell.write = now, cell.atomic = {};
      cell.reads.clear();
    }
  }
}

void Tier::stream_read(const Knowledge& starter, const Group& g, const Instr& in, const Mem& mem, Shadow& shadow,
                       u64 byte, u32 size, Touch now) {
  if (!shadow.flying.empty()) m_.check_arrived(mem, shadow, byte, size, now, "read");
  for (u64 c = byte >> shadow.granule_log2, last = (byte + size - 1) >> shadow.granule_log2; c <= last; ++c) {
    TierCell& cell = shadow.tier_cells[c];
    const u64 at = c << shadow.granule_log2;
    for (const Touch* t : {&cell.write, &cell.atomic})
      if (t->any() && !knows(starter.asynchronous, *t))
        conflict(mem, at, *t, now, "written", "read", knows(starter.plain, *t));
    if (knows(starter.asynchronous, cell.write)) check_held(g, mem, at, cell.write, now);
    if (shadow.needs_write && !cell.write.any() && !cell.atomic.any())
      m_.uninitialised(in, mem, (at - mem.offset) / mem.size, who_is(now));
    std::erase_if(cell.reads, [&](const Touch& t) {
      return (t.group == now.group && agents.of(t) == agents.of(now)) || knows(starter.asynchronous, t);
    });
    cell.reads.push_back(now);
  }
}

void Tier::stream_write(const Knowledge& starter, const Mem& mem, Shadow& shadow, u64 byte, u32 size, Touch now) {
  if (!shadow.flying.empty()) m_.check_arrived(mem, shadow, byte, size, now, "written");
  for (u64 c = byte >> shadow.granule_log2, last = (byte + size - 1) >> shadow.granule_log2; c <= last; ++c) {
    TierCell& cell = shadow.tier_cells[c];
    const auto against = [&](const Touch& t, std::string_view does) {
      if (t.any() && !knows(starter.asynchronous, t))
        conflict(mem, c << shadow.granule_log2, t, now, does, "written", knows(starter.plain, t));
    };
    against(cell.write, "written");
    against(cell.atomic, "written");
    for (const auto& t : cell.reads) against(t, "read");
    cell.write = now, cell.atomic = {};
    cell.reads.clear();
  }
}

// --- what orders
// All that the simdgroups and those that they know did is before all that any of them does now, in the plain proxy.
void Tier::barrier(std::span<Simdgroup* const> who) {
  ++m_.time;
  TierClock all;
  for (Simdgroup* s : who) {
    Knowledge& k = known(*s);
    k.plain.raise(s->group->id, s->index, m_.time);
    all.merge(k.plain);
  }
  for (Simdgroup* s : who) {
    known(*s).plain.merge(all);
    ++s->simd_epoch;
  }
}

void Tier::fence_proxies(const Simdgroup& s) {
  Knowledge& k = known(s);
  k.plain.raise(s.group->id, s.index, m_.time);
  k.asynchronous.merge(k.plain);
}

// What the simdgroups that start a copy or product know together.
Knowledge Tier::starter(std::span<Simdgroup* const> who) {
  Knowledge all;
  for (Simdgroup* s : who) {
    Knowledge& k = known(*s);
    all.asynchronous.merge(k.asynchronous);
    all.plain.merge(k.plain);
    all.plain.raise(s->group->id, s->index, m_.time);
  }
  return all;
}

void Tier::release(const Simdgroup& s, const u8* at, bool releases, bool keeps, Scope scope) {
  TierClock c;
  if (releases) {
    c = known(s).plain;
    c.raise(s.group->id, s.index, m_.time);
  }
  if (const auto it = fenced_.find({s.group->id, s.index}); it != fenced_.end()) c.merge(it->second);
  TierRelease& r = releases_[at];
  if (keeps) {  // a read-modify-write continues the release sequence
    r.clock.merge(c);
    r.only_group = scope < Scope::cluster ? s.group->id : nobody;
    return;
  }
  r = {std::move(c), scope < Scope::cluster ? s.group->id : nobody};
}

void Tier::acquire(const Simdgroup& s, const u8* at, bool now) {
  const auto it = releases_.find(at);
  if (it == releases_.end() || (it->second.only_group != nobody && it->second.only_group != s.group->id)) return;
  if (now)
    known(s).plain.merge(it->second.clock);
  else
    seen_[{s.group->id, s.index}].merge(it->second.clock);
}

void Tier::fence(const Simdgroup& s, bool releases, bool acquires) {
  const std::pair key{s.group->id, s.index};
  if (releases) {
    TierClock& c = fenced_[key];
    c.merge(known(s).plain);
    c.raise(s.group->id, s.index, m_.time);
  }
  if (acquires)
    if (const auto it = seen_.find(key); it != seen_.end()) {
      known(s).plain.merge(it->second);
      seen_.erase(it);
    }
}

// --- findings
namespace {
enum class Kind { plain, product, store_read, store_write, copy };
Kind kind_of(const Agents& a, const Touch& t) {
  const u32 agent = a.of(t);
  if (agent < a.simdgroups) return Kind::plain;
  if (agent < a.store_reads(0)) return Kind::product;
  if (agent < a.store_writes(0)) return Kind::store_read;
  return agent < a.copies(0) ? Kind::store_write : Kind::copy;
}
}  // namespace

std::string Tier::who_is(const Touch& t) const {
  const u32 agent = agents.of(t);
  switch (kind_of(agents, t)) {
    case Kind::product:
      return fmt::format("a product of warpgroup {} of threadgroup {}", agent - agents.products(0), t.group);
    case Kind::store_read:
      return fmt::format("a store that warpgroup {} of threadgroup {} started", agent - agents.store_reads(0), t.group);
    case Kind::store_write:
      return fmt::format("a store that warpgroup {} of threadgroup {} started", agent - agents.store_writes(0),
                         t.group);
    case Kind::copy:
      return fmt::format("a copy into a slot of threadgroup {}", t.group);
    case Kind::plain:
      break;
  }
  return fmt::format("thread {} of threadgroup {}", t.thread(), t.group);
}

std::string Tier::remedy(const Touch& before, const Touch& now, bool plain_order) const {
  const Kind b = kind_of(agents, before), n = kind_of(agents, now);
  switch (b) {
    case Kind::copy:
      return n == Kind::copy
                 ? "let each copy of a slot fill its own rows, and acquire the slot again before it is refilled"
                 : "wait() for the slot before its contents are used, and use the slot that it gave";
    case Kind::product:
      return n == Kind::copy ? "settle() the product before the slot that it reads is released"
                             : "settle() the product before what it reads is written";
    case Kind::store_read:
      return n == Kind::copy ? "reclaim() the view before its slot is released"
                             : "reclaim() the view before it is written again";
    case Kind::store_write:
      return "a store is complete at the kernel's end: give each its own box of the tensor";
    case Kind::plain:
      break;
  }
  if (n == Kind::copy) return "release() the slot after its last use, and acquire() it before the copy";
  if (n != Kind::plain)
    return plain_order ? "no proxy fence lies between: plain accesses come before copies and products only through "
                         "tma.store, or release and acquire of the slot"
                       : "order the plain accesses first: a barrier of the role, then a proxy fence";
  return before.group == now.group ? "put a barrier of all the threads concerned between the two accesses"
                                   : "put a cluster sync between the two accesses, or a release and an acquire";
}

u32 Tier::warpgroup_of(const Touch& t) const {
  const u32 agent = agents.of(t);
  if (agent < agents.simdgroups) return agent / 4;
  return (agent - agents.simdgroups) % agents.warpgroups;
}

void Tier::check_held(const Group& g, const Mem& mem, u64 byte, const Touch& copy, const Touch& now) {
  if (copy.group != g.id || agents.of(copy) < agents.copies(0)) return;
  const u32 wg = warpgroup_of(now);
  const u32 slot = agents.of(copy) - agents.copies(0);
  const auto p = std::find_if(plan.pipes.begin(), plan.pipes.end(),
                              [&](const PipePlan& x) { return slot >= x.first_slot && slot < x.first_slot + x.slots; });
  if (wg < p->first_user || wg >= p->first_user + p->users) return;
  const Use& use = g.tier->warpgroups[wg].uses[static_cast<std::size_t>(p - plan.pipes.begin())];
  for (u64 n = use.released; n < use.waited; ++n)
    if (n % p->slots == slot - p->first_slot) return;
  const OpId here = m_.op_of(now.instr()), there = m_.op_of(copy.instr());
  if (!m_.fresh(code::pipeline, here, there)) return;
  m_.report({code::pipeline,
             fmt::format("{} uses element {} of {}, in slot {} of a pipeline, which warpgroup {} does not hold: it has "
                         "released it",
                         who_is(now), byte >= mem.offset ? (byte - mem.offset) / mem.size : 0, m_.memory_name(mem),
                         slot - p->first_slot, wg),
             "use the slot that the last wait() gave, and release() it after its last use"},
            here, there, "filled here");
}

void Tier::conflict(const Mem& mem, u64 byte, const Touch& before, const Touch& now, std::string_view before_does,
                    std::string_view now_does, bool plain_order) {
  const OpId here = m_.op_of(now.instr()), there = m_.op_of(before.instr());
  if (!m_.fresh(code::race, std::min(here, there), std::max(here, there))) return;
  const u64 element = byte >= mem.offset ? (byte - mem.offset) / mem.size : 0;
  m_.report({code::race,
             fmt::format("element {} of {} is {} by {} and {} by {}, and nothing orders the two{}", element,
                         m_.memory_name(mem), before_does, who_is(before), now_does, who_is(now),
                         plain_order ? " across the proxies" : ""),
             remedy(before, now, plain_order)},
            here, there, fmt::format("{} here", before_does));
}

}  // namespace iron::exec
