#include "emit/c_like/tile_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace iron::emit {

using ir::Opcode;
using ir::OpId;

std::string TileLayout::row(const std::string& e) const {
  switch (kind) {
    case linear:
      return fmt::format("({} * {}u + {}) / {}u", e, owners, thread, cols);
    case blocked:
      return fmt::format("({}) / {}u + {} / {}u * {}u", thread, across, e, own_cols, owners / across);
    case fragments:
      break;
  }
  return fmt::format("{} / {}u * {}u + {} / {}u * 16u + ({}) % 32u / 4u + {} % 4u / 2u * 8u", simdgroup(), across,
                     own_rows * unit.m, e, own_cols * 4, thread, e);
}

std::string TileLayout::col(const std::string& e) const {
  switch (kind) {
    case linear:
      return fmt::format("({} * {}u + {}) % {}u", e, owners, thread, cols);
    case blocked:
      if (vector == 1) return fmt::format("({}) % {}u + {} % {}u * {}u", thread, across, e, own_cols, across);
      return fmt::format("({0}) % {1}u * {2}u + {3} % {4}u / {2}u * {5}u + {3} % {2}u", thread, across, vector, e,
                         own_cols, across * vector);
    case fragments:
      break;
  }
  return fmt::format("{} % {}u * {}u + {} / 4u % {}u * 8u + ({}) % 4u * 2u + {} % 2u", simdgroup(), across,
                     own_cols * unit.n, e, own_cols, thread, e);
}

MatrixShape Dialect::matrix_unit(DType, DType) const { return {}; }
void Dialect::matrix_product(Emitter& e, ir::OpId mma, const TileLayout&) const {
  e.refuse(mma, "this dialect has no matrix unit");
}

namespace {

// Simdgroups along the two sides, so that the fewest elements are loaded for each product; false if none fit.
bool place_fragments(TileLayout& t, MatrixShape unit) {
  const u32 simdgroups = t.owners / 32;
  u32 best = ~0u;
  for (u32 across = 1; across <= simdgroups; ++across) {
    if (simdgroups % across) continue;
    const u32 down = simdgroups / across;
    if (t.rows % (down * unit.m) || t.cols % (across * unit.n)) continue;
    const u32 cost = t.rows / down + t.cols / across;
    if (cost >= best) continue;
    best = cost;
    t.across = across, t.own_rows = t.rows / down / unit.m, t.own_cols = t.cols / across / unit.n;
  }
  return best != ~0u;
}

bool place_block(TileLayout& t) {
  u32 best = ~0u;
  for (u32 across = 1; across <= t.owners; ++across) {
    if (t.owners % across) continue;
    const u32 down = t.owners / across;
    if (t.rows % down || t.cols % across) continue;
    const u32 own_rows = t.rows / down, own_cols = t.cols / across;
    // The same number of loads: longer rows of threads read neighbouring elements.
    const u32 cost = (own_rows + own_cols) * 1024 - across;
    if (own_rows * own_cols > 128 || cost >= best) continue;
    best = cost;
    t.across = across, t.own_rows = own_rows, t.own_cols = own_cols;
  }
  if (best == ~0u) return false;
  t.vector = t.own_cols % 4 == 0 ? 4 : 1;
  return true;
}

// Who reaches for own elements sees the map that all devices have: the linear one.
bool owners_show(const ir::Kernel& k, OpId tile) {
  bool show = false;
  k.walk([&](OpId id) {
    const auto code = k.op(id).code;
    if (code >= Opcode::TileGet && code <= Opcode::TileElems && k.operand(id, 0) == tile) show = true;
  });
  return show;
}

// Every product of the tile with what the unit takes.
bool products_fit(const ir::Kernel& k, OpId tile, DType input, MatrixShape unit) {
  bool fit = true, any = false;
  k.walk([&](OpId id) {
    if (k.op(id).code != Opcode::TileMma || k.operand(id, 0) != tile) return;
    any = true;
    fit = fit && ir::unpack<ir::LayoutImm>(k.op(id).imm).k % unit.k == 0 && k.type(k.operand(id, 1)).elem == input &&
          k.type(k.operand(id, 4)).elem == input;
  });
  return fit && any;
}

}  // namespace

TileLayout tile_layout(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const auto& op = k.op(id);
  const auto imm = ir::unpack<ir::TileImm>(op.imm);
  TileLayout t;
  t.tile = id, t.elem = op.type.elem, t.input = imm.input, t.rows = op.type.rows, t.cols = op.type.cols;
  t.owners = e.threads(), t.thread = e.linear_thread();
  if (imm.scope == ir::Scope::simdgroup)
    t.owners = 32, t.thread = fmt::format("({}) % 32u", e.linear_thread());
  else if (imm.scope == ir::Scope::lane)
    t.owners = 1, t.thread = "0u";
  else if (imm.scope != ir::Scope::threadgroup)
    e.refuse(id, fmt::format("a tile of scope {} needs a matrix unit of that scope", name(imm.scope)),
             "use simdgroup or threadgroup scope");
  const bool shown = owners_show(k, id);
  const bool want = e.options().matrix != MatrixUse::software && !shown;
  const auto unit = want ? e.dialect().matrix_unit(t.input, t.elem) : MatrixShape{};
  if (unit.m && t.owners % 32 == 0 && products_fit(k, id, t.input, unit) && place_fragments(t, unit)) {
    t.kind = TileLayout::fragments, t.unit = unit;
    t.each = t.own_rows * t.own_cols * unit.m * unit.n / 32;
  } else if (e.options().matrix == MatrixUse::required) {
    e.refuse(id,
             fmt::format("a {} x {} tile of {} for {} threads does not fit the matrix unit", t.rows, t.cols,
                         dtype_name(t.input), t.owners),
             "use a blocking that its shapes divide and whole-tile stores, or leave the choice to `auto`");
  } else if (!shown && t.owners > 1 && place_block(t)) {
    t.kind = TileLayout::blocked;
    t.each = t.own_rows * t.own_cols;
  } else {
    t.each = (t.rows * t.cols + t.owners - 1) / t.owners;
  }
  return t;
}

bool rows_aligned(const Emitter& e, OpId memory, OpId offset, OpId stride, u32 bytes) {
  const auto& k = e.kernel();
  const auto multiple = [&](OpId v) {
    return k.op(v).code == Opcode::Const && k.op(v).imm * dtype_size(k.type(memory).elem) % bytes == 0;
  };
  return k.op(memory).code == Opcode::SharedNew && k.type(memory).swizzle == ir::Swizzle::none && multiple(offset) &&
         multiple(stride);
}

}  // namespace iron::emit
