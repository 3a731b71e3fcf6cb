// Rows of tiles. In software one fma chain an element, k ascending, whichever thread owns it; by a matrix unit as the
// dialect writes it.
#include <fmt/format.h>

#include "emit/c_like/rows.h"
#include "emit/c_like/tile_layout.h"

namespace iron::emit::rows {

using ir::Opcode;
using ir::OpId;

namespace {
using Tile = TileLayout;

Tile operand_tile(Emitter& e, OpId id) {
  const OpId made_by = e.kernel().operand(id, 0);
  Tile t = tile_layout(e, made_by);
  t.name = e.value(made_by).text;
  return t;
}

// Opens the loop over the thread's own elements, with `row` and `col` in scope.
void open_elements(Emitter& e, OpId id, const Tile& t) {
  if (const auto pragma = e.dialect().unroll_pragma(); !pragma.empty()) e.line(id, pragma);
  e.open(fmt::format("for (u32 e = 0; e < {}u; ++e) {{", t.each));
  e.line(fmt::format("const u32 row = {}, col = {};", t.row("e"), t.col("e")));
  if (t.ragged()) e.line(fmt::format("if (row >= {}u) continue;", t.rows));
}
Expr scaled(const Expr& offset, const Expr& major, const Expr& stride, const Expr& minor) {
  return binary(binary(offset, "+", binary(major, "*", stride, Prec::product), Prec::sum), "+", minor, Prec::sum);
}
// Offsets and strides are named: they are read in a loop.
Expr named(Emitter& e, OpId id, u32 operand, std::string_view hint) {
  const Expr& x = e.arg(id, operand);
  return x.literal || x.prec == Prec::primary ? x : e.name(id, e.type_name(DType::index), hint, x);
}
}  // namespace

void tile_new(Emitter& e, OpId id) {
  const Tile t = tile_layout(e, id);
  const std::string n = e.fresh("accumulator");
  e.line(id, fmt::format("{} {}[{}];", e.type_name(t.elem), n, t.each));
  e.set(id, {raw(n)});
}

void tile_zero(Emitter& e, OpId id) {
  const Tile t = operand_tile(e, id);
  e.line(id, fmt::format("for (u32 e = 0; e < {}u; ++e) {}[e] = {};", t.each, t.name, e.literal(t.elem, 0).text));
}

namespace {
// One operand of a product in memory.
struct Factor {
  OpId memory;
  Expr at, stride;
  bool transposed;
  bool vectors;  ///< four neighbours of a row are one aligned access
};

// Rows and columns of a thread are multiplied in registers; the chain of each element stays k ascending.
void blocked_mma(Emitter& e, OpId id, const Tile& t, const Factor& a, const Factor& b, u32 depth) {
  const auto& k = e.kernel();
  const auto factor = [&](const Expr& v, OpId mem) {
    return convert(e, convert(e, v, k.type(mem).elem, t.input), t.input, t.elem);
  };
  const std::string pragma(e.dialect().unroll_pragma()), type(e.type_name(t.elem));
  const u32 chunk = depth % 4 == 0 && !a.transposed && t.each >= 8 ? 4 : 1;
  const auto unrolled = [&](const std::string& head) {
    if (!pragma.empty()) e.line(pragma);
    e.open(head);
  };
  const auto wide = [&](const Factor& f, const Expr& index) {
    e.need("Vec");
    return raw(fmt::format("*(const Vec<{}, 4, 16>*)({} + {})", e.type_name(k.type(f.memory).elem),
                           e.value(f.memory).text, index.text));
  };
  // B rows lie along n, or along k where it is transposed.
  const bool wide_a = chunk == 4 && a.vectors, wide_b = !b.transposed && b.vectors && t.vector == 4;
  // Few products a thread leave no registers to a threadgroup of many threads: then one step stays one step.
  if (!pragma.empty())
    e.line(id, t.each < 16         ? fmt::format("{} 1", pragma)
               : depth / chunk > 8 ? fmt::format("{} {}", pragma, 8 / chunk)
                                   : pragma);
  e.open(fmt::format("for (u32 k0 = 0; k0 < {}u; k0 += {}u) {{", depth, chunk));
  e.line(fmt::format("{} a_own[{}][{}];", type, t.own_rows, chunk));
  unrolled(fmt::format("for (u32 i = 0; i < {}u; ++i) {{", t.own_rows));
  e.line(fmt::format("const u32 row = {};", t.row(fmt::format("(i * {}u)", t.own_cols))));
  if (wide_a) {
    e.line(fmt::format("const auto a_vec = {};", wide(a, scaled(a.at, raw("row"), a.stride, raw("k0"))).text));
    for (u32 c = 0; c < 4; ++c)
      e.line(fmt::format("a_own[i][{}] = {};", c, factor(raw(fmt::format("a_vec.e[{}]", c)), a.memory).text));
  } else {
    for (u32 c = 0; c < chunk; ++c) {
      const Expr depth_at = raw(c ? fmt::format("(k0 + {}u)", c) : "k0");
      const Expr v = element(
          e, a.memory,
          a.transposed ? scaled(a.at, depth_at, a.stride, raw("row")) : scaled(a.at, raw("row"), a.stride, depth_at));
      e.line(fmt::format("a_own[i][{}] = {};", c, factor(v, a.memory).text));
    }
  }
  e.close();
  unrolled(fmt::format("for (u32 c = 0; c < {}u; ++c) {{", chunk));
  e.line("const u32 k = k0 + c;");
  e.line(fmt::format("{} b_own[{}];", type, t.own_cols));
  if (wide_b) {
    unrolled(fmt::format("for (u32 j = 0; j < {}u; j += 4u) {{", t.own_cols));
    e.line(fmt::format("const u32 col = {};", t.col("j")));
    e.line(fmt::format("const auto b_vec = {};", wide(b, scaled(b.at, raw("k"), b.stride, raw("col"))).text));
    for (u32 c = 0; c < 4; ++c)
      e.line(fmt::format("b_own[j + {}u] = {};", c, factor(raw(fmt::format("b_vec.e[{}]", c)), b.memory).text));
  } else {
    unrolled(fmt::format("for (u32 j = 0; j < {}u; ++j) {{", t.own_cols));
    e.line(fmt::format("const u32 col = {};", t.col("j")));
    const Expr v = element(
        e, b.memory,
        b.transposed ? scaled(b.at, raw("col"), b.stride, raw("k")) : scaled(b.at, raw("k"), b.stride, raw("col")));
    e.line(fmt::format("b_own[j] = {};", factor(v, b.memory).text));
  }
  e.close();
  unrolled(fmt::format("for (u32 e = 0; e < {}u; ++e) {{", t.each));
  const Expr x = raw(fmt::format("a_own[e / {}u][c]", t.own_cols)), y = raw(fmt::format("b_own[e % {}u]", t.own_cols)),
             sum = raw(t.name + "[e]");
  const Expr next = is_float(t.elem) ? e.apply(Opcode::Fma, t.elem, {x, y, sum})
                                     : e.apply(Opcode::Add, t.elem, {e.apply(Opcode::Mul, t.elem, {x, y}), sum});
  e.line(fmt::format("{} = {};", sum.text, next.text));
  e.close();
  e.close();
  e.close();
}
}  // namespace

void tile_mma(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const Tile t = operand_tile(e, id);
  if (t.kind == Tile::fragments) return e.dialect().matrix_product(e, id, t);
  const auto layout = ir::unpack<ir::LayoutImm>(k.op(id).imm);
  const OpId a = k.operand(id, 1), b = k.operand(id, 4);
  const Expr a_at = named(e, id, 2, "a_at"), a_stride = named(e, id, 3, "a_stride"), b_at = named(e, id, 5, "b_at"),
             b_stride = named(e, id, 6, "b_stride");
  // A 16-bit accumulator is widened for the chain and rounded once at its end.
  const DType chain = t.elem == DType::f16 || t.elem == DType::bf16 ? DType::f32 : t.elem;
  if (t.kind == Tile::blocked && chain == t.elem) {
    const auto vectors = [&](u32 mem) {
      return dtype_size(k.type(k.operand(id, mem)).elem) == 4 &&
             rows_aligned(e, k.operand(id, mem), k.operand(id, mem + 1), k.operand(id, mem + 2), 16);
    };
    return blocked_mma(e, id, t, {a, a_at, a_stride, layout.a_transposed, vectors(1)},
                       {b, b_at, b_stride, layout.b_transposed, vectors(4)}, layout.k);
  }
  open_elements(e, id, t);
  const DType input = t.input;
  e.line(fmt::format("{} c = {};", e.type_name(chain), widen(e, raw(t.name + "[e]"), t.elem).text));
  const Expr row = raw("row"), col = raw("col"), depth = raw("k");
  const Expr a_value =
      element(e, a, layout.a_transposed ? scaled(a_at, depth, a_stride, row) : scaled(a_at, row, a_stride, depth));
  const Expr b_value =
      element(e, b, layout.b_transposed ? scaled(b_at, col, b_stride, depth) : scaled(b_at, depth, b_stride, col));
  const auto factor = [&](const Expr& v, ir::OpId mem) {
    return convert(e, convert(e, v, k.type(mem).elem, input), input, chain);
  };
  const Expr x = factor(a_value, a), y = factor(b_value, b);
  const Expr next = is_float(chain) ? e.apply(Opcode::Fma, chain, {x, y, raw("c")})
                                    : e.apply(Opcode::Add, chain, {e.apply(Opcode::Mul, chain, {x, y}), raw("c")});
  e.line(fmt::format("for (u32 k = 0; k < {}u; ++k) c = {};", layout.k, next.text));
  e.line(fmt::format("{}[e] = {};", t.name, narrow(e, raw("c"), t.elem).text));
  e.close();
}

void tile_load(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const Tile t = operand_tile(e, id);
  const OpId mem = k.operand(id, 1);
  const Expr at = named(e, id, 2, "at"), stride = named(e, id, 3, "stride"), rows = named(e, id, 4, "rows"),
             cols = named(e, id, 5, "cols");
  open_elements(e, id, t);
  const Expr value = convert(e, element(e, mem, scaled(at, raw("row"), stride, raw("col"))), k.type(mem).elem, t.elem);
  e.line(fmt::format("{}[e] = (i64)row < (i64){} && (i64)col < (i64){} ? {} : {};", t.name, rows.text, cols.text,
                     value.text, e.literal(t.elem, 0).text));
  e.close();
}

void tile_store(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const Tile t = operand_tile(e, id);
  const OpId mem = k.operand(id, 1);
  const Expr at = named(e, id, 2, "at"), stride = named(e, id, 3, "stride"), rows = named(e, id, 4, "rows"),
             cols = named(e, id, 5, "cols");
  open_elements(e, id, t);
  const Expr value = convert(e, raw(t.name + "[e]"), t.elem, k.type(mem).elem);
  e.line(fmt::format("if ((i64)row < (i64){} && (i64)col < (i64){}) {} = {};", rows.text, cols.text,
                     element(e, mem, scaled(at, raw("row"), stride, raw("col"))).text, value.text));
  e.close();
}

void tile_get(Emitter& e, OpId id) {
  const Tile t = operand_tile(e, id);
  Expr own = subscript(raw(t.name), e.arg(id, 1));
  // What lies behind the tile reads as zero.
  if (t.ragged())  // only linear tiles are
    own = ternary(raw(fmt::format("({} * {} + ({}) < {})", c_cast(e.type_name(DType::index), e.arg(id, 1)).text,
                                  t.owners, t.thread, t.rows * t.cols)),
                  own, e.literal(t.elem, 0));
  e.define(id, "own",
           {convert(e, own.prec == Prec::ternary ? raw("(" + own.text + ")") : own, t.elem, e.kernel().type(id).elem)});
}
void tile_set(Emitter& e, OpId id) {
  const Tile t = operand_tile(e, id);
  e.line(id, fmt::format("{}[{}] = {};", t.name, e.arg(id, 1).text,
                         convert(e, e.arg(id, 2), e.kernel().type(e.kernel().operand(id, 2)).elem, t.elem).text));
}

Expr tile_row(Emitter& e, const LaneCall& c) {
  const Tile t = tile_layout(e, e.kernel().operand(c.id, 0));
  return c_cast(e.type_name(DType::index), raw("(" + t.row("(u32)(" + c.args[1].text + ")") + ")"));
}
Expr tile_col(Emitter& e, const LaneCall& c) {
  const Tile t = tile_layout(e, e.kernel().operand(c.id, 0));
  return c_cast(e.type_name(DType::index), raw("(" + t.col("(u32)(" + c.args[1].text + ")") + ")"));
}
Expr tile_elems(Emitter& e, const LaneCall& c) {
  return e.index_literal(tile_layout(e, e.kernel().operand(c.id, 0)).each);
}

}  // namespace iron::emit::rows
