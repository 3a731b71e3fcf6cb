// Accesses that are in bounds, initialised and free of races by who may touch what when.
#include <algorithm>
#include <bit>

#include "writer.h"

namespace iron::fuzz {

using namespace ir;

namespace {
constexpr AtomicKind ordered_by_nothing[] = {AtomicKind::add,  AtomicKind::min, AtomicKind::max,
                                             AtomicKind::and_, AtomicKind::or_, AtomicKind::xor_};
bool counts(DType t) { return t == DType::u32 || t == DType::i32 || t == DType::u64 || t == DType::i64; }
}  // namespace

OpId Writer::memory_op(Opcode code, Type stated, std::initializer_list<OpId> operands, u64 imm) {
  build_.set_location(k_.intern_location("fuzz.cpp", ++line_));
  const OpId id = build_.op(code, stated, operands, imm);
  build_.set_location(0);
  return id;
}

// `most`: over which threads one address is sure to hold one value.
Value Writer::load(OpId memory, DType elem, u8 lanes, const Value& at, u64 imm, Scope most) {
  const Type t = Type::value(elem, lanes);
  return push({memory_op(Opcode::Load, t, {memory, at.id}, imm), t, std::min(at.scope, most)});
}

u8 Writer::lanes_for(u32 count) {
  static constexpr u8 choices[] = {1, 1, 1, 2, 4, 8};
  u8 lanes = random_.pick(choices);
  while (lanes > count) lanes = static_cast<u8>(lanes / 2);
  return lanes;
}

u64 Writer::alignment(DType elem, u8 lanes) {
  const u32 bytes = dtype_size(elem) * lanes;
  MemoryImm imm;
  if (lanes > 1 && bytes <= 16 && random_.chance(70)) imm.align_log2 = static_cast<u8>(std::countr_zero(bytes));
  if (random_.chance(10)) imm.cache = random_.chance(50) ? CachePolicy::stream : CachePolicy::keep;
  return pack(imm);
}

void Writer::load_input() {
  const Input& in = random_.pick(inputs_);
  if (in.count == 0) return;
  const u8 lanes = lanes_for(static_cast<u32>(in.count));
  if (lanes > 1 && random_.chance(60)) {
    const Value row = index(0, static_cast<i64>(in.count / lanes) - 1);
    const Value at = emit(Opcode::Mul, {row, const_index(lanes)});
    load(in.memory, in.elem, lanes, at, alignment(in.elem, lanes), Scope::grid);
    return;
  }
  const Value at = index(0, static_cast<i64>(in.count) - lanes);
  load(in.memory, in.elem, lanes, at, 0, Scope::grid);
  // Neighbours, for those who look for them.
  if (lanes == 1 && random_.chance(30) && at.hi + 1 < static_cast<i64>(in.count))
    load(in.memory, in.elem, 1, emit(Opcode::Add, {at, const_index(1)}), 0, Scope::grid);
}

// load.or, or a load under if: subscripts are free there.
void Writer::load_guarded() {
  const Input& in = random_.pick(inputs_);
  if (in.count == 0) return;
  const u8 lanes = lanes_for(static_cast<u32>(in.count));
  const Value at = any_index(Scope::lane, 2);
  Value inside = emit(Opcode::Lt, {at, const_index(static_cast<i64>(in.count) - lanes + 1)});
  if (at.lo < 0) {
    const Value high = emit(Opcode::Ge, {at, const_index(0)});
    inside = emit(Opcode::And, {inside, high});
  }
  const Type t = Type::value(in.elem, lanes);
  const Value other = value(t, Scope::lane, 1);
  if (random_.chance(60)) {
    if (random_.chance(30)) {
      const Value more = value(bool_type, Scope::lane, 1);
      inside = emit(Opcode::And, {inside, more});
    }
    const Scope s = std::min({at.scope, inside.scope, other.scope});
    push({memory_op(Opcode::LoadOr, t, {in.memory, at.id, inside.id, other.id}, 0), t, s});
    return;
  }
  const OpId branch = build_.if_(inside.id, std::span(&t, 1));
  const RegionId outer = build_.region();
  build_.set_point(k_.region_of(branch, 0));
  const OpId v = memory_op(Opcode::Load, t, {in.memory, at.id}, 0);
  build_.yield({v});
  build_.set_point(k_.region_of(branch, 1));
  build_.yield({other.id});
  build_.set_point(outer);
  push({k_.results(branch)[0], t, std::min({at.scope, inside.scope, other.scope})});
}

// --- slots of single threads
Value Writer::permuted_thread(u8 permutation) {
  Value t = thread_;
  if (permutation == 1) {
    t = emit(Opcode::Sub, {const_index(threads_ - 1), thread_});
  } else if (permutation > 1) {
    t = emit(Opcode::Xor, {thread_, const_index(permutation - 1)});
  }
  return t;
}

Value Writer::own_slot(u32 per, u8 lanes, bool& aligned) {
  aligned = lanes == 1 || random_.chance(60);
  Value base = grid_thread_;
  if (per > 1)
    base = random_.chance(70) ? emit(Opcode::Mul, {base, const_index(per)})
                              : emit(Opcode::Shl, {base, const_index(std::countr_zero(per))});
  if (per == lanes) return base;
  Value within = index(0, aligned ? per / lanes - 1 : per - lanes);
  if (aligned && lanes > 1) within = emit(Opcode::Mul, {within, const_index(lanes)});
  return emit(Opcode::Add, {base, within});
}

void Writer::store_slot(const Slots& s, const Value* given) {
  const u8 lanes = given ? u8{1} : lanes_for(s.per);
  bool aligned = false;
  const Value at = own_slot(s.per, lanes, aligned);
  const Value v = given ? *given : value(Type::value(s.elem, lanes), Scope::lane, 2);
  memory_op(Opcode::Store, none_type, {s.memory, at.id, v.id}, aligned ? alignment(s.elem, lanes) : 0);
}

void Writer::own_atomic(OpId memory, DType elem, const Value& at, Scope) {
  static constexpr AtomicKind kinds[] = {AtomicKind::add, AtomicKind::min,  AtomicKind::max,      AtomicKind::and_,
                                         AtomicKind::or_, AtomicKind::xor_, AtomicKind::exchange, AtomicKind::inc_wrap};
  const Type t = Type::value(elem);
  AtomicImm imm;
  imm.kind = random_.pick(kinds);
  if (imm.kind == AtomicKind::inc_wrap && is_signed_int(elem)) imm.kind = AtomicKind::add;
  const Value a = value(t, Scope::lane, 1);
  OpId id = none;
  switch (random_.below(4)) {
    case 0: {
      imm.kind = AtomicKind::add;
      const Value b = value(t, Scope::lane, 1);
      id = memory_op(Opcode::AtomicCas, t, {memory, at.id, a.id, b.id}, pack(imm));
      break;
    }
    case 1:
      imm.kind = AtomicKind::add;
      id = memory_op(Opcode::AtomicLoad, t, {memory, at.id}, pack(imm));
      break;
    default:
      id = memory_op(Opcode::AtomicRmw, t, {memory, at.id, a.id}, pack(imm));
  }
  push({id, t, Scope::lane});
}

void Writer::use_slots() {
  const Slots& s = random_.pick(slots_);
  if (!s.readable || random_.chance(60)) return store_slot(s);
  const u8 lanes = lanes_for(s.per);
  bool aligned = false;
  const Value at = own_slot(s.per, lanes, aligned);
  if (lanes == 1 && counts(s.elem) && random_.chance(40)) return own_atomic(s.memory, s.elem, at, Scope::grid);
  load(s.memory, s.elem, lanes, at, aligned ? alignment(s.elem, lanes) : 0, Scope::lane);
}

// --- memory passed between threads
Value Writer::thread_slot(const Exchange& e, const Exchange::View& v, u8 lanes, bool& aligned) {
  aligned = lanes == 1 || random_.chance(60);
  Value base = permuted_thread(e.permutation);
  if (e.global) {
    const Value first = emit(Opcode::Sub, {grid_thread_, thread_});
    base = emit(Opcode::Add, {first, base});
  }
  if (v.per > 1) base = emit(Opcode::Mul, {base, const_index(v.per)});
  if (v.per == lanes) return base;
  Value within = index(0, aligned ? v.per / lanes - 1 : v.per - lanes);
  if (aligned && lanes > 1) within = emit(Opcode::Mul, {within, const_index(lanes)});
  return emit(Opcode::Add, {base, within});
}

void Writer::fill_exchange(Exchange& e) {
  const auto& v = e.views[0];
  const auto t = Type::value(v.elem);
  for (u32 i = 0; i < v.per; ++i) {
    Value at = permuted_thread(e.permutation);
    if (v.per > 1) at = emit(Opcode::Mul, {at, const_index(v.per)});
    if (i > 0) at = emit(Opcode::Add, {at, const_index(i)});
    const Value x = value(t, Scope::lane, 2);
    memory_op(Opcode::Store, none_type, {v.memory, at.id, x.id}, 0);
  }
}

void Writer::use_exchange() {
  if (exchanges_.empty()) return;
  const Exchange& e = random_.pick(exchanges_);
  const Exchange::View& v = random_.pick(e.views);
  if (v.per == 0 && e.state != Exchange::readable) return;
  bool aligned = false;
  if (e.state == Exchange::own) {
    const u8 lanes = lanes_for(v.per);
    const Value at = thread_slot(e, v, lanes, aligned);
    if (lanes == 1 && counts(v.elem) && random_.chance(20)) return own_atomic(v.memory, v.elem, at, Scope::threadgroup);
    const u64 imm = aligned ? alignment(v.elem, lanes) : 0;
    if (random_.chance(60)) {
      const Value x = value(Type::value(v.elem, lanes), Scope::lane, 2);
      memory_op(Opcode::Store, none_type, {v.memory, at.id, x.id}, imm);
    } else {
      load(v.memory, v.elem, lanes, at, imm, Scope::lane);
    }
    return;
  }
  const auto placed = [&](Value at) {
    if (!e.global) return at;
    Value base = emit(Opcode::Sub, {grid_thread_, thread_});
    base.scope = Scope::lane;
    if (v.per > 1) base = emit(Opcode::Mul, {base, const_index(v.per)});
    return emit(Opcode::Add, {base, at});
  };
  if (e.state == Exchange::readable) {
    const u8 lanes = lanes_for(static_cast<u32>(std::min<u64>(v.count, 8)));
    aligned = lanes > 1 && random_.chance(60);
    Value at = index(0, static_cast<i64>(aligned ? v.count / lanes - 1 : v.count - lanes));
    if (aligned) at = emit(Opcode::Mul, {at, const_index(lanes)});
    load(v.memory, v.elem, lanes, placed(at), aligned && !e.global ? alignment(v.elem, lanes) : 0, Scope::threadgroup);
    return;
  }
  const Value at = placed(index(0, static_cast<i64>(v.count) - 1));
  const Value x = value(Type::value(v.elem), Scope::lane, 2);
  AtomicImm imm;
  imm.kind = e.kind;
  memory_op(Opcode::AtomicRmw, Type::value(v.elem), {v.memory, at.id, x.id}, pack(imm));
}

void Writer::switch_exchanges() {
  if (exchanges_.empty()) return;
  barrier();
  const std::size_t first = random_.below(exchanges_.size());
  for (std::size_t i = 0; i < exchanges_.size(); ++i) {
    if (i != first && random_.chance(50)) continue;
    Exchange& e = exchanges_[i];
    e.state = e.state == Exchange::readable ? Exchange::own : Exchange::readable;
    if (e.views.size() == 1 && counts(e.views[0].elem) && random_.chance(25)) {
      e.state = Exchange::atomic;
      e.kind = random_.pick(ordered_by_nothing);
    }
    if (e.state == Exchange::own) {
      const u64 how = random_.below(4);
      e.permutation = how < 2 ? u8{0} : u8{1};
      if (how == 3 && (threads_ & (threads_ - 1)) == 0 && threads_ >= 32)
        e.permutation = static_cast<u8>(2 + random_.below(31));
    }
  }
}

void Writer::restore_exchanges(const std::vector<Exchange>& before) {
  bool same = true;
  for (std::size_t i = 0; i < before.size(); ++i)
    same = same && before[i].state == exchanges_[i].state && before[i].permutation == exchanges_[i].permutation &&
           before[i].kind == exchanges_[i].kind;
  if (!same) barrier();
  exchanges_ = before;
}

// --- a thread's own arrays, and counters that every thread updates
void Writer::new_array() {
  Array a;
  a.elem = random_dtype();
  a.count = 1 + static_cast<u32>(random_.below(8));
  a.memory = build_.op(Opcode::ArrayNew, Type::memory(Space::priv, a.elem), {}, a.count);
  const Type t = Type::value(a.elem);
  for (u32 i = 0; i < a.count; ++i) {
    const Value x = value(t, Scope::lane, 1);
    memory_op(Opcode::Store, none_type, {a.memory, const_index(i).id, x.id}, 0);
  }
  arrays_.push_back(a);
}

void Writer::use_array() {
  if (arrays_.empty() || random_.chance(20)) return new_array();
  const Array a = arrays_[random_.below(arrays_.size())];
  const u8 lanes = lanes_for(a.count);
  const Value at = index(0, static_cast<i64>(a.count) - lanes);
  const Type t = Type::value(a.elem, lanes);
  if (random_.chance(50)) {
    const Value x = value(t, Scope::lane, 2);
    memory_op(Opcode::Store, none_type, {a.memory, at.id, x.id}, 0);
  } else {
    load(a.memory, a.elem, lanes, at, 0, Scope::lane);
  }
}

void Writer::use_counters() {
  if (counters_.empty()) return;
  const Counters& c = random_.pick(counters_);
  const Value at = index(0, static_cast<i64>(c.count) - 1);
  const Value x = value(Type::value(c.elem), Scope::lane, 2);
  AtomicImm imm;
  imm.kind = c.kind;
  memory_op(Opcode::AtomicRmw, Type::value(c.elem), {c.memory, at.id, x.id}, pack(imm));
}

}  // namespace iron::fuzz
