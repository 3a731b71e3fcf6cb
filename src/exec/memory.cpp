// Loads, stores, atomics and waits, each access checked.
#include <fmt/format.h>

#include "exec/tier.h"
#include "ir/eval.h"

namespace iron::exec {

namespace {
using namespace ir;

u64 read_bits(const u8* at, u32 size) {
  u64 bits = 0;
  std::memcpy(&bits, at, size);
  return bits;
}
void write_bits(u8* at, u32 size, u64 bits) { std::memcpy(at, &bits, size); }

/// The one check of a subscript: in bounds for all elements of a vector, and aligned as the op promises.
bool checked(Machine& m, const Simdgroup& s, const Instr& in, const Mem& mem, const Place& p, u32 lane, i64 at,
             u32 align, std::string_view verb) {
  if (static_cast<u64>(at) >= p.count || p.count - static_cast<u64>(at) < in.lanes) {
    m.out_of_bounds(s, in, mem, lane, at, p.count, verb);
    return false;
  }
  if (align > mem.size && ((p.base_misalign + p.offset + static_cast<u64>(at) * mem.size) & (align - 1)))
    m.misaligned(s, in, mem, lane, at, align);
  return true;
}
/// No subscript of the lanes is out of bounds; where other lanes hold one that is, the answer may be no.
bool all_inside(const i64* at, u64 mask, u32 width, u64 count) {
  if (std::popcount(mask) < static_cast<int>(width)) {
    for (u64 rest = mask; rest; rest &= rest - 1)
      if (static_cast<u64>(at[std::countr_zero(rest)]) >= count) return false;
    return true;
  }
  bool good = true;
  for (u32 l = 0; l < width; ++l) good &= static_cast<u64>(at[l]) < count;
  return good;
}
u32 alignment(const Instr& in) { return 1u << unpack<MemoryImm>(in.imm).align_log2; }

template <class T, bool Guarded>
Status load(Machine& m, Simdgroup& s, const Instr& in) {
  const Mem& mem = m.program.mems[in.mem];
  const Place p = m.place(s, mem);
  const i64* at = reg<i64>(s, in.a);
  const u32 align = alignment(in), width = m.width;
  u64 mask = s.mask;
  if constexpr (Guarded) {
    const u64 taken = odd_lanes(reg<u8>(s, in.b), width);
    masked_copy(s, in.dst, in.c, sizeof(T), in.lanes, width, mask & ~taken);
    mask &= taken;
  }
  ++m.time;
  std::byte* out = s.regs + in.dst;
  if (in.lanes == 1 && !p.shadow && align <= sizeof(T) && all_inside(at, mask, width, p.count)) {
    const T* const from = reinterpret_cast<const T*>(p.base);
    T* const to = reinterpret_cast<T*>(out);
    for (u64 rest = mask; rest; rest &= rest - 1) {
      const auto l = static_cast<u32>(std::countr_zero(rest));
      std::memcpy(to + l, from + at[l], sizeof(T));
    }
    return Status::access;
  }
  for (u64 rest = mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    const bool good = checked(m, s, in, mem, p, l, at[l], align, "read");
    for (u32 e = 0; e < in.lanes; ++e) {
      T v{};
      if (good) std::memcpy(&v, p.base + (static_cast<u64>(at[l]) + e) * sizeof(T), sizeof(T));
      std::memcpy(out + (std::size_t{e} * width + l) * sizeof(T), &v, sizeof(T));
    }
    if (good && p.shadow)
      m.note_read(s, in, mem, *p.shadow, p.offset + static_cast<u64>(at[l]) * sizeof(T),
                  static_cast<u32>(sizeof(T)) * in.lanes, m.touch(s, in, l));
  }
  return Status::access;
}

template <class T>
Status store(Machine& m, Simdgroup& s, const Instr& in) {
  const Mem& mem = m.program.mems[in.mem];
  const Place p = m.place(s, mem);
  const i64* at = reg<i64>(s, in.a);
  const u32 align = alignment(in), width = m.width;
  ++m.time;
  const std::byte* from = s.regs + in.b;
  for_lanes(s.mask, m.backwards(), [&](u32 l) {
    if (!checked(m, s, in, mem, p, l, at[l], align, "write")) return;
    for (u32 e = 0; e < in.lanes; ++e)
      std::memcpy(p.base + (static_cast<u64>(at[l]) + e) * sizeof(T), from + (std::size_t{e} * width + l) * sizeof(T),
                  sizeof(T));
    if (p.shadow)
      m.note_write(s, in, mem, *p.shadow, p.offset + static_cast<u64>(at[l]) * sizeof(T),
                   static_cast<u32>(sizeof(T)) * in.lanes, m.touch(s, in, l));
  });
  return Status::access;
}

// --- a thread's own arrays: element by element, each `width` lanes; no other thread can see them
template <class T, bool Guarded>
Status load_own(Machine& m, Simdgroup& s, const Instr& in) {
  const Mem& mem = m.program.mems[in.mem];
  const ThreadArray& a = m.program.arrays[mem.root];
  const i64* at = reg<i64>(s, in.a);
  const u32 width = m.width;
  const Place p{nullptr, mem.count, 0, 0, nullptr};
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    if constexpr (Guarded)
      if (!(reg<u8>(s, in.b)[l] & 1)) {
        for (u32 e = 0; e < in.lanes; ++e)
          set_lane_bits(s, in.dst, sizeof(T), e * width + l, lane_bits(s, in.c, sizeof(T), e * width + l));
        continue;
      }
    const bool good = checked(m, s, in, mem, p, l, at[l], alignment(in), "read");
    for (u32 e = 0; e < in.lanes; ++e) {
      T v{};
      if (good) {
        const auto i = static_cast<u64>(at[l]) + e;
        if (!(s.written[a.first_bit + i] >> l & 1)) m.uninitialised(in, mem, i, m.thread_name(s, l));
        std::memcpy(&v, s.arrays.data() + a.offset + (i * width + l) * sizeof(T), sizeof(T));
      }
      std::memcpy(s.regs + in.dst + (std::size_t{e} * width + l) * sizeof(T), &v, sizeof(T));
    }
  }
  return Status::next;
}
template <class T>
Status store_own(Machine& m, Simdgroup& s, const Instr& in) {
  const Mem& mem = m.program.mems[in.mem];
  const ThreadArray& a = m.program.arrays[mem.root];
  const i64* at = reg<i64>(s, in.a);
  const u32 width = m.width;
  const Place p{nullptr, mem.count, 0, 0, nullptr};
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    if (!checked(m, s, in, mem, p, l, at[l], alignment(in), "write")) continue;
    for (u32 e = 0; e < in.lanes; ++e) {
      const auto i = static_cast<u64>(at[l]) + e;
      s.written[a.first_bit + i] |= u64{1} << l;
      std::memcpy(s.arrays.data() + a.offset + (i * width + l) * sizeof(T),
                  s.regs + in.b + (std::size_t{e} * width + l) * sizeof(T), sizeof(T));
    }
  }
  return Status::next;
}
Status new_array(Machine& m, Simdgroup& s, const Instr& in) {
  const ThreadArray& a = m.program.arrays[m.program.mems[in.mem].root];
  for (u64 i = 0; i < a.count; ++i) s.written[a.first_bit + i] &= ~s.mask;
  return Status::next;
}

