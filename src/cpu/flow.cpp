// Threadgroup level: segments between the points where threads meet, and the loops and branches around those points.
#include <fmt/format.h>

#include "cpu/lowering.h"
#include "cpu/tiles.h"
#include "ir/eval.h"

namespace iron::cpu {

using ir::Opcode;
using ir::Scope;

namespace {
bool collective_op(const ir::Kernel& k, OpId id) {
  const auto& i = k.info_of(id);
  if (!i.has(ir::Convergent)) return false;
  if (i.scope == Scope::threadgroup) return true;
  return i.scope == Scope::tile && ir::unpack<ir::TileImm>(k.op(k.operand(id, 0)).imm).scope >= Scope::threadgroup;
}
}  // namespace

// Thread id plus something uniform: the start of a loop that strides over the threadgroup.
bool Lowering::lockstep_start(OpId id) {
  const auto& p = affine_.of(id);
  for (const auto& [product, coefficient] : p.terms) {
    bool varies = false;
    for (const OpId leaf : product) varies |= !uniformity_.uniform(leaf, Scope::threadgroup);
    if (!varies) continue;
    const auto code = product.size() == 1 ? k_.op(product[0]).code : Opcode::Const;
    if (coefficient != 1 || (code != Opcode::ThreadId && code != Opcode::GridThreadId)) return false;
    for (const auto& [other, c] : p.terms)
      if (other != product)
        for (const OpId leaf : other)
          if (!uniformity_.uniform(leaf, Scope::threadgroup)) return false;
    return true;
  }
  return false;
}

// Marks what is laid out at group level: points where threads meet, what holds such points, thread-strided loops, and
// guards against a bound.
void Lowering::classify(RegionId r) {
  for (const OpId id : k_.region(r).ops) {
    const auto& op = k_.op(id);
    if (collective_op(k_, id)) structural_[id] = true;
    if (op.region_count == 0) continue;
    bool inside = false;
    for (u32 i = 0; i < op.region_count; ++i) {
      classify(k_.region_of(id, i));
      for (const OpId inner : k_.region(k_.region_of(id, i)).ops) inside |= structural_[inner];
    }
    const bool together = uniformity_.control(r) >= Scope::threadgroup;
    if (op.code == Opcode::For && together) {
      const auto until = ir::unpack<ir::UntilImm>(op.imm);
      const OpId start = k_.operand(id, 0);
      if (!until.carried_plus_one && k_.type(start).is_index() && !uniformity_.uniform(start, Scope::threadgroup) &&
          lockstep_start(start) && uniformity_.uniform(k_.operand(id, 1), Scope::threadgroup) &&
          uniformity_.uniform(k_.operand(id, 2), Scope::threadgroup))
        lockstep_[id] = structural_[id] = true;
    }
    if (op.code == Opcode::If && together && k_.results(id).empty() && k_.region(k_.region_of(id, 1)).ops.size() <= 1) {
      const OpId c = k_.operand(id, 0);
      if (k_.op(c).code == Opcode::Lt && k_.type(k_.operand(c, 0)).is_index() && lockstep_start(k_.operand(c, 0)) &&
          uniformity_.uniform(k_.operand(c, 1), Scope::threadgroup))
        lockstep_[id] = structural_[id] = true;
    }
    if (inside) structural_[id] = true;
  }
}

u64 Lowering::scratch(u64 bytes) {
  const u64 at = scratch_bytes_;
  scratch_bytes_ += (bytes + 63) / 64 * 64;
  return at;
}

PacketArray Lowering::packet_array(ir::Type type) {
  PacketArray a;
  a.num = type.elem == DType::boolean ? Num::i8 : num_of(type.elem);
  a.comps = type.lanes;
  const u64 padded = (u64{count_} + lanes_ - 1) / lanes_ * lanes_;
  const u64 bytes = padded * bits_of(a.num) / 8 * a.comps;
  // One packet or two: registers, once LLVM has looked at them.
  if (count_ <= 32)
    a.ptr = c_.alloca_array(c_.type(a.num, static_cast<u32>(padded)), a.comps, 64);
  else
    a.ptr = c_.gep(c_.scratch(), scratch(bytes));
  return a;
}
PacketArray& Lowering::array_of(OpId id) {
  const auto it = arrays_.find(id);
  if (it != arrays_.end()) return it->second;
  return arrays_[id] = packet_array(k_.type(id));
}

Val Lowering::load_array(const PacketArray& a, DType elem) {
  const u64 padded = (u64{count_} + lanes_ - 1) / lanes_ * lanes_;
  const u64 size = bits_of(a.num) / 8;
  V first = c_.bin(Bin::mul, chunk_->base, c_.i64(static_cast<i64>(size)));
  Val v{chunk_->width, {}};
  for (u32 c = 0; c < a.comps; ++c)
    for (u32 p = 0; p < chunk_->width; ++p) {
      V at = c_.gep(c_.gep(a.ptr, first), (c * padded + u64{p} * lanes_) * size);
      v.parts.push_back({loaded(c_.load(c_.type(a.num, lanes_), at, static_cast<u32>(size * lanes_)), elem), nullptr});
    }
  return v;
}
void Lowering::store_array(const PacketArray& a, const Val& v, DType elem) {
  const u64 padded = (u64{count_} + lanes_ - 1) / lanes_ * lanes_;
  const u64 size = bits_of(a.num) / 8;
  V first = c_.bin(Bin::mul, chunk_->base, c_.i64(static_cast<i64>(size)));
  for (u32 c = 0; c < a.comps; ++c)
    for (u32 p = 0; p < chunk_->width; ++p) {
      V at = c_.gep(c_.gep(a.ptr, first), (c * padded + u64{p} * lanes_) * size);
      V x = stored(vector(v.at(c, p), elem));
      if (V mask = part_mask(p)) {
        V old = c_.load(c_.type(a.num, lanes_), at, static_cast<u32>(size * lanes_));
        x = c_.select(mask, x, old);
      }
      c_.store(x, at, static_cast<u32>(size * lanes_));
    }
}

// --- segments
// ------------------------------------------------------------------------------------------------------------

bool Lowering::available(OpId id) const {
  const auto code = k_.op(id).code;
  return code == Opcode::Const || code == Opcode::Param || group_.count(id) != 0;
}

/// A cheap function of ids and uniform values: computed again where it is used rather than kept.
bool Lowering::rematerialisable(OpId id) {
  if (available(id)) return true;
  if (const auto it = remat_.find(id); it != remat_.end()) return it->second != 0;
  const auto& op = k_.op(id);
  bool yes = k_.info_of(id).pure() && op.region_count == 0 && op.type.is_scalar() && !is_float(op.type.elem) &&
             op.code != Opcode::Arg && op.code != Opcode::Result && !k_.info_of(id).has(ir::Math | ir::Fast) &&
             op.code < Opcode::TileNew;
  for (const OpId o : k_.operands(id)) yes = yes && rematerialisable(o);
  remat_[id] = yes;
  return yes;
}

OpId Lowering::ancestor_in(RegionId r, OpId id) const {
  while (k_.op(id).region != r) {
    id = k_.region(k_.op(id).region).parent;
    if (id == ir::none) return ir::none;
  }
  return id;
}

std::vector<OpId> Lowering::escapes(RegionId r, const std::vector<OpId>& ops, bool last) const {
  const std::unordered_set<OpId> inside(ops.begin(), ops.end());
  std::vector<OpId> out;
  for (const OpId id : ops) {
    if (!k_.type(id).is_value() || structural_[id]) continue;
    const bool uniform_value = uniformity_.uniform(id, Scope::threadgroup);
    for (const OpId user : users_[id]) {
      if (k_.op(user).code == Opcode::Result) continue;
      if (inside.count(ancestor_in(r, user))) continue;
      if (last && !uniform_value && k_.op(user).code == Opcode::Yield && k_.op(user).region == r)
        continue;  // copied by the segment itself
      out.push_back(id);
      break;
    }
  }
  return out;
}

void Lowering::flush(RegionId r, const std::vector<Copy>& copies, bool last) {
  if (pending_.empty() && copies.empty()) return;
  const auto ops = std::move(pending_);
  pending_.clear();
  segment(ops, escapes(r, ops, last), copies);
}

void Lowering::segment(const std::vector<OpId>& ops, const std::vector<OpId>& escaping,
                       const std::vector<Copy>& copies) {
  bool whole_simdgroups = false;
  u32 size = 0;
  for (const OpId id : ops) {
    const auto look = [&](OpId o) {
      const auto& i = k_.info_of(o);
      whole_simdgroups |= i.has(ir::Convergent) || i.scope == Scope::simdgroup || i.scope == Scope::tile ||
                          k_.op(o).code == Opcode::AssumeUniform;
      size += k_.op(o).code != Opcode::Const;
    };
    look(id);
    for (u32 i = 0; i < k_.op(id).region_count; ++i) k_.walk(k_.region_of(id, i), look);
  }
  // Chains as long as an exponential keep a processor busy only several at a time; the ragged rest need not, and long
  // bodies do it by themselves.
  constexpr u32 short_body = 8, long_body = 64, longest_body = 400;
  const bool wide = size < short_body || (size <= long_body && !masked_only_);
  u32 width = whole_simdgroups ? 32 / lanes_ : wide ? 4 : size <= (masked_only_ ? long_body : longest_body) ? 2 : 1;
  while (!whole_simdgroups && width > 1 && (width * lanes_ > 32 || count_ % (width * lanes_) != 0)) width /= 2;
  const u32 span = width * lanes_;

  for (const OpId id : escaping) {
    if (uniformity_.uniform(id, Scope::threadgroup)) {
      const ir::Type t = k_.type(id);
      auto& a = arrays_[id] = {};
      a.num = num_of(t.elem), a.comps = t.lanes;
      a.ptr = c_.alloca_array(c_.type(Num::i64), t.lanes, 8);
      a.num = t.elem == DType::boolean ? Num::i8 : a.num;
    } else {
      array_of(id);
    }
  }

  const auto run_loop = [&](V start, V chunks, u32 packets, bool masked) {
    i64 known = 0;
    if (c_.constant_int(chunks, known) && known <= 1) {
      if (known == 1) chunk_body(ops, escaping, copies, packets, start, masked);
      return;
    }
    Block before = c_.here(), head = c_.block("chunks"), run = c_.block("chunk"), after = c_.block("meet");
    c_.br(head);
    c_.set(head);
    V i = c_.phi(c_.type(Num::i64));
    c_.incoming(i, c_.i64(0), before);
    c_.br(c_.cmp(Cmp::slt, i, chunks), run, after);
    c_.set(run);
    V base = c_.bin(Bin::add, start, c_.bin(Bin::mul, i, c_.i64(i64{packets} * lanes_)));
    chunk_body(ops, escaping, copies, packets, base, masked);
    c_.incoming(i, c_.bin(Bin::add, i, c_.i64(1)), c_.here());
    c_.br(head);
    c_.set(after);
  };
  const auto chunks_in = [&](V threads, u32 packets) {
    return c_.bin(Bin::sdiv, c_.bin(Bin::add, threads, c_.i64(i64{packets} * lanes_ - 1)),
                  c_.i64(i64{packets} * lanes_));
  };
  V limit = limit_ ? limit_ : c_.i64(count_), zero = c_.i64(0);
  if (!limit_ && count_ % span == 0) {
    run_loop(zero, c_.i64(count_ / span), width, false);
  } else if (masked_only_) {
    run_loop(zero, chunks_in(limit, width), width, true);
  } else {
    V full = c_.bin(Bin::sdiv, limit, c_.i64(span));
    run_loop(zero, full, width, false);
    // The rest, which is less than a chunk: packet by packet where that is possible, since it is a second copy.
    V done = c_.bin(Bin::mul, full, c_.i64(span));
    const u32 packets = whole_simdgroups ? width : 1;
    run_loop(done, chunks_in(c_.bin(Bin::sub, limit, done), packets), packets, true);
  }
  for (const OpId id : escaping) {
    if (!uniformity_.uniform(id, Scope::threadgroup)) continue;
    const auto a = arrays_.at(id);
    arrays_.erase(id);
    Val v{1, {}};
    for (u32 c = 0; c < a.comps; ++c)
      v.parts.push_back({loaded(c_.load(c_.type(a.num), c_.gep(a.ptr, u64{c} * 8), 8), k_.type(id).elem), nullptr});
    group_[id] = v;
  }
}

void Lowering::chunk_body(const std::vector<OpId>& ops, const std::vector<OpId>& escaping,
                          const std::vector<Copy>& copies, u32 width, V base, bool masked) {
  Chunk chunk;
  chunk.width = width, chunk.base = base;
  chunk_ = &chunk;
  Block body = c_.block("body");
  chunk.head = c_.here();
  if (masked) {
    V limit = limit_ ? limit_ : c_.i64(count_);
    for (u32 p = 0; p < width; ++p) {
      V first = c_.bin(Bin::add, base, c_.i64(static_cast<i64>(p) * lanes_));
      bool done = false;
      chunk.mask.push_back(compare_index(Opcode::Lt, {first, c_.i64(1)}, {limit, nullptr}, done).v);
    }
  }
  if (lockstep_round_.first != ir::none) {
    Val i{width, {}};
    for (u32 p = 0; p < width; ++p) {
      V thread = c_.bin(Bin::add, base, c_.i64(static_cast<i64>(p) * lanes_));
      i.parts.push_back({c_.bin(Bin::add, lockstep_round_.second, thread), c_.i64(1)});
    }
    chunk.values[lockstep_round_.first] = i;
  }
  c_.set(body);
  in_order(ops);
  std::vector<Val> moved;
  for (const auto& c : copies) moved.push_back(value(c.from));
  for (std::size_t i = 0; i < copies.size(); ++i) store_array(copies[i].to, moved[i], k_.type(copies[i].from).elem);
  for (const OpId id : escaping) {
    const DType elem = k_.type(id).elem;
    const Val v = value(id);
    if (!uniformity_.uniform(id, Scope::threadgroup)) {
      store_array(arrays_.at(id), v, elem);
      continue;
    }
    for (u32 i = 0; i < v.comps(); ++i) {
      V x = v.at(i, 0).v;
      if (c_.lanes(x)) fail("CPU90", id, "a value that should be uniform varies");
      c_.store(stored(x), c_.gep(arrays_.at(id).ptr, u64{i} * 8), 8);
    }
  }
  // The head is complete: enter the body from it.
  const Block end = c_.here();
  c_.set(chunk.head);
  c_.br(body);
  c_.set(end);
  chunk_ = nullptr;
}

V Lowering::leader_value(OpId id) {
  Chunk leader;
  leader.base = c_.i64(0), leader.leader = true;
  chunk_ = &leader;
  V v = value(id).parts[0].v;
  chunk_ = nullptr;
  return v;
}

// --- regions
// -------------------------------------------------------------------------------------------------------------

void Lowering::group_region(RegionId r) {
  std::unordered_set<OpId> deferred;
  const auto ready = [&](OpId id) {
    if (available(id)) return true;
    if (!k_.info_of(id).pure() || k_.op(id).region_count) return false;
    return !deferred.count(id) && uniformity_.uniform(id, Scope::threadgroup) && !arrays_.count(id);
  };
  bool pending_writes = false;
  for (const OpId id : k_.region(r).ops) {
    const auto& op = k_.op(id);
    const auto& info = k_.info_of(id);
    const auto& tier = k_.info_of(id);
    if (tier.has(ir::TierOp) || tier.rule == ir::TypeRule::Tier)
      fail("CPU03", id, fmt::format("the CPU device has no {}: it is of the Hopper tier", tier.text));
    switch (op.code) {
      case Opcode::Const:
      case Opcode::Param:
      case Opcode::Arg:
      case Opcode::SharedNew:
      case Opcode::SharedAlias:
      case Opcode::View:
      case Opcode::ArrayNew:
      case Opcode::TileNew:
      case Opcode::Assume:
      case Opcode::Yield:
        continue;
      case Opcode::Roles:
        fail("CPU03", id, "the CPU device does not run roles");
      case Opcode::Call:
        fail("CPU02", id, "a kernel call reached the CPU device", "run kernel_inline first");
      case Opcode::SlotNew:
      case Opcode::SlotLoad:
      case Opcode::SlotStore:
        fail("CPU02", id, "a slot reached the CPU device", "promote slots first");
      default:
        break;
    }
    if (op.code == Opcode::Result) {
      if (!structural_[k_.operand(id, 0)]) pending_.push_back(id), deferred.insert(id);
      continue;
    }
    if (structural_[id]) {
      if (op.code == Opcode::If)
        group_if(id);
      else if (op.code == Opcode::For)
        lockstep_[id] ? lockstep_loop(id) : group_loop(id);
      else
        collective(id);
      pending_writes = false;
      deferred.clear();
      continue;
    }
    const bool once = uniformity_.uniform(id, Scope::threadgroup) && op.region_count == 0 && op.type.is_value() &&
                      std::all_of(k_.operands(id).begin(), k_.operands(id).end(),
                                  [&](OpId o) { return !k_.type(o).is_value() || ready(o); });
    if (once && info.pure()) {
      group_[id] = pure(id);
      continue;
    }
    if (once && (op.code == Opcode::Load || op.code == Opcode::LoadOr) &&
        k_.type(k_.operand(id, 0)).space != ir::Space::priv && (ir::reads_immutable(k_, id) || !pending_writes) &&
        !limit_) {
      group_[id] = load(id);
      continue;
    }
    if (info.pure() && rematerialisable(id)) continue;
    pending_.push_back(id);
    deferred.insert(id);
    const auto writes = [&](OpId o) { pending_writes |= k_.info_of(o).has(ir::Writes | ir::AtomicOp); };
    writes(id);
    for (u32 i = 0; i < op.region_count; ++i) k_.walk(k_.region_of(id, i), writes);
  }
}

void Lowering::group_if(OpId id) {
  const RegionId r = k_.op(id).region;
  const RegionId arms[] = {k_.region_of(id, 0), k_.region_of(id, 1)};
  if (lockstep_[id]) {
    // A guard against a bound: the threads below it run, the code within is as dense as without it.
    flush(r);
    const OpId c = k_.operand(id, 0);
    V below = c_.bin(Bin::sub, scalar(k_.operand(c, 1)), leader_value(k_.operand(c, 0)));
    V whole = limit_ ? limit_ : c_.i64(count_);
    below = c_.select(c_.cmp(Cmp::slt, below, whole), below, whole);
    below = c_.select(c_.cmp(Cmp::slt, below, c_.i64(0)), c_.i64(0), below);
    V outer = limit_;
    limit_ = below;
    group_region(arms[0]);
    flush(arms[0]);
    limit_ = outer;
    return;
  }
  const auto results = k_.results(id);
  flush(r);
  V condition = scalar(k_.operand(id, 0));
  std::vector<V> slots(results.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ir::Type t = k_.type(results[i]);
    if (uniformity_.uniform(results[i], Scope::threadgroup))
      slots[i] = c_.alloca_array(c_.type(Num::i64), t.lanes, 8);
    else
      array_of(results[i]);
  }
  Block blocks[] = {c_.block("then"), c_.block("else")}, after = c_.block("endif");
  c_.br(condition, blocks[0], blocks[1]);
  for (u32 arm = 0; arm < 2; ++arm) {
    c_.set(blocks[arm]);
    group_region(arms[arm]);
    std::vector<Copy> copies;
    for (std::size_t i = 0; i < results.size(); ++i)
      if (!slots[i])
        copies.push_back({k_.operand(k_.terminator(arms[arm]), static_cast<u32>(i)), arrays_.at(results[i])});
    flush(arms[arm], copies, true);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!slots[i]) continue;
      const Val v = value(k_.operand(k_.terminator(arms[arm]), static_cast<u32>(i)));
      for (u32 c = 0; c < v.comps(); ++c) c_.store(stored(v.parts[c].v), c_.gep(slots[i], u64{c} * 8), 8);
    }
    c_.br(after);
  }
  c_.set(after);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!slots[i]) continue;
    const ir::Type t = k_.type(results[i]);
    Val v{1, {}};
    for (u32 c = 0; c < t.lanes; ++c)
      v.parts.push_back({loaded(c_.load(c_.type(t.elem == DType::boolean ? Num::i8 : num_of(t.elem)),
                                        c_.gep(slots[i], u64{c} * 8), 8),
                                t.elem),
                         nullptr});
    group_[results[i]] = v;
  }
}

