// Facts, checks and prints: what the interpreter alone can test (R7).
#include <fmt/format.h>

#include "exec/machine.h"
#include "ir/eval.h"
#include "ir/float_bits.h"
#include "ir/text.h"

namespace iron::exec {

namespace {
using namespace ir;

Status bounded(Machine& m, Simdgroup& s, const Instr& in) {
  const u32 size = dtype_size(in.elem);
  for (u32 i = 0; i < in.n; ++i) {
    const u64 v = lane_bits(s, in.a, size, i), lo = lane_bits(s, in.b, size, i), hi = lane_bits(s, in.c, size, i);
    const u64 r = reduce_step(ReduceKind::min, in.elem, reduce_step(ReduceKind::max, in.elem, v, lo), hi);
    const u32 l = i % m.width;
    if (r != v && (s.mask >> l & 1) && m.fresh(code::clamped, in.op))
      m.report(
          {code::clamped,
           fmt::format("bounded() clamps {} to {} (from {} to {}) in {}", value_text(in.elem, v),
                       value_text(in.elem, r), value_text(in.elem, lo), value_text(in.elem, hi), m.thread_name(s, l)),
           "the value was promised to lie in the range: correct the data or the bounds"},
          in.op);
    set_lane_bits(s, in.dst, size, i, r);
  }
  return Status::next;
}

template <bool Assumption>
Status condition(Machine& m, Simdgroup& s, const Instr& in) {
  const u8* c = reg<u8>(s, in.a);
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    if (c[l] & 1) continue;
    const auto which = Assumption ? code::assumption : code::check;
    if (m.fresh(which, in.op))
      m.report({which,
                fmt::format("{} fails in {}: {}", Assumption ? "an assumption" : "a check", m.thread_name(s, l),
                            m.kernel.texts[in.imm]),
                ""},
               in.op);
    break;
  }
  return Status::next;
}

Status print(Machine& m, Simdgroup& s, const Instr& in) {
  const auto operands = m.kernel.operands(in.op);
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    if (m.result.prints.size() >= m.options.max_prints) break;
    const auto l = static_cast<u32>(std::countr_zero(rest));
    std::vector<std::string> values;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Type t = m.kernel.type(operands[i]);
      std::vector<u64> elements;
      for (u32 e = 0; e < t.lanes; ++e)
        elements.push_back(lane_bits(s, m.program.operands[in.first + i], dtype_size(t.elem), e * m.width + l));
      values.push_back(value_text(t, elements));
    }
    m.result.prints.push_back(fill_places(m.kernel.texts[in.imm], values));
  }
  return Status::next;
}

// Over a simdgroup the lanes are compared; over more, the n-th value of each simdgroup with that of the first.
Status assume_uniform(Machine& m, Simdgroup& s, const Instr& in) {
  std::memcpy(s.regs + in.dst, s.regs + in.a, std::size_t{in.n} * dtype_size(in.elem));
  const auto scope = unpack<Scope>(in.imm);
  if (scope == Scope::lane || !s.mask) return Status::next;
  const u32 size = dtype_size(in.elem), first = static_cast<u32>(std::countr_zero(s.mask));
  const auto say = [&](u32 l, u64 v, u64 other, std::string_view over) {
    if (m.fresh(code::not_uniform, in.op))
      m.report({code::not_uniform,
                fmt::format("a value promised uniform over the {} is {} in {} and {} elsewhere", over,
                            value_text(in.elem, v), m.thread_name(s, l), value_text(in.elem, other)),
                ""},
               in.op);
  };
  for (u32 e = 0; e < in.lanes; ++e) {
    const u64 v0 = lane_bits(s, in.a, size, e * m.width + first);
    for (u64 rest = s.mask; rest; rest &= rest - 1) {
      const auto l = static_cast<u32>(std::countr_zero(rest));
      if (const u64 v = lane_bits(s, in.a, size, e * m.width + l); v != v0) say(l, v, v0, name(scope));
    }
    if (scope <= Scope::simdgroup) continue;
    auto& log = s.group->uniform[m.index_of(in)];
    const u32 visit = s.visits[m.index_of(in)]++;
    if (visit >= log.size())
      log.push_back(v0);
    else if (log[visit] != v0)
      say(first, v0, log[visit], name(scope));
  }
  return Status::next;
}

Status check_index(Machine& m, Simdgroup& s, const Instr& in) {
  const i64* v = reg<i64>(s, in.a);
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    if (v[l] == static_cast<i32>(v[l])) continue;
    if (m.fresh(code::index_overflow, in.op))
      m.report(
          {code::index_overflow,
           fmt::format("an index is {} in {}, which does not fit the 32 bits that this launch computes addresses in",
                       v[l], m.thread_name(s, l)),
           "launch with 64-bit addresses, or split the buffer"},
          in.op);
    break;
  }
  return Status::next;
}

// The bits of a NaN that arithmetic made differ between devices (R2).
Status check_nan(Machine& m, Simdgroup& s, const Instr& in) {
  const u32 size = dtype_size(in.source);
  const u32 elements = m.kernel.type(m.kernel.operand(in.op, 0)).lanes;
  const u64 infinity = float_bits(in.source, std::numeric_limits<f64>::infinity()), sign = u64{1} << (size * 8 - 1);
  for (u32 i = 0; i < elements * m.width; ++i) {
    const u32 l = i % m.width;
    if (!(s.mask >> l & 1) || (lane_bits(s, in.a, size, i) & ~sign) <= infinity) continue;
    if (m.fresh(code::nan_bits, in.op))
      m.report({code::nan_bits,
                fmt::format("the bits of a NaN that arithmetic made are used in {}; they differ between devices",
                            m.thread_name(s, l)),
                "select a value of your own where is_nan() holds", Severity::warning},
               in.op);
    break;
  }
  return Status::next;
}

// Elements change their size: lane by lane, the bytes of the whole vector.
Status bitcast(Machine& m, Simdgroup& s, const Instr& in) {
  const u32 to = dtype_size(in.elem), from = dtype_size(in.source);
  if (to == from) {
    std::memcpy(s.regs + in.dst, s.regs + in.a, std::size_t{in.n} * to);
    return Status::next;
  }
  std::byte bytes[128];
  for (u32 l = 0; l < m.width; ++l) {
    for (u32 e = 0; e < in.imm; ++e)
      std::memcpy(bytes + e * from, s.regs + in.a + (std::size_t{e} * m.width + l) * from, from);
    for (u32 e = 0; e < in.lanes; ++e)
      std::memcpy(s.regs + in.dst + (std::size_t{e} * m.width + l) * to, bytes + e * to, to);
  }
  return Status::next;
}
}  // namespace

Handler check_index_handler() { return check_index; }
Handler check_nan_handler() { return check_nan; }
Handler bitcast_handler() { return bitcast; }

bool fact_handler(const Kernel& k, OpId id, Instr& in) {
  switch (k.op(id).code) {
    case Opcode::Bounded:
      in.fn = bounded;
      return true;
    case Opcode::AssumeUniform:
      in.fn = assume_uniform;
      return true;
    case Opcode::Assume:
      in.fn = condition<true>;
      return true;
    case Opcode::Check:
      in.fn = condition<false>;
      return true;
    case Opcode::Print:
      in.fn = print;
      return true;
    default:
      return false;
  }
}

}  // namespace iron::exec
