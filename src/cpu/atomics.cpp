// Atomics, waits and reports: a lane at a time, in lane order.
#include <fmt/format.h>

#include "cpu/lowering.h"

namespace iron::cpu {

using ir::AtomicKind;
using ir::Opcode;

// Packets lie in the stack frame, from where a lane's number is read.
Lowering::LaneValue Lowering::by_lane(const Val& v, u32 comp, DType elem) {
  const Part& first = v.at(comp, 0);
  if (v.packets == 1 && !first.stride && !c_.lanes(first.v)) return [x = first.v](V) { return x; };
  const Num num = elem == DType::boolean ? Num::i8 : num_of(elem);
  const u32 size = bits_of(num) / 8;
  V kept = c_.alloca_array(c_.type(num, lanes_), chunk_->width, 64);
  for (u32 p = 0; p < chunk_->width; ++p)
    c_.store(stored(vector(v.at(comp, p), elem)), c_.gep(kept, u64{p} * lanes_ * size), size);
  return [this, kept, num, size, elem](V lane) {
    return loaded(c_.load(c_.type(num), c_.gep(kept, c_.bin(Bin::mul, lane, c_.i64(size))), size), elem);
  };
}

void Lowering::each_bit(V bits, const std::function<void(V)>& body) {
  Block before = c_.here(), run = c_.block("lane"), after = c_.block("lanes_done");
  c_.br(c_.cmp(Cmp::ne, bits, c_.i32(0)), run, after);
  c_.set(run);
  V left = c_.phi(c_.type(Num::i32));
  c_.incoming(left, bits, before);
  body(c_.conv(Conv::zext, Num::i64, c_.fn(Fn::ctz, left)));
  V rest = c_.bin(Bin::and_, left, c_.bin(Bin::sub, left, c_.i32(1)));
  c_.incoming(left, rest, c_.here());
  c_.br(c_.cmp(Cmp::ne, rest, c_.i32(0)), run, after);
  c_.set(after);
}

V Lowering::chunk_bits() {
  const u32 n = chunk_->width * lanes_;
  if (chunk_->mask.empty()) return c_.i32(static_cast<u32>((u64{1} << n) - 1));
  V bits = c_.i32(0);
  for (u32 p = 0; p < chunk_->width; ++p)
    bits = c_.bin(Bin::or_, bits, c_.bin(Bin::shl, c_.mask_bits(mask_or_ones(p)), c_.i32(p * lanes_)));
  return bits;
}

// Runs code for each lane that runs, in their order.
Val Lowering::each_active(DType elem, bool result, const LaneValue& body) {
  const Num num = elem == DType::boolean ? Num::i8 : num_of(elem);
  const u32 size = bits_of(num) / 8;
  V kept = result ? c_.alloca_array(c_.type(num, lanes_), chunk_->width, 64) : nullptr;
  const auto packet = [&](u32 p) { return c_.gep(kept, u64{p} * lanes_ * size); };
  for (u32 p = 0; result && !chunk_->mask.empty() && p < chunk_->width; ++p)
    c_.store(c_.integer(num == Num::f32 ? Num::i32 : num == Num::f64 ? Num::i64 : num, 0, lanes_), packet(p), size);
  each_bit(chunk_bits(), [&](V lane) {
    V r = body(lane);
    if (result) c_.store(stored(r), c_.gep(kept, c_.bin(Bin::mul, lane, c_.i64(size))), size);
  });
  Val out{chunk_->width, {}};
  for (u32 p = 0; result && p < chunk_->width; ++p)
    out.parts.push_back({loaded(c_.load(c_.type(num, lanes_), packet(p), size), elem), nullptr});
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
  const LaneValue at = by_lane(index, 0, DType::index);
  std::vector<LaneValue> operands;
  for (const Val& v : rest) operands.push_back(by_lane(v, 0, m.elem));
  return each_active(m.elem, result, [&](V lane) -> V {
    V ptr = c_.gep(m.base, c_.bin(Bin::mul, at(lane), c_.i64(dtype_size(m.elem))));
    const auto operand = [&](std::size_t i) { return i < operands.size() ? operands[i](lane) : nullptr; };
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
  std::vector<LaneValue> words_of;
  for (std::size_t i = 0; i < operands.size(); ++i)
    for (u32 c = 0; c < k_.type(operands[i]).lanes; ++c)
      words_of.push_back(by_lane(values[i], c, k_.type(operands[i]).elem));
  const auto send = [&](V lane) {
    std::size_t at = 0;
    for (const OpId o : operands) {
      const ir::Type t = k_.type(o);
      const u32 size = dtype_bits(t.elem);
      for (u32 c = 0; c < t.lanes; ++c, ++at) {
        V x = words_of[at](lane);
        if (size < 64 && t.elem != DType::boolean)
          x = c_.bitcast(size == 32 ? Num::i32 : size == 16 ? Num::i16 : Num::i8, x);
        else if (size == 64)
          x = c_.bitcast(Num::i64, x);
        c_.store(size == 64 ? x : c_.conv(Conv::zext, Num::i64, x), c_.gep(table, u64{at} * 8), 8);
      }
    }
    V thread = c_.bin(Bin::add, c_.bin(Bin::mul, group_linear_, c_.i64(count_)), c_.bin(Bin::add, chunk_->base, lane));
    c_.call(fn, nullptr, {context, c_.i32(id), thread, table});
  };
  // Checks that hold in every lane, the usual case, cost one test.
  V bits = chunk_bits();
  for (u32 p = 0; check && p < chunk_->width; ++p) {
    V held = vector(values[0].at(0, p), DType::boolean);
    V mine = c_.bin(Bin::shl, c_.mask_bits(held), c_.i32(p * lanes_));
    bits = c_.bin(Bin::and_, bits, c_.not_(mine));
  }
  each_bit(bits, send);
}

}  // namespace iron::cpu