// --- atomics
bool acquires(MemoryOrder o) { return o == MemoryOrder::acquire || o == MemoryOrder::acq_rel; }
bool releases(MemoryOrder o) { return o == MemoryOrder::release || o == MemoryOrder::acq_rel; }

/// What a thread may publish now: all that the group did before its last barrier, its own accesses, what it learnt.
Clock knowledge(const Machine& m, const Group& g, u32 thread) {
  Clock c = g.common;
  if (const auto it = g.own.find(thread); it != g.own.end()) c.merge(it->second);
  c.add(g.id, {thread, m.time, g.epoch});
  return c;
}

void take(Machine& m, const Simdgroup& s, u32 thread, const u8* at, bool acquire) {
  if (!m.program.orders) return;
  if (m.tier) return m.tier->acquire(s, at, acquire);
  Group& g = *s.group;
  const auto it = m.releases.find(at);
  if (it == m.releases.end() || (it->second.only_group != nobody && it->second.only_group != g.id)) return;
  (acquire ? g.own : g.seen)[thread].merge(it->second.clock);
}
void publish(Machine& m, const Simdgroup& s, u32 thread, const u8* at, bool release, bool keeps, Scope scope) {
  if (!m.program.orders) return;
  if (m.tier) return m.tier->release(s, at, release, keeps, scope);
  Group& g = *s.group;
  Clock c;
  if (release) c = knowledge(m, g, thread);
  if (const auto it = g.fenced.find(thread); it != g.fenced.end()) c.merge(it->second);
  Release& r = m.releases[at];
  if (keeps && !r.clock.empty()) {  // a read-modify-write continues the release sequence
    r.clock.merge(c);
    return;
  }
  r.clock = std::move(c);
  r.only_group = scope < Scope::cluster ? g.id : nobody;
}

