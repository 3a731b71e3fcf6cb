// Control flow within a chunk: real branches where the condition is uniform, masks elsewhere.
#include <fmt/format.h>

#include "cpu/lowering.h"
#include "cpu/tiles.h"
#include "ir/eval.h"

namespace iron::cpu {

using ir::Opcode;

void Lowering::region(RegionId r) { in_order(k_.region(r).ops); }

void Lowering::op(OpId id) {
  const auto& o = k_.op(id);
  switch (o.code) {
    case Opcode::Const:
    case Opcode::Param:
    case Opcode::Arg:
    case Opcode::Result:
    case Opcode::Yield:
    case Opcode::SharedNew:
    case Opcode::SharedAlias:
    case Opcode::View:
    case Opcode::ArrayNew:
    case Opcode::TileNew:
    case Opcode::Assume:
    case Opcode::SimdBarrier:
    case Opcode::CopyCommit:  // copies are stores here: they have arrived
    case Opcode::CopyWait:
      return;
    case Opcode::If:
      branch(id);
      return;
    case Opcode::For:
      loop(id);
      return;
    case Opcode::Load:
    case Opcode::LoadOr:
      chunk_->values[id] = load(id);
      return;
    case Opcode::Store:
    case Opcode::CopyAsync:
      store(id);
      return;
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas:
    case Opcode::AtomicLoad:
    case Opcode::WaitUntil:
      chunk_->values[id] = atomic(id);
      return;
    case Opcode::AtomicStore:
      atomic(id);
      return;
    case Opcode::Fence:
      c_.fence();
      return;
    case Opcode::Check:
    case Opcode::Print:
      report(id);
      return;
    case Opcode::Prefetch: {
      const Val index = value(k_.operand(id, 1));
      const Memory m = memory(k_.operand(id, 0));
      if (m.space != ir::Space::priv)
        for (u32 p = 0; p < index.packets; ++p) c_.prefetch(lane_address(m, index.at(0, p), 0));
      return;
    }
    case Opcode::Bounded: {
      const Val v = value(k_.operand(id, 0)), lo = value(k_.operand(id, 1)), hi = value(k_.operand(id, 2));
      const DType elem = o.type.elem;
      const u32 packets = std::max({v.packets, lo.packets, hi.packets});
      Val out{packets, {}};
      for (u32 c = 0; c < o.type.lanes; ++c)
        for (u32 p = 0; p < packets; ++p) {
          V x[] = {plain(v.at(c, p), elem), plain(lo.at(c, p), elem), plain(hi.at(c, p), elem)};
          if (c_.lanes(x[0]) || c_.lanes(x[1]) || c_.lanes(x[2]))
            for (V& y : x) y = c_.lanes(y) ? y : c_.splat(y, lanes_);
          V low = math_.reduce(ir::ReduceKind::max, elem, x[0], x[1]);
          out.parts.push_back({math_.reduce(ir::ReduceKind::min, elem, low, x[2]), nullptr});
        }
      chunk_->values[id] = out;
      return;
    }
    case Opcode::AssumeUniform: {
      const Val v = value(k_.operand(id, 0));
      if (is_uniform(v) || ir::unpack<ir::Scope>(o.imm) < ir::Scope::simdgroup) {
        chunk_->values[id] = v;
        return;
      }
      Val out{1, {}};
      for (u32 c = 0; c < o.type.lanes; ++c) out.parts.push_back({first_active(v, c, o.type.elem), nullptr});
      chunk_->values[id] = out;
      return;
    }
    default:
      break;
  }
  const auto& i = k_.info_of(id);
  if (o.code >= Opcode::TileNew) {
    Val v;
    if (tiles_->op(id, v)) chunk_->values[id] = v;
    return;
  }
  if (i.scope == ir::Scope::simdgroup && i.has(ir::Convergent)) {
    chunk_->values[id] = simd(id);
    return;
  }
  if (i.scope == ir::Scope::threadgroup && i.has(ir::Convergent)) {
    collective_stage(id);
    return;
  }
  if (i.pure()) {
    if (!chunk_->values.count(id)) chunk_->values[id] = pure(id);
    return;
  }
  fail("CPU03", id, fmt::format("the CPU device has no code for {}", i.text));
}

bool Lowering::worth_a_branch(RegionId r) const {
  u32 weight = 0;
  k_.walk(r, [&](OpId id) {
    const auto& o = k_.op(id);
    if (o.code == Opcode::Const || o.code == Opcode::Yield) return;
    weight += k_.info_of(id).pure() ? 1 : 16;
    if (o.code == Opcode::Div || o.code == Opcode::Rem || o.code == Opcode::Sqrt || o.code == Opcode::Rsqrt ||
        o.code == Opcode::Recip)
      weight += 16;
  });
  return weight >= 16;
}

Val Lowering::zeros(ir::Type type, bool as_vectors) {
  Val v{as_vectors ? chunk_->width : 1, {}};
  for (u32 i = 0; i < type.lanes * v.packets; ++i)
    v.parts.push_back({math_.constant(type.elem, 0, as_vectors ? lanes_ : 0), nullptr});
  return v;
}

// Joins a value of two blocks; where one holds packets, so does the result. The builder stands in `into`, still empty
// of other instructions than joins.
Val Lowering::merge(const Val& a, Block from_a, const Val& b, Block from_b, ir::Type type, Block into) {
  Val out{std::max(a.packets, b.packets), {}};
  const bool uniform_both = is_uniform(a) && is_uniform(b);
  if (!uniform_both) out.packets = chunk_ ? chunk_->width : 1;
  for (u32 c = 0; c < type.lanes; ++c)
    for (u32 p = 0; p < out.packets; ++p) {
      V x = a.at(c, p).v, y = b.at(c, p).v;
      if (!uniform_both && (c_.lanes(x) || c_.lanes(y))) {
        if (!c_.lanes(x)) c_.set(from_a), x = c_.splat(x, lanes_);
        if (!c_.lanes(y)) c_.set(from_b), y = c_.splat(y, lanes_);
        c_.set(into);
      }
      out.parts.push_back({x, nullptr});
      out.parts.back().stride = y;  // held until the arms are closed
    }
  return out;
}

void Lowering::branch(OpId id) {
  const Val condition = value(k_.operand(id, 0));
  const RegionId arms[] = {k_.region_of(id, 0), k_.region_of(id, 1)};
  const auto results = k_.results(id);
  const auto yielded = [&](u32 arm, std::size_t i) {
    const OpId y = k_.operand(k_.terminator(arms[arm]), static_cast<u32>(i));
    Val v = value(y);
    for (auto& part : v.parts) part = {plain(part, k_.type(y).elem), nullptr};  // affine forms end here
    return v;
  };
  if (is_uniform(condition)) {
    Block blocks[] = {c_.block("then"), c_.block("else")}, after = c_.block("endif"), ends[2];
    c_.br(condition.parts[0].v, blocks[0], blocks[1]);
    std::vector<Val> values[2];
    for (u32 arm = 0; arm < 2; ++arm) {
      c_.set(blocks[arm]);
      region(arms[arm]);
      for (std::size_t i = 0; i < results.size(); ++i) values[arm].push_back(yielded(arm, i));
      ends[arm] = c_.here();
    }
    c_.set(after);
    std::vector<Val> merged;
    for (std::size_t i = 0; i < results.size(); ++i)
      merged.push_back(merge(values[0][i], ends[0], values[1][i], ends[1], k_.type(results[i]), after));
    for (Block end : ends) {
      c_.set(end);
      c_.br(after);
    }
    c_.set(after);
    for (std::size_t i = 0; i < results.size(); ++i) {
      for (auto& part : merged[i].parts) {
        V x = part.v, y = part.stride;
        part = {c_.phi(c_.type(c_.num(x), c_.lanes(x))), nullptr};
        c_.incoming(part.v, x, ends[0]);
        c_.incoming(part.v, y, ends[1]);
      }
      chunk_->values[results[i]] = merged[i];
    }
    return;
  }

  const auto outer = chunk_->mask;
  std::vector<V> on(chunk_->width);
  for (u32 p = 0; p < chunk_->width; ++p) on[p] = vector(condition.at(0, p), DType::boolean);
  std::vector<Val> values[2];
  for (u32 arm = 0; arm < 2; ++arm) {
    bool empty = true;
    k_.walk(arms[arm], [&](OpId o) { empty &= k_.op(o).code == Opcode::Yield || k_.op(o).code == Opcode::Const; });
    if (empty) {
      for (std::size_t i = 0; i < results.size(); ++i) values[arm].push_back(yielded(arm, i));
      continue;
    }
    chunk_->mask.assign(chunk_->width, nullptr);
    for (u32 p = 0; p < chunk_->width; ++p) {
      V mine = arm ? c_.not_(on[p]) : on[p];
      chunk_->mask[p] = outer.empty() || !outer[p] ? mine : c_.bin(Bin::and_, outer[p], mine);
    }
    const bool jump = worth_a_branch(arms[arm]);
    Block run = jump ? c_.block("some") : nullptr, after = jump ? c_.block("none") : nullptr, before = nullptr;
    if (jump) {
      V any = any_lane();
      before = c_.here();
      c_.br(any, run, after);
      c_.set(run);
    }
    region(arms[arm]);
    for (std::size_t i = 0; i < results.size(); ++i) {
      values[arm].push_back(yielded(arm, i));
      // A uniform value of an arm that not all lanes take is a packet for those that do.
      if (jump)
        for (auto& part : values[arm].back().parts) part.v = c_.lanes(part.v) ? part.v : c_.splat(part.v, lanes_);
    }
    if (jump) {
      Block end = c_.here();
      c_.br(after);
      c_.set(after);
      for (auto& v : values[arm])
        for (auto& part : v.parts) {
          V x = part.v;
          part.v = c_.phi(c_.type(c_.num(x), c_.lanes(x)));
          c_.incoming(part.v, x, end);
          c_.incoming(part.v, c_.zero_like(x), before);
        }
    }
  }
  chunk_->mask = outer;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Type type = k_.type(results[i]);
    Val out{chunk_->width, {}};
    for (u32 c = 0; c < type.lanes; ++c)
      for (u32 p = 0; p < chunk_->width; ++p)
        out.parts.push_back(
            {c_.select(on[p], vector(values[0][i].at(c, p), type.elem), vector(values[1][i].at(c, p), type.elem)),
             nullptr});
    chunk_->values[results[i]] = out;
  }
}

