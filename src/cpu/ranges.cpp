// Bounds of floats and small integers from clamps and constants: enough to see how far an exponent can go. What an
// index is a multiple of: enough to see that a packet does not cross a row.
#include <cmath>
#include <limits>
#include <numeric>

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

// Products are followed only by constants, so that no sum of these can leave 64 bits.
u64 Lowering::multiple_of(OpId id, int depth) const {
  constexpr u64 any = u64{1} << 32;  // zero is a multiple of everything
  const auto& op = k_.op(id);
  if (depth > 12 || !op.type.is_index()) return 0;
  i64 c = 0;
  if (ir::const_index(k_, id, c)) return c < 0 || c > i64{1} << 30 ? 0 : c == 0 ? any : static_cast<u64>(c);
  const auto operand = [&](u32 i) { return multiple_of(k_.operand(id, i), depth + 1); };
  switch (op.code) {
    case Opcode::GroupSize:
      return count_;
    case Opcode::ThreadId:
    case Opcode::LaneId:
    case Opcode::SimdgroupId:
    case Opcode::GroupId:
    case Opcode::GroupCount:
    case Opcode::GridThreadId:
      return 1;
    case Opcode::Cast: {
      const DType from = k_.type(k_.operand(id, 0)).elem;
      return is_int(from) && !is_signed_int(from) && dtype_bits(from) <= 32 ? 1 : 0;
    }
    case Opcode::Add:
      return std::gcd(operand(0), operand(1)) * (operand(0) && operand(1));
    case Opcode::Mul: {
      const bool left = ir::const_index(k_, k_.operand(id, 0), c);
      if (!left && !ir::const_index(k_, k_.operand(id, 1), c)) return 0;
      return std::min(any, operand(0) * operand(1));
    }
    case Opcode::Div:
    case Opcode::Rem:
    case Opcode::Shr:
      return ir::const_index(k_, k_.operand(id, 1), c) && c > 0 && operand(0) ? 1 : 0;
    case Opcode::And:
      return ir::const_index(k_, k_.operand(id, 1), c) && c >= 0 ? 1 : 0;
    case Opcode::Arg: {
      const auto parent = k_.region(op.region).parent;
      if (parent == ir::none || k_.op(parent).code != Opcode::For || k_.region(op.region).args[0] != id) return 0;
      const u64 start = multiple_of(k_.operand(parent, 0), depth + 1),
                step = multiple_of(k_.operand(parent, 2), depth + 1);
      return start && step ? std::gcd(start, step) : 0;
    }
    default:
      return 0;
  }
}

bool Lowering::starts_aligned(OpId id, int depth) const {
  const auto& op = k_.op(id);
  if (depth > 12 || !op.type.is_index()) return false;
  if (multiple_of(id) % lanes_ == 0 && multiple_of(id)) return true;
  i64 c = 0;
  const auto operand = [&](u32 i) { return starts_aligned(k_.operand(id, i), depth + 1); };
  switch (op.code) {
    case Opcode::ThreadId:
    case Opcode::LaneId:
      return true;
    case Opcode::GridThreadId:
      return count_ % lanes_ == 0;
    case Opcode::Add:
      return operand(0) && operand(1);
    case Opcode::Rem:
      return operand(0) && ir::const_index(k_, k_.operand(id, 1), c) && c > 0 && c % lanes_ == 0;
    case Opcode::And:
      return operand(0) && ir::const_index(k_, k_.operand(id, 1), c) && c >= 0;
    case Opcode::Arg: {
      const auto parent = k_.region(op.region).parent;
      if (parent == ir::none || k_.op(parent).code != Opcode::For || k_.region(op.region).args[0] != id) return false;
      const u64 step = multiple_of(k_.operand(parent, 2), depth + 1);
      return step && step % lanes_ == 0 && starts_aligned(k_.operand(parent, 0), depth + 1);
    }
    default:
      return false;
  }
}

bool Lowering::counts_lanes(OpId id, int depth) const {
  const auto& op = k_.op(id);
  const u64 span = u64{chunk_->width} * lanes_;
  if (depth > 12 || !op.type.is_index() || chunk_->leader) return false;
  const auto even = [&](OpId o) {
    const u64 m = multiple_of(o);
    return m != 0 && m % span == 0 && uniformity_.uniform(o, ir::Scope::simdgroup);
  };
  const auto operand = [&](u32 i) { return counts_lanes(k_.operand(id, i), depth + 1); };
  i64 c = 0;
  switch (op.code) {
    case Opcode::ThreadId:  // chunks start at a multiple of their lanes
    case Opcode::LaneId:
      return true;
    case Opcode::GridThreadId:
      return count_ % span == 0;
    case Opcode::ThreadPos:
      return op.imm == 0 && threads_.x % span == 0;
    case Opcode::Add:
      return (operand(0) && even(k_.operand(id, 1))) || (even(k_.operand(id, 0)) && operand(1));
    case Opcode::Rem:
      return ir::const_index(k_, k_.operand(id, 1), c) && c > 0 && static_cast<u64>(c) % span == 0 && operand(0);
    case Opcode::Arg: {
      const auto parent = k_.region(op.region).parent;
      return parent != ir::none && k_.op(parent).code == Opcode::For && k_.region(op.region).args[0] == id &&
             even(k_.operand(parent, 2)) && counts_lanes(k_.operand(parent, 0), depth + 1);
    }
    default:
      return false;
  }
}

// Lanes that count up by one from an aligned start share the quotient by a multiple of the lanes; the remainders count
// up as the lanes do.
Part Lowering::split_index(OpId id, const Part& a, bool& done) {
  done = false;
  const auto& op = k_.op(id);
  i64 step = 0, c = 0;
  const bool divides = op.code == Opcode::Div || op.code == Opcode::Shr;
  if (!divides && op.code != Opcode::Rem && op.code != Opcode::And) return {};
  if (!a.stride || c_.lanes(a.v) || !c_.constant_int(a.stride, step) || step != 1) return {};
  if (!ir::const_index(k_, k_.operand(id, 1), c)) return {};
  if (op.code == Opcode::Shr) c = c >= 0 && c < 32 ? i64{1} << c : 0;
  if (op.code == Opcode::And) c = c < i64{1} << 32 && (c & (c + 1)) == 0 ? c + 1 : 0;
  if (c <= 0 || c % lanes_ != 0 || !starts_aligned(k_.operand(id, 0))) return {};
  done = true;
  V by = c_.i64(c);
  return divides ? Part{c_.bin(Bin::udiv, a.v, by), nullptr} : Part{c_.bin(Bin::urem, a.v, by), a.stride};
}

}  // namespace iron::cpu
