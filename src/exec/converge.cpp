// Simdgroup and threadgroup ops in the stated order (R4), barriers and tickets.
#include <fmt/format.h>

#include "exec/machine.h"
#include "ir/eval.h"
#include "ir/scalar.h"

namespace iron::exec {

namespace {
using namespace ir;
namespace sc = ir::scalar;

// --- ladders over n slots (a power of two, at most 256), on native numbers

template <DType D, class Step>
void reduce_ladder(typename sc::Rep<D>::Store* v, u32 n, Step step) {
  typename sc::Rep<D>::Store next[256];
  for (u32 m = n / 2; m; m /= 2) {
    for (u32 i = 0; i < n; ++i) next[i] = step(v[i], v[i ^ m]);
    std::memcpy(v, next, n * sizeof(*v));
  }
}
template <DType D, class Step>
void scan_ladder(typename sc::Rep<D>::Store* v, u32 n, Step step) {
  for (u32 d = 1; d < n; d *= 2)
    for (u32 i = n; i-- > d;) v[i] = step(v[i - d], v[i]);
}

template <DType D, class F>
void with_step(ReduceKind kind, F&& f) {
  using R = sc::Rep<D>;
  using Store = typename R::Store;
  const auto make = [&]<class Op>(Op) {
    f([](Store a, Store b) { return static_cast<Store>(R::store(Op::apply(R::load(a), R::load(b)))); });
  };
  if constexpr (!is_float(D)) {
    switch (kind) {
      case ReduceKind::and_:
        return make(sc::And{});
      case ReduceKind::or_:
        return make(sc::Or{});
      case ReduceKind::xor_:
        return make(sc::Xor{});
      default:
        break;
    }
  }
  if constexpr (D != DType::boolean) {
    switch (kind) {
      case ReduceKind::sum:
        return make(sc::Add{});
      case ReduceKind::prod:
        return make(sc::Mul{});
      case ReduceKind::min:
        return make(sc::Min{});
      case ReduceKind::max:
        return make(sc::Max{});
      default:
        break;
    }
  }
}
template <DType D>
typename sc::Rep<D>::Store identity_of(ReduceKind kind) {
  using Store = typename sc::Rep<D>::Store;
  return std::bit_cast<Store>(static_cast<sc::Bits<Store>>(reduce_identity(kind, D)));
}

/// One element's values of a simdgroup; lanes that do not take part hold the identity.
template <DType D>
void gather(const Machine& m, const Simdgroup& s, u32 from, ReduceKind kind, typename sc::Rep<D>::Store* v) {
  const auto* in = reg<typename sc::Rep<D>::Store>(s, from);
  const auto identity = identity_of<D>(kind);
  for (u32 l = 0; l < m.width; ++l) v[l] = s.mask >> l & 1 ? in[l] : identity;
}

Status simd_reduce(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  const auto kind = unpack<ReduceKind>(in.imm);
  sc::with_dtype(in.elem, [&]<DType D>() {
    using Store = typename sc::Rep<D>::Store;
    with_step<D>(kind, [&](auto step) {
      for (u32 e = 0; e < in.lanes; ++e) {
        Store v[256];
        const u32 row = e * m.width * static_cast<u32>(sizeof(Store));
        gather<D>(m, s, in.a + row, kind, v);
        reduce_ladder<D>(v, m.width, step);
        std::memcpy(s.regs + in.dst + row, v, m.width * sizeof(Store));
      }
    });
  });
  return Status::next;
}

/// Inclusive results in place; the exclusive ones are those of the lane before, from the identity.
template <DType D>
void make_exclusive(typename sc::Rep<D>::Store* v, u32 n, ReduceKind kind) {
  std::memmove(v + 1, v, (n - 1) * sizeof(*v));
  v[0] = identity_of<D>(kind);
}

Status simd_scan(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  const auto imm = unpack<ScanImm>(in.imm);
  sc::with_dtype(in.elem, [&]<DType D>() {
    using Store = typename sc::Rep<D>::Store;
    with_step<D>(imm.kind, [&](auto step) {
      for (u32 e = 0; e < in.lanes; ++e) {
        Store v[256];
        const u32 row = e * m.width * static_cast<u32>(sizeof(Store));
        gather<D>(m, s, in.a + row, imm.kind, v);
        scan_ladder<D>(v, m.width, step);
        if (imm.exclusive) make_exclusive<D>(v, m.width, imm.kind);
        std::memcpy(s.regs + in.dst + row, v, m.width * sizeof(Store));
      }
    });
  });
  return Status::next;
}

template <class T>
void permute(const Simdgroup& s, const Instr& in, const u8* from, u32 width) {
  T row[64];
  for (u32 e = 0; e < in.lanes; ++e) {
    const T* const v = reg<T>(s, in.a) + std::size_t{e} * width;
    for (u32 l = 0; l < width; ++l) row[l] = v[from[l]];
    std::memcpy(reg<T>(s, in.dst) + std::size_t{e} * width, row, width * sizeof(T));
  }
}

// --- shuffles: `source(lane)` is the lane read, or the width where there is none and the own value stays
template <class F>
Status shuffle(Machine& m, Simdgroup& s, const Instr& in, F&& source) {
  check_convergent(m, s, in);
  u8 sources[64];
  for (u32 l = 0; l < m.width; ++l) {
    u32 from = source(l);
    if (from >= m.width)
      from = l;
    else if (from != l && (s.mask >> l & 1) && !(s.mask >> from & 1)) {
      if (m.fresh(code::missing_lane, in.op))
        m.report({code::missing_lane,
                  fmt::format("{} reads lane {}, which {}", m.thread_name(s, l), from,
                              s.exists >> from & 1 ? "does not take part" : "is not a thread of the threadgroup"),
                  "launch whole simdgroups and let all lanes reach the shuffle"},
                 in.op);
      from = l;
    }
    sources[l] = static_cast<u8>(from);
  }
  switch (dtype_size(in.elem)) {
    case 1:
      permute<u8>(s, in, sources, m.width);
      break;
    case 2:
      permute<u16>(s, in, sources, m.width);
      break;
    case 4:
      permute<u32>(s, in, sources, m.width);
      break;
    default:
      permute<u64>(s, in, sources, m.width);
  }
  return Status::next;
}
Status simd_shuffle(Machine& m, Simdgroup& s, const Instr& in) {
  const i64* lane = reg<i64>(s, in.b);
  return shuffle(m, s, in, [&](u32 l) { return static_cast<u32>(static_cast<u64>(lane[l]) & (m.width - 1)); });
}
Status simd_shuffle_xor(Machine& m, Simdgroup& s, const Instr& in) {
  return shuffle(m, s, in, [&](u32 l) { return (l ^ static_cast<u32>(in.imm)) & (m.width - 1); });
}
Status simd_shuffle_up(Machine& m, Simdgroup& s, const Instr& in) {
  return shuffle(m, s, in, [&](u32 l) { return in.imm > l ? m.width : l - static_cast<u32>(in.imm); });
}
Status simd_shuffle_down(Machine& m, Simdgroup& s, const Instr& in) {
  return shuffle(m, s, in, [&](u32 l) { return l + in.imm >= m.width ? m.width : l + static_cast<u32>(in.imm); });
}
Status simd_broadcast(Machine& m, Simdgroup& s, const Instr& in) {
  const i64* lane = reg<i64>(s, in.b);
  if (s.mask) {
    const u32 first = static_cast<u32>(std::countr_zero(s.mask));
    for (u64 rest = s.mask; rest; rest &= rest - 1) {
      const auto l = static_cast<u32>(std::countr_zero(rest));
      if (lane[l] != lane[first] && m.fresh(code::not_uniform, in.op))
        m.report({code::not_uniform,
                  fmt::format("the lane of simd_broadcast is {} in {} and {} elsewhere", lane[l], m.thread_name(s, l),
                              lane[first]),
                  "use simd_shuffle for a lane that varies"},
                 in.op);
    }
  }
  return simd_shuffle(m, s, in);
}

u64 votes(const Machine& m, const Simdgroup& s, u32 from) { return odd_lanes(reg<u8>(s, from), m.width) & s.mask; }
Status simd_ballot(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  const u64 bits = votes(m, s, in.a);
  std::fill_n(reg<u32>(s, in.dst), m.width, static_cast<u32>(bits));
  return Status::next;
}
Status simd_any(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  std::fill_n(reg<u8>(s, in.dst), m.width, static_cast<u8>(votes(m, s, in.a) != 0));
  return Status::next;
}
Status simd_all(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  std::fill_n(reg<u8>(s, in.dst), m.width, static_cast<u8>(votes(m, s, in.a) == s.mask));
  return Status::next;
}
Status simd_barrier(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  ++s.simd_epoch;
  Clock all;
  for (u32 l = 0; l < m.width; ++l)
    if (const auto it = s.group->own.find(s.index * m.width + l); it != s.group->own.end()) all.merge(it->second);
  if (!all.empty())
    for (u32 l = 0; l < m.width; ++l) s.group->own[s.index * m.width + l].merge(all);
  return Status::access;
}

// --- the threadgroup: every simdgroup arrives, then one of these runs
Status arrive(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  return Status::rendezvous;
}

/// Partials of the simdgroups are padded to 32, or to the next power of two where narrow simdgroups are more.
u32 padded(const Group& g) { return std::max(32u, std::bit_ceil(static_cast<u32>(g.simdgroups.size()))); }

void group_reduce(Machine& m, Group& g, const Instr& in) {
  const auto kind = unpack<ReduceKind>(in.imm);
  sc::with_dtype(in.elem, [&]<DType D>() {
    using Store = typename sc::Rep<D>::Store;
    with_step<D>(kind, [&](auto step) {
      for (u32 e = 0; e < in.lanes; ++e) {
        const u32 row = e * m.width * static_cast<u32>(sizeof(Store));
        Store partial[256];
        std::fill_n(partial, 256, identity_of<D>(kind));
        for (const auto& s : g.simdgroups) {
          Store v[256];
          gather<D>(m, s, in.a + row, kind, v);
          reduce_ladder<D>(v, m.width, step);
          partial[s.index] = v[0];
        }
        reduce_ladder<D>(partial, padded(g), step);
        for (const auto& s : g.simdgroups) std::fill_n(reg<Store>(s, in.dst + row), m.width, partial[0]);
      }
    });
  });
}

// Each thread's result is (exclusive prefix of its simdgroup's total) op (scan within the simdgroup).
void group_scan(Machine& m, Group& g, const Instr& in) {
  const auto imm = unpack<ScanImm>(in.imm);
  sc::with_dtype(in.elem, [&]<DType D>() {
    using Store = typename sc::Rep<D>::Store;
    with_step<D>(imm.kind, [&](auto step) {
      for (u32 e = 0; e < in.lanes; ++e) {
        const u32 row = e * m.width * static_cast<u32>(sizeof(Store));
        Store total[256];
        std::fill_n(total, 256, identity_of<D>(imm.kind));
        for (const auto& s : g.simdgroups) {
          Store v[256];
          gather<D>(m, s, in.a + row, imm.kind, v);
          scan_ladder<D>(v, m.width, step);
          total[s.index] = v[m.width - 1];
          if (imm.exclusive) make_exclusive<D>(v, m.width, imm.kind);
          std::memcpy(s.regs + in.dst + row, v, m.width * sizeof(Store));
        }
        scan_ladder<D>(total, padded(g), step);
        make_exclusive<D>(total, padded(g), imm.kind);
        for (const auto& s : g.simdgroups) {
          Store* out = reg<Store>(s, in.dst + row);
          for (u32 l = 0; l < m.width; ++l) out[l] = step(total[s.index], out[l]);
        }
      }
    });
  });
}

void group_any(Machine& m, Group& g, const Instr& in) {
  bool any = false;
  for (const auto& s : g.simdgroups) any |= votes(m, s, in.a) != 0;
  for (const auto& s : g.simdgroups) std::fill_n(reg<u8>(s, in.dst), m.width, static_cast<u8>(any));
}
void group_all(Machine& m, Group& g, const Instr& in) {
  bool all = true;
  for (const auto& s : g.simdgroups) all &= votes(m, s, in.a) == s.mask;
  for (const auto& s : g.simdgroups) std::fill_n(reg<u8>(s, in.dst), m.width, static_cast<u8>(all));
}
void group_broadcast(Machine& m, Group& g, const Instr& in) {
  const u32 size = dtype_size(in.elem);
  const u64 thread = in.imm;
  if (thread >= m.threads) {
    if (m.fresh(code::missing_lane, in.op))
      m.report(
          {code::missing_lane, fmt::format("group_broadcast reads thread {} of a threadgroup of {}", thread, m.threads),
           "name a thread of the threadgroup"},
          in.op);
    for (const auto& s : g.simdgroups) std::memset(s.regs + in.dst, 0, std::size_t{in.n} * size);
    return;
  }
  const auto& source = g.simdgroups[thread / m.width];
  for (u32 e = 0; e < in.lanes; ++e) {
    const u64 bits = lane_bits(source, in.a, size, e * m.width + static_cast<u32>(thread % m.width));
    for (const auto& s : g.simdgroups)
      for (u32 l = 0; l < m.width; ++l) set_lane_bits(s, in.dst, size, e * m.width + l, bits);
  }
}
void barrier(Machine& m, Group& g, const Instr&) {
  ++m.result.statistics.barriers;
  m.passed_barrier(g);
}
// The leader increments the counter; all threads get what it held.
void ticket(Machine& m, Group& g, const Instr& in) {
  const Mem& mem = m.program.mems[in.mem];
  Simdgroup& leader = g.simdgroups[0];
  const Place p = m.place(leader, mem);
  const i64 at = reg<i64>(leader, in.a)[0];
  ++m.time;
  u64 old = 0;
  if (static_cast<u64>(at) >= p.count)
    m.out_of_bounds(leader, in, mem, 0, at, p.count, "atomic");
  else {
    u8* const address = p.base + static_cast<u64>(at) * mem.size;
    std::memcpy(&old, address, mem.size);
    const u64 next = reduce_step(ReduceKind::sum, mem.elem, old, 1);
    std::memcpy(address, &next, mem.size);
    if (p.shadow) {
      const u64 byte = p.offset + static_cast<u64>(at) * mem.size;
      m.note_read(leader, in, mem, *p.shadow, byte, mem.size, m.touch(leader, in, 0, true), false);
      m.note_write(leader, in, mem, *p.shadow, byte, mem.size, m.touch(leader, in, 0, true));
    }
  }
  for (const auto& s : g.simdgroups) std::fill_n(reg<i64>(s, in.dst), m.width, static_cast<i64>(old));
}
}  // namespace

void check_convergent(Machine& m, const Simdgroup& s, const Instr& in) {
  if (s.mask == s.exists || !m.fresh(code::divergent, in.op)) return;
  const auto missing = s.exists & ~s.mask;
  m.report({code::divergent,
            fmt::format("{} is reached by {} of the {} threads of simdgroup {} of threadgroup {}; {} is not among them",
                        m.kernel.info_of(in.op).text, s.active, std::popcount(s.exists), s.index, s.group->id,
                        m.thread_name(s, static_cast<u32>(std::countr_zero(missing)))),
            "move it out of the branch or loop, or make the condition uniform"},
           in.op);
}

bool convergent_handler(const Kernel& k, OpId id, Instr& in) {
  const auto meeting = [&](Meeting meet) {
    in.fn = arrive, in.meet = meet;
    return true;
  };
  const auto simd = [&](Handler fn) {
    in.fn = fn;
    return true;
  };
  switch (k.op(id).code) {
    case Opcode::SimdReduce:
      return simd(simd_reduce);
    case Opcode::SimdScan:
      return simd(simd_scan);
    case Opcode::SimdShuffle:
      return simd(simd_shuffle);
    case Opcode::SimdShuffleXor:
      return simd(simd_shuffle_xor);
    case Opcode::SimdShuffleUp:
      return simd(simd_shuffle_up);
    case Opcode::SimdShuffleDown:
      return simd(simd_shuffle_down);
    case Opcode::SimdBroadcast:
      return simd(simd_broadcast);
    case Opcode::SimdBallot:
      return simd(simd_ballot);
    case Opcode::SimdAny:
      return simd(simd_any);
    case Opcode::SimdAll:
      return simd(simd_all);
    case Opcode::SimdBarrier:
      return simd(simd_barrier);
    case Opcode::GroupReduce:
      return meeting(group_reduce);
    case Opcode::GroupScan:
      return meeting(group_scan);
    case Opcode::GroupAny:
      return meeting(group_any);
    case Opcode::GroupAll:
      return meeting(group_all);
    case Opcode::GroupBroadcast:
      return meeting(group_broadcast);
    case Opcode::Barrier:
      return meeting(barrier);
    case Opcode::Ticket:
      return meeting(ticket);
    default:
      return false;
  }
}

}  // namespace iron::exec
