// Pipelines and tensor copies: rounds of a slot, bytes on their way, boxes of tensors.
#include <fmt/format.h>

#include <algorithm>

#include "exec/tier.h"

namespace iron::exec {

using namespace ir;

namespace {
constexpr u8 poison = 0xff;  ///< a NaN in every float format

u32 first_lane(const Simdgroup& s) { return s.mask ? static_cast<u32>(std::countr_zero(s.mask)) : 0; }
}  // namespace

// --- operands
i64 Tier::uniform(std::span<Simdgroup* const> who, const Instr& in, u32 at, std::string_view what) {
  const i64 v = reg<i64>(*who[0], at)[first_lane(*who[0])];
  for (const Simdgroup* s : who)
    for (u64 rest = s->mask; rest; rest &= rest - 1)
      if (const auto l = static_cast<u32>(std::countr_zero(rest));
          reg<i64>(*s, at)[l] != v && m_.fresh(code::not_uniform, in.op))
        m_.report({code::not_uniform,
                   fmt::format("{} of {} is {} in {} and {} elsewhere", what, m_.kernel.info_of(in.op).text,
                               reg<i64>(*s, at)[l], m_.thread_name(*s, l), v),
                   "make it the same for all threads of the warpgroup"},
                  in.op);
  return v;
}

Rectangle Tier::rectangle(std::span<Simdgroup* const> who, const Instr& in, u32 number) {
  const ViewPlan& v = plan.views[number];
  const Mem& mem = m_.program.mems[v.mem];
  const u32 row_bytes = 8 * m_.width;
  const i64 slot = uniform(who, in, v.reg, "the slot"), row = uniform(who, in, v.reg + row_bytes, "the row"),
            col = uniform(who, in, v.reg + 2 * row_bytes, "the column");
  const u64 area = u64{v.array.rows} * v.array.cols, slots = mem.count / area;
  Rectangle r;
  r.mem = v.mem, r.pitch = v.array.cols, r.rows = v.type.rows, r.cols = v.type.cols;
  r.good = static_cast<u64>(slot) < slots && row >= 0 && row + r.rows <= v.array.rows && col >= 0 &&
           col + r.cols <= v.array.cols;
  if (r.good) {
    r.first = static_cast<u64>(slot) * area + static_cast<u64>(row) * r.pitch + static_cast<u64>(col);
  } else if (m_.fresh(code::out_of_bounds, in.op, v.op)) {
    m_.report({code::out_of_bounds,
               fmt::format("a view of {} x {} elements from row {}, column {} of slot {} leaves {} slots of {} x {}",
                           r.rows, r.cols, row, col, slot, slots, v.array.rows, v.array.cols),
               "keep the view inside its slot"},
              in.op, v.op, "the view is made here");
  }
  return r;
}

/// Where a copy starts in its tensor: the coordinates, and what they are counted in.
struct Tier::Box {
  Buffer* buffer = nullptr;
  TensorShape shape;
  i64 at[5] = {};
  /// Byte offset of the element at a row and column of the box; nothing outside the tensor.
  std::optional<u64> byte(u32 row, u32 col) const {
    u64 offset = 0;
    for (u32 d = 0; d < shape.rank; ++d) {
      const i64 c = at[d] + (d == 0 ? i64{col} : d == 1 ? i64{row} : 0);
      if (c < 0 || static_cast<u64>(c) >= shape.dims[d]) return {};
      offset += static_cast<u64>(c) * shape.strides[d];
    }
    if (shape.rank == 1 && row) return {};
    return offset;
  }
};

Tier::Box Tier::box(std::span<Simdgroup* const> who, const Instr& in, u32 leading) {
  const u32 param = m_.program.mems[m_.program.operands[in.first]].root;
  Box b;
  b.buffer = &m_.buffers[param], b.shape = m_.tensors[param];
  const u32 rank = in.count - leading;
  if (rank != b.shape.rank)
    throw Error("EXEC80",
                fmt::format("kernel {} copies tensor {} by {} coordinates; the launch gives it rank {}", m_.kernel.name,
                            m_.kernel.params[param].name, rank, b.shape.rank),
                "launch it with as many dimensions");
  for (u32 d = 0; d < rank; ++d)
    b.at[d] = uniform(who, in, m_.program.operands[in.first + leading + d], "a coordinate");
  return b;
}

// --- the loading role
Status Tier::acquire_slot(Simdgroup& s, const Instr& in) {
  const u32 number = m_.program.operands[in.first];
  const PipePlan& p = plan.pipes[number];
  TierGroup& t = of(s);
  const u64 round = t.acquired[number] / p.slots, turn = t.acquired[number] % p.slots;
  SlotState& slot = t.slots[p.first_slot + turn];
  if (slot.emptied < round) return Status::wait;
  known(s).asynchronous.merge(slot.empty);
  slot.open = true;
  ++t.acquired[number];
  std::fill_n(reg<i64>(s, in.dst), m_.width, static_cast<i64>(turn));
  return Status::access;
}

// The slot that an op of the loading role names; none, with a finding, where it is not being filled.
SlotState* Tier::named_slot(Simdgroup& s, const Instr& in, u32 pipe, u32 at) {
  const PipePlan& p = plan.pipes[pipe];
  Simdgroup* const who[] = {&s};
  const i64 turn = uniform(who, in, at, "the slot");
  SlotState* const slot =
      static_cast<u64>(turn) < p.slots ? &of(s).slots[p.first_slot + static_cast<u64>(turn)] : nullptr;
  if (slot && slot->open) return slot;
  if (m_.fresh(code::pipeline, in.op, p.op))
    m_.report(
        {code::pipeline,
         fmt::format("{} names slot {} of a pipeline of {}, which {}", m_.kernel.info_of(in.op).text, turn, p.slots,
                     slot ? slot->filled ? "is full, or not acquired again" : "is not acquired" : "does not exist"),
         "name the slot that acquire() gave, and let its expected bytes be those of all its copies"},
        in.op, p.op, "the pipeline is here");
  return nullptr;
}

void Tier::expect(Simdgroup& s, const Instr& in) {
  const u32 pipe = m_.program.operands[in.first];
  SlotState* const slot = named_slot(s, in, pipe, m_.program.operands[in.first + 1]);
  if (!slot) return;
  if (slot->armed && m_.fresh(code::pipeline, in.op, slot->expect))
    m_.report(
        {code::pipeline, "the full barrier of a slot is armed twice in one round", "expect the bytes once a slot"},
        in.op, slot->expect, "armed here");
  slot->armed = true, slot->expected += in.imm, slot->expect = in.op;
  check_bytes(*slot, in.op);
  if (slot->arrived >= slot->expected) complete(*slot);
}

// More bytes than expected would end the round before all of them are there.
void Tier::check_bytes(const SlotState& slot, OpId at) {
  if (!slot.armed || slot.started <= slot.expected || !m_.fresh(code::pipeline, slot.expect, at)) return;
  m_.report({code::pipeline,
             fmt::format("the full barrier of a slot expects {} bytes, copies of {} bytes and more name it",
                         slot.expected, slot.started),
             "expect the bytes of all boxes that arrive, those of peers included"},
            slot.expect, at, "a copy of the slot");
}
void Tier::complete(SlotState& slot) {
  ++slot.filled;
  slot.open = slot.armed = false;
  slot.expected = slot.started = slot.arrived = 0;
}

void Tier::load(Simdgroup& s, const Instr& in) {
  ++m_.time;
  Simdgroup* const who[] = {&s};
  const u32 pipe = m_.program.operands[in.first + 2], slot_reg = m_.program.operands[in.first + 3];
  const Rectangle r = rectangle(who, in, m_.program.operands[in.first + 1]);
  const Box from = box(who, in, 4);
  if (!named_slot(s, in, pipe, slot_reg) || !r.good) return;
  const auto number = plan.pipes[pipe].first_slot + static_cast<u32>(reg<i64>(s, slot_reg)[first_lane(s)]);
  const Mem& mem = m_.program.mems[r.mem];
  const u64 bytes = u64{r.rows} * r.cols * mem.size;
  const bool all = unpack<CopyImm>(in.imm).multicast && plan.cluster > 1;
  const Knowledge k = starter(who);
  for (Group* g : all ? of(s).cluster : std::vector<Group*>{s.group}) {
    SlotState& slot = g->tier->slots[number];
    if (slot.started == 0) slot.boxes.clear();
    slot.boxes.push_back(r);
    slot.started += bytes, slot.last_copy = m_.time;
    const Touch now = stream_touch(*g, in, agents.copies(number));
    for (u32 row = 0; row < r.rows; ++row) {
      stream_write(k, mem, g->shared_shadow[mem.root], mem.offset + r.element(row, 0) * mem.size, r.cols * mem.size,
                   now);
      std::memset(shared_at(*g, mem, r.element(row, 0)), poison, u64{r.cols} * mem.size);
    }
    check_bytes(slot, in.op);
    pending_.push_back({next_pending_++, s.group, [this, g, r, from, &mem, number, bytes] {
                          for (u32 row = 0; row < r.rows; ++row)
                            for (u32 col = 0; col < r.cols; ++col) {
                              u8* const to = shared_at(*g, mem, r.element(row, col));
                              if (const auto at = from.byte(row, col))
                                std::memcpy(to, from.buffer->data + *at, mem.size);
                              else
                                std::memset(to, 0, mem.size);
                            }
                          SlotState& full = g->tier->slots[number];
                          full.arrived += bytes;
                          if (full.armed && full.arrived >= full.expected) complete(full);
                        }});
  }
}

// --- the using role
bool Tier::wait_slot(std::span<Simdgroup* const> who, const Instr& in) {
  const u32 number = m_.program.operands[in.first];
  const PipePlan& p = plan.pipes[number];
  Use& use = warpgroup(*who[0]).uses[number];
  const u64 turn = use.waited % p.slots;
  const u32 at = p.first_slot + static_cast<u32>(turn);
  const SlotState& slot = of(*who[0]).slots[at];
  if (slot.filled <= use.waited / p.slots) return false;
  ++use.waited;
  for (Simdgroup* s : who) {
    known(*s).plain.raise(s->group->id, agents.copies(at), slot.last_copy);
    known(*s).asynchronous.raise(s->group->id, agents.copies(at), slot.last_copy);
    std::fill_n(reg<i64>(*s, in.dst), m_.width, static_cast<i64>(turn));
  }
  return true;
}

void Tier::release_slots(std::span<Simdgroup* const> who, const Instr& in) {
  ++m_.time;
  const u32 number = m_.program.operands[in.first];
  const PipePlan& p = plan.pipes[number];
  Group& g = *who[0]->group;
  Use& use = warpgroup(*who[0]).uses[number];
  const Knowledge k = starter(who);
  TierClock published = k.asynchronous;
  if (p.plain_reads) published.merge(k.plain);  // the fence and barrier that the op has
  for (; use.released + in.imm < use.waited; ++use.released) {
    const u64 turn = use.released % p.slots;
    check_release(g, warpgroup_of(*who[0]), in, g.tier->slots[p.first_slot + turn], published);
    for (Group* to : p.multicast ? g.tier->cluster : std::vector<Group*>{&g}) {
      SlotState& slot = to->tier->slots[p.first_slot + turn];
      slot.empty.merge(published);
      if (++slot.releases < p.users * (p.multicast ? plan.cluster : 1)) continue;
      slot.releases = 0;
      ++slot.emptied;
    }
  }
}

// What the warpgroup still does with the slot would meet the next copy into it.
void Tier::check_release(Group& g, u32 wg, const Instr& in, const SlotState& slot, const TierClock& published) {
  const auto mine = [&](const Touch& t) {
    const u32 agent = agents.of(t);
    return t.group == g.id && (agent / 4 == wg || agent == agents.products(wg) || agent == agents.store_reads(wg));
  };
  for (const Rectangle& r : slot.boxes) {
    const Mem& mem = m_.program.mems[r.mem];
    const Shadow& shadow = g.shared_shadow[mem.root];
    for (u32 row = 0; row < r.rows; ++row)
      for (u32 col = 0; col < r.cols; ++col)
        for (const Touch& t :
             shadow.tier_cells[(mem.offset + r.element(row, col) * mem.size) >> shadow.granule_log2].reads) {
          if (!mine(t) || agents.of(t) < agents.simdgroups || knows(published, t)) continue;
          const OpId reader = m_.op_of(t.instr());
          if (!m_.fresh(code::in_flight, in.op, reader)) continue;
          Touch next = t;
          next.who = Touch::make_who(t.instr(), agents.thread_of(agents.copies(0)), false);
          m_.report({code::in_flight,
                     fmt::format("warpgroup {} of threadgroup {} releases a slot that {} may still read", wg, g.id,
                                 who_is(t)),
                     remedy(t, next, false)},
                    in.op, reader, "read here");
        }
  }
}

// --- stores
void Tier::store(std::span<Simdgroup* const> who, const Instr& in) {
  barrier(who);
  for (Simdgroup* s : who) fence_proxies(*s);
  ++m_.time;
  const Rectangle r = rectangle(who, in, m_.program.operands[in.first + 1]);
  const Box to = box(who, in, 2);
  if (!r.good) return;
  Group& g = *who[0]->group;
  const u32 wg = warpgroup_of(*who[0]);
  const Mem& mem = m_.program.mems[r.mem];
  const Mem& tensor = m_.program.mems[m_.program.operands[in.first]];
  const Knowledge k = starter(who);
  const Touch reads = stream_touch(g, in, agents.store_reads(wg)),
              writes = stream_touch(g, in, agents.store_writes(wg));
  for (u32 row = 0; row < r.rows; ++row) {
    stream_read(k, g, in, mem, g.shared_shadow[mem.root], mem.offset + r.element(row, 0) * mem.size, r.cols * mem.size,
                reads);
    for (u32 col = 0; col < r.cols; ++col)
      if (const auto at = to.byte(row, col)) {
        if (to.buffer->tracked) stream_write(k, tensor, to.buffer->shadow, *at, mem.size, writes);
        std::memset(to.buffer->data + *at, poison, mem.size);
      }
  }
  warpgroup(*who[0]).stores.push_back({in.op, m_.time, next_pending_});
  pending_.push_back({next_pending_++, &g, [this, &g, r, to, &mem] {
                        for (u32 row = 0; row < r.rows; ++row)
                          for (u32 col = 0; col < r.cols; ++col)
                            if (const auto at = to.byte(row, col))
                              std::memcpy(to.buffer->data + *at, shared_at(g, mem, r.element(row, col)), mem.size);
                      }});
}

void Tier::reclaim(std::span<Simdgroup* const> who) {
  Warpgroup& wg = warpgroup(*who[0]);
  for (const auto& started : wg.stores) {
    const auto p =
        std::find_if(pending_.begin(), pending_.end(), [&](const Pending& x) { return x.number == started.number; });
    if (p == pending_.end()) continue;
    const auto land = std::move(p->land);
    pending_.erase(p);
    land();
  }
  if (wg.stores.empty()) return;
  const u32 agent = agents.store_reads(warpgroup_of(*who[0]));
  for (Simdgroup* s : who) {
    known(*s).plain.raise(s->group->id, agent, wg.stores.back().time);
    known(*s).asynchronous.raise(s->group->id, agent, wg.stores.back().time);
  }
  wg.stores.clear();
}

// --- peers
void Tier::peer_load(Simdgroup& s, const Instr& in) {
  const Mem& mem = m_.program.mems[m_.program.operands[in.first]];
  const i64 *at = reg<i64>(s, m_.program.operands[in.first + 1]),
            *rank = reg<i64>(s, m_.program.operands[in.first + 2]);
  ++m_.time;
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    u64 bits = 0;
    if (static_cast<u64>(rank[l]) >= plan.cluster) {
      if (m_.fresh(code::out_of_bounds, in.op))
        m_.report({code::out_of_bounds,
                   fmt::format("{} reads from rank {} of a cluster of {}", m_.thread_name(s, l), rank[l], plan.cluster),
                   "ranks count from 0 to the cluster's size - 1"},
                  in.op);
    } else if (static_cast<u64>(at[l]) >= mem.count) {
      m_.out_of_bounds(s, in, mem, l, at[l], mem.count, "read");
    } else {
      Group& g = *of(s).cluster[static_cast<u64>(rank[l])];
      std::memcpy(&bits, shared_at(g, mem, static_cast<u64>(at[l])), mem.size);
      note_read(s, in, mem, g.shared_shadow[mem.root], mem.offset + static_cast<u64>(at[l]) * mem.size, mem.size,
                m_.touch(s, in, l), true);
    }
    set_lane_bits(s, in.dst, mem.size, l, bits);
  }
}

}  // namespace iron::exec
