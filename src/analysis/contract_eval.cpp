// The body of a kernel, walked once per launch with numbers for everything that the launch fixes: every access, trip
// count and step.
#include <fmt/format.h>

#include <numeric>

#include "analysis/contract_impl.h"
#include "analysis/facts.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

namespace {
constexpr Wide u64_max = (Wide{1} << 64) - 1;

bool integer(Type t) { return t.is_scalar() && (is_int(t.elem) || t.elem == DType::index); }

class Evaluator {
 public:
  Evaluator(const Contract::Impl& c, const LaunchGeometry& geometry, std::span<const LaunchArg> args, u32 simd_width)
      : c_(c), k_(c.kernel), geometry_(geometry), args_(args), facts_(k_, geometry, args, simd_width) {
    needs_.extents.assign(k_.params.size(), 0);
  }

  Verdict run() {
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

 private:
  // --- walking
  void walk(RegionId r) {
    for (const OpId id : c_.steps[r]) {
      if (facts_.dead()) return;  // no thread gets here
      visit(id);
    }
  }

  void visit(OpId id) {
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

  void define_range(OpId v, const Range& r) {
    facts_.define_range(v, r);
    note_index(v);
  }
  void note_index(OpId v) {
    if (silent_ || !k_.type(v).is_index()) return;
    const Range r = facts_.range(v);
    if (r.empty()) return;
    index_lo_ = std::min(index_lo_, r.lo), index_hi_ = std::max(index_hi_, r.hi);
  }

  // --- branches
  struct Outcome {
    bool reached = false;
    std::vector<Range> ranges;
    std::vector<Linear> forms;
  };
  Outcome arm(OpId id, u32 which) {
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
  Outcome yielded(RegionId r, const std::vector<OpId>& results) {
    Outcome o;
    o.reached = true;
    o.ranges.resize(results.size()), o.forms.resize(results.size());
    const OpId yield = k_.terminator(r);
    for (u32 i = 0; i < results.size(); ++i) {
      if (!c_.needed[results[i]]) continue;
      const OpId v = k_.operand(yield, i);
      o.ranges[i] = facts_.range(v);
      if (integer(k_.type(v))) o.forms[i] = facts_.linear(v);
    }
    return o;
  }
  void branch(OpId id) {
    const Outcome a = arm(id, 0), b = arm(id, 1);
    for (u32 i = 0; i < c_.results[id].size(); ++i) {
      const OpId result = c_.results[id][i];
      if (!c_.needed[result]) continue;
      if (!a.reached && !b.reached) {
        define_range(result, Range::of(k_.type(result).elem));
        continue;
      }
      const Range r = hull(a.reached ? a.ranges[i] : Range{}, b.reached ? b.ranges[i] : Range{});
      if (!integer(k_.type(result))) {
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
  bool outlives(const Linear& l, OpId region_op) const {
    for (const auto& t : l.terms())
      if (t.leaf < k_.op_capacity() && k_.op(t.leaf).region != k_.op(region_op).region &&
          !k_.encloses(k_.op(t.leaf).region, k_.op(region_op).region))
        return false;
    return true;
  }

  // --- loops
  struct Trips {
    Wide lo = 0, hi = 0;
    Range step;
  };
  void loop(OpId id) {
    const OpId start = k_.operand(id, 0), end = k_.operand(id, 1), step = k_.operand(id, 2);
    Trips trips;
    trips.step = facts_.range(step);
    if (trips.step.hi < 1 || trips.step.lo < 1) {
      auto d =
          refuse("D02", id, fmt::format("the loop's step is in {}, which is not at least 1", to_string(trips.step)));
      if (d)
        d->notes.push_back(
            {fmt::format("the step is {}", print_op(k_, step)), k_.location(step).file, k_.location(step).line});
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
  void copy(OpId to, OpId from) {
    if (integer(k_.type(to)))
      facts_.define_linear(to, facts_.linear(from), facts_.range(from));
    else
      facts_.define_range(to, facts_.range(from));
  }

  struct Carried {
    Range inside, after;            ///< in the body, and of the result
    std::optional<Linear> by_trip;  ///< the value as a form of the induction variable
  };

  // The body's arguments: the induction variable within its bounds, carried values as found.
  void enter(OpId id, const Trips& trips, const std::vector<Carried>& carried) {
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
  std::vector<Carried> carry(OpId id, const Trips& trips) {
    const auto& results = c_.results[id];
    std::vector<Carried> out(results.size());
    std::vector<char> added(results.size(), 0);
    bool any = false;
    for (u32 i = 0; i < results.size(); ++i)
      if (c_.needed[results[i]]) any = true, added[i] = integer(k_.type(results[i]));
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
  static Range roomy(DType type) {
    const Range full = Range::of(type);
    const Wide quarter = (full.hi - full.lo + 1) / 4;
    return Range::between(full.lo == 0 ? 0 : full.lo + quarter, full.hi - quarter);
  }

  // Supposes that every value still marked stays roomy, finds what a trip adds, and unmarks what does not stay roomy
  // then. By induction over the trips all is true once nothing is unmarked.
  bool additive(OpId id, const Trips& trips, std::vector<char>& added, std::vector<Carried>& out) {
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
  Carried advance(OpId id, u32 i, const Trips& trips, const Range& first, const Range& d) {
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

  void widen(OpId id, const Trips& trips, const std::vector<char>& added, std::vector<Carried>& out) {
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
            in = Range::between(y.lo >= in.lo ? in.lo : (y.lo >= 0 ? Wide{0} : full.lo),
                                y.hi <= in.hi ? in.hi : full.hi);
        }
      }
      facts_.pop(mark);
      if (stable) break;
      if (round == 3)
        for (const u32 i : open) out[i].inside = Range::of(k_.type(results[i]).elem);
    }
    for (const u32 i : open) out[i].after = out[i].inside;
  }

  void finite(OpId id, const Trips& trips) {
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
      d->notes.push_back({fmt::format("the end is {} in {}", print_op(k_, end), to_string(facts_.range(end))), "", 0});
    d->fix = "bound the end before the loop: range(0, bounded(n, 0, max)), or min(n, max) with max from the launch";
  }

  // --- accesses
  void access(OpId id, const AccessOf& a) {
    const bool guarded = k_.op(id).code == Opcode::LoadOr;
    const auto mark = facts_.push();
    if (guarded) facts_.assume(k_.operand(id, 2), true);
    if (!facts_.dead()) touch(id, a.memory, a.index, facts_.linear(a.index), facts_.range(a.index), a.lanes, a.align);
    facts_.pop(mark);
  }

  // Elements from the subscript to `lanes - 1` beyond it.
  void touch(OpId id, OpId memory, OpId index, const Linear& form, const Range& r, u32 lanes, u32 align) {
    if (silent_) return;
    const Wide n = facts_.elements(memory), beyond = Wide{lanes} - 1;
    Wide lo = r.lo, hi = r.hi;
    if (lo < 0) lo = std::max(lo, facts_.lower(form, 0));
    if (hi + beyond >= n) hi = std::min(hi, facts_.upper(form, n - 1 - beyond));
    if (lo > hi) return;  // the facts exclude every value
    if (lo < 0 || hi + beyond >= n) return out_of_bounds(id, memory, index, lo, hi + beyond, n);
    const u32 size = dtype_size(k_.type(memory).elem);
    const OpId root = memory_root(k_, memory);
    if (k_.op(root).code == Opcode::Param) {
      auto& extent = needs_.extents[k_.op(root).imm];
      extent = std::max(extent, byte_offset(k_, memory) + static_cast<u64>(hi + beyond + 1) * size);
    }
    if (align > size) aligned(id, memory, index, r, size, align);
  }

  void aligned(OpId id, OpId memory, OpId index, const Range& r, u32 size, u32 align) {
    u64 residue = 0;
    const bool known = r.residue(align / size, residue);
    const u64 offset = byte_offset(k_, memory);
    if (known && (residue * size + offset) % align == 0) return;
    auto* d = refuse(
        "LAUNCH04", id,
        fmt::format("{} needs {} bytes of alignment in {}, which is not shown", describe(id), align, named(memory)));
    if (!d) return;
    d->notes.push_back({known ? fmt::format("the subscript is {} modulo {}{}", residue, align / size,
                                            offset ? fmt::format(", from byte {}", offset) : "")
                              : fmt::format("the subscript {} in {} is a multiple of {} elements at best",
                                            print_op(k_, index), to_string(r), r.mod),
                        "", 0});
    note_launch(*d);
    d->fix = fmt::format("make rows and starts multiples of {} elements, or use the kernel with narrower accesses",
                         align / size);
  }

  void tile(OpId id) {
    if (silent_) return;
    const Type t = k_.type(k_.operand(id, 0));
    if (k_.op(id).code == Opcode::TileMma) {
      const auto layout = unpack<LayoutImm>(k_.op(id).imm);
      block(id, 1, Wide{layout.a_transposed ? layout.k : t.rows}, Wide{layout.a_transposed ? t.rows : layout.k}, none,
            none);
      block(id, 4, Wide{layout.b_transposed ? t.cols : layout.k}, Wide{layout.b_transposed ? layout.k : t.cols}, none,
            none);
    } else
      block(id, 1, Wide{t.rows}, Wide{t.cols}, k_.operand(id, 4), k_.operand(id, 5));
  }
  // rows x cols elements from an offset with a row stride (operands at, at + 1, at + 2); valid counts may be smaller.
  void block(OpId id, u32 at, Wide rows, Wide cols, OpId valid_rows, OpId valid_cols) {
    const OpId memory = k_.operand(id, at), offset = k_.operand(id, at + 1), stride = k_.operand(id, at + 2);
    const Range s = facts_.range(stride);
    if (valid_rows != none && facts_.range(valid_rows).hi <= 0) return;
    if (valid_cols != none && facts_.range(valid_cols).hi <= 0) return;
    if (s.lo < 0 || !s.is_point() || !Linear::small(s.hi)) {
      auto* d = refuse("LAUNCH01", id,
                       fmt::format("the row stride of a tile in {} is in {}: it must be one number, 0 or more",
                                   named(memory), to_string(s)));
      if (d) d->fix = "pass the row stride as a launch scalar";
      return;
    }
    const auto last = [&](OpId valid,
                          Wide size) {  // the last row or column: a form if its count is one, and a bound by size
      Linear l = Linear::constant(size - 1);
      if (valid == none) return l;
      const Range v = facts_.range(valid);
      if (v.hi > size && v.lo < size) return l;
      l = v.lo >= size ? l : facts_.linear(valid);
      if (v.lo < size) l.c -= 1;
      return l;
    };
    Linear end = facts_.linear(offset);
    const bool fits = end.combine(1, last(valid_rows, rows), static_cast<i64>(s.lo), end) &&
                      end.combine(1, last(valid_cols, cols), 1, end);
    const Wide n = facts_.elements(memory);
    Wide lo = facts_.range(offset).lo, hi = fits ? facts_.range(end).hi : Range::of(DType::index).hi;
    if (lo < 0) lo = std::max(lo, facts_.lower(facts_.linear(offset), 0));
    if (fits && hi >= n) hi = std::min(hi, facts_.upper(end, n - 1));
    if (lo < 0 || hi >= n) return out_of_bounds(id, memory, offset, lo, hi, n);
    const OpId root = memory_root(k_, memory);
    if (k_.op(root).code == Opcode::Param) {
      auto& extent = needs_.extents[k_.op(root).imm];
      extent = std::max(extent, byte_offset(k_, memory) +
                                    static_cast<u64>(std::max<Wide>(hi + 1, 0)) * dtype_size(k_.type(memory).elem));
    }
  }

  // --- messages
  Diagnostic* refuse(std::string code, OpId id, std::string message) {
    if (silent_ || problems_.size() >= 8) return nullptr;
    Diagnostic d;
    d.code = std::move(code), d.message = std::move(message), d.kernel = k_.name;
    d.file = k_.location(id).file, d.line = k_.location(id).line;
    for (const auto& other : problems_)  // unrolled copies of one access say the same
      if (other.code == d.code && other.message == d.message && other.line == d.line) return nullptr;
    problems_.push_back(std::move(d));
    return &problems_.back();
  }

  void out_of_bounds(OpId id, OpId memory, OpId index, Wide lo, Wide hi, Wide n) {
    const OpId source = unbounded_source(index, hi >= n);
    const Range all = Range::of(DType::index);
    const OpId root = memory_root(k_, memory);
    const bool global = k_.op(root).code == Opcode::Param;
    const bool overflow = lo <= all.lo || hi >= all.hi;
    const std::string where = named(memory), what = describe(id);
    const char* code = !global ? "LAUNCH02" : source != none || overflow ? "LAUNCH01" : "D25";
    Diagnostic* d = nullptr;
    if (n == 0)
      d = refuse(code, id, fmt::format("{} may touch {}, which is empty in this launch", what, where));
    else if (overflow && source == none)
      d = refuse(code, id, fmt::format("the subscript of {} in {} may not fit 64 bits", what, where));
    else
      d = refuse(code, id,
                 fmt::format("{} may touch elements {} to {} of {}, which has {} elements", what, to_string(lo),
                             to_string(hi), where, to_string(n)));
    if (!d) return;
    if (source != none)
      name_source(*d, source);
    else if (!overflow)
      d->notes.push_back(
          {fmt::format("the subscript is {} in {}", print_op(k_, index), to_string(facts_.range(index))), "", 0});
    note_launch(*d);
    if (source != none)
      d->fix = fmt::format("guard it: if_(i < {0}) or load_or(i < {0}, i, other), or clamp it: bounded(i, 0, {1})",
                           to_string(n), to_string(n - 1));
    else if (overflow)
      d->fix = "launch with smaller numbers, or bound the factors of the subscript with bounded()";
    else if (lo < 0 && hi < n)
      d->fix = "guard the access against negative subscripts: if_(i >= 0) or load_or(i >= 0, i, other)";
    else if (global && lo >= 0)
      d->fix = fmt::format(
          "pass a buffer of at least {} bytes, or guard the access: if_(i < {}) or load_or",
          to_string((hi + 1) * dtype_size(k_.type(memory).elem) + static_cast<Wide>(byte_offset(k_, memory))),
          to_string(n));
    else
      d->fix = fmt::format("guard the access: if_({}i < {})", lo < 0 ? "i >= 0 && " : "", to_string(n));
  }

  std::string describe(OpId id) const {
    const auto& i = k_.info_of(id);
    if (k_.op(id).code == Opcode::Load || k_.op(id).code == Opcode::LoadOr)
      return k_.type(id).lanes > 1 ? fmt::format("the load of {} elements", k_.type(id).lanes) : "the load";
    if (k_.op(id).code == Opcode::Store) {
      const u32 lanes = k_.type(k_.operand(id, 2)).lanes;
      return lanes > 1 ? fmt::format("the store of {} elements", lanes) : "the store";
    }
    return fmt::format("the {}", i.text);
  }
  std::string named(OpId memory) const {
    const OpId root = memory_root(k_, memory);
    std::string s;
    switch (k_.op(root).code) {
      case Opcode::Param:
        s = k_.params[k_.op(root).imm].name;
        break;
      case Opcode::SharedNew:
        s = fmt::format("the threadgroup array of {} {}", k_.op(root).imm, dtype_name(k_.type(root).elem));
        break;
      default:
        s = fmt::format("the thread's array of {} {}", k_.op(root).imm, dtype_name(k_.type(root).elem));
        break;
    }
    return root == memory ? s : fmt::format("{} seen as {}", s, dtype_name(k_.type(memory).elem));
  }
  void note_launch(Diagnostic& d) const {
    const auto dim = [](const Dim3& v) { return fmt::format("{} x {} x {}", v.x, v.y, v.z); };
    std::string text =
        fmt::format("this launch: {} threadgroups of {} threads", dim(geometry_.groups), dim(geometry_.threads));
    if (c_.uses_items) text += fmt::format(", {} items", geometry_.items);
    for (std::size_t i = 0; i < k_.params.size(); ++i)
      if (k_.params[i].kind == ParamKind::scalar && !is_float(k_.params[i].elem))
        text += fmt::format(", {} = {}", k_.params[i].name, static_cast<i64>(args_[i].scalar));
    d.notes.push_back({text, "", 0});
  }
  void name_source(Diagnostic& d, OpId source) const {
    d.notes.push_back({fmt::format("nothing bounds {}: it may be anything in {}", print_op(k_, source),
                                   to_string(Range::of(k_.type(source).elem))),
                       k_.location(source).file, k_.location(source).line});
  }
  // An op such as min or bounded stops what its operand lets through.
  bool passes_on(OpId v, OpId source, bool above) {
    const Range r = facts_.range(v), full = Range::of(k_.type(source).elem);
    return above ? r.hi >= full.hi / 2 : r.lo <= full.lo / 2;
  }
  // A value read from memory (or reinterpreted) under `v` that nothing bounds on the side that hurts.
  OpId unbounded_source(OpId v, bool above, int depth = 0) {
    if (depth > 24 || !k_.type(v).is_scalar() || !(integer(k_.type(v)) || k_.type(v).is_bool())) return none;
    if (!c_.needed[v]) return none;
    const auto& op = k_.op(v);
    if (recomputable(k_, v)) {
      for (u32 i = op.code == Opcode::Select ? 1u : 0u; i < op.operand_count; ++i)
        if (const OpId s = unbounded_source(k_.operand(v, i), above, depth + 1); s != none && passes_on(v, s, above))
          return s;
      return none;
    }
    if (op.code == Opcode::Param || op.code == Opcode::Const) return none;
    if (op.code == Opcode::Result) {
      const OpId owner = k_.operand(v, 0);
      if (k_.op(owner).code == Opcode::For)
        if (const OpId s = unbounded_source(k_.operand(owner, static_cast<u32>(op.imm) + 3), above, depth + 1);
            s != none)
          return s;
      for (u32 r = 0; r < k_.op(owner).region_count; ++r)
        if (const OpId yield = k_.terminator(k_.region_of(owner, r));
            yield != none && op.imm < k_.op(yield).operand_count)
          if (const OpId s = unbounded_source(k_.operand(yield, static_cast<u32>(op.imm)), above, depth + 1); s != none)
            return s;
      return none;
    }
    if (op.code == Opcode::Arg && depth == 0 && facts_.range(v) == Range::of(op.type.elem)) return v;
    if (op.code == Opcode::Arg) return none;
    const Range full = Range::of(op.type.elem), r = facts_.range(v);
    if (op.type.is_index() || op.type.is_bool()) return none;
    return (above ? r.hi == full.hi : r.lo == full.lo) ? v : none;
  }

  const Contract::Impl& c_;
  const Kernel& k_;
  const LaunchGeometry& geometry_;
  std::span<const LaunchArg> args_;
  Facts facts_;
  Requirements needs_;
  std::vector<Diagnostic> problems_;
  Wide index_lo_ = 0, index_hi_ = 0, nest_ = 1;
  bool silent_ = false;
};
}  // namespace

Verdict evaluate_body(const Contract::Impl& c, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                      u32 simd_width) {
  return Evaluator(c, geometry, args, simd_width).run();
}

}  // namespace iron::analysis
