// Abstract runs of roles: batches in flight as a list, slots held as a list or an interval.
#include "analysis/tier_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

namespace {
/// Slots of one pipeline that a warpgroup holds.
struct Held {
  std::vector<OpId> waits;  ///< oldest first, if exact
  bool exact = true;
  u32 least = 0, most = 0;
  bool operator==(const Held&) const = default;
};

struct State {
  std::vector<OpId> in_flight;  ///< acc.mma ops, oldest first
  std::map<OpId, Held> held;    ///< per pipeline
  std::set<OpId> written;       ///< threadgroup memory written in the generic proxy, not yet ordered for the other
  bool operator==(const State&) const = default;
};

Held join(const Held& a, const Held& b) {
  if (a == b) return a;
  return {{}, false, std::min(a.least, b.least), std::max(a.most, b.most)};
}

class Walker {
 public:
  explicit Walker(const Kernel& k) : k_(k) {}

  TierFlow run() {
    const OpId roles = find_roles(k_);
    if (roles == none) {
      State s;
      region(k_.body(), s);
      end(s, k_.body());
      return std::move(out_);
    }
    for (u32 i = 0; i < k_.op(roles).region_count; ++i) {
      State s;
      region(k_.region_of(roles, i), s);
      end(s, k_.region_of(roles, i));
    }
    return std::move(out_);
  }

 private:
  void say(std::string_view code, OpId id, std::string message, std::string fix, OpId other = none) {
    for (const auto& d : out_.problems)
      if (d.code == code && d.line == k_.location(id).line && d.message == message) return;  // a loop is walked twice
    Diagnostic d;
    d.code = code, d.kernel = k_.name, d.message = std::move(message), d.fix = std::move(fix);
    d.file = k_.location(id).file, d.line = k_.location(id).line;
    d.notes.push_back({print_op(k_, id), "", 0});
    if (other != none)
      d.notes.push_back({"started by " + print_op(k_, other), k_.location(other).file, k_.location(other).line});
    out_.problems.push_back(std::move(d));
  }

  void end(const State& s, RegionId r) {
    for (const auto& [pipe, h] : s.held)
      if (h.most > 0)
        say("TIER04", pipe, fmt::format("up to {} slots of the pipeline are still held where the role ends", h.most),
            "release what the last waits gave");
    if (!s.in_flight.empty() && k_.region(r).parent != none)
      say("TIER03", s.in_flight.back(), "products are still in flight where the role ends", "settle(0) at the end");
  }

  void region(RegionId r, State& s) {
    for (const OpId id : k_.region(r).ops) op(id, s);
  }

  void op(OpId id, State& s) {
    switch (k_.op(id).code) {
      case Opcode::For:
        return loop(id, s);
      case Opcode::If:
        return branch(id, s);
      case Opcode::AccMma:
        for (u32 i = 1; i < 3; ++i)
          if (const OpId view = k_.operand(id, i); k_.type(view).kind == TypeKind::view && s.written.count(root(view)))
            say("D15", id, "a product reads memory that plain stores wrote, with no fence between the two proxies",
                "let products read what copies brought, or keep the operand in registers");
        s.in_flight.push_back(id);
        if (s.in_flight.size() > most_in_flight)
          say("TIER03", id, fmt::format("more than {} batches are in flight", most_in_flight), "settle earlier");
        return;
      case Opcode::AccSettle:
        return settle(id, s);
      case Opcode::AccValue:
      case Opcode::AccSet:
      case Opcode::AccScale:
      case Opcode::AccClear:
        for (const OpId mma : s.in_flight)
          if (k_.operand(mma, 0) == k_.operand(id, 0))
            return say("TIER03", id, "the accumulator is touched while a product into it is in flight",
                       "settle(0) first, or settle(n) with the n batches that may stay in flight", mma);
        return;
      case Opcode::FragPut:
        s.written.insert(root(k_.operand(id, 0)));
        return;
      case Opcode::Store:
      case Opcode::CopyAsync:
        if (k_.type(k_.operand(id, 0)).space == Space::shared) s.written.insert(memory_root(k_, k_.operand(id, 0)));
        return;
      case Opcode::TmaStore:
        s.written.erase(root(k_.operand(id, 1)));
        return;
      case Opcode::PipeWait:
        return wait(id, s);
      case Opcode::PipeRelease:
        return release(id, s);
      default:
        return;
    }
  }

  OpId root(OpId view) const { return memory_root(k_, k_.operand(view, 0)); }

  void settle(OpId id, State& s) {
    const std::size_t keep = k_.op(id).imm;
    auto& ended = out_.settled[id];
    while (s.in_flight.size() > keep) {
      if (std::find(ended.begin(), ended.end(), s.in_flight.front()) == ended.end())
        ended.push_back(s.in_flight.front());
      s.in_flight.erase(s.in_flight.begin());
    }
  }

  void wait(OpId id, State& s) {
    const OpId pipe = k_.operand(id, 0);
    Held& h = s.held[pipe];
    if (h.exact) h.waits.push_back(id);
    ++h.least, ++h.most;
    if (h.most > k_.op(pipe).imm)
      say("TIER04", id,
          fmt::format("a warpgroup may hold more slots than the {} that the pipeline has: this wait would never end",
                      k_.op(pipe).imm),
          "release slots before waiting for more, or give the pipeline more stages");
    h.most = std::min<u32>(h.most, static_cast<u32>(k_.op(pipe).imm) + 1);
    h.least = std::min(h.least, h.most);
  }

