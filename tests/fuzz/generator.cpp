// A kernel as a whole: launch, parameters, ids, body, and the stores that make its values visible.
#include "generator.h"

#include <fmt/format.h>

#include <algorithm>

#include "writer.h"

namespace iron::fuzz {

using namespace ir;

namespace {
constexpr DType stored[] = {DType::boolean, DType::i8,  DType::u8,  DType::i16, DType::u16,  DType::i32,
                            DType::u32,     DType::i64, DType::u64, DType::f16, DType::bf16, DType::f32,
                            DType::f64,     DType::f32, DType::u32, DType::i32, DType::f16,  DType::f32};
constexpr AtomicKind ordered_by_nothing[] = {AtomicKind::add,  AtomicKind::min, AtomicKind::max,
                                             AtomicKind::and_, AtomicKind::or_, AtomicKind::xor_};
constexpr DType atomic_types[] = {DType::u32, DType::i32, DType::u64, DType::i64};
}  // namespace

Subject generate(u64 seed) { return Writer(seed).run(); }

Writer::Writer(u64 seed) : random_(seed * 0x2545f4914f6cdd1du + 1), seed_(seed), k_(subject_.kernel), build_(k_) {}

DType Writer::random_dtype() { return random_.pick(stored); }
Type Writer::random_type() {
  const DType elem = random_dtype();
  static constexpr u8 lanes[] = {1, 1, 1, 1, 1, 1, 2, 4, 4, 8};
  return Type::value(elem, random_.pick(lanes));
}

Subject Writer::run() {
  k_.name = fmt::format("fuzz_{}", seed_);
  k_.file = "fuzz.cpp";
  subject_.data_seed = random_.next() >> 16;
  choose_launch();
  add_params();
  add_ids();
  for (u64 i = 3 + random_.below(4); i > 0; --i) load_input();
  add_shared();
  static constexpr int sizes[] = {4, 8, 12, 16, 24, 40};
  budget_ = random_.pick(sizes);
  block(0, budget_);
  finish();
  return std::move(subject_);
}

void Writer::choose_launch() {
  static constexpr Mode modes[] = {Mode::Threadgroup, Mode::Threadgroup, Mode::Threadgroup, Mode::Elementwise,
                                   Mode::Grid3D,      Mode::Tile2D,      Mode::SimdGroup2D};
  k_.mode = random_.pick(modes);
  if (random_.chance(10)) k_.numerics = Numerics::fused;
  simd_ = !random_.chance(12);
  auto& [groups, threads, items] = subject_.geometry;
  if (simd_) {
    static constexpr u32 sizes[] = {32, 32, 64, 64, 96, 128};
    threads = {random_.pick(sizes), 1, 1};
    if (k_.mode != Mode::Elementwise && random_.chance(25)) {
      threads.y = 1u << random_.below(3);
      threads.x /= threads.y;
    }
  } else {
    threads = {1 + static_cast<u32>(random_.below(70)), 1, 1};
  }
  groups = {1 + static_cast<u32>(random_.below(3)), 1, 1};
  if (k_.mode != Mode::Elementwise && random_.chance(20)) groups.y = 2;
  threads_ = static_cast<u32>(threads.count()), groups_ = static_cast<u32>(groups.count());
  // An elementwise launch has as few groups as hold its items.
  if (k_.mode == Mode::Elementwise) items = u64{groups_} * threads_ - random_.below(threads_);
}

void Writer::add_params() {
  const auto buffer = [&](std::string_view name, ParamKind kind, DType elem, u64 count) {
    const OpId id = k_.add_param(std::string(name), kind, elem);
    subject_.sizes.push_back(count * dtype_size(elem));
    return id;
  };
  const u64 inputs = 1 + random_.below(4);
  for (u64 i = 0; i < inputs; ++i) {
    Input in;
    in.elem = random_dtype();
    in.count = 16 + random_.below(100);
    in.memory = buffer(fmt::format("x{}", i), ParamKind::in, in.elem, in.count);
    inputs_.push_back(in);
  }
  Input packed;  // bytes that are seen as other types
  packed.elem = DType::u8, packed.count = 128 + 16 * random_.below(4);
  packed.memory = buffer("packed", ParamKind::in, DType::u8, packed.count);
  inputs_.push_back(packed);

  const u64 scalars = 1 + random_.below(3);
  std::vector<OpId> scalar_ids;
  for (u64 i = 0; i < scalars; ++i) {
    const DType elem = i == 0 ? DType::u32 : random_dtype();
    const OpId id = k_.add_param(fmt::format("s{}", i), ParamKind::scalar, elem);
    const u64 small = random_.below(20);
    subject_.sizes.push_back(is_float(elem) || random_.chance(30) ? random_.pick(interesting(elem)) : small);
    if (elem == DType::boolean) subject_.sizes.back() &= 1;
    if (is_float(elem) || elem == DType::boolean) {
      // any bits do
    } else if (dtype_bits(elem) < 64) {
      subject_.sizes.back() &= (u64{1} << dtype_bits(elem)) - 1;
    }
    scalar_ids.push_back(id);
  }
  const u64 outputs = 1 + random_.below(3);
  for (u64 i = 0; i < outputs; ++i) {
    Slots s;
    s.elem = random_dtype();
    s.per = 1u << random_.below(4);
    s.readable = i > 0 && random_.chance(50);
    s.memory = buffer(fmt::format("y{}", i), s.readable ? ParamKind::inout : ParamKind::out, s.elem,
                      u64{groups_} * threads_ * s.per);
    slots_.push_back(s);
  }
  if (random_.chance(50)) {
    Counters c;
    c.elem = random_.pick(atomic_types);
    c.count = 1 + random_.below(40);
    c.kind = random_.pick(ordered_by_nothing);
    c.memory = buffer("counters", ParamKind::inout, c.elem, c.count);
    counters_.push_back(c);
  }
  if (random_.chance(40)) {
    Exchange e;
    e.global = true;
    Exchange::View v;
    v.elem = random_dtype();
    v.per = 1u << random_.below(3);
    v.count = u64{threads_} * v.per;
    v.memory = buffer("passed", ParamKind::inout, v.elem, groups_ * v.count);
    e.views.push_back(v);
    exchanges_.push_back(e);
  }
  build_.set_point(k_.body());
  for (const OpId id : scalar_ids) push({id, k_.type(id), Scope::grid});
  // Views come after the parameters.
  const u64 views = random_.below(3);
  for (u64 i = 0; i < views; ++i) {
    DType elem = random_dtype();
    if (elem == DType::boolean) elem = DType::u32;
    const u64 offset = 16 * random_.below(3);
    const OpId id = build_.op(Opcode::View, Type::memory(Space::global, elem), {packed.memory}, offset);
    inputs_.push_back({id, elem, (packed.count - offset) / dtype_size(elem)});
  }
}

void Writer::add_ids() {
  const auto& [groups, threads, items] = subject_.geometry;
  const auto id = [&](Opcode code, Scope scope, u64 count, u64 imm = 0) {
    const OpId op = build_.op(code, {}, imm);
    return push({op, index_type, scope, 0, static_cast<i64>(count) - 1});
  };
  const auto number = [&](Opcode code, u64 n, u64 imm = 0) {
    const OpId op = build_.op(code, {}, imm);
    push({op, index_type, Scope::grid, static_cast<i64>(n), static_cast<i64>(n)});
  };
  thread_ = id(Opcode::ThreadId, Scope::lane, threads_);
  grid_thread_ = id(Opcode::GridThreadId, Scope::lane, u64{threads_} * groups_);
  const bool flat = k_.mode == Mode::Elementwise;
  if (random_.chance(30)) id(Opcode::ThreadPos, Scope::lane, threads.x, 0);
  if (random_.chance(30) && !flat) id(Opcode::ThreadPos, Scope::lane, threads.y, 1);
  if (random_.chance(30)) id(Opcode::GridPos, Scope::lane, u64{threads.x} * groups.x, 0);
  if (random_.chance(20) && !flat) id(Opcode::GridPos, Scope::lane, u64{threads.y} * groups.y, 1);
  if (!flat && k_.mode != Mode::Grid3D) {
    id(Opcode::GroupId, Scope::threadgroup, groups.x, 0);
    if (random_.chance(40)) id(Opcode::GroupId, Scope::threadgroup, groups.y, 1);
  }
  if (random_.chance(40)) number(Opcode::GroupCount, groups.x, 0);
  if (random_.chance(40)) number(Opcode::GroupSize, threads_);
  if (random_.chance(20)) number(Opcode::GroupDim, threads.x, 0);
  if (flat) number(Opcode::ItemCount, items);
  if (simd_) {
    id(Opcode::LaneId, Scope::lane, 32);
    id(Opcode::SimdgroupId, Scope::simdgroup, (threads_ + 31) / 32);
    if (random_.chance(30)) number(Opcode::SimdgroupCount, (threads_ + 31) / 32);
    if (random_.chance(30)) number(Opcode::SimdWidth, 32);
  }
  if (random_.chance(40)) {
    const Input& in = random_.pick(inputs_);
    const OpId op = build_.op(Opcode::Length, {in.memory});
    push({op, index_type, Scope::grid, static_cast<i64>(in.count), static_cast<i64>(in.count)});
  }
}

void Writer::add_shared() {
  const u64 arrays = random_.below(3);
  for (u64 i = 0; i < arrays; ++i) {
    Exchange e;
    Exchange::View v;
    v.elem = random_dtype();
    v.per = 1u << random_.below(3);
    v.count = u64{threads_} * v.per;
    v.memory = build_.op(Opcode::SharedNew, Type::memory(Space::shared, v.elem), {}, v.count);
    e.views.push_back(v);
    const u32 slot = v.per * dtype_size(v.elem);
    // Only integers are seen as other integers: the bits of a NaN are nobody's business (R2).
    if (is_int(v.elem) && random_.chance(50)) {
      static constexpr DType ints[] = {DType::u8, DType::i16, DType::u32, DType::i64};
      Exchange::View other;
      other.elem = random_.pick(ints);
      if (slot % dtype_size(other.elem) == 0) {
        other.per = slot / dtype_size(other.elem);
        other.count = u64{threads_} * other.per;
        other.memory = build_.op(Opcode::SharedAlias, Type::memory(Space::shared, other.elem), {v.memory}, 0);
        e.views.push_back(other);
      }
      const u64 whole = u64{threads_} * slot, offset = 16;
      if (whole >= 64 && random_.chance(50)) {
        other.elem = random_.pick(ints);
        other.per = 0;
        other.count = (whole - offset) / dtype_size(other.elem);
        other.memory = build_.op(Opcode::SharedAlias, Type::memory(Space::shared, other.elem), {v.memory}, offset);
        e.views.push_back(other);
      }
    }
    exchanges_.push_back(e);
  }
  for (auto& e : exchanges_)
    if (!e.global) fill_exchange(e);
}

// Values of the outermost region go into the outputs, so that what computes them matters.
void Writer::finish() {
  if (!exchanges_.empty()) {
    switch_exchanges();
    use_exchange();
  }
  std::vector<Value> seen;
  for (const auto& v : values_)
    if (k_.op(v.id).code != Opcode::Param && !(v.id <= grid_thread_.id)) seen.push_back(v);
  const std::size_t most = std::min<std::size_t>(seen.size(), 12);
  for (std::size_t i = 0; i < most; ++i) {
    Value v = seen[seen.size() - 1 - (i < 6 ? i : random_.below(seen.size()))];
    if (v.type.lanes > 1) v = emit(Opcode::VecExtract, {v}, random_.below(v.type.lanes));
    const Slots& s = random_.pick(slots_);
    if (v.type.elem != s.elem) v = emit(Opcode::Cast, {v}, 0, Type::value(s.elem));
    store_slot(s, &v);
  }
  for (const auto& s : slots_) store_slot(s);
}

}  // namespace iron::fuzz
