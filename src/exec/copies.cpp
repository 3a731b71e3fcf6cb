// Copies that threads start and wait for. One takes effect as late as it may: until its thread's wait the destination
// holds nothing, and whoever touches it is reported, in every schedule. Then it counts as a write of that thread at
// that moment: other threads need a barrier after the wait.
#include <fmt/format.h>

#include <algorithm>

#include "exec/tier.h"

namespace iron::exec {

namespace {
using namespace ir;

u32 bytes_of(const Instr& in) { return dtype_size(in.elem) * in.lanes; }

Status start_copy(Machine& m, Simdgroup& s, const Instr& in) {
  const Mem& mem = m.program.mems[in.mem];
  const Place p = m.place(s, mem);
  const i64* at = reg<i64>(s, in.a);
  const u32 bytes = bytes_of(in);
  ++m.time;
  for_lanes(s.mask, m.backwards(), [&](u32 l) {
    const auto first = static_cast<u64>(at[l]);
    if (first >= p.count || p.count - first < in.lanes) return m.out_of_bounds(s, in, mem, l, at[l], p.count, "write");
    if ((p.offset + first * mem.size) % bytes) m.misaligned(s, in, mem, l, at[l], bytes);
    const u64 byte = p.offset + first * mem.size;
    const Touch now = m.touch(s, in, l);
    m.note_write(s, in, mem, *p.shadow, byte, bytes, now);
    for (u64 c = byte >> p.shadow->granule_log2; c <= (byte + bytes - 1) >> p.shadow->granule_log2; ++c)
      p.shadow->flying[c] = now;
    CopyQueue& queue = s.group->copies[s.index * m.width + l];
    Copying copy{m.index_of(in), in.mem, l, first, queue.closed, {}};
    for (u32 e = 0; e < in.lanes; ++e) {
      const u64 bits = lane_bits(s, in.b, mem.size, e * m.width + l);
      std::memcpy(copy.bytes.data() + std::size_t{e} * mem.size, &bits, mem.size);
    }
    std::fill_n(p.base + first * mem.size, bytes, u8{0xcd});
    queue.started.push_back(copy);
  });
  return Status::access;
}

Status close_group(Machine& m, Simdgroup& s, const Instr&) {
  for (u64 rest = s.mask; rest; rest &= rest - 1)
    ++s.group->copies[s.index * m.width + static_cast<u32>(std::countr_zero(rest))].closed;
  return Status::next;
}

void arrive(Machine& m, Simdgroup& s, const Copying& copy) {
  const Instr& in = m.program.code[copy.instr];
  const Mem& mem = m.program.mems[copy.mem];
  const Place p = m.place(s, mem);
  const u32 bytes = bytes_of(in);
  const u64 byte = p.offset + copy.element * mem.size;
  for (u64 c = byte >> p.shadow->granule_log2; c <= (byte + bytes - 1) >> p.shadow->granule_log2; ++c)
    p.shadow->flying[c] = {};
  m.note_write(s, in, mem, *p.shadow, byte, bytes, m.touch(s, in, copy.lane));
  std::copy_n(copy.bytes.data(), bytes, p.base + copy.element * mem.size);
}

Status wait_for_copies(Machine& m, Simdgroup& s, const Instr& in) {
  ++m.time;
  for_lanes(s.mask, m.backwards(), [&](u32 l) {
    CopyQueue& queue = s.group->copies[s.index * m.width + l];
    std::erase_if(queue.started, [&](const Copying& copy) {
      if (copy.number + in.imm >= queue.closed) return false;  // an open group is not waited for
      arrive(m, s, copy);
      return true;
    });
  });
  return Status::access;
}
}  // namespace

Handler copy_handler(Opcode code) {
  switch (code) {
    case Opcode::CopyAsync:
      return start_copy;
    case Opcode::CopyCommit:
      return close_group;
    case Opcode::CopyWait:
      return wait_for_copies;
    default:
      return nullptr;
  }
}

void Machine::check_arrived(const Mem& mem, const Shadow& shadow, u64 byte, u32 size, const Touch& now,
                            std::string_view does) {
  for (u64 c = byte >> shadow.granule_log2, last = (byte + size - 1) >> shadow.granule_log2; c <= last; ++c) {
    const Touch& copy = shadow.flying[c];
    if (!copy.any()) continue;
    const OpId here = op_of(now.instr()), there = op_of(copy.instr());
    if (!fresh(code::in_flight, here, there)) return;
    const u64 at = c << shadow.granule_log2;
    return report({code::in_flight,
                   fmt::format("element {} of {} is {} by {} while a copy that {} started is in flight to it",
                               at >= mem.offset ? (at - mem.offset) / mem.size : 0, memory_name(mem), does,
                               tier ? tier->who_is(now) : name_of(now), name_of(copy)),
                   "commit_copies() after the copies, wait_copies() before the access, and a barrier() for other "
                   "threads"},
                  here, there, "the copy is started here");
  }
}

void Machine::end_copies(Group& g) {
  for (auto& [thread, queue] : g.copies)
    for (const auto& copy : queue.started) {
      const OpId op = op_of(copy.instr);
      if (!fresh(code::in_flight, op)) continue;
      report({code::in_flight,
              fmt::format("a copy that thread {} of threadgroup {} started is never waited for", thread, g.id),
              copy.number < queue.closed ? "wait_copies() before the kernel ends"
                                         : "commit_copies() after the copies, then wait_copies()"},
             op);
    }
  g.copies.clear();
}

}  // namespace iron::exec
