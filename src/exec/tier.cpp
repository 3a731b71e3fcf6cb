// Roles, meetings of warpgroups, roles and clusters, turns; when copies and products take effect; the end of a cluster.
#include "exec/tier.h"

#include <fmt/format.h>

#include <algorithm>

namespace iron::exec {

using namespace ir;

Tier::Tier(Machine& m, TierPlan p) : plan(std::move(p)), m_(m), random_(m.options.seed) {
  agents = {(m.threads + 31) / 32, plan.warpgroups, plan.slots};
  const Dim3& g = m.geometry.groups;
  if (g.x % plan.cluster)
    throw Error("EXEC80",
                fmt::format("kernel {} has clusters of {} threadgroups, the grid has {} along x", m.kernel.name,
                            plan.cluster, g.x),
                "launch a multiple of the cluster");
}

void Tier::start(std::span<const std::unique_ptr<Group>> cluster) {
  std::vector<Group*> groups;
  for (const auto& g : cluster) groups.push_back(g.get());
  const u32 first = groups[0]->id;
  const TierClock nothing(first, plan.cluster, agents.count());
  for (u32 rank = 0; rank < groups.size(); ++rank) {
    auto t = std::make_shared<TierGroup>();
    t->cluster = groups, t->rank = rank;
    t->known.assign(agents.simdgroups, {nothing, nothing});
    t->warpgroups.resize(plan.warpgroups);
    for (u32 w = 0; w < plan.warpgroups; ++w) {
      t->warpgroups[w].first = w * 4;
      t->warpgroups[w].uses.resize(plan.pipes.size());
    }
    t->slots.resize(plan.slots);
    for (auto& s : t->slots) s.empty = nothing;
    t->acquired.resize(plan.pipes.size());
    for (const auto& turn : plan.turns) t->turns.push_back({0, false, std::vector<u64>(turn.count)});
    t->accs.assign(plan.warpgroups, std::vector<AccState>(plan.accs.size()));
    groups[rank]->tier = std::move(t);
  }
}

// --- the end
void Tier::finish(std::span<const std::unique_ptr<Group>> cluster) {
  u64 progress = 0;
  land(true, progress);
  for (const auto& g : cluster) {
    TierGroup& t = *g->tier;
    for (u32 w = 0; w < plan.warpgroups; ++w) {
      Warpgroup& wg = t.warpgroups[w];
      for (const auto& b : wg.in_flight)
        if (m_.fresh(code::in_flight, b.op))
          m_.report(
              {code::in_flight, fmt::format("a product of warpgroup {} of threadgroup {} is never settled", w, g->id),
               "settle(0) before the role ends"},
              b.op);
      for (u32 p = 0; p < plan.pipes.size(); ++p)
        if (const Use& u = wg.uses[p]; u.released < u.waited && m_.fresh(code::pipeline, plan.pipes[p].op))
          m_.report(
              {code::pipeline,
               fmt::format("warpgroup {} of threadgroup {} ends and still holds {} of {} slots that it waited for", w,
                           g->id, u.waited - u.released, u.waited),
               "release() what the last waits gave"},
              plan.pipes[p].op);
    }
    for (u32 p = 0; p < plan.pipes.size(); ++p)
      for (u32 w = plan.pipes[p].first_user; w < plan.pipes[p].first_user + plan.pipes[p].users; ++w)
        if (const u64 waited = t.warpgroups[w].uses[p].waited;
            waited != t.acquired[p] && m_.fresh(code::pipeline, plan.pipes[p].op))
          m_.report({code::pipeline,
                     fmt::format("the loading role of threadgroup {} acquired {} slots of the pipeline, warpgroup {} "
                                 "waited for {}",
                                 g->id, t.acquired[p], w, waited),
                     "let both roles run the same number of trips"},
                    plan.pipes[p].op);
    for (u32 i = 0; i < t.turns.size(); ++i) {
      const auto& entered = t.turns[i].entered;
      if (std::adjacent_find(entered.begin(), entered.end(), std::not_equal_to<>()) == entered.end() &&
          !t.turns[i].taken)
        continue;
      if (m_.fresh(code::turn, plan.turns[i].op))
        m_.report({code::turn,
                   fmt::format("the warpgroups of threadgroup {} took {} turns: the last one is not handed back", g->id,
                               fmt::join(entered, " and ")),
                   "let each warpgroup enter and leave equally often"},
                  plan.turns[i].op);
    }
  }
}

// --- meetings
std::vector<Simdgroup*> Tier::members(const Simdgroup& s, Scope scope) const {
  std::vector<Simdgroup*> who;
  const auto add = [&](Group& g, u32 first, u32 count) {
    for (u32 i = first; i < first + count; ++i) who.push_back(&g.simdgroups[i]);
  };
  if (scope == Scope::cluster) {
    for (Group* g : of(s).cluster) add(*g, 0, agents.simdgroups);
  } else if (const RolePlan* role = plan.role_of(warpgroup_of(s)); scope == Scope::role && role) {
    add(*s.group, role->first * 4, role->spec.one_thread ? 1 : role->spec.warpgroups * 4);
  } else if (scope == Scope::warpgroup) {
    add(*s.group, warpgroup_of(s) * 4, 4);
  } else {
    add(*s.group, 0, agents.simdgroups);
  }
  return who;
}

bool Tier::all_here(const Simdgroup& s, std::span<Simdgroup* const> who) const {
  return std::all_of(who.begin(), who.end(),
                     [&](const Simdgroup* o) { return o->status == Status::collective && o->pc == s.pc; });
}

void Tier::meet(Simdgroup& s, u64& progress) {
  const Instr& in = m_.program.code[s.pc];
  const auto who = members(s, m_.kernel.info_of(in.op).scope);
  if (!all_here(s, who) || !work(who, in)) return;
  ++progress;
  for (Simdgroup* o : who) ++o->pc, o->status = Status::next;
}

// Two that wait for each other at different ops, or one that waits for what has ended, never meet.
bool Tier::mismatched(std::span<const std::unique_ptr<Group>> resident) {
  const auto waits_for = [&](const Simdgroup& s) { return members(s, m_.kernel.info_of(m_.op_of(s.pc)).scope); };
  const auto never_comes = [&](const Simdgroup& o, const Simdgroup& s) {
    if (o.status == Status::done) return true;
    if (o.status == Status::rendezvous) return o.group == s.group;
    if (o.status != Status::collective || o.pc == s.pc) return false;
    const auto others = waits_for(o);
    return std::find(others.begin(), others.end(), &s) != others.end();
  };
  for (const auto& g : resident) {
    if (!g->started) continue;
    for (const auto& s : g->simdgroups) {
      if (s.status != Status::collective) continue;
      const auto who = waits_for(s);
      const auto o = std::find_if(who.begin(), who.end(), [&](const Simdgroup* x) { return never_comes(*x, s); });
      if (o == who.end()) continue;
      const OpId op = m_.op_of(s.pc), there = (*o)->status == Status::done ? none : m_.op_of((*o)->pc);
      m_.report(
          {code::barrier_mismatch,
           fmt::format("simdgroup {} of threadgroup {} is at {}, where simdgroup {} of threadgroup {} never comes: "
                       "it {}",
                       s.index, g->id, m_.kernel.info_of(op).text, (*o)->index, (*o)->group->id,
                       there == none ? "has ended" : fmt::format("is at {}", m_.kernel.info_of(there).text)),
           fmt::format("let all threads of the {} reach it", name(m_.kernel.info_of(op).scope))},
          op, there, "the other simdgroup stands here");
      return true;
    }
  }
  return false;
}

bool Tier::work(std::span<Simdgroup* const> who, const Instr& in) {
  switch (m_.kernel.op(in.op).code) {
    case Opcode::RoleBarrier:
    case Opcode::ClusterSync:
      barrier(who);
      return true;
    case Opcode::PipeWait:
      return wait_slot(who, in);
    case Opcode::PipeRelease:
      release_slots(who, in);
      return true;
    case Opcode::TmaStore:
      store(who, in);
      return true;
    case Opcode::Reclaim:
      reclaim(who);
      return true;
    case Opcode::AccMma:
      multiply(who, in);
      return true;
    case Opcode::AccSettle:
      settle(who, in.imm);
      return true;
    case Opcode::TurnEnter:
      return enter_turn(who, in);
    default:
      leave_turn(who, in);
      return true;
  }
}

// --- turns
bool Tier::enter_turn(std::span<Simdgroup* const> who, const Instr& in) {
  const u32 number = m_.program.operands[in.first];
  const TurnPlan& p = plan.turns[number];
  TurnState& t = of(*who[0]).turns[number];
  const u32 me = warpgroup_of(*who[0]) - p.first;
  if (t.next == me && t.taken) {
    if (m_.fresh(code::turn, in.op))
      m_.report({code::turn, fmt::format("warpgroup {} enters a turn that it already has", me + p.first),
                 "leave() a turn before the next one is entered"},
                in.op, p.op, "the turns are here");
    return true;
  }
  if (t.next != me) return false;
  t.taken = true;
  ++t.entered[me];
  return true;
}
void Tier::leave_turn(std::span<Simdgroup* const> who, const Instr& in) {
  const u32 number = m_.program.operands[in.first];
  const TurnPlan& p = plan.turns[number];
  TurnState& t = of(*who[0]).turns[number];
  const u32 me = warpgroup_of(*who[0]) - p.first;
  if (t.next != me || !t.taken) {
    if (m_.fresh(code::turn, in.op))
      m_.report({code::turn, fmt::format("warpgroup {} hands on a turn that it has not entered", me + p.first),
                 "enter() the turn before leave()"},
                in.op, p.op, "the turns are here");
    return;
  }
  t.next = (t.next + 1) % p.count, t.taken = false;
}

// --- what is on its way
void Tier::land(bool all, u64& progress) {
  const auto likely = [&] {
    switch (m_.options.schedule) {
      case Schedule::program:
        return false;  // as late as can be
      case Schedule::reverse:
        return true;
      default:
        return random_() % 4 == 0;
    }
  };
  // A copy that lands may end a round of a slot, but starts nothing: the list does not grow.
  std::vector<Pending> now;
  std::erase_if(pending_, [&](Pending& p) {
    if (!all && !likely()) return false;
    now.push_back(std::move(p));
    return true;
  });
  if (m_.options.schedule == Schedule::random) std::shuffle(now.begin(), now.end(), random_);
  for (auto& p : now) p.land(), ++progress;
}

std::string Tier::waiting_for(const Simdgroup& s) const {
  const Instr& in = m_.program.code[s.pc];
  const TierGroup& t = of(s);
  const auto code = m_.kernel.op(in.op).code;
  if (code == Opcode::TurnEnter) {
    const u32 number = m_.program.operands[in.first];
    return fmt::format(": the turn is warpgroup {}'s", plan.turns[number].first + t.turns[number].next);
  }
  if (code != Opcode::PipeAcquire && code != Opcode::PipeWait) return "";
  const u32 number = m_.program.operands[in.first];
  const PipePlan& p = plan.pipes[number];
  if (code == Opcode::PipeAcquire) {
    const SlotState& slot = t.slots[p.first_slot + t.acquired[number] % p.slots];
    return fmt::format(": slot {} was released by {} of {} warpgroups since it was filled",
                       t.acquired[number] % p.slots, slot.releases, p.users * (p.multicast ? plan.cluster : 1));
  }
  const u64 turn = t.warpgroups[warpgroup_of(s)].uses[number].waited % p.slots;
  const SlotState& slot = t.slots[p.first_slot + turn];
  if (slot.open && !slot.armed)
    return fmt::format(": the full barrier of slot {} expects no bytes: it is not armed", turn);
  if (slot.open)
    return fmt::format(": the full barrier of slot {} expects {} bytes, copies of {} bytes name it", turn,
                       slot.expected, slot.started);
  return fmt::format(": nothing loads slot {} again", turn);
}

// --- roles
u32 Tier::role_index(const Simdgroup& s) const {
  const RolePlan* role = plan.role_of(warpgroup_of(s));
  return warpgroup_of(s) - (role ? role->first : 0);
}

namespace {
// `imm` is the role; `target` what follows its region.
Status role_begin(Machine& m, Simdgroup& s, const Instr& in) {
  const RolePlan& role = m.tier->plan.roles[in.imm];
  const u32 wg = s.index / 4;
  const bool mine = wg >= role.first && wg < role.first + role.spec.warpgroups;
  if (!mine || (role.spec.one_thread && s.index != role.first * 4)) {
    s.pc = in.target;
    return Status::next;
  }
  Frame f;
  f.saved = s.mask;
  s.frames.push_back(f);
  if (role.spec.one_thread) s.set_mask(1);
  return Status::next;
}
Status role_end(Machine&, Simdgroup& s, const Instr&) {
  s.set_mask(s.frames.back().saved);
  s.frames.pop_back();
  return Status::next;
}
}  // namespace

const RoleHandlers& role_handlers() {
  static constexpr RoleHandlers handlers{role_begin, role_end};
  return handlers;
}

}  // namespace iron::exec
