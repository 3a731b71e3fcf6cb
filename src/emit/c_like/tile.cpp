// Rows of tiles in software: each thread owns elements e * T + t of the row-major tile; one fma chain an element, k
// ascending.
#include <fmt/format.h>

#include "emit/c_like/rows.h"

namespace iron::emit::rows {

using ir::Opcode;
using ir::OpId;

namespace {
struct Tile {
  OpId id;
  std::string name;
  DType elem;
  u32 rows, cols, owners, each;
  std::string thread;  ///< the thread's number among the owners

  bool ragged() const { return each * owners != rows * cols; }
};

Tile tile_of(Emitter& e, OpId id) {
  const auto& op = e.kernel().op(id);
  const auto scope = ir::unpack<ir::TileImm>(op.imm).scope;
  Tile t{id, {}, op.type.elem, op.type.rows, op.type.cols, e.threads(), 0, e.linear_thread()};
  if (scope == ir::Scope::simdgroup)
    t.owners = 32, t.thread = fmt::format("({}) % 32u", e.linear_thread());
  else if (scope == ir::Scope::lane)
    t.owners = 1, t.thread = "0u";
  else if (scope != ir::Scope::threadgroup)
    e.refuse(id, fmt::format("a tile of scope {} needs a matrix unit of that scope", name(scope)),
             "use simdgroup or threadgroup scope");
  t.each = (t.rows * t.cols + t.owners - 1) / t.owners;
  return t;
}
Tile operand_tile(Emitter& e, OpId id) {
  const OpId made_by = e.kernel().operand(id, 0);
  Tile t = tile_of(e, made_by);
  t.name = e.value(made_by).text;
  return t;
}

// Opens the loop over the thread's own elements, with `row` and `col` in scope.
void open_elements(Emitter& e, OpId id, const Tile& t) {
  if (const auto pragma = e.dialect().unroll_pragma(); !pragma.empty()) e.line(id, pragma);
  e.open(fmt::format("for (u32 e = 0; e < {}u; ++e) {{", t.each));
  e.line(fmt::format("const u32 row = (e * {0}u + {1}) / {2}u, col = (e * {0}u + {1}) % {2}u;", t.owners, t.thread,
                     t.cols));
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
  const Tile t = tile_of(e, id);
  const std::string n = e.fresh("accumulator");
  e.line(id, fmt::format("{} {}[{}];", e.type_name(t.elem), n, t.each));
  e.set(id, {raw(n)});
}

void tile_zero(Emitter& e, OpId id) {
  const Tile t = operand_tile(e, id);
  e.line(id, fmt::format("for (u32 e = 0; e < {}u; ++e) {}[e] = {};", t.each, t.name, e.literal(t.elem, 0).text));
}

void tile_mma(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const Tile t = operand_tile(e, id);
  const auto layout = ir::unpack<ir::LayoutImm>(k.op(id).imm);
  const OpId a = k.operand(id, 1), b = k.operand(id, 4);
  const Expr a_at = named(e, id, 2, "a_at"), a_stride = named(e, id, 3, "a_stride"), b_at = named(e, id, 5, "b_at"),
             b_stride = named(e, id, 6, "b_stride");
  open_elements(e, id, t);
  // A 16-bit accumulator is widened for the chain and rounded once at its end.
  const DType chain = t.elem == DType::f16 || t.elem == DType::bf16 ? DType::f32 : t.elem;
  const DType input = ir::unpack<ir::TileImm>(k.op(t.id).imm).input;
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
  if (t.ragged())
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

namespace {
Expr element_place(Emitter& e, const LaneCall& c, std::string_view op) {
  const Tile t = tile_of(e, e.kernel().operand(c.id, 0));
  const Expr linear =
      binary(binary(c_cast(e.type_name(DType::index), c.args[1]), "*", raw(fmt::format("{}", t.owners)), Prec::product),
             "+", raw(fmt::format("({})", t.thread)), Prec::sum);
  return binary(linear, op, raw(fmt::format("{}", t.cols)), Prec::product);
}
}  // namespace

Expr tile_row(Emitter& e, const LaneCall& c) { return element_place(e, c, "/"); }
Expr tile_col(Emitter& e, const LaneCall& c) { return element_place(e, c, "%"); }
Expr tile_elems(Emitter& e, const LaneCall& c) { return e.index_literal(tile_of(e, e.kernel().operand(c.id, 0)).each); }

}  // namespace iron::emit::rows
