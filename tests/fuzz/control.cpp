// Branches, loops, and ops that many threads reach together, each under control that is uniform enough (R5).
#include <algorithm>

#include "writer.h"

namespace iron::fuzz {

using namespace ir;

namespace {
constexpr u32 most_trips = 48;
constexpr Scope scopes[] = {Scope::lane, Scope::lane, Scope::simdgroup, Scope::threadgroup, Scope::grid};
}  // namespace

void Writer::barrier() { memory_op(Opcode::Barrier, none_type, {}, 0); }

void Writer::block(int depth, int statements) {
  const std::size_t values = values_.size(), arrays = arrays_.size();
  for (int i = 0; i < statements && budget_ > 0; ++i) {
    --budget_;
    statement(depth);
  }
  if (depth == 0) return;
  arrays_.resize(arrays);
  (void)values;  // the caller forgets values once it has chosen what to yield
}

void Writer::statement(int depth) {
  const u64 how = random_.below(100);
  if (how < 16) {
    const Type t = random_type();
    make(t, Scope::lane, 2);
  } else if (how < 26) {
    load_input();
  } else if (how < 32) {
    load_guarded();
  } else if (how < 42) {
    use_slots();
  } else if (how < 54) {
    use_exchange();
  } else if (how < 60) {
    if (control_ >= Scope::threadgroup) switch_exchanges();
  } else if (how < 66) {
    use_array();
  } else if (how < 69) {
    use_counters();
  } else if (how < 78) {
    if (depth < 4) branch(depth + 1);
  } else if (how < 87) {
    if (depth < 4) loop(depth + 1);
  } else if (how < 92) {
    if (simd_ && control_ >= Scope::simdgroup) simd_op();
  } else if (how < 95) {
    if (simd_ && control_ >= Scope::threadgroup) group_op();
  } else {
    fact();
  }
}

// What a region hands over: a value of the type, and for `index` one from 0 to `most`.
Value Writer::give(Type t, Scope least, i64 most) { return t.is_index() ? index(0, most, least) : value(t, least, 2); }

void Writer::branch(int depth) {
  const Scope wanted = random_.pick(scopes);
  const Value condition = value(bool_type, wanted, 2);
  std::vector<Type> types;
  const u64 results = random_.below(4);
  for (u64 i = 0; i < results; ++i) types.push_back(random_.chance(15) ? index_type : random_type());
  const OpId id = build_.if_(condition.id, types);
  const RegionId outer = build_.region();
  const Scope outer_control = control_;
  control_ = std::min(control_, condition.scope);
  const auto before = exchanges_;
  std::vector<Value> out(types.size());
  for (std::size_t i = 0; i < types.size(); ++i)
    out[i].type = types[i], out[i].scope = condition.scope, out[i].lo = 0, out[i].hi = types[i].is_index() ? 30 : -1;
  for (u32 arm = 0; arm < 2; ++arm) {
    const std::size_t values = values_.size();
    build_.set_point(k_.region_of(id, arm));
    if (arm == 0 || random_.chance(60)) block(depth, 1 + static_cast<int>(random_.below(5)));
    restore_exchanges(before);
    std::vector<OpId> given;
    for (auto& o : out) {
      const Value v = give(o.type, Scope::lane, 30);
      o.scope = std::min(o.scope, v.scope);
      given.push_back(v.id);
    }
    build_.yield(given);
    values_.resize(values);
  }
  build_.set_point(outer);
  control_ = outer_control;
  const auto ids = k_.results(id);
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].id = ids[i];
    push(out[i]);
  }
}

// Bounds of any integer type, near the ends of it too: trips are counted without overflow (R6).
void Writer::typed_loop(int, OpId& start, OpId& end, OpId& step, Scope& bounds) {
  static constexpr DType types[] = {DType::i32, DType::u32, DType::i64, DType::u64, DType::i16, DType::u8};
  const Type t = Type::value(random_.pick(types));
  const u64 by = 1 + random_.below(3), trips = random_.below(5);
  const u32 bits = dtype_bits(t.elem);
  const u64 all = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  const u64 top = is_signed_int(t.elem) ? all >> 1 : all;
  u64 from = random_.below(10);
  if (random_.chance(30)) from = top - trips * by;                                       // up to the last value
  if (is_signed_int(t.elem) && random_.chance(30)) from = (0 - random_.below(6)) & all;  // from below zero
  start = build_.constant(t, from), end = build_.constant(t, (from + trips * by) & all);
  step = build_.constant(t, by);
  bounds = Scope::grid;
  trips_ *= static_cast<u32>(std::max<u64>(1, trips));
}

