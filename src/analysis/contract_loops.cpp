// Loops in the launch contract: trips, and ranges of what they carry.
#include <fmt/format.h>

#include <numeric>

#include "analysis/contract_evaluator.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

namespace {
constexpr Wide u64_max = (Wide{1} << 64) - 1;
}  // namespace

void BodyEvaluator::loop(OpId id) {
  const OpId start = k_.operand(id, 0), end = k_.operand(id, 1), step = k_.operand(id, 2);
  Trips trips;
  trips.step = facts_.range(step);
  if (trips.step.hi < 1 || trips.step.lo < 1) {
    auto d = refuse("D02", id, fmt::format("the loop's step is in {}, which is not at least 1", to_string(trips.step)));
    if (d)
      d->notes.push_back(
          {fmt::format("the step is {}", expression(k_, step)), k_.location(step).file, k_.location(step).line});
    if (d) d->fix = "pass a step of at least 1, or write max(step, 1)";
    trips.step.lo = 1, trips.step.hi = std::max<Wide>(trips.step.hi, 1);
  }
  Linear span;
  Wide most = facts_.range(end).hi - facts_.range(start).lo, least = facts_.range(end).lo - facts_.range(start).hi;
  if (facts_.linear(end).combine(1, facts_.linear(start), -1, span)) {
    most = std::min(most, facts_.upper(span, 0));
    least = std::max(least, facts_.range(span).lo);
  }
  const auto count = [](Wide length, Wide by) { return length <= 0 ? Wide{0} : (length + by - 1) / by; };
  trips.hi = count(most, trips.step.lo), trips.lo = count(least, trips.step.hi);
  const auto& results = c_.results[id];
  const auto init = [&](u32 i) { return k_.operand(id, i + 3); };
  if (trips.hi == 0) {
    for (u32 i = 0; i < results.size(); ++i)
      if (c_.needed[results[i]]) copy(results[i], init(i));
    return;
  }
  finite(id, trips);
  if (unpack<UntilImm>(k_.op(id).imm).carried_plus_one) trips.lo = 0;

  const std::vector<Carried> carried = carry(id, trips);
  const Wide outer = nest_;
  nest_ = std::min(nest_ * std::min(trips.hi, u64_max), u64_max);
  if (!silent_) needs_.max_trips = std::max(needs_.max_trips, static_cast<u64>(nest_));
  const auto mark = facts_.push();
  enter(id, trips, carried);
  walk(k_.region_of(id, 0));
  facts_.pop(mark);
  nest_ = outer;
  for (u32 i = 0; i < results.size(); ++i)
    if (c_.needed[results[i]]) define_range(results[i], carried[i].after);
}
void BodyEvaluator::copy(OpId to, OpId from) {
  if (is_integer(k_.type(to)))
    facts_.define_linear(to, facts_.linear(from), facts_.range(from));
  else
    facts_.define_range(to, facts_.range(from));
}

// The body's arguments: the induction variable within its bounds, carried values as found.
void BodyEvaluator::enter(OpId id, const Trips& trips, const std::vector<Carried>& carried) {
  const auto& args = k_.region(k_.region_of(id, 0)).args;
  const OpId start = k_.operand(id, 0), end = k_.operand(id, 1);
  const Range s = facts_.range(start), e = facts_.range(end);
  Range iv = Range::between(s.lo, std::max(s.lo, e.hi - 1));
  // Values are start + k * step: a residue where start and step share one.
  u64 mod = s.stride(), step_mod = trips.step.is_point()
                                       ? static_cast<u64>(std::min<Wide>(trips.step.lo, Wide{1} << 40))
                                       : trips.step.mod;
  if (!trips.step.is_point() && trips.step.rem != 0) step_mod = std::gcd(step_mod, trips.step.rem);
  mod = std::gcd(mod, step_mod);
  if (mod > 1) iv = congruent(iv, mod, s.is_point() ? s.lo : static_cast<Wide>(s.rem));
  if (iv.empty()) iv = Range::point(s.lo);
  facts_.define_range(args[0], iv);
  note_index(args[0]);
  Linear f;
  if (const Linear& v = facts_.linear(args[0]); !v.is_constant()) {
    if (facts_.linear(end).combine(1, v, -1, f)) f.c -= 1, facts_.assume_non_negative(f);
    if (v.combine(1, facts_.linear(start), -1, f)) facts_.assume_non_negative(f);
  }
  for (u32 i = 0; i < carried.size(); ++i) {
    if (!c_.needed[args[i + 1]]) continue;
    if (carried[i].by_trip)
      facts_.define_linear(args[i + 1], *carried[i].by_trip, carried[i].inside);
    else
      facts_.define_range(args[i + 1], carried[i].inside);
    note_index(args[i + 1]);
  }
}