u64 combine(AtomicKind kind, DType elem, u64 old, u64 value) {
  switch (kind) {
    case AtomicKind::add:
      return reduce_step(ReduceKind::sum, elem, old, value);
    case AtomicKind::min:
      return reduce_step(ReduceKind::min, elem, old, value);
    case AtomicKind::max:
      return reduce_step(ReduceKind::max, elem, old, value);
    case AtomicKind::and_:
      return reduce_step(ReduceKind::and_, elem, old, value);
    case AtomicKind::or_:
      return reduce_step(ReduceKind::or_, elem, old, value);
    case AtomicKind::xor_:
      return reduce_step(ReduceKind::xor_, elem, old, value);
    case AtomicKind::exchange:
      return value;
    case AtomicKind::inc_wrap:
      return old >= value ? 0 : old + 1;  // counts 0 to value, then again
  }
  return old;
}

/// f(lane, address, old bits) gives the new bits, or says that nothing is written.
struct NewBits {
  bool writes = false;
  u64 bits = 0;
};
template <class F>
Status each_atomic(Machine& m, Simdgroup& s, const Instr& in, bool reads, MemoryOrder order, Scope scope, bool result,
                   F&& f) {
  const Mem& mem = m.program.mems[in.mem];
  const Place p = m.place(s, mem);
  const i64* at = reg<i64>(s, in.a);
  ++m.time;
  for_lanes(s.mask, m.backwards(), [&](u32 l) {
    const u32 thread = s.index * m.width + l;
    if (!checked(m, s, in, mem, p, l, at[l], 1, "atomic")) {
      if (result) set_lane_bits(s, in.dst, mem.size, l, 0);
      return;
    }
    u8* const address = p.base + static_cast<u64>(at[l]) * mem.size;
    const u64 old = read_bits(address, mem.size);
    const NewBits next = f(l, old);
    const u64 byte = p.offset + static_cast<u64>(at[l]) * mem.size;
    if (reads) take(m, s, thread, address, acquires(order));
    if (p.shadow) {
      if (reads) m.note_read(s, in, mem, *p.shadow, byte, mem.size, m.touch(s, in, l, true), !next.writes);
      if (next.writes) m.note_write(s, in, mem, *p.shadow, byte, mem.size, m.touch(s, in, l, true));
    }
    if (next.writes) {
      write_bits(address, mem.size, next.bits);
      publish(m, s, thread, address, releases(order), reads, scope);
    }
    if (result) set_lane_bits(s, in.dst, mem.size, l, old);
  });
  return Status::access;
}