void Writer::loop(int depth) {
  if (trips_ >= most_trips) return;
  const u32 outer_trips = trips_;
  OpId start = none, end = none, step = none;
  Scope bounds = Scope::grid, first = Scope::grid;
  Value iv;
  if (random_.chance(20)) {
    typed_loop(depth, start, end, step, bounds);
    iv = {none, k_.type(start), bounds};
  } else {
    const Scope wanted = random_.pick(scopes);
    const i64 most = random_.between(1, 6);
    const Value from = random_.chance(60) ? const_index(random_.between(0, 3)) : index(0, 3, wanted);
    Value to = random_.chance(40) ? const_index(random_.between(0, most)) : index(0, most, wanted);
    if (random_.chance(30)) {
      to = emit(Opcode::Add, {from, to});
      to.lo = from.lo, to.hi = from.hi + most;
      values_.back() = to;
    }
    const Value by = random_.chance(70) ? const_index(1) : index(1, 3, wanted);
    start = from.id, end = to.id, step = by.id;
    bounds = std::min({from.scope, to.scope, by.scope});
    first = std::min(from.scope, by.scope);
    iv = {none, index_type, first, from.lo, std::max(from.lo, to.hi - 1)};
    trips_ *= static_cast<u32>(std::max<i64>(1, to.hi - from.lo));
  }
  std::vector<Value> carried;
  std::vector<OpId> init;
  const u64 count = random_.below(4);
  for (u64 i = 0; i < count; ++i) {
    const Type t = random_.chance(15) ? index_type : random_type();
    Value v = give(t, random_.pick(scopes), 30);
    init.push_back(v.id);
    v.lo = 0, v.hi = -1;
    carried.push_back(v);
  }
  UntilImm until;
  Scope leaves = Scope::grid;
  if (random_.chance(25)) {
    const Value v = random_.chance(60) ? constant_bits(bool_type, 0) : value(bool_type, random_.pick(scopes), 1);
    init.push_back(v.id);
    carried.push_back({none, bool_type, std::min(v.scope, random_.pick(scopes))});
    until.carried_plus_one = static_cast<u32>(carried.size());
    leaves = carried.back().scope;
  }
  const OpId id = build_.for_(start, end, step, init, until);
  const RegionId outer = build_.region(), body = k_.region_of(id, 0);
  const Scope outer_control = control_;
  control_ = std::min({control_, bounds, leaves});
  const auto before = exchanges_;
  const std::size_t values = values_.size();
  build_.set_point(body);
  const auto args = k_.region(body).args;
  iv.id = args[0];
  push(iv);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    carried[i].id = args[i + 1];
    push(carried[i]);
  }
  block(depth, 1 + static_cast<int>(random_.below(6)));
  restore_exchanges(before);
  if (carried.empty()) use_slots();  // a loop that does nothing is an error (D06)
  std::vector<OpId> given;
  for (const auto& c : carried) given.push_back(give(c.type, c.scope, 30).id);
  build_.yield(given);
  values_.resize(values);
  build_.set_point(outer);
  control_ = outer_control;
  trips_ = outer_trips;
  const auto ids = k_.results(id);
  for (std::size_t i = 0; i < carried.size(); ++i) {
    carried[i].id = ids[i];
    carried[i].scope = std::min({carried[i].scope, bounds, leaves});
    push(carried[i]);
  }
}

namespace {
bool any_bits(DType t) { return !is_float(t); }
}  // namespace

