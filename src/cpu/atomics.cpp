// Atomics, waits and reports: a lane at a time, in lane order.
#include <fmt/format.h>

#include "cpu/lowering.h"

namespace iron::cpu {

using ir::AtomicKind;
using ir::Opcode;

V Lowering::lane_of(const Part& p, u32 lane, DType) {
  if (c_.lanes(p.v)) return c_.extract(p.v, lane);
  if (!p.stride || lane == 0) return p.v;
  return c_.bin(Bin::add, p.v, c_.bin(Bin::mul, p.stride, c_.i64(lane)));
}

// Runs code for each lane that runs, behind a branch where that is not known before.
Val Lowering::each_active(DType elem, bool result, const std::function<V(u32, u32)>& body) {
  Val out{chunk_->width, {}};
  for (u32 p = 0; p < chunk_->width; ++p) {
    V mask = part_mask(p), all = result ? c_.zero_like(c_.poison(c_.type(num_of(elem), lanes_))) : nullptr;
    for (u32 l = 0; l < lanes_; ++l) {
      if (!mask) {
        V r = body(p, l);
        if (result) all = c_.insert(all, r, l);
        continue;
      }
      Block run = c_.block("lane"), after = c_.block("next"), before = c_.here();
      c_.br(c_.extract(mask, l), run, after);
      c_.set(run);
      V r = body(p, l);
      V with = result ? c_.insert(all, r, l) : nullptr;
      Block end = c_.here();
      c_.br(after);
      c_.set(after);
      if (result) {
        V merged = c_.phi(c_.type(num_of(elem), lanes_));
        c_.incoming(merged, with, end);
        c_.incoming(merged, all, before);
        all = merged;
      }
    }
    if (result) out.parts.push_back({all, nullptr});
  }
  return out;
}

V Lowering::atomic_one(OpId id, V ptr, V v, V desired, const Memory& m) {
  const auto& op = k_.op(id);
  const DType elem = m.elem;
  const u32 size = dtype_size(elem);
  const bool flt = is_float(elem);
  const Num bits = size == 8 ? Num::i64 : size == 4 ? Num::i32 : size == 2 ? Num::i16 : Num::i8;
  const auto as_bits = [&](V x) { return c_.num(x) == Num::i1 ? stored(x) : c_.bitcast(bits, x); };
  const auto as_value = [&](V x) { return elem == DType::boolean ? loaded(x, elem) : c_.bitcast(num_of(elem), x); };
  const Ty type = c_.type(bits);
  if (op.code == Opcode::AtomicLoad || op.code == Opcode::WaitUntil)
    return as_value(m.atomic_plain ? c_.load(type, ptr, size) : c_.atomic_load(type, ptr, size));
  if (op.code == Opcode::AtomicStore) {
    if (m.atomic_plain)
      c_.store(as_bits(v), ptr, size);
    else
      c_.atomic_store(as_bits(v), ptr, size);
    return nullptr;
  }
  if (op.code == Opcode::AtomicCas) {
    if (!m.atomic_plain) return as_value(c_.compare_exchange(ptr, as_bits(v), as_bits(desired)));
    V old = c_.load(type, ptr, size);
    c_.store(c_.select(c_.cmp(Cmp::eq, old, as_bits(v)), as_bits(desired), old), ptr, size);
    return as_value(old);
  }
  const auto kind = ir::unpack<ir::AtomicImm>(op.imm).kind;
  const auto combine = [&](V old) -> V {
    switch (kind) {
      case AtomicKind::add:
        return math_.reduce(ir::ReduceKind::sum, elem, old, v);
      case AtomicKind::min:
        return math_.reduce(ir::ReduceKind::min, elem, old, v);
      case AtomicKind::max:
        return math_.reduce(ir::ReduceKind::max, elem, old, v);
      case AtomicKind::and_:
        return math_.reduce(ir::ReduceKind::and_, elem, old, v);
      case AtomicKind::or_:
        return math_.reduce(ir::ReduceKind::or_, elem, old, v);
      case AtomicKind::xor_:
        return math_.reduce(ir::ReduceKind::xor_, elem, old, v);
      case AtomicKind::exchange:
        return v;
      case AtomicKind::inc_wrap: {
        V zero = c_.zero_like(as_bits(v));
        V next = c_.bin(Bin::add, as_bits(old), c_.integer(bits, 1));
        return as_value(c_.select(c_.cmp(Cmp::uge, as_bits(old), as_bits(v)), zero, next));
      }
    }
    return v;
  };
  if (m.atomic_plain) {
    V old = as_value(c_.load(type, ptr, size));
    c_.store(as_bits(combine(old)), ptr, size);
    return old;
  }
  if (kind == AtomicKind::exchange) return as_value(c_.atomic_rmw(Rmw::xchg, ptr, as_bits(v), false));
  if (!flt && elem != DType::boolean && kind != AtomicKind::inc_wrap) {
    const bool s = is_signed_int(elem);
    const Rmw ops[] = {Rmw::add, s ? Rmw::smin : Rmw::umin, s ? Rmw::smax : Rmw::umax, Rmw::and_, Rmw::or_, Rmw::xor_};
    return c_.atomic_rmw(ops[static_cast<int>(kind)], ptr, v, false);
  }
  // Compare and exchange until nobody came between.
  V first = c_.atomic_load(type, ptr, size);
  Block before = c_.here(), again = c_.block("atomic"), done = c_.block("done");
  c_.br(again);
  c_.set(again);
  V old = c_.phi(type);
  c_.incoming(old, first, before);
  V next = as_bits(combine(as_value(old)));
  V seen = c_.compare_exchange(ptr, old, next);
  c_.incoming(old, seen, c_.here());
  c_.br(c_.cmp(Cmp::eq, seen, old), done, again);
  c_.set(done);
  return as_value(old);
}

Val Lowering::atomic(OpId id) {
  const auto& op = k_.op(id);
  const Memory m = memory(k_.operand(id, 0));
  const Val index = value(k_.operand(id, 1));
  std::vector<Val> rest;
  for (u32 i = 2; i < op.operand_count; ++i) rest.push_back(value(k_.operand(id, i)));
  const bool result = op.type.is_value();
  return each_active(m.elem, result, [&](u32 p, u32 l) -> V {
    V ptr = c_.gep(m.base, c_.bin(Bin::mul, lane_of(index.at(0, p), l, DType::index), c_.i64(dtype_size(m.elem))));
    const auto operand = [&](std::size_t i) {
      return i < rest.size() ? lane_of(rest[i].at(0, p), l, m.elem) : nullptr;
    };
    if (op.code != Opcode::WaitUntil) return atomic_one(id, ptr, operand(0), operand(1), m);
    static constexpr Opcode compares[] = {Opcode::Eq, Opcode::Ne, Opcode::Lt, Opcode::Le, Opcode::Gt, Opcode::Ge};
    V mask = operand(0), bound = operand(1);
    Block poll = c_.block("poll"), rest_block = c_.block("wait"), done = c_.block("held");
    c_.br(poll);
    c_.set(poll);
    V seen = atomic_one(id, ptr, nullptr, nullptr, m);
    V masked = math_.apply(Opcode::And, m.elem, {seen, mask});
    c_.br(math_.apply(compares[static_cast<int>(ir::unpack<ir::WaitImm>(op.imm).compare)], m.elem, {masked, bound}),
          done, rest_block);
    c_.set(rest_block);
    c_.pause();
    c_.br(poll);
    c_.set(done);
    return seen;
  });
}

void Lowering::report(OpId id) {
  const auto operands = k_.operands(id);
  std::vector<Val> values;
  u32 words = 0;
  for (const OpId o : operands) values.push_back(value(o)), words += k_.type(o).lanes;
  V table = c_.alloca_array(c_.type(Num::i64), std::max(words, 1u), 8);
  V fn = c_.load(c_.type(Num::ptr), c_.gep(c_.scratch(), u64{offsetof(HostServices, report)}), 8);
  V context = c_.load(c_.type(Num::ptr), c_.gep(c_.scratch(), u64{offsetof(HostServices, context)}), 8);
  const bool check = k_.op(id).code == Opcode::Check;
  each_active(DType::i64, false, [&](u32 p, u32 l) -> V {
    const auto send = [&] {
      u64 at = 0;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        const ir::Type t = k_.type(operands[i]);
        for (u32 c = 0; c < t.lanes; ++c, at += 8) {
          V x = lane_of(values[i].at(c, p), l, t.elem);
          const u32 size = dtype_bits(t.elem);
          if (size < 64 && t.elem != DType::boolean)
            x = c_.bitcast(size == 32 ? Num::i32 : size == 16 ? Num::i16 : Num::i8, x);
          else if (size == 64)
            x = c_.bitcast(Num::i64, x);
          c_.store(size == 64 ? x : c_.conv(Conv::zext, Num::i64, x), c_.gep(table, at), 8);
        }
      }
      V thread = c_.bin(Bin::add, c_.bin(Bin::mul, group_linear_, c_.i64(count_)),
                        c_.bin(Bin::add, chunk_->base, c_.i64(static_cast<i64>(p) * lanes_ + l)));
      c_.call(fn, nullptr, {context, c_.i32(id), thread, table});
    };
    if (!check) {
      send();
      return nullptr;
    }
    Block failed = c_.block("failed"), after = c_.block("checked");
    c_.br(lane_of(values[0].at(0, p), l, DType::boolean), after, failed);
    c_.set(failed);
    send();
    c_.br(after);
    c_.set(after);
    return nullptr;
  });
}

}  // namespace iron::cpu
