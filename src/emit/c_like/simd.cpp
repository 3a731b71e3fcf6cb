// Rows of simdgroups and threadgroups: shuffles, votes, reductions and scans in their stated order (R4).
#include <fmt/format.h>

#include "emit/c_like/rows.h"
#include "ir/eval.h"

namespace iron::emit::rows {

using ir::Opcode;
using ir::OpId;
using ir::ReduceKind;

namespace {
Opcode step_of(ReduceKind kind) {
  static constexpr Opcode steps[] = {Opcode::Add, Opcode::Mul, Opcode::Min, Opcode::Max,
                                     Opcode::And, Opcode::Or,  Opcode::Xor};
  return steps[static_cast<std::size_t>(kind)];
}
std::string_view word(ReduceKind kind) {
  static constexpr std::string_view words[] = {"sum", "prod", "min", "max", "and", "or", "xor"};
  return words[static_cast<std::size_t>(kind)];
}
std::string unrolled(Emitter& e) {
  const std::string pragma = e.dialect().unroll_pragma();
  return pragma.empty() ? pragma : pragma + "\n";
}
Expr identity(Emitter& e, ReduceKind kind, DType t) { return e.literal(t, ir::reduce_identity(kind, t)); }

std::string simd_reduction(Emitter& e, ReduceKind kind, DType t) {
  return e.made(fmt::format("simd_{}_{}", word(kind), dtype_name(t)), [&] {
    const auto type = e.type_name(t);
    const Expr other = e.call("shuffle_xor", {raw("v"), raw("mask")});
    return fmt::format(
        "$fn {0} simd_{1}_{2}({0} v) {{\n{3}  for (u32 mask = 16; mask != 0; mask /= 2) v = {4};\n  return v;\n}}",
        type, word(kind), dtype_name(t), unrolled(e), e.apply(step_of(kind), t, {raw("v"), other}).text);
  });
}

std::string simd_prefix(Emitter& e, ReduceKind kind, DType t) {
  return e.made(fmt::format("simd_scan_{}_{}", word(kind), dtype_name(t)), [&] {
    const auto type = e.type_name(t);
    const Expr below = e.call("shuffle_up", {raw("v"), raw("offset")});
    return fmt::format(
        "// inclusive prefix\n$fn {0} simd_scan_{1}_{2}({0} v, u32 lane) {{\n{3}  for (u32 offset = 1; offset < 32; "
        "offset *= 2) {{\n"
        "    const {0} below = {4};\n    if (lane >= offset) v = {5};\n  }}\n  return v;\n}}",
        type, word(kind), dtype_name(t), unrolled(e), below.text,
        e.apply(step_of(kind), t, {raw("below"), raw("v")}).text);
  });
}

std::string lane_text(Emitter& e) { return fmt::format("({}) % 32u", e.linear_thread()); }

std::string group_reduction(Emitter& e, ReduceKind kind, DType t) {
  const std::string inner = simd_reduction(e, kind, t);
  return e.made(fmt::format("group_{}_{}", word(kind), dtype_name(t)), [&] {
    const auto type = e.type_name(t);
    const std::string none = identity(e, kind, t).text;
    const u32 count = e.simdgroups();
    const std::string slots = e.dialect().pointer(ir::Space::shared, t, false),
                      raw_slots = e.dialect().pointer(ir::Space::shared, DType::u64, false);
    return fmt::format(
        "// One partial a simdgroup, padded to 32 with the identity; the last barrier frees the slots.\n"
        "$fn {0} group_{1}_{2}({0} v, u32 thread, {3} partials) {{\n"
        "  {4} const slots = ({4})partials;\n  v = {5}(v);\n  if (thread % 32u == 0) slots[thread / 32u] = v;\n  {6}\n"
        "  v = {5}(thread % 32u < {7}u ? slots[thread % 32u] : ({0}){8});\n  {6}\n  return v;\n}}",
        type, word(kind), dtype_name(t), raw_slots, slots, inner, e.dialect().barrier(), count, none);
  });
}

std::string group_prefix(Emitter& e, ReduceKind kind, DType t, bool exclusive) {
  const std::string inner = simd_prefix(e, kind, t);
  const std::string name = fmt::format("group_{}scan_{}_{}", exclusive ? "exclusive_" : "", word(kind), dtype_name(t));
  return e.made(name, [&] {
    const auto type = e.type_name(t);
    const std::string none = fmt::format("({}){}", type, identity(e, kind, t).text);
    const std::string slots = e.dialect().pointer(ir::Space::shared, t, false),
                      raw_slots = e.dialect().pointer(ir::Space::shared, DType::u64, false);
    const std::string up = e.call("shuffle_up", {raw("v"), raw("1")}).text;
    const std::string total_before = e.call("shuffle", {raw("total"), raw("(i32)simdgroup - 1")}).text;
    std::string text = fmt::format(
        "$fn {0} {1}({0} v, u32 thread, {2} partials) {{\n"
        "  const u32 lane = thread % 32u, simdgroup = thread / 32u;\n  {3} const slots = ({3})partials;\n  v = {4}(v, "
        "lane);\n"
        "  if (lane == 31u) slots[simdgroup] = v;\n  {5}\n  {0} total = lane < {6}u ? slots[lane] : {7};\n  total = "
        "{4}(total, lane);\n  {5}\n",
        type, name, raw_slots, slots, inner, e.dialect().barrier(), e.simdgroups(), none);
    text += fmt::format("  const {0} shuffled = {1};\n  const {0} before = simdgroup == 0 ? {2} : shuffled;\n", type,
                        total_before, none);
    if (exclusive)
      text += fmt::format("  const {0} shifted = {1};\n  v = lane == 0 ? {2} : shifted;\n", type, up, none);
    text += fmt::format("  return {};\n}}", e.apply(step_of(kind), t, {raw("before"), raw("v")}).text);
    return text;
  });
}

// A helper on one element, applied to each lane of a vector.
void each_lane(Emitter& e, OpId id, std::string_view hint, const std::function<Expr(const Expr&)>& f) {
  std::vector<Expr> out;
  for (u32 lane = 0; lane < e.kernel().type(id).lanes; ++lane) out.push_back(f(e.arg(id, 0, lane)));
  e.define(id, hint, out);
}
Expr plain_call(const std::string& f, std::initializer_list<std::string> args) {
  std::string text = f + "(";
  for (const auto& a : args) text += (text.back() == '(' ? "" : ", ") + a;
  return raw(text + ")");
}
}  // namespace

void simd_reduce(Emitter& e, OpId id) {
  const auto kind = ir::unpack<ReduceKind>(e.kernel().op(id).imm);
  const std::string f = simd_reduction(e, kind, e.kernel().type(id).elem);
  each_lane(e, id, fmt::format("simd_{}", word(kind)), [&](const Expr& v) { return plain_call(f, {v.text}); });
}

void simd_scan(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::ScanImm>(e.kernel().op(id).imm);
  const DType t = e.kernel().type(id).elem;
  const std::string f = simd_prefix(e, imm.kind, t);
  each_lane(e, id, "prefix", [&](const Expr& v) {
    Expr inclusive = plain_call(f, {v.text, lane_text(e)});
    if (!imm.exclusive) return inclusive;
    const Expr up = e.name(id, e.type_name(t), "below", e.call("shuffle_up", {inclusive, raw("1")}));
    return ternary(raw("(" + lane_text(e) + " == 0)"),
                   raw(fmt::format("({}){}", e.type_name(t), identity(e, imm.kind, t).text)), up);
  });
}

void simd_shuffle(Emitter& e, OpId id) {
  const auto& op = e.kernel().op(id);
  const DType t = op.type.elem;
  const std::string typed = t == DType::index ? std::string(e.type_name(t)) : std::string(e.type_name(t));
  // The cast gives a literal its type.
  const auto typed_value = [&](const Expr& v) { return v.literal ? c_cast(typed, v) : v; };
  const u32 amount = static_cast<u32>(op.imm);
  each_lane(e, id, "other", [&](const Expr& v) -> Expr {
    switch (op.code) {
      case Opcode::SimdShuffle:
      case Opcode::SimdBroadcast:
        return e.call("shuffle", {typed_value(v), c_cast("i32", e.arg(id, 1))});
      case Opcode::SimdShuffleXor:
        return e.call("shuffle_xor", {typed_value(v), raw(fmt::format("{}", amount & 31u))});
      case Opcode::SimdShuffleUp:
        return amount > 31 ? v : e.call("shuffle_up", {typed_value(v), raw(fmt::format("{}", amount))});
      default:
        return amount > 31 ? v : e.call("shuffle_down", {typed_value(v), raw(fmt::format("{}", amount))});
    }
  });
}

void simd_vote(Emitter& e, OpId id) {
  const auto code = e.kernel().op(id).code;
  const std::string_view f = code == Opcode::SimdBallot ? "ballot" : code == Opcode::SimdAny ? "simd_any" : "simd_all";
  e.define(id, f, {e.call(f, {e.arg(id, 0)})});
}

void group_reduce(Emitter& e, OpId id) {
  const auto kind = ir::unpack<ReduceKind>(e.kernel().op(id).imm);
  const DType t = e.kernel().type(id).elem;
  const std::string hint = fmt::format("group_{}", word(kind));
  if (e.simdgroups() == 1) {
    // One simdgroup: its partial meets the identities of the other 31, which one step does.
    const std::string f = simd_reduction(e, kind, t);
    return each_lane(e, id, hint, [&](const Expr& v) {
      const Expr partial = plain_call(f, {v.text});
      return is_float(t) && (kind == ReduceKind::min || kind == ReduceKind::max)
                 ? e.apply(step_of(kind), t, {partial, identity(e, kind, t)})
                 : partial;
    });
  }
  const std::string f = group_reduction(e, kind, t), slots = e.partials();
  each_lane(e, id, hint, [&](const Expr& v) { return plain_call(f, {v.text, e.linear_thread(), slots}); });
}

void group_scan(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::ScanImm>(e.kernel().op(id).imm);
  const std::string f = group_prefix(e, imm.kind, e.kernel().type(id).elem, imm.exclusive), slots = e.partials();
  each_lane(e, id, "prefix", [&](const Expr& v) { return plain_call(f, {v.text, e.linear_thread(), slots}); });
}

void group_vote(Emitter& e, OpId id) {
  const std::string_view f = e.kernel().op(id).code == Opcode::GroupAny ? "group_any" : "group_all";
  e.define(id, f, {e.call(f, {e.arg(id, 0)})});
}

void group_broadcast(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const DType t = k.type(id).elem;
  const std::string slots = e.partials(), pointer = e.dialect().pointer(ir::Space::shared, t, false);
  const std::string f = e.made(fmt::format("group_broadcast_{}", dtype_name(t)), [&] {
    const std::string raw_slots = e.dialect().pointer(ir::Space::shared, DType::u64, false);
    return fmt::format(
        "$fn {0} group_broadcast_{1}({0} v, bool owner, {2} partials) {{\n  if (owner) *({3})partials = v;\n  {4}\n"
        "  v = *({3})partials;\n  {4}\n  return v;\n}}",
        e.type_name(t), dtype_name(t), raw_slots, pointer, e.dialect().barrier());
  });
  const std::string owner = fmt::format("({}) == {}u", e.linear_thread(), k.op(id).imm);
  each_lane(e, id, "shared_value", [&](const Expr& v) { return plain_call(f, {v.text, owner, slots}); });
}

void barrier(Emitter& e, OpId id) { e.line(id, e.dialect().barrier()); }
void simd_barrier(Emitter& e, OpId id) { e.line(id, e.dialect().simd_barrier()); }

}  // namespace iron::emit::rows
