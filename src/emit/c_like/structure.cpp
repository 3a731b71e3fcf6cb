// Rows of structure, ids, vectors and facts.
#include <fmt/format.h>

#include "emit/c_like/rows.h"

namespace iron::emit::rows {

using ir::Opcode;
using ir::OpId;

void nothing(Emitter&, OpId) {}
void loop(Emitter& e, OpId id) { e.emit_for(id); }
void branch(Emitter& e, OpId id) { e.emit_if(id); }

void constant(Emitter& e, OpId id) {
  const auto t = e.kernel().type(id);
  e.set(id, std::vector<Expr>(t.lanes, e.literal(t.elem, e.kernel().op(id).imm)));
}

namespace {
Expr as_index(Emitter& e, const std::string& text, Prec prec = Prec::primary) {
  return c_cast(e.type_name(DType::index), {text, prec, false});
}
u32 axis_size(Emitter& e, u64 axis) {
  const auto& t = e.options().threads;
  return axis == 0 ? t.x : axis == 1 ? t.y : t.z;
}
Prec linear_prec(Emitter& e) { return e.options().threads.y * e.options().threads.z > 1 ? Prec::sum : Prec::primary; }
}  // namespace

Expr thread_id(Emitter& e, const LaneCall&) { return as_index(e, e.linear_thread(), linear_prec(e)); }
Expr thread_pos(Emitter& e, const LaneCall& c) { return as_index(e, e.dialect().thread_pos(static_cast<int>(c.imm))); }
Expr group_id(Emitter& e, const LaneCall& c) { return as_index(e, e.dialect().group_id(static_cast<int>(c.imm))); }
Expr group_count(Emitter& e, const LaneCall& c) {
  return as_index(e, e.dialect().group_count(static_cast<int>(c.imm)));
}
Expr group_size(Emitter& e, const LaneCall&) { return e.index_literal(e.threads()); }
Expr group_dim(Emitter& e, const LaneCall& c) { return e.index_literal(axis_size(e, c.imm)); }

Expr grid_thread_id(Emitter& e, const LaneCall&) {
  const auto& d = e.dialect();
  const Expr rows = binary(binary(as_index(e, d.group_id(2)), "*", raw(d.group_count(1)), Prec::product), "+",
                           raw(d.group_id(1)), Prec::sum);
  const Expr group =
      binary(binary(rows, "*", raw(d.group_count(0)), Prec::product), "+", raw(d.group_id(0)), Prec::sum);
  return binary(binary(group, "*", e.index_literal(e.threads()), Prec::product), "+",
                {e.linear_thread(), linear_prec(e), false}, Prec::sum);
}
Expr grid_pos(Emitter& e, const LaneCall& c) {
  const int axis = static_cast<int>(c.imm);
  const Expr group = as_index(e, e.dialect().group_id(axis));
  return binary(binary(group, "*", e.index_literal(axis_size(e, c.imm)), Prec::product), "+",
                raw(e.dialect().thread_pos(axis)), Prec::sum);
}
Expr lane_id(Emitter& e, const LaneCall&) {
  return as_index(e, binary({e.linear_thread(), linear_prec(e), false}, "%", raw("32u"), Prec::product).text,
                  Prec::product);
}
Expr simdgroup_id(Emitter& e, const LaneCall&) {
  return as_index(e, binary({e.linear_thread(), linear_prec(e), false}, "/", raw("32u"), Prec::product).text,
                  Prec::product);
}
Expr simdgroup_count(Emitter& e, const LaneCall&) { return e.index_literal(e.simdgroups()); }
Expr simd_width(Emitter& e, const LaneCall&) { return e.index_literal(32); }
Expr item_count(Emitter& e, const LaneCall&) { return raw(e.items()); }

void length(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  OpId mem = k.operand(id, 0);
  const i64 element = dtype_size(k.type(mem).elem);
  i64 skipped = 0;
  bool reshaped = false;
  for (; k.op(mem).code == Opcode::View || k.op(mem).code == Opcode::SharedAlias;
       mem = k.operand(mem, 0), reshaped = true)
    skipped += static_cast<i64>(k.op(mem).imm);
  const i64 root_element = dtype_size(k.type(mem).elem);
  if (k.op(mem).code != Opcode::Param)
    return e.set(id, {e.index_literal((static_cast<i64>(k.op(mem).imm) * root_element - skipped) / element)});
  const Expr count = raw(e.length_of_param(static_cast<u32>(k.op(mem).imm)));
  if (!reshaped) return e.set(id, {count});
  Expr bytes = binary(count, "*", e.index_literal(root_element), Prec::product);
  if (skipped) bytes = binary(bytes, "-", e.index_literal(skipped), Prec::sum);
  e.define(id, "length", {binary(bytes, "/", e.index_literal(element), Prec::product)});
}

void vec_make(Emitter& e, OpId id) {
  std::vector<Expr> lanes;
  for (u32 i = 0; i < e.kernel().op(id).operand_count; ++i) lanes.push_back(e.arg(id, i));
  e.set(id, std::move(lanes));
}
void vec_extract(Emitter& e, OpId id) { e.set(id, {e.arg(id, 0, static_cast<u32>(e.kernel().op(id).imm))}); }
void vec_insert(Emitter& e, OpId id) {
  std::vector<Expr> lanes;
  for (u32 i = 0; i < e.kernel().type(id).lanes; ++i)
    lanes.push_back(i == e.kernel().op(id).imm ? e.arg(id, 1) : e.arg(id, 0, i));
  e.set(id, std::move(lanes));
}

Expr bounded(Emitter& e, const LaneCall& c) {
  return e.apply(Opcode::Max, c.type, {e.apply(Opcode::Min, c.type, {c.args[0], c.args[2]}), c.args[1]});
}
Expr same_value(Emitter&, const LaneCall& c) { return c.args[0]; }

}  // namespace iron::emit::rows