void Writer::simd_op() {
  const Type t = random_type();
  const auto with_scope = [&](Scope s) { values_.back().scope = std::max(values_.back().scope, s); };
  static constexpr ReduceKind arithmetic[] = {ReduceKind::sum, ReduceKind::prod, ReduceKind::min, ReduceKind::max};
  static constexpr ReduceKind logical[] = {ReduceKind::and_, ReduceKind::or_, ReduceKind::xor_};
  switch (random_.below(10)) {
    case 0:
    case 1: {
      const bool bits = t.is_bool() || (any_bits(t.elem) && random_.chance(30));
      const ReduceKind kind = bits ? random_.pick(logical) : random_.pick(arithmetic);
      emit(Opcode::SimdReduce, {value(t)}, pack(kind));
      with_scope(Scope::simdgroup);
      return;
    }
    case 2: {
      const Type scanned = t.is_bool() ? u32_type : t;
      ScanImm imm;
      imm.kind = random_.pick(arithmetic);
      imm.exclusive = random_.chance(50);
      emit(Opcode::SimdScan, {value(scanned)}, pack(imm));
      values_.back().scope = Scope::lane;
      return;
    }
    case 3: {
      const Value v = value(t);
      const Value from = random_.chance(50) ? index(0, 31) : any_index(Scope::lane, 2);
      if (from.lo < 0) return;
      emit(Opcode::SimdShuffle, {v, from});
      values_.back().scope = v.scope >= Scope::simdgroup ? v.scope : std::min(v.scope, from.scope);
      return;
    }
    case 4:
    case 5: {
      static constexpr Opcode moves[] = {Opcode::SimdShuffleXor, Opcode::SimdShuffleUp, Opcode::SimdShuffleDown};
      const Opcode code = random_.pick(moves);
      emit(code, {value(t)}, random_.below(32));
      return;
    }
    case 6: {
      const Value v = value(t);
      const Value lane = index(0, 31, Scope::simdgroup);
      emit(Opcode::SimdBroadcast, {v, lane});
      values_.back().scope = std::max(v.scope, Scope::simdgroup);
      return;
    }
    case 7: {
      emit(Opcode::SimdBallot, {value(bool_type)});
      with_scope(Scope::simdgroup);
      return;
    }
    case 8: {
      const Opcode code = random_.chance(50) ? Opcode::SimdAny : Opcode::SimdAll;
      emit(code, {value(bool_type)});
      with_scope(Scope::simdgroup);
      return;
    }
    default:
      memory_op(Opcode::SimdBarrier, none_type, {}, 0);
  }
}

void Writer::group_op() {
  const Type t = random_type();
  static constexpr ReduceKind arithmetic[] = {ReduceKind::sum, ReduceKind::prod, ReduceKind::min, ReduceKind::max};
  static constexpr ReduceKind logical[] = {ReduceKind::and_, ReduceKind::or_, ReduceKind::xor_};
  switch (random_.below(6)) {
    case 0:
    case 1: {
      const bool bits = t.is_bool() || (any_bits(t.elem) && random_.chance(30));
      const ReduceKind kind = bits ? random_.pick(logical) : random_.pick(arithmetic);
      emit(Opcode::GroupReduce, {value(t)}, pack(kind));
      break;
    }
    case 2: {
      const Type scanned = t.is_bool() ? u32_type : t;
      ScanImm imm;
      imm.kind = random_.pick(arithmetic);
      imm.exclusive = random_.chance(50);
      emit(Opcode::GroupScan, {value(scanned)}, pack(imm));
      values_.back().scope = Scope::lane;
      return;
    }
    case 3:
      emit(Opcode::GroupAny, {value(bool_type)});
      break;
    case 4:
      emit(Opcode::GroupAll, {value(bool_type)});
      break;
    default:
      emit(Opcode::GroupBroadcast, {value(t)}, random_.below(threads_));
  }
  values_.back().scope = std::max(values_.back().scope, Scope::threadgroup);
}

// Facts are true, checks hold, fences and prefetches change nothing.
void Writer::fact() {
  switch (random_.below(5)) {
    case 0: {
      const Value v = any_index(Scope::lane, 2);
      const Value c = emit(Opcode::Le, {v, const_index(v.hi)});
      memory_op(random_.chance(50) ? Opcode::Assume : Opcode::Check, none_type, {c.id}, k_.intern_text("stays below"));
      return;
    }
    case 1: {
      static constexpr Scope over[] = {Scope::simdgroup, Scope::threadgroup};
      const Scope s = simd_ ? random_.pick(over) : Scope::threadgroup;
      if (control_ < s) return;
      const Type t = random_type();
      const Value v = value(t, s);
      emit(Opcode::AssumeUniform, {v}, pack(s));
      return;
    }
    case 2: {
      AtomicImm imm;
      imm.order = random_.chance(50) ? MemoryOrder::acq_rel : MemoryOrder::release;
      imm.scope = random_.chance(50) ? Scope::threadgroup : Scope::grid;
      memory_op(Opcode::Fence, none_type, {}, pack(imm));
      return;
    }
    case 3: {
      const Input& in = random_.pick(inputs_);
      const Value at = index(0, static_cast<i64>(in.count) - 1);
      memory_op(Opcode::Prefetch, none_type, {in.memory, at.id}, 0);
      return;
    }
    default: {
      const Type t = random_.chance(50) ? Type::value(DType::i32) : Type::value(DType::u16);
      const Value v = value(t, Scope::lane, 1);
      const Value kept = emit(Opcode::Rem, {v, constant_bits(t, 10)});
      const Value low = constant_bits(t, t.elem == DType::i32 ? 0xfffffff7u : 0u);
      const Value high = constant_bits(t, 9);
      emit(Opcode::Bounded, {kept, low, high});
    }
  }
}

}  // namespace iron::fuzz