Status atomic_rmw(Machine& m, Simdgroup& s, const Instr& in) {
  const auto imm = unpack<AtomicImm>(in.imm);
  return each_atomic(m, s, in, true, imm.order, imm.scope, true, [&](u32 l, u64 old) {
    return NewBits{true, combine(imm.kind, in.elem, old, lane_bits(s, in.b, dtype_size(in.elem), l))};
  });
}
Status atomic_cas(Machine& m, Simdgroup& s, const Instr& in) {
  const auto imm = unpack<AtomicImm>(in.imm);
  const u32 size = dtype_size(in.elem);
  return each_atomic(m, s, in, true, imm.order, imm.scope, true, [&](u32 l, u64 old) {
    return NewBits{old == lane_bits(s, in.b, size, l), lane_bits(s, in.c, size, l)};
  });
}
Status atomic_load(Machine& m, Simdgroup& s, const Instr& in) {
  const auto imm = unpack<AtomicImm>(in.imm);
  return each_atomic(m, s, in, true, imm.order, imm.scope, true, [](u32, u64) { return NewBits{}; });
}
Status atomic_store(Machine& m, Simdgroup& s, const Instr& in) {
  const auto imm = unpack<AtomicImm>(in.imm);
  return each_atomic(m, s, in, false, imm.order, imm.scope, false,
                     [&](u32 l, u64) { return NewBits{true, lane_bits(s, in.b, dtype_size(in.elem), l)}; });
}

// One poll. The lanes go on together, once the condition has held for each; a lane keeps the value that satisfied it.
Status wait_until(Machine& m, Simdgroup& s, const Instr& in) {
  const auto imm = unpack<WaitImm>(in.imm);
  static constexpr Opcode compares[] = {Opcode::Eq, Opcode::Ne, Opcode::Lt, Opcode::Le, Opcode::Gt, Opcode::Ge};
  const Mem& mem = m.program.mems[in.mem];
  const Place p = m.place(s, mem);
  const i64* at = reg<i64>(s, in.a);
  const Type t = Type::value(mem.elem), types[] = {t, t};
  bool all = true;
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    if (!checked(m, s, in, mem, p, l, at[l], 1, "wait on")) continue;
    const u64 values[] = {
        read_bits(p.base + static_cast<u64>(at[l]) * mem.size, mem.size) & lane_bits(s, in.b, mem.size, l),
        lane_bits(s, in.c, mem.size, l)};
    if (!eval(compares[static_cast<int>(imm.compare)], bool_type, types, values)) all = false;
  }
  if (!all) return Status::wait;
  return each_atomic(m, s, in, true, MemoryOrder::acquire, imm.scope, true, [](u32, u64) { return NewBits{}; });
}

Status fence(Machine& m, Simdgroup& s, const Instr& in) {
  const auto imm = unpack<AtomicImm>(in.imm);
  Group& g = *s.group;
  ++m.time;
  if (m.tier) {
    m.tier->fence(s, releases(imm.order), acquires(imm.order));
    return Status::access;
  }
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const u32 thread = s.index * m.width + static_cast<u32>(std::countr_zero(rest));
    if (releases(imm.order)) g.fenced[thread] = knowledge(m, g, thread);
    if (acquires(imm.order))
      if (const auto it = g.seen.find(thread); it != g.seen.end()) {
        g.own[thread].merge(it->second);
        g.seen.erase(it);
      }
  }
  return Status::access;
}

template <class T>
Handler memory_of(Opcode code, bool own) {
  switch (code) {
    case Opcode::Load:
      return own ? load_own<T, false> : load<T, false>;
    case Opcode::LoadOr:
      return own ? load_own<T, true> : load<T, true>;
    case Opcode::Store:
      return own ? store_own<T> : store<T>;
    default:
      return nullptr;
  }
}
}  // namespace