namespace {
/// Places in the stack frame for a value that changes: LLVM makes registers of them.
struct Slots {
  std::vector<V> at;
  u32 packets = 1;
};
}  // namespace

// The lanes of a chunk start one after the other, and start, end and step are multiples of their number: all make the
// same trips, so that the loop needs no masks.
bool Lowering::trips_alike(OpId id) {
  const OpId start = k_.operand(id, 0);
  if (!k_.type(start).is_index() || !counts_lanes(start)) return false;
  const u64 span = u64{chunk_->width} * lanes_;
  for (const u32 i : {1u, 2u}) {
    const u64 m = multiple_of(k_.operand(id, i));
    if (m == 0 || m % span != 0) return false;
  }
  i64 step = 0;
  for (const auto& part : value(start).parts)
    if (!part.stride || !c_.constant_int(part.stride, step) || step != 1) return false;
  return true;
}

void Lowering::loop(OpId id) {
  const auto until = ir::unpack<ir::UntilImm>(k_.op(id).imm);
  const RegionId body = k_.region_of(id, 0);
  const auto& args = k_.region(body).args;
  const Val start = value(k_.operand(id, 0)), end = value(k_.operand(id, 1)), step = value(k_.operand(id, 2));
  const bool by_lane_start = !is_uniform(start);
  bool uniform_control = is_uniform(end) && is_uniform(step) && (!by_lane_start || trips_alike(id));
  if (until.carried_plus_one)
    uniform_control &= uniformity_.uniform(args[until.carried_plus_one], ir::Scope::simdgroup) &&
                       is_uniform(value(k_.operand(id, until.carried_plus_one + 2)));
  if (!uniform_control) {
    varying_loop(id);
    return;
  }
  const DType elem = k_.type(args[0]).elem;
  const bool by_bound = elem == DType::index;
  const auto results = k_.results(id);
  std::vector<Slots> carried(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Type type = k_.type(results[i]);
    Val init = value(k_.operand(id, static_cast<u32>(i) + 3));
    const bool scalar_slot = uniformity_.uniform(args[i + 1], ir::Scope::simdgroup) && is_uniform(init);
    if (!scalar_slot) init = vectors(init, type.elem, type.lanes);
    carried[i].packets = init.packets;
    for (const auto& part : init.parts) {
      V slot = c_.alloca_array(c_.type(c_.num(part.v), c_.lanes(part.v)), 1, 64);
      c_.store(part.v, slot, 1);
      carried[i].at.push_back(slot);
    }
  }
  const auto read = [&](std::size_t i) {
    Val v{carried[i].packets, {}};
    const u32 n = carried[i].packets == 1 && uniformity_.uniform(args[i + 1], ir::Scope::simdgroup) &&
                          is_uniform(value(k_.operand(id, static_cast<u32>(i) + 3)))
                      ? 0
                      : lanes_;
    for (V slot : carried[i].at)
      v.parts.push_back({c_.load(c_.type(num_of(k_.type(results[i]).elem), n), slot, 1), nullptr});
    return v;
  };
  V first = start.parts[0].v, last = end.parts[0].v, by = step.parts[0].v;
  V i_slot = c_.alloca_array(c_.type(c_.num(first)), 1, 8), more_slot = c_.alloca_array(c_.type(Num::i1), 1, 1);
  c_.store(first, i_slot, 1);
  if (!by_bound) c_.store(math_.apply(Opcode::Lt, elem, {first, last}), more_slot, 1);
  i64 from = 0, to = 0, stride = 0;
  const bool once = by_bound && !until.carried_plus_one && c_.constant_int(first, from) && c_.constant_int(last, to) &&
                    c_.constant_int(by, stride) && from < to && stride >= to - from;
  Block head = c_.block("for"), run = c_.block("do"), after = c_.block("endfor");
  c_.br(head);
  c_.set(head);
  V i = c_.load(c_.type(c_.num(first)), i_slot, 1);
  V go = by_bound ? c_.cmp(Cmp::slt, i, last) : c_.load(c_.type(Num::i1), more_slot, 1);
  if (until.carried_plus_one) go = c_.bin(Bin::and_, go, c_.not_(read(until.carried_plus_one - 1).parts[0].v));
  if (once)
    c_.br(run);
  else
    c_.br(go, run, after);
  c_.set(run);
  Val induction = uniform(i);
  if (by_lane_start) {
    induction = {chunk_->width, {}};
    for (u32 p = 0; p < chunk_->width; ++p)
      induction.parts.push_back({c_.bin(Bin::add, i, c_.i64(static_cast<i64>(p) * lanes_)), c_.i64(1)});
  }
  chunk_->values[args[0]] = induction;
  for (std::size_t n = 0; n < results.size(); ++n) chunk_->values[args[n + 1]] = read(n);
  if (!once) plan_prefetch(id);
  region(body);
  std::vector<Val> next;
  for (std::size_t n = 0; n < results.size(); ++n)
    next.push_back(value(k_.operand(k_.terminator(body), static_cast<u32>(n))));
  for (std::size_t n = 0; n < results.size(); ++n) {
    const ir::Type type = k_.type(results[n]);
    const bool scalar_slot =
        carried[n].at.size() == type.lanes && c_.lanes(chunk_->values[args[n + 1]].parts[0].v) == 0;
    if (scalar_slot && !is_uniform(next[n])) fail("CPU90", id, "a carried value that should be uniform varies");
    const Val stored_value = scalar_slot ? next[n] : vectors(next[n], type.elem, type.lanes);
    for (std::size_t s = 0; s < carried[n].at.size(); ++s) c_.store(stored_value.parts[s].v, carried[n].at[s], 1);
  }
  if (!by_bound) c_.store(c_.cmp(Cmp::ugt, c_.bin(Bin::sub, last, i), by), more_slot, 1);
  c_.store(c_.bin(Bin::add, i, by), i_slot, 1);
  c_.br(once ? after : head);
  c_.set(after);
  for (std::size_t n = 0; n < results.size(); ++n) chunk_->values[results[n]] = read(n);
}

