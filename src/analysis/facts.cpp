// Contexts, bounds and the refinement of ranges by conditions.
#include "analysis/facts.h"

#include <numeric>

namespace iron::analysis {

using namespace ir;

Facts::Facts(const Kernel& k, const LaunchGeometry& geometry, std::span<const LaunchArg> args, u32 simd_width)
    : k_(k),
      geometry_(geometry),
      args_(args),
      simd_width_(simd_width),
      ops_(k.op_capacity()),
      stored_(ops_ + positions),
      memo_(ops_),
      form_of_(ops_, 0),
      forms_(1) {
  const u32 extents[] = {geometry.threads.x, geometry.threads.y, geometry.threads.z,
                         geometry.groups.x,  geometry.groups.y,  geometry.groups.z};
  for (u32 i = 0; i < positions; ++i) stored_[ops_ + i] = Range::between(0, Wide{extents[i]} - 1);
}

Facts::Mark Facts::push() { return {version_, facts_.size(), undo_.size(), dead_}; }

void Facts::pop(const Mark& m) {
  while (undo_.size() > m.undo) {
    stored_[undo_.back().leaf] = undo_.back().before;
    undo_.pop_back();
  }
  facts_.resize(m.facts);
  dead_ = m.dead;
  version_ = m.version;
}

Leaf Facts::fresh(const Range& r) {
  stored_.push_back(r);
  return static_cast<Leaf>(stored_.size() - 1);
}

u64 Facts::bytes(OpId memory) const {
  const auto& op = k_.op(memory);
  switch (op.code) {
    case Opcode::Param:
      return args_[op.imm].bytes;
    case Opcode::SharedNew:
    case Opcode::ArrayNew:
      return op.imm * dtype_size(op.type.elem);
    case Opcode::View:
    case Opcode::SharedAlias: {
      const u64 whole = bytes(k_.operand(memory, 0));
      return op.imm < whole ? whole - op.imm : 0;
    }
    default:
      return 0;
  }
}

Range Facts::range(const Linear& l) {
  Range r = Range::point(l.c);
  for (const auto& term : l.terms()) r = r + scale(leaf_range(term.leaf), term.k);
  return r;
}

Range Facts::leaf_range(Leaf leaf) {
  if (leaf < ops_) return range(static_cast<OpId>(leaf));
  Range r = stored_[leaf];
  if (const auto* q = quotient(leaf)) {
    const Range of = range(q->of);
    if (of.empty()) return r;
    bool wrapped = false;
    r = intersect(r, of.lo >= 0 ? apply(Opcode::Div, DType::index, of, Range::point(q->by), wrapped)
                                : Range::between(floor_div(of.lo, q->by), floor_div(of.hi, q->by)));
  }
  return r;
}

const Facts::Quotient* Facts::quotient(Leaf leaf) const {
  for (const auto& q : quotients_)
    if (q.leaf == leaf) return &q;
  return nullptr;
}

Range Facts::range(OpId v) {
  if (memo_[v].version == version_) return memo_[v].range;
  Range r = stored_[v];
  if (recomputable(k_, v)) r = intersect(r, tree(v));
  const Linear& l = linear(v);
  if (form_of_[v] && !l.is_leaf(v)) r = intersect(r, range(l));
  memo_[v] = {version_, r};
  return r;
}

// --- bounds
// ------------------------------------------------------------------------------------------------------------

// What holds of a leaf by its making, each form >= 0.
bool Facts::definitions(Leaf leaf, std::vector<Linear>& out) {
  const std::size_t before = out.size();
  const auto add = [&](const Linear& a, i64 ka, const Linear& b, i64 kb, Wide c) {
    Linear r;
    if (!a.combine(ka, b, kb, r)) return;
    r.c += c;
    out.push_back(r);
  };
  const Linear self = Linear::of(leaf);
  if (leaf >= ops_) {
    if (const auto* q = quotient(leaf)) {
      const i64 by = static_cast<i64>(q->by);
      add(q->of, 1, self, -by, 0);
      add(self, by, q->of, -1, q->by - 1);
    }
    return out.size() != before;
  }
  const OpId id = leaf;
  const auto form_of = [&](u32 i) -> const Linear& { return linear(k_.operand(id, i)); };
  const auto known = [&](u32 i) { return form_of_[k_.operand(id, i)] != 0; };
  switch (k_.op(id).code) {
    case Opcode::Min:
    case Opcode::Max: {
      const i64 s = k_.op(id).code == Opcode::Min ? 1 : -1;
      for (u32 i = 0; i < 2; ++i)
        if (known(i)) add(form_of(i), s, self, -s, 0);
      break;
    }
    case Opcode::Bounded:
      if (known(1) && known(2) && range(k_.operand(id, 1)).hi <= range(k_.operand(id, 2)).lo) {
        add(self, 1, form_of(1), -1, 0);
        add(form_of(2), 1, self, -1, 0);
      }
      break;
    default:
      break;
  }
  return out.size() != before;
}

Wide Facts::upper(const Linear& l, Wide target) {
  // Short combinations first: a search in depth may spend its budget on one fact before it reaches the next.
  Wide best = range(l).hi;
  for (int depth = 1; depth <= 3 && best > target; ++depth) {
    int budget = 200;
    best = std::min(best, upper(l, target, depth, budget));
  }
  return best;
}
Wide Facts::lower(const Linear& l, Wide target) {
  Linear negated;
  if (!l.combine(-1, Linear{}, 0, negated)) return range(l).lo;
  return -upper(negated, -target);
}

// l <= l + m * f for every fact f >= 0 and m >= 0: facts are added so that a leaf cancels, then intervals bound the
// rest.
Wide Facts::upper(const Linear& l, Wide target, int depth, int& budget) {
  Wide best = range(l).hi;
  if (depth == 0) return best;
  const auto attempt = [&](const Linear& f) {
    for (const auto& term : l.terms()) {
      if (best <= target || --budget < 0) return;
      const i64 kf = f.coefficient(term.leaf);
      if (kf == 0 || (kf > 0) == (term.k > 0)) continue;
      const i64 a = kf < 0 ? -kf : kf, b = term.k < 0 ? -term.k : term.k, g = std::gcd(a, b);
      Linear sum;
      constexpr i64 largest = i64{1} << 40;
      constexpr Wide far = Wide{1} << 80;  // targets only end the search early, so clamping them is harmless
      if (a / g > largest || !l.combine(a / g, f, b / g, sum)) continue;
      best = std::min(best, floor_div(upper(sum, std::clamp(target * (a / g), -far, far), depth - 1, budget), a / g));
    }
  };
  for (std::size_t i = facts_.size(); i-- > 0 && best > target;) attempt(facts_[i]);
  std::vector<Linear> made;
  for (const auto& term : l.terms())
    if (best > target && budget > 0) definitions(term.leaf, made);
  for (const auto& f : made) attempt(f);
  return best;
}

// --- refinement
// --------------------------------------------------------------------------------------------------------

void Facts::refine(Leaf leaf, const Range& r) {
  const Range now = leaf_range(leaf);
  const Range next = intersect(now, r);
  if (next.empty()) {
    dead_ = true;
    return;
  }
  if (next.lo == now.lo && next.hi == now.hi) return;
  undo_.push_back({leaf, stored_[leaf]});
  stored_[leaf] = next;
  version_ = ++last_version_;
  // What the leaf was made of is bounded with it.
  const auto bound = [&](const Linear& l, i64 sign, Wide by) {  // sign * l >= by
    Linear f;
    if (!l.combine(sign, Linear{}, 0, f)) return;
    f.c -= by;
    propagate(f);
  };
  if (leaf >= ops_) {
    if (const auto* found = quotient(leaf)) {
      const Quotient q = *found;
      if (next.lo > now.lo) bound(q.of, 1, next.lo * q.by);
      if (next.hi < now.hi) bound(q.of, -1, -(next.hi * q.by + q.by - 1));
    }
    return;
  }
  const OpId id = leaf;
  const Opcode code = k_.op(id).code;
  if (code == Opcode::Min || code == Opcode::Max)
    for (u32 i = 0; i < 2; ++i) {
      const OpId v = k_.operand(id, i);
      if (!form_of_[v]) continue;
      if (code == Opcode::Min && next.lo > now.lo) bound(linear(v), 1, next.lo);
      if (code == Opcode::Max && next.hi < now.hi) bound(linear(v), -1, -next.hi);
    }
}

// l >= 0 bounds each leaf by the largest that the other terms can be.
void Facts::propagate(const Linear& l) {
  for (u32 i = 0; i < l.n && !dead_; ++i) {
    Linear rest = l;
    const auto term = l.t[i];
    std::copy(rest.t.begin() + i + 1, rest.t.begin() + rest.n, rest.t.begin() + i);
    --rest.n;
    const Wide most = range(rest).hi;
    const Range all = Range::of(DType::index);
    if (term.k > 0)
      refine(term.leaf, Range::between(-floor_div(most, term.k), Wide{1} << 64));
    else
      refine(term.leaf, Range::between(all.lo, floor_div(most, -Wide{term.k})));
  }
}

void Facts::assume_non_negative(const Linear& l) {
  if (dead_) return;
  if (range(l).hi < 0) {
    dead_ = true;
    return;
  }
  if (l.is_constant()) return;
  facts_.push_back(l);
  propagate(l);
  // The new bounds may tighten what older facts say; one more round catches chains of two.
  const std::size_t n = facts_.size();
  for (std::size_t i = n > 12 ? n - 12 : 0; i + 1 < n && !dead_; ++i) propagate(Linear(facts_[i]));
}

void Facts::assume(OpId condition, bool truth) {
  if (dead_) return;
  const Range known = range(condition);
  if (known.is_point()) {
    dead_ = known.lo != (truth ? 1 : 0);
    return;
  }
  const auto& op = k_.op(condition);
  switch (op.code) {
    case Opcode::And:
    case Opcode::Or:
      if (truth == (op.code == Opcode::And))
        for (u32 i = 0; i < 2; ++i) assume(k_.operand(condition, i), truth);
      break;
    case Opcode::Not:
      assume(k_.operand(condition, 0), !truth);
      break;
    case Opcode::AssumeUniform:
      assume(k_.operand(condition, 0), truth);
      break;
    // A vote tells each thread about its own operand, if that operand was formed where the vote was taken.
    case Opcode::SimdAll:
    case Opcode::GroupAll:
      if (truth) assume(k_.operand(condition, 0), true);
      break;
    case Opcode::SimdAny:
    case Opcode::GroupAny:
      if (!truth) assume(k_.operand(condition, 0), false);
      break;
    case Opcode::Eq:
    case Opcode::Ne:
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge: {
      const OpId a = k_.operand(condition, 0), b = k_.operand(condition, 1);
      if (!form_of_[a] || !form_of_[b]) break;
      const auto at_least = [&](OpId x, OpId y, Wide by) {  // x - y >= by
        Linear f;
        if (!linear(x).combine(1, linear(y), -1, f)) return;
        f.c -= by;
        assume_non_negative(f);
      };
      Opcode code = op.code;
      if (!truth) {
        constexpr std::pair<Opcode, Opcode> opposite[] = {{Opcode::Eq, Opcode::Ne}, {Opcode::Ne, Opcode::Eq},
                                                          {Opcode::Lt, Opcode::Ge}, {Opcode::Ge, Opcode::Lt},
                                                          {Opcode::Gt, Opcode::Le}, {Opcode::Le, Opcode::Gt}};
        for (const auto& [from, to] : opposite)
          if (op.code == from) code = to;
      }
      switch (code) {
        case Opcode::Lt:
          at_least(b, a, 1);
          break;
        case Opcode::Le:
          at_least(b, a, 0);
          break;
        case Opcode::Gt:
          at_least(a, b, 1);
          break;
        case Opcode::Ge:
          at_least(a, b, 0);
          break;
        case Opcode::Eq:
          at_least(a, b, 0), at_least(b, a, 0);
          break;
        default: {  // Ne: trims an end that the other operand forbids
          for (const auto& [x, y] : {std::pair{a, b}, std::pair{b, a}}) {
            const Range rx = range(x), ry = range(y);
            if (!ry.is_point()) continue;
            if (rx.lo == ry.lo)
              at_least(x, y, 1);
            else if (rx.hi == ry.lo)
              at_least(y, x, 1);
          }
        }
      }
      break;
    }
    default:
      break;
  }
  if (!dead_ && form_of_[condition] == 0 && condition < ops_) {
    undo_.push_back({condition, stored_[condition]});
    stored_[condition] = Range::point(truth ? 1 : 0);
    version_ = ++last_version_;
  }
}

}  // namespace iron::analysis