void Lowering::group_loop(OpId id) {
  const RegionId r = k_.op(id).region, body = k_.region_of(id, 0);
  const auto& args = k_.region(body).args;
  const auto results = k_.results(id);
  const auto until = ir::unpack<ir::UntilImm>(k_.op(id).imm);
  const auto is_scalar = [&](std::size_t i) { return uniformity_.uniform(args[i + 1], Scope::threadgroup); };
  std::vector<V> slots(results.size());
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (is_scalar(i))
      slots[i] = c_.alloca_array(c_.type(Num::i64), k_.type(results[i]).lanes, 8);
    else
      copies.push_back({k_.operand(id, static_cast<u32>(i) + 3), array_of(args[i + 1])});
  }
  flush(r, copies);
  const auto keep = [&](std::size_t i, OpId from) {
    const Val v = value(from);
    for (u32 c = 0; c < v.comps(); ++c) c_.store(stored(v.parts[c].v), c_.gep(slots[i], u64{c} * 8), 8);
  };
  const auto fetch = [&](std::size_t i) {
    const ir::Type t = k_.type(results[i]);
    Val v{1, {}};
    for (u32 c = 0; c < t.lanes; ++c)
      v.parts.push_back({loaded(c_.load(c_.type(t.elem == DType::boolean ? Num::i8 : num_of(t.elem)),
                                        c_.gep(slots[i], u64{c} * 8), 8),
                                t.elem),
                         nullptr});
    return v;
  };
  V first = scalar(k_.operand(id, 0)), last = scalar(k_.operand(id, 1)), by = scalar(k_.operand(id, 2));
  for (std::size_t i = 0; i < results.size(); ++i)
    if (slots[i]) keep(i, k_.operand(id, static_cast<u32>(i) + 3));
  const DType elem = k_.type(args[0]).elem;
  const bool by_bound = elem == DType::index;
  V i_slot = c_.alloca_array(c_.type(c_.num(first)), 1, 8), more = c_.alloca_array(c_.type(Num::i8), 1, 1);
  c_.store(first, i_slot, 8);
  if (!by_bound) c_.store(stored(math_.apply(Opcode::Lt, elem, {first, last})), more, 1);
  Block head = c_.block("rounds"), run = c_.block("round"), after = c_.block("finished");
  c_.br(head);
  c_.set(head);
  V i = c_.load(c_.type(c_.num(first)), i_slot, 8);
  V go = by_bound ? c_.cmp(Cmp::slt, i, last) : loaded(c_.load(c_.type(Num::i8), more, 1), DType::boolean);
  if (until.carried_plus_one) go = c_.bin(Bin::and_, go, c_.not_(fetch(until.carried_plus_one - 1).parts[0].v));
  c_.br(go, run, after);
  c_.set(run);
  group_[args[0]] = uniform(i);
  for (std::size_t n = 0; n < results.size(); ++n)
    if (slots[n]) group_[args[n + 1]] = fetch(n);
  group_region(body);
  const OpId yield = k_.terminator(body);
  std::vector<Copy> back;
  for (std::size_t n = 0; n < results.size(); ++n)
    if (!slots[n]) back.push_back({k_.operand(yield, static_cast<u32>(n)), arrays_.at(args[n + 1])});
  flush(body, back, true);
  std::vector<Val> next(results.size());
  for (std::size_t n = 0; n < results.size(); ++n)
    if (slots[n]) next[n] = value(k_.operand(yield, static_cast<u32>(n)));
  for (std::size_t n = 0; n < results.size(); ++n)
    for (u32 c = 0; slots[n] && c < next[n].comps(); ++c)
      c_.store(stored(next[n].parts[c].v), c_.gep(slots[n], u64{c} * 8), 8);
  if (!by_bound) c_.store(stored(c_.cmp(Cmp::ugt, c_.bin(Bin::sub, last, i), by)), more, 1);
  c_.store(c_.bin(Bin::add, i, by), i_slot, 8);
  c_.br(head);
  c_.set(after);
  for (std::size_t n = 0; n < results.size(); ++n) {
    if (slots[n])
      group_[results[n]] = fetch(n);
    else
      arrays_[results[n]] = arrays_.at(args[n + 1]);
  }
}

