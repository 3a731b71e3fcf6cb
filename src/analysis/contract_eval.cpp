// The body of a kernel, walked once per launch: ops and branches.
#include "analysis/contract_evaluator.h"

namespace iron::analysis {

using namespace ir;

BodyEvaluator::BodyEvaluator(const Contract::Impl& c, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                             u32 simd_width)
    : c_(c), k_(c.kernel), geometry_(geometry), args_(args), facts_(k_, geometry, args, simd_width) {
  needs_.extents.assign(k_.params.size(), 0);
}

Verdict BodyEvaluator::run() {
  for (const auto& p : k_.params)
    if (c_.needed[p.op]) facts_.define(p.op);
  walk(k_.body());
  needs_.shared_bytes = c_.shared_bytes;
  const bool fits_i32 = Range::between(index_lo_, index_hi_).within(Range::of(DType::i32));
  const bool fits_u32 = Range::between(index_lo_, index_hi_).within(Range::of(DType::u32));
  needs_.index_width = fits_i32 ? IndexWidth::i32 : fits_u32 ? IndexWidth::u32 : IndexWidth::i64;
  needs_.index64 = needs_.index_width == IndexWidth::i64;
  return {std::move(problems_), std::move(needs_)};
}

void BodyEvaluator::walk(RegionId r) {
  for (const OpId id : c_.steps[r]) {
    if (facts_.dead()) return;  // no thread gets here
    visit(id);
  }
}

void BodyEvaluator::visit(OpId id) {
  switch (k_.op(id).code) {
    case Opcode::For:
      return loop(id);
    case Opcode::If:
      return branch(id);
    case Opcode::Roles:
      for (u32 i = 0; i < k_.op(id).region_count; ++i) {
        const auto mark = facts_.push();
        walk(k_.region_of(id, i));
        facts_.pop(mark);
      }
      for (const OpId r : c_.results[id])
        if (c_.needed[r]) define_range(r, Range::of(k_.type(r).elem));
      return;
    case Opcode::Assume:
      return facts_.assume(k_.operand(id, 0), true);
    case Opcode::TileMma:
    case Opcode::TileLoad:
    case Opcode::TileStore:
      tile(id);
      return;
    default:
      break;
  }
  if (const AccessOf a = access_of(k_, id); a.memory != none) access(id, a);
  if (c_.needed[id]) {
    facts_.define(id);
    note_index(id);
  }
}

void BodyEvaluator::define_range(OpId v, const Range& r) {
  facts_.define_range(v, r);
  note_index(v);
}
void BodyEvaluator::note_index(OpId v) {
  if (silent_ || !k_.type(v).is_index()) return;
  const Range r = facts_.range(v);
  if (r.empty()) return;
  index_lo_ = std::min(index_lo_, r.lo), index_hi_ = std::max(index_hi_, r.hi);
}

BodyEvaluator::Outcome BodyEvaluator::arm(OpId id, u32 which) {
  Outcome o;
  const auto mark = facts_.push();
  facts_.assume(k_.operand(id, 0), which == 0);
  if (!facts_.dead()) {
    const RegionId r = k_.region_of(id, which);
    walk(r);
    o.reached = !facts_.dead();
    if (o.reached) o = yielded(r, c_.results[id]);
  }
  facts_.pop(mark);
  return o;
}
BodyEvaluator::Outcome BodyEvaluator::yielded(RegionId r, const std::vector<OpId>& results) {
  Outcome o;
  o.reached = true;
  o.ranges.resize(results.size()), o.forms.resize(results.size());
  const OpId yield = k_.terminator(r);
  for (u32 i = 0; i < results.size(); ++i) {
    if (!c_.needed[results[i]]) continue;
    const OpId v = k_.operand(yield, i);
    o.ranges[i] = facts_.range(v);
    if (is_integer(k_.type(v))) o.forms[i] = facts_.linear(v);
  }
  return o;
}
void BodyEvaluator::branch(OpId id) {
  const Outcome a = arm(id, 0), b = arm(id, 1);
  for (u32 i = 0; i < c_.results[id].size(); ++i) {
    const OpId result = c_.results[id][i];
    if (!c_.needed[result]) continue;
    if (!a.reached && !b.reached) {
      define_range(result, Range::of(k_.type(result).elem));
      continue;
    }
    const Range r = hull(a.reached ? a.ranges[i] : Range{}, b.reached ? b.ranges[i] : Range{});
    if (!is_integer(k_.type(result))) {
      define_range(result, r);
      continue;
    }
    // Both arms give one form, or forms a constant apart.
    Linear form, apart;
    bool known = false;
    if (a.reached != b.reached)
      form = a.reached ? a.forms[i] : b.forms[i], known = true;
    else if (a.forms[i].combine(1, b.forms[i], -1, apart) && apart.is_constant()) {
      known = apart.c == 0 ? (form = b.forms[i], true)
                           : b.forms[i].combine(
                                 1, Linear::of(facts_.fresh(hull(Range::point(0), Range::point(apart.c)))), 1, form);
    }
    // A form over values of an arm means nothing outside it.
    if (known && !outlives(form, id)) known = false;
    if (known)
      facts_.define_linear(result, form, r);
    else
      facts_.define_range(result, r);
    note_index(result);
  }
  if (!a.reached && !b.reached && !facts_.dead()) facts_.assume_non_negative(Linear::constant(-1));
}
// Leaves that are ops inside `region_op` are out of scope after it.
bool BodyEvaluator::outlives(const Linear& l, OpId region_op) const {
  for (const auto& t : l.terms())
    if (t.leaf < k_.op_capacity() && k_.op(t.leaf).region != k_.op(region_op).region &&
        !k_.encloses(k_.op(t.leaf).region, k_.op(region_op).region))
      return false;
  return true;
}

Verdict evaluate_body(const Contract::Impl& c, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                      u32 simd_width) {
  return BodyEvaluator(c, geometry, args, simd_width).run();
}

}  // namespace iron::analysis