// Ranges of the carried values: by what a trip adds where that is bounded, else by widening until a trip stays
// inside.
std::vector<BodyEvaluator::Carried> BodyEvaluator::carry(OpId id, const Trips& trips) {
  const auto& results = c_.results[id];
  std::vector<Carried> out(results.size());
  std::vector<char> added(results.size(), 0);
  bool any = false;
  for (u32 i = 0; i < results.size(); ++i)
    if (c_.needed[results[i]]) any = true, added[i] = is_integer(k_.type(results[i]));
  if (!any) return out;
  const bool was_silent = silent_;
  silent_ = true;
  while (!additive(id, trips, added, out)) {
  }
  widen(id, trips, added, out);
  silent_ = was_silent;
  return out;
}

// Far from the ends of the type, so that one more addition does not wrap.
Range BodyEvaluator::roomy(DType type) {
  const Range full = Range::of(type);
  const Wide quarter = (full.hi - full.lo + 1) / 4;
  return Range::between(full.lo == 0 ? 0 : full.lo + quarter, full.hi - quarter);
}

// Supposes that every value still marked stays roomy, finds what a trip adds, and unmarks what does not stay roomy
// then. By induction over the trips all is true once nothing is unmarked.
bool BodyEvaluator::additive(OpId id, const Trips& trips, std::vector<char>& added, std::vector<Carried>& out) {
  const auto& results = c_.results[id];
  const RegionId body = k_.region_of(id, 0);
  const auto& args = k_.region(body).args;
  const OpId yield = k_.terminator(body);
  for (u32 i = 0; i < results.size(); ++i) {
    const DType type = k_.type(results[i]).elem;
    const Range r = added[i] ? roomy(type) : Range::of(type);
    out[i] = {r, r, std::nullopt};
  }
  // Inside the body at least one trip runs, which says more of the first values than holds after a loop without
  // trips.
  std::vector<Range> first(results.size());
  for (u32 i = 0; i < results.size(); ++i)
    if (added[i]) first[i] = facts_.range(k_.operand(id, i + 3));
  std::vector<Carried> found = out;
  bool stable = true;
  const auto mark = facts_.push();
  enter(id, trips, out);
  walk(body);
  for (u32 i = 0; i < results.size(); ++i) {
    if (!added[i]) continue;
    Linear each;
    bool holds =
        facts_.dead() || (facts_.linear(k_.operand(yield, i)).combine(1, facts_.linear(args[i + 1]), -1, each) &&
                          each.coefficient(args[i + 1]) == 0);
    if (holds) {
      found[i] = advance(id, i, trips, first[i], facts_.dead() ? Range::point(0) : facts_.range(each));
      const Range room = roomy(k_.type(results[i]).elem);
      holds = found[i].inside.within(room) && found[i].after.within(room);
    }
    if (!holds) added[i] = 0, stable = false;
  }
  facts_.pop(mark);
  if (stable)
    for (u32 i = 0; i < results.size(); ++i)
      if (added[i]) out[i] = found[i];
  return stable;
}

