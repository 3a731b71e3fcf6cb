// Long runs of ops are done packet by packet in a loop instead of being written out for every packet of the chunk: the
// code is a fraction, and a body that long keeps the machine busy by itself.
#include <algorithm>

#include "cpu/lowering.h"

namespace iron::cpu {

using ir::Opcode;
using ir::Scope;

// Ops of which nobody sees whether one packet does them after the other or all packets each. What lanes do in an order,
// and loops, whose own bodies are runs, are not.
bool Lowering::by_packet(OpId id) const {
  bool yes = k_.op(id).code != Opcode::Yield;
  const auto look = [&](OpId o) {
    const auto& i = k_.info_of(o);
    const auto code = k_.op(o).code;
    yes &= !i.has(ir::Convergent | ir::AtomicOp | ir::Waits) && i.scope != Scope::simdgroup && i.scope != Scope::tile &&
           code < Opcode::TileNew && code != Opcode::For && code != Opcode::AssumeUniform && code != Opcode::Fence &&
           code != Opcode::Check && code != Opcode::Print;
  };
  look(id);
  for (u32 i = 0; i < k_.op(id).region_count; ++i) k_.walk(k_.region_of(id, i), look);
  return yes;
}

u32 Lowering::weight(OpId id) {
  u32 sum = 0;
  const auto look = [&](OpId o) {
    const auto code = k_.op(o).code;
    if (code == Opcode::Const || code == Opcode::VecExtract || code == Opcode::VecMake || code == Opcode::Result)
      return;
    sum += 1;
    const bool stores = code == Opcode::Store || code == Opcode::CopyAsync;
    if (code != Opcode::Load && code != Opcode::LoadOr && !stores) return;
    // A lane at a time unless the lanes' elements are the same or neighbours.
    for (const auto& [product, coefficient] : affine_.of(k_.operand(o, 1)).terms) {
      bool varies = false;
      for (const OpId leaf : product) varies |= !uniformity_.uniform(leaf, Scope::simdgroup);
      if (!varies || (coefficient == 1 && product.size() == 1)) continue;
      sum += 2 * lanes_ + k_.type(stores ? k_.operand(o, 2) : o).lanes;
      break;
    }
  };
  look(id);
  for (u32 i = 0; i < k_.op(id).region_count; ++i) k_.walk(k_.region_of(id, i), look);
  return sum;
}

void Lowering::in_order(std::span<const OpId> ops) {
  while (!ops.empty()) {
    // What all lanes share is done once for the chunk, ahead of the rest if no store of the run may come between.
    std::vector<OpId> shared, rest;
    std::unordered_set<OpId> varying;
    bool written = false;
    u32 sum = 0;
    std::size_t n = 0;
    for (; chunk_->width > 1 && !chunk_->leader && n < ops.size() && by_packet(ops[n]); ++n) {
      const OpId id = ops[n];
      const auto& info = k_.info_of(id);
      const auto code = k_.op(id).code;
      bool once = uniformity_.uniform(id, Scope::simdgroup) && k_.type(id).is_value() && k_.op(id).region_count == 0 &&
                  code != Opcode::Result &&
                  (info.pure() ||
                   ((code == Opcode::Load || code == Opcode::LoadOr) &&
                    k_.type(k_.operand(id, 0)).space != ir::Space::priv && (!written || ir::reads_immutable(k_, id))));
      for (const OpId o : k_.operands(id)) once = once && !varying.count(o);
      if (once) {
        shared.push_back(id);
        continue;
      }
      rest.push_back(id);
      varying.insert(id);
      sum += weight(id);
      const auto look = [&](OpId o) { written |= k_.info_of(o).has(ir::Writes); };
      look(id);
      for (u32 i = 0; i < k_.op(id).region_count; ++i) k_.walk(k_.region_of(id, i), look);
    }
    if (sum > long_run) {
      for (const OpId id : shared) op(id);
      packet_loop(rest);
    } else {
      n = std::max<std::size_t>(n, 1);
      for (const OpId id : ops.first(n)) op(id);
    }
    ops = ops.subspan(n);
  }
}

// A component of a value, kept for every packet of a chunk in the stack frame.
Lowering::KeptPart Lowering::keep(const Part& like, u32 packets) {
  KeptPart k;
  const u32 n = c_.lanes(like.v);
  const bool flag = c_.num(like.v) == Num::i1;
  k.stride = like.stride, k.flag = flag;
  k.num = !flag ? c_.num(like.v) : n ? Num::i32 : Num::i8;
  k.lanes = n;
  k.bytes = bits_of(k.num) / 8 * std::max(n, 1u);
  k.at = c_.alloca_array(c_.type(k.num, n), packets, 64);
  return k;
}
void Lowering::keep(const KeptPart& k, V packet, V v) {
  if (k.flag) v = c_.conv(Conv::sext, k.num, v);
  c_.store(v, c_.gep(k.at, c_.bin(Bin::mul, packet, c_.i64(k.bytes))), std::min(k.bytes, 64u));
}
Part Lowering::kept(const KeptPart& k, V packet) {
  V v =
      c_.load(c_.type(k.num, k.lanes), c_.gep(k.at, c_.bin(Bin::mul, packet, c_.i64(k.bytes))), std::min(k.bytes, 64u));
  if (k.flag) v = c_.cmp(Cmp::slt, v, c_.zero_like(v));
  return {v, k.stride};
}

void Lowering::packet_loop(std::span<const OpId> ops) {
  Chunk& outer = *chunk_;
  const u32 width = outer.width;
  std::unordered_set<OpId> inside;
  const auto each = [&](auto&& f) {
    for (const OpId id : ops) {
      f(id);
      for (u32 i = 0; i < k_.op(id).region_count; ++i) k_.walk(k_.region_of(id, i), f);
    }
  };
  each([&](OpId id) { inside.insert(id); });

  // What the chunk already holds of the operands, other than what a packet computes as cheaply.
  Chunk sub;
  struct Input {
    OpId id;
    std::vector<KeptPart> parts;
  };
  std::vector<Input> inputs;
  std::unordered_set<OpId> seen;
  each([&](OpId id) {
    for (const OpId o : k_.operands(id)) {
      const auto it = outer.values.find(o);
      if (it == outer.values.end() || group_.count(o) || !seen.insert(o).second) continue;
      const Val& v = it->second;
      if (is_uniform(v)) {
        sub.values[o] = v;
        continue;
      }
      if (rematerialisable(o)) continue;
      Input in{o, {}};
      const DType elem = k_.type(o).elem;
      for (u32 c = 0; c < v.comps(); ++c) {
        const Part& first = v.at(c, 0);
        bool alike = true;
        for (u32 p = 1; p < width; ++p)
          alike &= v.at(c, p).stride == first.stride && c_.lanes(v.at(c, p).v) == c_.lanes(first.v);
        in.parts.push_back(keep(alike ? first : Part{vector(first, elem), nullptr}, width));
        for (u32 p = 0; p < width; ++p)
          keep(in.parts.back(), c_.i64(p), alike ? v.at(c, p).v : vector(v.at(c, p), elem));
      }
      inputs.push_back(std::move(in));
    }
  });
  std::optional<KeptPart> masks;
  for (u32 p = 0; p < width && !outer.mask.empty(); ++p) {
    V mask = mask_or_ones(p);
    if (!masks) masks = keep({mask, nullptr}, width);
    keep(*masks, c_.i64(p), mask);
  }

  Block before = c_.here(), head = c_.block("packets"), body = c_.block("packet"), latch = c_.block("next"),
        after = c_.block("packets_done");
  c_.br(head);
  c_.set(head);
  V packet = c_.phi(c_.type(Num::i64));
  c_.incoming(packet, c_.i64(0), before);
  sub.base = c_.bin(Bin::add, outer.base, c_.bin(Bin::mul, packet, c_.i64(lanes_)));
  for (const Input& in : inputs) {
    Val v{1, {}};
    for (const KeptPart& part : in.parts) v.parts.push_back(kept(part, packet));
    sub.values[in.id] = std::move(v);
  }
  if (masks) sub.mask.push_back(kept(*masks, packet).v);
  sub.head = c_.here();
  chunk_ = &sub;
  c_.set(body);
  for (const OpId id : ops) op(id);

  struct Output {
    OpId id;
    bool uniform;
    std::vector<KeptPart> parts;
  };
  std::vector<Output> outputs;
  for (const OpId id : ops) {
    if (!k_.type(id).is_value() || outer.values.count(id)) continue;
    if (std::all_of(users_[id].begin(), users_[id].end(), [&](OpId user) { return inside.count(user) != 0; })) continue;
    if (group_.count(id) || k_.op(id).code == Opcode::Const) continue;
    const Val v = value(id);
    Output out{id, is_uniform(v) && uniformity_.uniform(id, Scope::simdgroup), {}};
    for (u32 c = 0; c < v.comps(); ++c) {
      Part part = v.at(c, 0);
      i64 step = 0;
      if (part.stride && !c_.constant_int(part.stride, step)) part = {vector(part, k_.type(id).elem), nullptr};
      out.parts.push_back(keep(part, out.uniform ? 1 : width));
      keep(out.parts.back(), out.uniform ? c_.i64(0) : packet, part.v);
    }
    outputs.push_back(std::move(out));
  }
  c_.br(latch);
  // The head is complete. Packets of which no lane runs do nothing: what they would read need not be there.
  c_.set(sub.head);
  if (masks)
    c_.br(c_.or_reduce(sub.mask[0]), body, latch);
  else
    c_.br(body);
  c_.set(latch);
  V next = c_.bin(Bin::add, packet, c_.i64(1));
  c_.incoming(packet, next, latch);
  c_.br(c_.cmp(Cmp::ult, next, c_.i64(width)), head, after);
  c_.set(after);
  chunk_ = &outer;
  for (const Output& out : outputs) {
    Val v{out.uniform ? 1 : width, {}};
    for (const KeptPart& part : out.parts)
      for (u32 p = 0; p < v.packets; ++p) v.parts.push_back(kept(part, c_.i64(p)));
    outer.values[out.id] = std::move(v);
  }
}

}  // namespace iron::cpu