Handler memory_handler(Opcode code, u32 size, Space space) {
  const bool own = space == Space::priv;
  switch (code) {
    case Opcode::ArrayNew:
      return new_array;
    case Opcode::Fence:
      return fence;
    case Opcode::AtomicRmw:
      return own ? nullptr : atomic_rmw;
    case Opcode::AtomicCas:
      return own ? nullptr : atomic_cas;
    case Opcode::AtomicLoad:
      return own ? nullptr : atomic_load;
    case Opcode::AtomicStore:
      return own ? nullptr : atomic_store;
    case Opcode::WaitUntil:
      return own ? nullptr : wait_until;
    default:
      break;
  }
  if (const Handler copy = copy_handler(code)) return copy;
  switch (size) {
    case 1:
      return memory_of<u8>(code, own);
    case 2:
      return memory_of<u16>(code, own);
    case 4:
      return memory_of<u32>(code, own);
    default:
      return memory_of<u64>(code, own);
  }
}

// --- what the accesses report and remember
Place Machine::place(Simdgroup& s, const Mem& mem) {
  Place p;
  p.offset = mem.offset;
  if (mem.space == Space::global) {
    Buffer& b = buffers[mem.root];
    p.count = mem.offset <= b.bytes ? (b.bytes - mem.offset) / mem.size : 0;
    p.base = b.data + (p.count ? mem.offset : 0);
    p.base_misalign = b.base_misalign;
    p.shadow = b.tracked ? &b.shadow : nullptr;
  } else {
    p.count = mem.count;
    p.base = s.group->shared[mem.root].data() + (p.count ? mem.offset : 0);
    p.shadow = &s.group->shared_shadow[mem.root];
  }
  return p;
}

bool Machine::ordered(const Group& g, const Touch& a, const Touch& b) const {
  const u32 ta = a.thread(), tb = b.thread();
  if (a.group == b.group) {
    if (a.group_epoch() != b.group_epoch()) return true;
    if (ta == tb && ta < collective) return true;
    const auto simdgroup = [&](u32 t) { return t < collective ? t / width : t - collective; };
    if (a.epoch != b.epoch && ta != everyone && tb != everyone && simdgroup(ta) == simdgroup(tb)) return true;
  }
  if (!program.orders) return false;
  if (g.common.covers(a)) return true;
  const auto it = g.own.find(tb);
  return it != g.own.end() && it->second.covers(a);
}

// A read that is part of an atomic write is not kept: the write stands for it.
void Machine::note_read(const Simdgroup& s, const Instr& in, const Mem& mem, Shadow& shadow, u64 byte, u32 size,
                        Touch now, bool keep) {
  if (!shadow.flying.empty()) check_arrived(mem, shadow, byte, size, now, "read");
  if (tier) return tier->note_read(s, in, mem, shadow, byte, size, now, keep);
  const Group& g = *s.group;
  for (u64 c = byte >> shadow.granule_log2, last = (byte + size - 1) >> shadow.granule_log2; c <= last; ++c) {
    Cell& cell = shadow.cells[c];
    const u64 at = c << shadow.granule_log2;
    if (cell.write.any() && !ordered(g, cell.write, now)) race(mem, at, cell.write, now, "written", "read");
    if (cell.atomic.any() && !now.atomic() && !ordered(g, cell.atomic, now))
      race(mem, at, cell.atomic, now, "written", "read");
    if (shadow.needs_write && !cell.write.any() && !cell.atomic.any())
      uninitialised(in, mem, (at - mem.offset) / mem.size,
                    now.thread() < collective ? thread_name(s, now.thread() % width) : std::string("a tile op"));
    if (!keep) continue;
    const Touch& first = cell.read0;
    const bool same = first.group == now.group && first.thread() == now.thread();
    if (!first.any() || same || ordered(g, first, now))
      cell.read0 = now;
    else
      cell.read1 = now;
  }
}