// The loop is outside, the threadgroup's packets inside: memory is swept in sequence. Rounds in which every thread
// takes part run without masks, the ragged rest with the bound as limit.
void Lowering::lockstep_loop(OpId id) {
  const RegionId r = k_.op(id).region, body = k_.region_of(id, 0);
  const auto& args = k_.region(body).args;
  const auto results = k_.results(id);
  std::vector<Copy> copies;
  for (std::size_t i = 0; i < results.size(); ++i)
    copies.push_back({k_.operand(id, static_cast<u32>(i) + 3), array_of(args[i + 1])});
  flush(r, copies);
  V first = leader_value(k_.operand(id, 0)), last = scalar(k_.operand(id, 1)), by = scalar(k_.operand(id, 2));
  V slot = c_.alloca_array(c_.type(Num::i64), 1, 8);
  c_.store(first, slot, 8);
  const OpId yield = k_.terminator(body);
  std::vector<Copy> back;
  for (std::size_t n = 0; n < results.size(); ++n)
    back.push_back({k_.operand(yield, static_cast<u32>(n)), arrays_.at(args[n + 1])});
  std::vector<OpId> ops(k_.region(body).ops.begin(), k_.region(body).ops.end());
  V outer_limit = limit_;
  const bool outer_masked = masked_only_;
  V whole = outer_limit ? outer_limit : c_.i64(count_);
  for (const bool ragged : {false, true}) {
    Block head = c_.block("rounds"), run = c_.block("round"), after = c_.block("finished");
    c_.br(head);
    c_.set(head);
    V i = c_.load(c_.type(Num::i64), slot, 8);
    V go = c_.cmp(Cmp::slt, ragged ? i : c_.bin(Bin::add, i, c_.bin(Bin::sub, whole, c_.i64(1))), last);
    c_.br(go, run, after);
    c_.set(run);
    lockstep_round_ = {args[0], i};
    if (ragged) {
      V left = c_.bin(Bin::sub, last, i);
      limit_ = c_.select(c_.cmp(Cmp::slt, left, whole), left, whole);
      masked_only_ = true;
    }
    segment(ops, {}, back);
    limit_ = outer_limit, masked_only_ = outer_masked;
    lockstep_round_ = {ir::none, nullptr};
    c_.store(c_.bin(Bin::add, i, by), slot, 8);
    c_.br(head);
    c_.set(after);
  }
  for (std::size_t n = 0; n < results.size(); ++n) arrays_[results[n]] = arrays_.at(args[n + 1]);
}

}  // namespace iron::cpu
