// Ranges and linear forms of single values.
#include "analysis/facts.h"
#include "ir/kernel.h"
#include "ir/tier.h"
#include "ir/tile_map.h"

namespace iron::analysis {

using namespace ir;

namespace {
bool integer_or_bool(Type t) { return is_integer(t) || t == bool_type; }
TileMap tile_map(const Kernel& k, OpId v, u32 simd_width, const Dim3& threads) {
  const OpId tile = k.operand(v, 0);
  const bool whole = unpack<TileImm>(k.op(tile).imm).scope >= Scope::threadgroup;
  return {k.type(tile).rows, k.type(tile).cols, whole ? static_cast<u32>(threads.count()) : simd_width};
}
}  // namespace

bool recomputable(const Kernel& k, OpId v) {
  if (!integer_or_bool(k.type(v))) return false;
  switch (k.op(v).code) {
    case Opcode::Cast:
      return integer_or_bool(k.type(k.operand(v, 0)));
    case Opcode::Eq:
    case Opcode::Ne:
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge:
      return is_integer(k.type(k.operand(v, 0)));
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Div:
    case Opcode::Rem:
    case Opcode::Min:
    case Opcode::Max:
    case Opcode::Neg:
    case Opcode::Abs:
    case Opcode::Sign:
    case Opcode::MulHi:
    case Opcode::And:
    case Opcode::Or:
    case Opcode::Xor:
    case Opcode::Not:
    case Opcode::Shl:
    case Opcode::Shr:
    case Opcode::Popcount:
    case Opcode::Clz:
    case Opcode::Ctz:
    case Opcode::Select:
    case Opcode::Bounded:
    case Opcode::AssumeUniform:
      return true;
    default:
      return false;
  }
}

Linear Facts::position_form(Position p) const {
  const Range& r = stored_[position(p)];
  return r.is_point() ? Linear::constant(r.lo) : Linear::of(position(p));
}
// Extents are below 2^32 and terms few: these sums fit unless the grid has more threads than 63 bits can count, which
// the geometry check refuses first.
Linear Facts::thread_form() const {
  const auto& t = geometry_.threads;
  Linear l = position_form(px);
  (void)l.combine(1, position_form(py), i64{t.x}, l);
  (void)l.combine(1, position_form(pz), static_cast<i64>(u64{t.x} * t.y), l);
  return l;
}
Linear Facts::group_form() const {
  const auto& g = geometry_.groups;
  Linear l = position_form(gx);
  (void)l.combine(1, position_form(gy), i64{g.x}, l);
  (void)l.combine(1, position_form(gz), static_cast<i64>(u64{g.x} * g.y), l);
  return l;
}

// floor(p / by): terms that `by` divides leave the division where the rest stays inside one step.
Linear Facts::quotient_form(const Linear& p, Wide by) {
  Linear whole, rest;
  bool fits = true;
  for (const auto& term : p.terms()) {
    Linear& into = Wide{term.k} % by == 0 ? whole : rest;
    Linear one = Linear::of(term.leaf);
    fits = fits && into.combine(1, one, &into == &whole ? static_cast<i64>(Wide{term.k} / by) : term.k, into);
  }
  const Wide steps = floor_div(p.c, by);
  whole.c = steps, rest.c = p.c - steps * by;
  if (fits) {
    const Range r = range(rest);
    if (r.lo >= 0 && r.hi < by) return whole;
  }
  for (const auto& q : quotients_)
    if (q.by == by && q.of == p) return Linear::of(q.leaf);
  const Leaf leaf = fresh(Range::between(-(Wide{1} << 64), Wide{1} << 64));
  quotients_.push_back({leaf, p, by});
  return Linear::of(leaf);
}

void Facts::set_form(OpId v, const Linear& l) {
  if (form_of_[v] == 0) {
    form_of_[v] = static_cast<u32>(forms_.size());
    forms_.push_back(l);
  } else
    forms_[form_of_[v]] = l;
}

void Facts::define_range(OpId v, const Range& r) {
  memo_[v].version = 0;
  stored_[v] = r;
  if (is_integer(k_.type(v))) set_form(v, r.is_point() ? Linear::constant(r.lo) : Linear::of(v));
}
void Facts::define_linear(OpId v, const Linear& l, const Range& r) {
  memo_[v].version = 0;
  stored_[v] = r;
  set_form(v, l);
}

void Facts::define(OpId v) {
  memo_[v].version = 0;
  stored_[v] = initial(v);
  if (!is_integer(k_.type(v))) return;
  Linear l;
  if (!form(v, l)) l = Linear::of(v);
  set_form(v, l);
  // A form that is one number needs no leaf.
  if (const Range r = range(v); r.is_point() && !l.is_constant()) set_form(v, Linear::constant(r.lo));
}

// The range of a value that is not recomputed from its operands later: ids, loads, and what other lanes hold.
Range Facts::initial(OpId v) {
  const auto& op = k_.op(v);
  const Range full = Range::of(op.type.elem);
  const auto of = [&](u32 i) { return integer_or_bool(k_.type(k_.operand(v, i))) ? range(k_.operand(v, i)) : full; };
  const auto total = [&](Wide lanes) {  // a sum over lanes, of which some may be missing
    const Range r = of(0);
    const Range sum = Range::between(std::min<Wide>(0, r.lo * lanes), std::max<Wide>(0, r.hi * lanes));
    return sum.within(full) ? sum : full;
  };
  const Wide threads = static_cast<Wide>(geometry_.threads.count());
  switch (op.code) {
    case Opcode::Const:
      return Range::point(decode(op.type.elem, op.imm));
    case Opcode::Param:
      return Range::point(decode(op.type.elem, args_[op.imm].scalar));
    case Opcode::LaneId:
      return Range::between(0, std::min<Wide>(simd_width_, threads) - 1);
    case Opcode::TileRow:
    case Opcode::TileCol: {
      const TileMap map = tile_map(k_, v, simd_width_, geometry_.threads);
      const Range number = range(k_.operand(v, 1));
      if (number.lo < 0 || number.hi >= static_cast<Wide>(map.elements())) return full;
      if (op.code == Opcode::TileCol) return Range::between(0, Wide{map.cols} - 1);
      // The last elements of some threads may lie behind the tile, where the map goes on.
      return Range::between(0, static_cast<Wide>(map.row(static_cast<u64>(number.hi), map.threads - 1)));
    }
    case Opcode::TileElems:
      return Range::point(static_cast<Wide>(tile_map(k_, v, simd_width_, geometry_.threads).elements()));
    case Opcode::Ticket:
      return Range::of(DType::u32);
    case Opcode::ClusterRank:
      return Range::between(0, static_cast<Wide>(op.imm) - 1);
    case Opcode::PipeAcquire:
    case Opcode::PipeWait:
      return Range::between(0, static_cast<Wide>(k_.op(k_.operand(v, 0)).imm) - 1);
    case Opcode::RoleIndex: {
      const RegionId role = role_region(k_, v);
      if (role == none) return full;
      const OpId owner = k_.region(role).parent;
      return Range::between(0, Wide{roles_of(k_, owner)[role - k_.region_of(owner, 0)].warpgroups} - 1);
    }
    case Opcode::SimdReduce:
    case Opcode::GroupReduce: {
      const auto kind = unpack<ReduceKind>(op.imm);
      if (kind == ReduceKind::min || kind == ReduceKind::max) return of(0);
      if (kind == ReduceKind::sum) return total(op.code == Opcode::SimdReduce ? Wide{simd_width_} : threads);
      return full;
    }
    case Opcode::SimdScan:
    case Opcode::GroupScan:
      if (unpack<ScanImm>(op.imm).kind == ReduceKind::sum)
        return total(op.code == Opcode::SimdScan ? Wide{simd_width_} : threads);
      return full;
    case Opcode::SimdShuffle:
    case Opcode::SimdShuffleXor:
    case Opcode::SimdShuffleUp:
    case Opcode::SimdShuffleDown:
    case Opcode::SimdBroadcast:
    case Opcode::GroupBroadcast:
      return of(0);
    default:
      return full;
  }
}

bool Facts::form(OpId v, Linear& out) {
  const auto& op = k_.op(v);
  const auto& [groups, threads, items] = geometry_;
  const u32 group_dims[] = {groups.x, groups.y, groups.z}, thread_dims[] = {threads.x, threads.y, threads.z};
  const auto number = [&](Wide n) { return out = Linear::constant(n), true; };
  switch (op.code) {
    case Opcode::Const:
    case Opcode::Param:
      return number(stored_[v].lo);
    case Opcode::ThreadPos:
      return out = position_form(static_cast<Position>(op.imm)), true;
    case Opcode::GroupId:
      return out = position_form(static_cast<Position>(gx + op.imm)), true;
    case Opcode::GroupCount:
      return number(group_dims[op.imm]);
    case Opcode::GroupDim:
      return number(thread_dims[op.imm]);
    case Opcode::GroupSize:
      return number(static_cast<Wide>(threads.count()));
    case Opcode::ThreadId:
      return out = thread_form(), true;
    case Opcode::GridThreadId:
      return group_form().combine(static_cast<i64>(threads.count()), thread_form(), 1, out);
    case Opcode::GridPos:
      return position_form(static_cast<Position>(gx + op.imm))
          .combine(i64{thread_dims[op.imm]}, position_form(static_cast<Position>(op.imm)), 1, out);
    case Opcode::SimdgroupId:
      return out = quotient_form(thread_form(), simd_width_), true;
    case Opcode::LaneId:
      return thread_form().combine(1, quotient_form(thread_form(), simd_width_), -i64{simd_width_}, out);
    case Opcode::SimdgroupCount:
      return number((static_cast<Wide>(threads.count()) + simd_width_ - 1) / simd_width_);
    case Opcode::SimdWidth:
      return number(simd_width_);
    case Opcode::ItemCount:
      return number(static_cast<Wide>(items));
    case Opcode::Length:
      return number(elements(k_.operand(v, 0)));
    default:
      return recomputable(k_, v) && arithmetic_form(v, out);
  }
}

bool Facts::arithmetic_form(OpId v, Linear& out) {
  const auto& op = k_.op(v);
  const auto operand = [&](u32 i) { return k_.operand(v, i); };
  const auto known = [&](u32 i) { return is_integer(k_.type(operand(i))) && form_of_[operand(i)] != 0; };
  const auto form_at = [&](u32 i) -> const Linear& { return linear(operand(i)); };
  // The form holds only if the op did not wrap: its exact range, before the type is imposed, must fit.
  const auto fits = [&](const Linear& l) { return range(l).within(Range::of(op.type.elem)); };
  switch (op.code) {
    case Opcode::Add:
    case Opcode::Sub:
      return known(0) && known(1) && form_at(0).combine(1, form_at(1), op.code == Opcode::Add ? 1 : -1, out) &&
             fits(out);
    case Opcode::Neg:
      return known(0) && form_at(0).combine(-1, Linear{}, 0, out) && fits(out);
    case Opcode::Not: {
      if (!known(0) || !form_at(0).combine(-1, Linear{}, 0, out)) return false;
      out.c += is_unsigned_int(op.type.elem) ? Range::of(op.type.elem).hi : -1;
      return fits(out);
    }
    case Opcode::Mul:
    case Opcode::Shl: {
      for (u32 i = 0; i < (op.code == Opcode::Mul ? 2u : 1u); ++i) {
        const Range by = range(operand(1 - i));
        if (!known(i) || !by.is_point()) continue;
        Wide factor = by.lo;
        if (op.code == Opcode::Shl) {
          if (by.lo < 0 || by.lo > 61 || by.lo >= dtype_bits(op.type.elem)) return false;  // taken modulo the width
          factor = Wide{1} << static_cast<int>(by.lo);
        }
        if (!Linear::small(factor)) return false;
        return form_at(i).combine(static_cast<i64>(factor), Linear{}, 0, out) && fits(out);
      }
      return false;
    }
    case Opcode::Cast:
      return known(0) && (out = form_at(0), fits(out) && range(operand(0)).within(Range::of(op.type.elem)));
    case Opcode::AssumeUniform:
      return known(0) && (out = form_at(0), true);
    case Opcode::Div:
    case Opcode::Rem:
    case Opcode::Shr:
    case Opcode::And: {
      if (!known(0) || !known(1)) return false;
      const Range a = range(operand(0)), b = range(operand(1));
      if (a.lo < 0 || !b.is_point() || b.lo < 0 || !Linear::small(b.lo)) return false;
      Wide by = b.lo;
      bool remainder = op.code == Opcode::Rem;
      if (op.code == Opcode::Shr) {
        if (by > 61 || by >= dtype_bits(op.type.elem)) return false;  // taken modulo the width
        by = Wide{1} << static_cast<int>(by);
      } else if (op.code == Opcode::And) {
        if ((by & (by + 1)) != 0) return false;
        by += 1, remainder = true;
      }
      if (by <= 0 || by > (Wide{1} << 62)) return false;
      const Linear p = form_at(0);
      const Linear q = quotient_form(p, by);
      if (!remainder) return out = q, true;
      return p.combine(1, q, -static_cast<i64>(by), out);
    }
    case Opcode::Select: {
      // One arm plus what separates them, where that is small: b, or b + (a - b).
      if (!known(1) || !known(2)) return false;
      Linear apart;
      if (!form_at(1).combine(1, form_at(2), -1, apart) || !apart.is_constant()) return false;
      if (apart.c == 0) return out = form_at(1), true;
      const Leaf d = fresh(hull(Range::point(0), Range::point(apart.c)));
      return form_at(2).combine(1, Linear::of(d), 1, out) && fits(out);
    }
    default:
      return false;
  }
}

Range Facts::compare(Opcode code, OpId a, OpId b) {
  const Range x = range(a), y = range(b);
  Wide lo = x.lo - y.hi, hi = x.hi - y.lo;
  if (Linear apart; form_of_[a] && form_of_[b] && linear(a).combine(1, linear(b), -1, apart)) {
    const Range d = range(apart);
    lo = std::max(lo, d.lo), hi = std::min(hi, d.hi);
  }
  const auto decide = [](bool yes, bool no) {
    return yes ? Range::point(1) : no ? Range::point(0) : Range::between(0, 1);
  };
  switch (code) {
    case Opcode::Lt:
      return decide(hi < 0, lo >= 0);
    case Opcode::Le:
      return decide(hi <= 0, lo > 0);
    case Opcode::Gt:
      return decide(lo > 0, hi <= 0);
    case Opcode::Ge:
      return decide(lo >= 0, hi < 0);
    case Opcode::Eq:
      return decide(lo == 0 && hi == 0, lo > 0 || hi < 0);
    default:
      return decide(lo > 0 || hi < 0, lo == 0 && hi == 0);
  }
}

Range Facts::tree(OpId v) {
  const auto& op = k_.op(v);
  const auto at = [&](u32 i) { return range(k_.operand(v, i)); };
  switch (op.code) {
    case Opcode::Eq:
    case Opcode::Ne:
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge:
      return compare(op.code, k_.operand(v, 0), k_.operand(v, 1));
    case Opcode::Cast:
      return convert(k_.type(k_.operand(v, 0)).elem, op.type.elem, at(0));
    case Opcode::AssumeUniform:
      return at(0);
    case Opcode::Bounded: {
      bool wrapped = false;
      return apply(Opcode::Min, op.type.elem, apply(Opcode::Max, op.type.elem, at(0), at(1), wrapped), at(2), wrapped);
    }
    case Opcode::Select: {
      // Each arm is seen with what the condition says of it; each condition is a context of its own, so that deep nests
      // would cost a power of two.
      if (nested_selects_ >= 4) return hull(at(1), at(2));
      const OpId condition = k_.operand(v, 0);
      Range both;
      ++nested_selects_;
      for (u32 arm = 1; arm <= 2; ++arm) {
        const auto mark = push();
        assume(condition, arm == 1);
        if (!dead_) both = hull(both, at(arm));
        pop(mark);
      }
      --nested_selects_;
      return both.empty() ? Range::of(op.type.elem) : both;
    }
    default: {
      const Range a = at(0), b = op.operand_count > 1 ? at(1) : Range::point(0);
      if (a.empty() || b.empty()) return Range::of(op.type.elem);
      bool wrapped = false;
      return apply(op.code, op.type.elem, a, b, wrapped);
    }
  }
}

}  // namespace iron::analysis