void Machine::note_write(const Simdgroup& s, const Instr& in, const Mem& mem, Shadow& shadow, u64 byte, u32 size,
                         Touch now) {
  if (!shadow.flying.empty()) check_arrived(mem, shadow, byte, size, now, "written");
  if (tier) return tier->note_write(s, in, mem, shadow, byte, size, now);
  const Group& g = *s.group;
  for (u64 c = byte >> shadow.granule_log2, last = (byte + size - 1) >> shadow.granule_log2; c <= last; ++c) {
    Cell& cell = shadow.cells[c];
    const u64 at = c << shadow.granule_log2;
    const auto against = [&](const Touch& t, std::string_view does) {
      if (t.any() && !(t.atomic() && now.atomic()) && !ordered(g, t, now)) race(mem, at, t, now, does, "written");
    };
    against(cell.write, "written");
    against(cell.atomic, "written");
    against(cell.read0, "read");
    against(cell.read1, "read");
    if (now.atomic()) {
      cell.atomic = now;
    } else {
      cell = Cell{now, {}, {}, {}};
      if (shadow.logs) shadow.log.push_back(c);
    }
  }
}

void Machine::race(const Mem& mem, u64 byte, const Touch& before, const Touch& now, std::string_view before_does,
                   std::string_view now_does) {
  const OpId here = op_of(now.instr()), there = op_of(before.instr());
  if (!fresh(code::race, std::min(here, there), std::max(here, there))) return;
  const bool inside = before.group == now.group;
  const u64 element = byte >= mem.offset ? (byte - mem.offset) / mem.size : 0;
  report({code::race,
          fmt::format("element {} of {} is {} by {} and {}{} by {} without {}", element, memory_name(mem), before_does,
                      name_of(before), now_does,
                      now.atomic() != before.atomic() ? (now.atomic() ? " atomically" : " plainly") : "", name_of(now),
                      inside ? "a barrier between them" : "an acquire that orders them"),
          inside ? "put a barrier() between the two accesses, or give each thread its own element"
                 : "give each threadgroup its own elements, or order them by an atomic with release and acquire"},
         here, there, fmt::format("{} here", before_does));
}

void Machine::out_of_bounds(const Simdgroup& s, const Instr& in, const Mem& mem, u32 lane, i64 at, u64 count,
                            std::string_view verb) {
  if (!fresh(code::out_of_bounds, in.op)) return;
  const std::string span = in.lanes > 1 ? fmt::format("{} to {}", at, at + in.lanes - 1) : fmt::format("{}", at);
  report({code::out_of_bounds,
          fmt::format("{} {} of {}, which has {} elements, in {}",
                      verb == "atomic" ? "atomic access to element" : fmt::format("{} element", verb), span,
                      memory_name(mem), count, thread_name(s, lane)),
          "guard the access with if_ or load_or, or clamp the index with bounded(i, lo, hi)"},
         in.op);
}

void Machine::misaligned(const Simdgroup& s, const Instr& in, const Mem& mem, u32 lane, i64 at, u32 align) {
  if (!fresh(code::misaligned, in.op)) return;
  report({code::misaligned,
          fmt::format("element {} of {} does not lie at a multiple of {} bytes, as the access promises, in {}", at,
                      memory_name(mem), align, thread_name(s, lane)),
          "make the row stride and the offset multiples of the vector, or access single elements"},
         in.op);
}

void Machine::uninitialised(const Instr& in, const Mem& mem, u64 element, std::string who) {
  if (!fresh(code::uninitialised, in.op)) return;
  report(
      {code::uninitialised,
       fmt::format("element {} of {} is read before anything is written to it, in {}", element, memory_name(mem), who),
       mem.space == Space::shared ? "write it and put a barrier() before the read"
                                  : "write it first, or declare the buffer InOut<T>"},
      in.op);
}

}  // namespace iron::exec
