// Bounds of floats and small integers from clamps and constants: enough to see how far an exponent can go.
#include <cmath>
#include <limits>

#include "cpu/lowering.h"

namespace iron::cpu {

using ir::Opcode;

namespace {
constexpr f64 infinity = std::numeric_limits<f64>::infinity();
bool constant_f32(const ir::Kernel& k, OpId id, f64& out) {
  if (k.op(id).code != Opcode::Const || k.type(id).elem != DType::f32) return false;
  out = std::bit_cast<f32>(static_cast<u32>(k.op(id).imm));
  return out == out;
}
}  // namespace

// Bounds that hold and exclude NaN; nothing if that is not known.
std::optional<Lowering::FloatRange> Lowering::float_range(OpId id, int depth) const {
  const auto& op = k_.op(id);
  f64 c = 0;
  if (depth > 12 || op.type.elem != DType::f32) return std::nullopt;
  if (constant_f32(k_, id, c)) return FloatRange{c, c};
  const auto operand = [&](u32 i) { return k_.operand(id, i); };
  if (op.code == Opcode::Select) {
    // lt(x, c) ? x : c is at most c, and c where x is NaN; gt likewise.
    const OpId test = operand(0), x = operand(1);
    if (!constant_f32(k_, operand(2), c)) return std::nullopt;
    const auto code = k_.op(test).code;
    f64 bound = 0;
    if ((code != Opcode::Lt && code != Opcode::Gt) || k_.operand(test, 0) != x ||
        !constant_f32(k_, k_.operand(test, 1), bound) || bound != c)
      return std::nullopt;
    FloatRange r = float_range(x, depth + 1).value_or(FloatRange{-infinity, infinity});
    if (code == Opcode::Lt)
      r.most = std::min(r.most, c), r.least = std::min(r.least, c);
    else
      r.least = std::max(r.least, c), r.most = std::max(r.most, c);
    return r;
  }
  if (op.code == Opcode::Fma || op.code == Opcode::Add || op.code == Opcode::Sub || op.code == Opcode::Mul) {
    const auto a = float_range(operand(0), depth + 1), b = float_range(operand(1), depth + 1);
    const bool fma = op.code == Opcode::Fma;
    const auto d = fma ? float_range(operand(2), depth + 1) : FloatRange{0, 0};
    if (!a || !b || !d) return std::nullopt;
    FloatRange r;
    if (op.code == Opcode::Add)
      r = {a->least + b->least, a->most + b->most};
    else if (op.code == Opcode::Sub)
      r = {a->least - b->most, a->most - b->least};
    else {
      const f64 p[] = {a->least * b->least, a->least * b->most, a->most * b->least, a->most * b->most};
      r = {*std::min_element(p, p + 4) + d->least, *std::max_element(p, p + 4) + d->most};
    }
    if (!(std::abs(r.least) < 1e30 && std::abs(r.most) < 1e30)) return std::nullopt;
    // Rounding moves a bound by less than this; the bounds of f64 arithmetic are looser than one f32 step.
    r.least -= std::abs(r.least) * 0x1p-22, r.most += std::abs(r.most) * 0x1p-22;
    return r;
  }
  return std::nullopt;
}

std::pair<i64, i64> Lowering::integer_range(OpId id) const {
  const std::pair<i64, i64> all{std::numeric_limits<i32>::min(), std::numeric_limits<i32>::max()};
  const auto& op = k_.op(id);
  i64 c = 0;
  if (op.type.elem != DType::i32) return all;
  if (ir::const_index(k_, id, c)) return {c, c};
  if ((op.code == Opcode::Sub || op.code == Opcode::Add) && ir::const_index(k_, k_.operand(id, 1), c)) {
    const auto r = integer_range(k_.operand(id, 0));
    if (op.code == Opcode::Sub) c = -c;
    if (r == all || r.first + c < all.first || r.second + c > all.second) return all;
    return {r.first + c, r.second + c};
  }
  if (op.code == Opcode::Bitcast) {
    // Bits of positive floats are in their order.
    const auto r = float_range(k_.operand(id, 0), 0);
    if (!r || !(r->least > 0)) return all;
    return {std::bit_cast<i32>(static_cast<f32>(r->least)), std::bit_cast<i32>(static_cast<f32>(r->most))};
  }
  if (op.code == Opcode::Cast) {
    const auto r = float_range(k_.operand(id, 0), 0);
    if (!r || !(std::abs(r->least) < 1e9 && std::abs(r->most) < 1e9)) return all;
    return {static_cast<i64>(std::floor(r->least)), static_cast<i64>(std::ceil(r->most))};
  }
  return all;
}

}  // namespace iron::cpu
