// Prefetches for loops that read records: the machine looks ahead only as far as its window of instructions reaches,
// and a body of many instructions a cache line keeps it from seeing the next lines.
#include <algorithm>
#include <map>
#include <utility>

#include "cpu/lowering.h"

namespace iron::cpu {

using ir::Opcode;

namespace {
constexpr i64 line = 64;
/// How far ahead lines are asked for: what a core reads from memory in the time that one line takes.
constexpr i64 distance = 10240;
/// How far ahead a threadgroup's walk over the rows of a block asks for its elements: a row ends before the machine has
/// seen a stream in it.
constexpr i64 elements_ahead = 512;
/// Shorter bodies leave room in the window for the loads of the next rounds.
constexpr u32 long_body = 16;
}  // namespace

void Lowering::plan_prefetch(OpId loop) {
  const RegionId body = k_.region_of(loop, 0);
  const OpId induction = k_.region(body).args[0];
  i64 step = 0;
  if (!k_.type(induction).is_index() || !ir::const_index(k_, k_.operand(loop, 2), step) || step <= 0) return;
  u32 length = 0;
  for (const OpId id : k_.region(body).ops) length += k_.op(id).code != Opcode::Const;
  if (length < long_body) return;
  // Loads that differ by less than a line share a prefetch: what is left of their index without its constant, and the
  // line that the constant names.
  std::map<std::pair<OpId, std::map<std::vector<OpId>, i64>>, std::vector<i64>> seen;
  for (const OpId id : k_.region(body).ops) {
    if (k_.op(id).code != Opcode::Load) continue;
    OpId memory = k_.operand(id, 0);
    const i64 size = dtype_size(k_.type(memory).elem);
    i64 offset = 0;
    for (; k_.op(memory).code == Opcode::View; memory = k_.operand(memory, 0))
      offset += static_cast<i64>(k_.op(memory).imm);
    if (k_.op(memory).code != Opcode::Param) continue;
    if (uniformity_.uniform(k_.operand(id, 1), ir::Scope::simdgroup)) continue;
    const analysis::Polynomial& index = affine_.of(k_.operand(id, 1));
    const auto factor = index.coefficient_of(induction);
    const auto stride = factor ? factor->as_constant() : std::nullopt;
    if (!stride || *stride * step * size < line) continue;
    const i64 bytes = *stride * step * size;
    // Keyed in bytes, so that views of one buffer with elements of different sizes meet.
    std::map<std::vector<OpId>, i64> rest;
    for (const auto& [product, coefficient] : index.terms)
      if (product.empty())
        offset += coefficient * size;
      else
        rest[product] = coefficient * size;
    auto& offsets = seen[{memory, std::move(rest)}];
    bool covered = false;
    for (const i64 other : offsets) covered |= std::abs(other - offset) < line && other / line == offset / line;
    if (covered) continue;
    offsets.push_back(offset);
    ahead_[id] = (distance + bytes - 1) / bytes * bytes;
  }
}

// Whether an index can be computed again from the induction variable of a thread-strided loop, and divides it.
bool Lowering::walks_rows(OpId id, bool& divides) const {
  const auto& op = k_.op(id);
  if (id == lockstep_round_.first || available(id)) return true;
  if (!k_.info_of(id).pure() || op.region_count || op.code == Opcode::Arg || op.code == Opcode::Result) return false;
  const auto operands = k_.operands(id);
  if (op.code == Opcode::Rem || op.code == Opcode::Div) divides |= operands[0] == lockstep_round_.first;
  return std::all_of(operands.begin(), operands.end(), [&](OpId o) { return walks_rows(o, divides); });
}

u32 Lowering::packets_of_line(const Memory& m) const {
  return std::max<u32>(1, static_cast<u32>(line) / (lanes_ * dtype_size(m.elem)));
}

bool Lowering::prefetch_rows(OpId index, const Memory& m) {
  bool divides = false;
  if (lockstep_round_.first == ir::none || masked_only_ || m.space != ir::Space::global) return false;
  if (!walks_rows(index, divides) || !divides) return false;
  // One for each line of what the chunk reads.
  for (u32 p = 0; p < chunk_->width; p += packets_of_line(m)) {
    Chunk ahead;
    ahead.base = c_.bin(Bin::add, chunk_->base, c_.i64(i64{p} * lanes_));
    V first = c_.bin(Bin::add, c_.bin(Bin::add, lockstep_round_.second, ahead.base), c_.i64(elements_ahead));
    ahead.values[lockstep_round_.first] = {1, {{first, c_.i64(1)}}};
    Chunk* const here = std::exchange(chunk_, &ahead);
    V at = lane_address(m, value(index).at(0, 0), 0);
    chunk_ = here;
    c_.prefetch(at);
  }
  return true;
}

// The loads by which a threadgroup last reads what the next one reads at a distance that is the same for all: while
// this group computes, the other's rows come from memory.
void Lowering::plan_next_group() {
  std::map<OpId, OpId> latest;  // by parameter
  k_.walk([&](OpId id) {
    const auto& op = k_.op(id);
    if (op.code != Opcode::Load && op.code != Opcode::LoadOr) return;
    const OpId root = ir::memory_root(k_, k_.operand(id, 0)), loop = k_.region(op.region).parent;
    if (k_.op(root).code != Opcode::Param || loop == ir::none || !lockstep_[loop]) return;
    if (k_.op(loop).code == Opcode::For) latest[root] = id;
  });
  for (const auto& [root, load] : latest)
    for (const auto& [product, coefficient] : affine_.of(k_.operand(load, 1)).terms)
      for (const OpId leaf : product)
        if (k_.op(leaf).code == Opcode::GroupId && k_.op(leaf).imm == 0) next_group_[load] = leaf;
}

void Lowering::prefetch_next_group(OpId load, const Val& index, const Memory& m) {
  const auto it = next_group_.find(load);
  if (it == next_group_.end() || masked_only_ || !chunk_->mask.empty()) return;
  const auto stride = affine_.of(k_.operand(load, 1)).coefficient_of(it->second);
  if (!stride) return;
  V elements = c_.i64(0);
  for (const auto& [product, coefficient] : stride->terms) {
    V term = c_.i64(coefficient);
    for (const OpId leaf : product) {
      if (!uniformity_.uniform(leaf, ir::Scope::threadgroup)) return;
      V factor = scalar(leaf);
      if (c_.num(factor) != Num::i64) factor = c_.conv(Conv::zext, Num::i64, factor);
      term = c_.bin(Bin::mul, term, factor);
    }
    elements = c_.bin(Bin::add, elements, term);
  }
  V away = c_.bin(Bin::mul, elements, c_.i64(dtype_size(m.elem)));
  for (u32 p = 0; p < index.packets; p += packets_of_line(m))
    c_.prefetch(c_.gep(lane_address(m, index.at(0, p), 0), away));
}

}  // namespace iron::cpu
