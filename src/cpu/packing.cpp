// Staging as packing: how the matrices lie that a kernel stages in threadgroup memory for its products. An array that
// only stores and products touch may lie as the products read it; other accesses would see the order they expect.
#include "cpu/lowering.h"
#include "cpu/tiles.h"

namespace iron::cpu {

using ir::Opcode;

bool Lowering::packs(OpId shared, Packing& packing) const {
  const DType elem = k_.type(shared).elem;
  const bool narrow = elem == DType::f16 || elem == DType::bf16;
  if (!narrow && elem != DType::f32) return false;
  bool is_a = false, is_b = false, stored = false;
  u32 row = 0, columns = 0;
  for (const OpId user : users_[shared]) {
    const auto& op = k_.op(user);
    if (op.code == Opcode::Store) {
      if (k_.operand(user, 0) != shared || k_.type(k_.operand(user, 2)).lanes != 1) return false;
      stored = true;
      continue;
    }
    if (op.code != Opcode::TileMma) return false;
    const OpId tile = k_.operand(user, 0);
    const auto layout = ir::unpack<ir::LayoutImm>(op.imm);
    const auto accumulator = k_.type(tile).elem;
    if (!is_float(accumulator) || accumulator == DType::f64) return false;
    if (ir::unpack<ir::TileImm>(k_.op(tile).imm).input != elem) return false;
    if (k_.operand(user, 1) == shared) is_a = true;
    if (k_.operand(user, 4) != shared) continue;
    i64 at = 0, stride = 0;
    if (!ir::const_index(k_, k_.operand(user, 5), at) || !ir::const_index(k_, k_.operand(user, 6), stride))
      return false;
    const bool same = !is_b || (row == static_cast<u32>(stride) && columns == k_.type(tile).cols);
    if (at != 0 || stride <= 0 || layout.b_transposed || !same) return false;
    is_b = true, row = static_cast<u32>(stride), columns = k_.type(tile).cols;
  }
  if (!stored || is_a == is_b) return false;
  packing.widened = narrow;
  if (is_a) return narrow;  // rows of A are read as they lie
  const u32 panel = Tiles::panel(c_.target(), sizeof(f32));
  if (row % panel != 0 || columns % panel != 0 || columns > row) return narrow;
  packing.row = row, packing.panel = panel;
  // All rows of the array, those beyond the products too: stores reach them. A line between panels keeps them in
  // different sets of the first cache.
  const auto& array = k_.op(shared);
  const u64 elements = array.imm ? array.imm : u64{array.type.rows} * array.type.cols;
  packing.step = (elements + row - 1) / row * panel + 16;
  return true;
}

void Lowering::plan_packing() {
  k_.walk([&](OpId id) {
    if (k_.op(id).code != Opcode::SharedNew) return;
    if (Packing p; packs(id, p)) packing_[id] = p;
  });
}

}  // namespace iron::cpu
