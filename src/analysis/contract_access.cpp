// Accesses in the launch contract: bounds, extents and alignment.
#include <fmt/format.h>

#include "analysis/contract_evaluator.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

void BodyEvaluator::access(OpId id, const AccessOf& a) {
  const bool guarded = k_.op(id).code == Opcode::LoadOr;
  const auto mark = facts_.push();
  if (guarded) facts_.assume(k_.operand(id, 2), true);
  if (!facts_.dead()) touch(id, a.memory, a.index, facts_.linear(a.index), facts_.range(a.index), a.lanes, a.align);
  facts_.pop(mark);
}

// Elements from the subscript to `lanes - 1` beyond it.
void BodyEvaluator::touch(OpId id, OpId memory, OpId index, const Linear& form, const Range& r, u32 lanes, u32 align) {
  if (silent_) return;
  const Wide n = facts_.elements(memory), beyond = Wide{lanes} - 1;
  Wide lo = r.lo, hi = r.hi;
  if (lo < 0) lo = std::max(lo, facts_.lower(form, 0));
  if (hi + beyond >= n) hi = std::min(hi, facts_.upper(form, n - 1 - beyond));
  if (lo > hi) return;  // the facts exclude every value
  if (lo < 0 || hi + beyond >= n) return out_of_bounds(id, memory, index, lo, hi + beyond, n);
  const u32 size = dtype_size(k_.type(memory).elem);
  const OpId root = memory_root(k_, memory);
  if (k_.op(root).code == Opcode::Param) {
    auto& extent = needs_.extents[k_.op(root).imm];
    extent = std::max(extent, byte_offset(k_, memory) + static_cast<u64>(hi + beyond + 1) * size);
  }
  if (align > size) aligned(id, memory, index, r, size, align);
}

void BodyEvaluator::aligned(OpId id, OpId memory, OpId index, const Range& r, u32 size, u32 align) {
  u64 residue = 0;
  const bool known = r.residue(align / size, residue);
  const u64 offset = byte_offset(k_, memory);
  if (known && (residue * size + offset) % align == 0) return;
  auto* d = refuse(
      "LAUNCH04", id,
      fmt::format("{} needs {} bytes of alignment in {}, which is not shown", describe(id), align, named(memory)));
  if (!d) return;
  d->notes.push_back({known ? fmt::format("the subscript is {} modulo {}{}", residue, align / size,
                                          offset ? fmt::format(", from byte {}", offset) : "")
                            : fmt::format("the subscript {} in {} is a multiple of {} elements at best",
                                          expression(k_, index), to_string(r), r.mod),
                      "", 0});
  note_launch(*d);
  d->fix = fmt::format("make rows and starts multiples of {} elements, or use the kernel with narrower accesses",
                       align / size);
}

void BodyEvaluator::tile(OpId id) {
  if (silent_) return;
  const Type t = k_.type(k_.operand(id, 0));
  if (k_.op(id).code == Opcode::TileMma) {
    const auto layout = unpack<LayoutImm>(k_.op(id).imm);
    block(id, 1, Wide{layout.a_transposed ? layout.k : t.rows}, Wide{layout.a_transposed ? t.rows : layout.k}, none,
          none);
    block(id, 4, Wide{layout.b_transposed ? t.cols : layout.k}, Wide{layout.b_transposed ? layout.k : t.cols}, none,
          none);
  } else
    block(id, 1, Wide{t.rows}, Wide{t.cols}, k_.operand(id, 4), k_.operand(id, 5));
}
// rows x cols elements from an offset with a row stride (operands at, at + 1, at + 2); valid counts may be smaller.
void BodyEvaluator::block(OpId id, u32 at, Wide rows, Wide cols, OpId valid_rows, OpId valid_cols) {
  const OpId memory = k_.operand(id, at), offset = k_.operand(id, at + 1), stride = k_.operand(id, at + 2);
  const Range s = facts_.range(stride);
  if (valid_rows != none && facts_.range(valid_rows).hi <= 0) return;
  if (valid_cols != none && facts_.range(valid_cols).hi <= 0) return;
  if (s.lo < 0 || !s.is_point() || !Linear::small(s.hi)) {
    auto* d = refuse("LAUNCH01", id,
                     fmt::format("the row stride of a tile in {} is in {}: it must be one number, 0 or more",
                                 named(memory), to_string(s)));
    if (d) d->fix = "pass the row stride as a launch scalar";
    return;
  }
  const auto last = [&](OpId valid,
                        Wide size) {  // the last row or column: a form if its count is one, and a bound by size
    Linear l = Linear::constant(size - 1);
    if (valid == none) return l;
    const Range v = facts_.range(valid);
    if (v.hi > size && v.lo < size) return l;
    l = v.lo >= size ? l : facts_.linear(valid);
    if (v.lo < size) l.c -= 1;
    return l;
  };
  Linear end = facts_.linear(offset);
  const bool fits = end.combine(1, last(valid_rows, rows), static_cast<i64>(s.lo), end) &&
                    end.combine(1, last(valid_cols, cols), 1, end);
  const Wide n = facts_.elements(memory);
  Wide lo = facts_.range(offset).lo, hi = fits ? facts_.range(end).hi : Range::of(DType::index).hi;
  if (lo < 0) lo = std::max(lo, facts_.lower(facts_.linear(offset), 0));
  if (fits && hi >= n) hi = std::min(hi, facts_.upper(end, n - 1));
  if (lo < 0 || hi >= n) return out_of_bounds(id, memory, offset, lo, hi, n);
  const OpId root = memory_root(k_, memory);
  if (k_.op(root).code == Opcode::Param) {
    auto& extent = needs_.extents[k_.op(root).imm];
    extent = std::max(extent, byte_offset(k_, memory) +
                                  static_cast<u64>(std::max<Wide>(hi + 1, 0)) * dtype_size(k_.type(memory).elem));
  }
}

}  // namespace iron::analysis