  void release(OpId id, State& s) {
    const OpId pipe = k_.operand(id, 0);
    const auto keep = static_cast<u32>(k_.op(id).imm);
    Held& h = s.held[pipe];
    unread(id, s, keep);
    ReleasePlan now;
    now.exact = h.exact, now.least = h.least > keep ? h.least - keep : 0, now.most = h.most > keep ? h.most - keep : 0;
    if (h.exact) {
      now.waits.assign(h.waits.begin(), h.waits.begin() + now.most);
      h.waits.erase(h.waits.begin(), h.waits.begin() + now.most);
    }
    h.least = std::min(h.least, keep), h.most = std::min(h.most, keep);
    const auto [known, first] = out_.releases.try_emplace(id, now);
    if (!first) {
      ReleasePlan& p = known->second;
      if (!p.exact || !now.exact || p.waits != now.waits) p.exact = false, p.waits.clear();
      p.least = std::min(p.least, now.least), p.most = std::max(p.most, now.most);
    }
    // A slot is named by its wait only where that wait stands in the same straight line.
    ReleasePlan& p = known->second;
    if (std::any_of(p.waits.begin(), p.waits.end(), [&](OpId w) { return k_.op(w).region != k_.op(id).region; }))
      p.exact = false, p.waits.clear();
    if (!p.exact) out_.counted.insert(pipe);
  }

  // No batch in flight reads a slot that goes back: the newest batches read the newest slots.
  void unread(OpId id, const State& s, u32 keep) {
    const OpId pipe = k_.operand(id, 0);
    std::set<OpId> slots;
    u32 batches = 0;
    OpId reader = none;
    for (const OpId mma : s.in_flight) {
      bool reads = false;
      for (u32 i = 1; i < 3; ++i) {
        const OpId view = k_.operand(mma, i);
        if (k_.op(view).code != Opcode::SharedView) continue;
        const OpId slot = k_.operand(view, 1);
        if (k_.op(slot).code == Opcode::PipeWait && k_.operand(slot, 0) == pipe) reads = true, slots.insert(slot);
      }
      if (reads) ++batches, reader = mma;
    }
    // One wait in a loop gives another slot a trip; several products between two waits read one.
    const auto distinct = slots.size() <= 1 && batches > 1 && same_trip(s, slots) ? 1u : batches;
    if (distinct > keep)
      say("TIER04", id, "a slot is given back while a product that reads it may be in flight",
          fmt::format("settle first, or release({}) with the slots that products still read", distinct), reader);
  }
  bool same_trip(const State& s, const std::set<OpId>& slots) const {
    if (slots.empty()) return false;
    const auto& h = s.held.find(k_.operand(*slots.begin(), 0));
    return h != s.held.end() && h->second.exact && h->second.waits.size() == 1;
  }

  void loop(OpId id, State& s) {
    const RegionId body = k_.region_of(id, 0);
    const State entry = s;
    region(body, s);
    // What the first trip leaves is what the second one finds; a third must leave the same.
    State before = s;
    for (int turn = 0; turn < 8; ++turn) {
      State again = before;
      for (auto& [pipe, h] : again.held) {
        const auto it = entry.held.find(pipe);
        h = join(it == entry.held.end() ? Held{} : it->second, h);
      }
      State next = again;
      region(body, next);
      bool stable = next.in_flight == before.in_flight;
      for (auto& [pipe, h] : next.held) stable &= join(again.held[pipe], h) == again.held[pipe];
      if (stable) {
        s = next;
        for (auto& [pipe, h] : s.held) {
          const auto it = entry.held.find(pipe);
          h = join(it == entry.held.end() ? Held{} : it->second, h);
        }
        fragment_over_back_edge(id, s);
        return;
      }
      before = next;
      for (auto& [pipe, h] : before.held) h = join(again.held[pipe], h);
    }
    if (s.in_flight != before.in_flight)
      say("TIER03", id, "each trip of the loop leaves more batches in flight than it found",
          "settle inside the loop what the next trip does not need in flight");
    s = before;
  }

  // Registers of A must not be set again while they are read.
  void fragment_over_back_edge(OpId loop, const State& s) {
    for (const OpId mma : s.in_flight)
      if (k_.type(k_.operand(mma, 1)).is_frag() && k_.encloses(k_.region_of(loop, 0), k_.op(mma).region))
        say("TIER03", mma, "a product that reads a fragment is in flight where its loop turns",
            "settle before the end of the loop: the next trip sets the fragment");
  }

  void branch(OpId id, State& s) {
    State other = s;
    region(k_.region_of(id, 0), s);
    region(k_.region_of(id, 1), other);
    if (s.in_flight != other.in_flight)
      say("TIER03", id, "the arms of a branch leave different batches in flight", "settle at the end of each arm");
    for (auto& [pipe, h] : other.held) s.held[pipe] = join(s.held[pipe], h);
    s.written.insert(other.written.begin(), other.written.end());
  }

  static constexpr std::size_t most_in_flight = 8;
  const Kernel& k_;
  TierFlow out_;
};
}  // namespace

TierFlow tier_flow(const Kernel& k) { return Walker(k).run(); }

}  // namespace iron::analysis
