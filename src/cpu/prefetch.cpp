// Prefetches for loops that read records: the machine looks ahead only as far as its window of instructions reaches,
// and a body of many instructions a cache line keeps it from seeing the next lines.
#include <map>

#include "cpu/lowering.h"

namespace iron::cpu {

using ir::Opcode;

namespace {
constexpr i64 line = 64;
/// How far ahead lines are asked for: what a core reads from memory in the time that one line takes.
constexpr i64 distance = 10240;
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

}  // namespace iron::cpu