// Lanes leave one by one: a mask of those that go on, tested once a trip.
void Lowering::varying_loop(OpId id) {
  const auto until = ir::unpack<ir::UntilImm>(k_.op(id).imm);
  const RegionId body = k_.region_of(id, 0);
  const auto& args = k_.region(body).args;
  const auto results = k_.results(id);
  const Val start = value(k_.operand(id, 0)), end = value(k_.operand(id, 1)), step = value(k_.operand(id, 2));
  const DType elem = k_.type(args[0]).elem;
  const bool by_bound = elem == DType::index;
  const u32 width = chunk_->width;
  const auto outer = chunk_->mask;
  const Ty mask_type = c_.type(Num::i1, lanes_);

  std::vector<std::vector<V>> slots(results.size());
  for (std::size_t n = 0; n < results.size(); ++n) {
    const ir::Type type = k_.type(results[n]);
    const Val init = vectors(value(k_.operand(id, static_cast<u32>(n) + 3)), type.elem, type.lanes);
    for (const auto& part : init.parts) {
      slots[n].push_back(c_.alloca_array(c_.type(num_of(type.elem), lanes_), 1, 64));
      c_.store(part.v, slots[n].back(), 1);
    }
  }
  const auto read = [&](std::size_t n) {
    Val v{width, {}};
    for (V slot : slots[n])
      v.parts.push_back({c_.load(c_.type(num_of(k_.type(results[n]).elem), lanes_), slot, 1), nullptr});
    return v;
  };
  // The induction variable is the start plus an offset that all lanes share, unless the steps differ.
  const bool shared_step = is_uniform(step);
  const Num num = num_of(elem);
  V offset = c_.alloca_array(c_.type(num), 1, 8);
  std::vector<V> i_slots, live_slots;
  if (shared_step) c_.store(c_.integer(num, 0), offset, 1);
  for (u32 p = 0; p < width; ++p) {
    if (!shared_step) {
      i_slots.push_back(c_.alloca_array(c_.type(num, lanes_), 1, 64));
      c_.store(vector(start.at(0, p), elem), i_slots[p], 1);
    }
    live_slots.push_back(c_.alloca_array(mask_type, 1, 64));
    V live = outer.empty() || !outer[p] ? c_.integer(Num::i1, 1, lanes_) : outer[p];
    if (!by_bound)
      live = c_.bin(Bin::and_, live,
                    math_.apply(Opcode::Lt, elem, {vector(start.at(0, p), elem), vector(end.at(0, p), elem)}));
    c_.store(live, live_slots[p], 1);
  }
  Block head = c_.block("while"), run = c_.block("do"), after = c_.block("endwhile");
  c_.br(head);
  c_.set(head);
  Val induction{width, {}};
  V shift = shared_step ? c_.load(c_.type(num), offset, 1) : nullptr;
  for (u32 p = 0; p < width; ++p) {
    const Part& s = start.at(0, p);
    if (!shared_step)
      induction.parts.push_back({c_.load(c_.type(num, lanes_), i_slots[p], 1), nullptr});
    else if (c_.lanes(s.v))
      induction.parts.push_back({c_.bin(Bin::add, s.v, c_.splat(shift, lanes_)), nullptr});
    else
      induction.parts.push_back({c_.bin(Bin::add, s.v, shift), s.stride});
  }
  std::vector<V> live(width);
  V any = nullptr;
  for (u32 p = 0; p < width; ++p) {
    live[p] = c_.load(mask_type, live_slots[p], 1);
    if (by_bound) {
      bool done = false;
      Part less = compare_index(Opcode::Lt, induction.at(0, p), end.at(0, p), done);
      if (!done) less.v = c_.cmp(Cmp::slt, vector(induction.at(0, p), elem), vector(end.at(0, p), elem));
      live[p] = c_.bin(Bin::and_, live[p], less.v);
    }
    if (until.carried_plus_one)
      live[p] = c_.bin(Bin::and_, live[p], c_.not_(read(until.carried_plus_one - 1).at(0, p).v));
    any = any ? c_.bin(Bin::or_, any, live[p]) : live[p];
  }
  c_.br(c_.or_reduce(any), run, after);
  c_.set(run);
  chunk_->mask = live;
  chunk_->values[args[0]] = induction;
  for (std::size_t n = 0; n < results.size(); ++n) chunk_->values[args[n + 1]] = read(n);
  region(body);
  std::vector<Val> next;
  for (std::size_t n = 0; n < results.size(); ++n) {
    const ir::Type type = k_.type(results[n]);
    next.push_back(vectors(value(k_.operand(k_.terminator(body), static_cast<u32>(n))), type.elem, type.lanes));
  }
  for (std::size_t n = 0; n < results.size(); ++n) {
    const Val old = chunk_->values[args[n + 1]];
    for (u32 s = 0; s < slots[n].size(); ++s)
      c_.store(c_.select(live[s % width], next[n].parts[s].v, old.parts[s].v), slots[n][s], 1);
  }
  for (u32 p = 0; p < width; ++p) {
    V i = vector(induction.at(0, p), elem), by = vector(step.at(0, p), elem);
    V go = live[p];
    if (!by_bound) go = c_.bin(Bin::and_, go, c_.cmp(Cmp::ugt, c_.bin(Bin::sub, vector(end.at(0, p), elem), i), by));
    c_.store(go, live_slots[p], 1);
    if (!shared_step) c_.store(c_.bin(Bin::add, i, by), i_slots[p], 1);
  }
  if (shared_step) c_.store(c_.bin(Bin::add, shift, step.parts[0].v), offset, 1);
  c_.br(head);
  c_.set(after);
  chunk_->mask = outer;
  for (std::size_t n = 0; n < results.size(); ++n) chunk_->values[results[n]] = read(n);
}

}  // namespace iron::cpu
