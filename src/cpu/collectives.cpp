// Where all threads of a threadgroup meet: reductions, scans, votes, broadcasts, barriers, tickets.
#include <fmt/format.h>

#include "cpu/lowering.h"
#include "cpu/tiles.h"
#include "ir/eval.h"

namespace iron::cpu {

using ir::Opcode;
// ------------------------------------------------------------------------------------------------

// The part of a threadgroup op that each simdgroup does at the end of a segment.
void Lowering::collective_stage(OpId id) {
  const auto& op = k_.op(id);
  if (op.code == Opcode::Barrier || op.code == Opcode::Ticket) return;
  const OpId from = k_.operand(id, 0);
  const ir::Type type = k_.type(from);
  const DType elem = type.elem;
  const u64 size = elem == DType::boolean ? 1 : dtype_size(elem);
  V simdgroup = c_.bin(Bin::lshr, chunk_->base, c_.i64(5));
  V line = partials_.at(id);
  switch (op.code) {
    case Opcode::GroupReduce:
      for (u32 c = 0; c < type.lanes; ++c) {
        V partial = ladder(packets_of(from, c), ir::unpack<ir::ReduceKind>(op.imm), elem);
        c_.store(stored(partial),
                 c_.gep(c_.gep(line, u64{c} * 32 * size), c_.bin(Bin::mul, simdgroup, c_.i64(static_cast<i64>(size)))),
                 static_cast<u32>(size));
      }
      return;
    case Opcode::GroupScan: {
      const auto s = ir::unpack<ir::ScanImm>(op.imm);
      Val inside{chunk_->width, {}};
      for (u32 c = 0; c < type.lanes; ++c) {
        auto v = scan(packets_of(from, c), s.kind, elem, false);
        V total = c_.extract(v.back(), lanes_ - 1);
        c_.store(stored(total),
                 c_.gep(c_.gep(line, u64{c} * 32 * size), c_.bin(Bin::mul, simdgroup, c_.i64(static_cast<i64>(size)))),
                 static_cast<u32>(size));
        if (s.exclusive) v = shuffle_up(v, 1, math_.constant(elem, ir::reduce_identity(s.kind, elem)));
        for (V x : v) inside.parts.push_back({x, nullptr});
      }
      store_array(array_of(id), inside, elem);
      return;
    }
    case Opcode::GroupAny:
    case Opcode::GroupAll: {
      const bool all = op.code == Opcode::GroupAll;
      V seen = nullptr;
      for (V p : packets_of(from)) {
        V x = all ? c_.not_(p) : p;
        seen = seen ? c_.bin(Bin::or_, seen, x) : x;
      }
      V old = c_.load(c_.type(Num::i8), line, 1);
      c_.store(c_.bin(Bin::or_, old, stored(c_.or_reduce(seen))), line, 1);
      return;
    }
    case Opcode::GroupBroadcast:
      store_array(array_of(id), value(from), elem);
      return;
    default:
      fail("CPU03", id, fmt::format("the CPU device has no code for {}", ir::info(op.code).text));
  }
}

std::vector<V> Lowering::partial_line(V ptr, ir::ReduceKind, DType elem) {
  const u64 size = dtype_size(elem);
  std::vector<V> out;
  for (u32 p = 0; p < 32 / lanes_; ++p)
    out.push_back(loaded(c_.load(c_.type(elem == DType::boolean ? Num::i8 : num_of(elem), lanes_),
                                 c_.gep(ptr, u64{p} * lanes_ * size), static_cast<u32>(size)),
                         elem));
  return out;
}

void Lowering::collective(OpId id) {
  const auto& op = k_.op(id);
  const RegionId r = op.region;
  if (k_.info_of(id).has(ir::TileOp)) {
    flush(r);
    tiles_->collective(id);
    return;
  }
  if (op.code == Opcode::Barrier) {
    flush(r);
    return;
  }
  if (op.code == Opcode::Ticket) {
    flush(r);
    const Memory m = memory(k_.operand(id, 0));
    V ptr = c_.gep(m.base, c_.bin(Bin::mul, scalar(k_.operand(id, 1)), c_.i64(dtype_size(m.elem))));
    V one = c_.integer(num_of(m.elem), 1);
    group_[id] = uniform(math_.cast(DType::index, m.elem, c_.atomic_rmw(Rmw::add, ptr, one, false)));
    return;
  }
  const ir::Type type = k_.type(k_.operand(id, 0));
  const DType elem = type.elem;
  const u64 size = dtype_size(elem);
  const bool reduces = op.code == Opcode::GroupReduce || op.code == Opcode::GroupScan;
  const auto kind =
      op.code == Opcode::GroupScan ? ir::unpack<ir::ScanImm>(op.imm).kind : ir::unpack<ir::ReduceKind>(op.imm);
  V line = c_.gep(c_.scratch(), scratch(32 * size * type.lanes));
  partials_[id] = line;
  // Pads the line with the identity first: simdgroups that are not there leave theirs.
  if (reduces) {
    V identity = math_.constant(elem, ir::reduce_identity(kind, elem), lanes_);
    for (u32 p = 0; p < 32 / lanes_ * type.lanes; ++p)
      c_.store(stored(identity), c_.gep(line, u64{p} * lanes_ * size), static_cast<u32>(size));
  } else {
    c_.store(c_.integer(Num::i8, 0), line, 1);
  }
  if (op.code == Opcode::GroupScan || op.code == Opcode::GroupBroadcast) array_of(id);
  pending_.push_back(id);
  flush(r);
  switch (op.code) {
    case Opcode::GroupReduce: {
      Val v{1, {}};
      for (u32 c = 0; c < type.lanes; ++c)
        v.parts.push_back({ladder(partial_line(c_.gep(line, u64{c} * 32 * size), kind, elem), kind, elem), nullptr});
      group_[id] = v;
      return;
    }
    case Opcode::GroupAny:
    case Opcode::GroupAll: {
      V seen = loaded(c_.load(c_.type(Num::i8), line, 1), DType::boolean);
      group_[id] = uniform(op.code == Opcode::GroupAny ? seen : c_.not_(seen));
      return;
    }
    case Opcode::GroupBroadcast: {
      const auto& a = arrays_.at(id);
      const u64 padded = (u64{count_} + lanes_ - 1) / lanes_ * lanes_;
      Val v{1, {}};
      for (u32 c = 0; c < type.lanes; ++c)
        v.parts.push_back(
            {loaded(c_.load(c_.type(a.num), c_.gep(a.ptr, (c * padded + op.imm) * size), static_cast<u32>(size)), elem),
             nullptr});
      arrays_.erase(id);
      group_[id] = v;
      return;
    }
    case Opcode::GroupScan: {
      // Prefixes over the simdgroups' totals, then each thread's own on top.
      for (u32 c = 0; c < type.lanes; ++c) {
        V at = c_.gep(line, u64{c} * 32 * size);
        auto totals = scan(partial_line(at, kind, elem), kind, elem, true);
        for (u32 p = 0; p < totals.size(); ++p)
          c_.store(totals[p], c_.gep(at, u64{p} * lanes_ * size), static_cast<u32>(size));
      }
      scan_prefix_.insert(id);
      return;
    }
    default:
      return;
  }
}

}  // namespace iron::cpu