// A value, at first in `first`, to which every trip adds something in `d`.
BodyEvaluator::Carried BodyEvaluator::advance(OpId id, u32 i, const Trips& trips, const Range& first, const Range& d) {
  const OpId init = k_.operand(id, i + 3), start = k_.operand(id, 0);
  const Range full = Range::of(k_.type(init).elem);
  if (d.lo < -(Wide{1} << 62) || d.hi > (Wide{1} << 62)) return {full, full, std::nullopt};
  const Wide last = std::min(trips.hi, Wide{1} << 62);
  const auto times = [&](Wide lo, Wide hi) {
    Range r = hull(scale(Range::point(d.lo), lo), scale(Range::point(d.lo), hi));
    r = hull(r, hull(scale(Range::point(d.hi), lo), scale(Range::point(d.hi), hi)));
    Range sum = Range::between(first.lo + r.lo, first.hi + r.hi);
    const u64 mod =
        std::gcd(first.stride(), d.is_point() ? static_cast<u64>(d.lo < 0 ? -d.lo : d.lo) : std::gcd(d.mod, d.rem));
    if (mod > 1) sum = congruent(sum, mod, first.is_point() ? first.lo : static_cast<Wide>(first.rem));
    return sum.within(full) ? sum : full;  // full is not roomy: the caller drops it
  };
  Carried c{times(0, last - 1), times(trips.lo, last), std::nullopt};
  // init + d * (iv - start) / step, where the step divides d.
  if (d.is_point() && trips.step.is_point() && d.lo % trips.step.lo == 0) {
    const i64 per = static_cast<i64>(d.lo / trips.step.lo);
    const OpId iv = k_.region(k_.region_of(id, 0)).args[0];
    Linear f;
    if (facts_.linear(init).combine(1, Linear::of(iv), per, f) && f.combine(1, facts_.linear(start), -per, f))
      c.by_trip = f;
  }
  return c;
}

void BodyEvaluator::widen(OpId id, const Trips& trips, const std::vector<char>& added, std::vector<Carried>& out) {
  const auto& results = c_.results[id];
  const RegionId body = k_.region_of(id, 0);
  std::vector<u32> open;
  for (u32 i = 0; i < results.size(); ++i)
    if (c_.needed[results[i]] && !added[i]) open.push_back(i);
  if (open.empty()) return;
  for (const u32 i : open) out[i].inside = facts_.range(k_.operand(id, i + 3));
  for (int round = 0; round < 4; ++round) {
    const auto mark = facts_.push();
    enter(id, trips, out);
    walk(body);
    bool stable = true;
    if (!facts_.dead()) {
      for (const u32 i : open) {
        const Range y = facts_.range(k_.operand(k_.terminator(body), i));
        const Range full = Range::of(k_.type(results[i]).elem);
        Range& in = out[i].inside;
        const Range both = hull(in, y);
        if (both == in) continue;
        stable = false;
        if (round == 0 && y.is_point() && in.is_point())
          in = both;  // the second value may be the last new one
        else if (round >= 2)
          in = full;
        else
          in = Range::between(y.lo >= in.lo ? in.lo : (y.lo >= 0 ? Wide{0} : full.lo), y.hi <= in.hi ? in.hi : full.hi);
      }
    }
    facts_.pop(mark);
    if (stable) break;
    if (round == 3)
      for (const u32 i : open) out[i].inside = Range::of(k_.type(results[i]).elem);
  }
  for (const u32 i : open) out[i].after = out[i].inside;
}

void BodyEvaluator::finite(OpId id, const Trips& trips) {
  if (silent_) return;
  const OpId start = k_.operand(id, 0), end = k_.operand(id, 1);
  OpId source = none;
  if (trips.hi >= (Wide{1} << 31)) {
    source = unbounded_source(end, true);
    if (source == none) source = unbounded_source(start, false);
  }
  if (source == none && trips.hi < (Wide{1} << 62)) return;
  auto* d = refuse("LAUNCH03", id,
                   fmt::format("nothing bounds the trips of the loop: it may run {} times", to_string(trips.hi)));
  if (!d) return;
  if (source != none)
    name_source(*d, source);
  else
    d->notes.push_back({fmt::format("the end is {} in {}", expression(k_, end), to_string(facts_.range(end))), "", 0});
  d->fix = "bound the end before the loop: range(0, bounded(n, 0, max)), or min(n, max) with max from the launch";
}

}  // namespace iron::analysis
