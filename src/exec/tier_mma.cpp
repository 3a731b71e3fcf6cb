// Products of warpgroups, accumulators, fragments: exact products, summed in f32 with k ascending.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "exec/tier.h"
#include "ir/eval.h"

namespace iron::exec {

using namespace ir;

namespace {
/// Where the elements of a fragment lie: row and column of element e of a lane in simdgroup w of the warpgroup.
u32 fragment_row(u32 w, u32 lane, u32 e) { return 16 * w + lane / 4 + 8 * (e / 2 % 2); }
u32 fragment_col(u32 lane, u32 e) { return 8 * (e / 4) + 2 * (lane % 4) + e % 2; }

f32 number(DType elem, MmaFormat format, u64 bits) {
  const Type from = Type::value(elem), to = Type::value(DType::f32);
  const Type word = Type::value(DType::u32);
  switch (format) {
    case MmaFormat::e4m3:
      return std::bit_cast<f32>(static_cast<u32>(eval(Opcode::DecodeE4M3, to, {&word, 1}, {&bits, 1})));
    case MmaFormat::e5m2:
      return std::bit_cast<f32>(static_cast<u32>(eval(Opcode::DecodeE5M2, to, {&word, 1}, {&bits, 1})));
    case MmaFormat::native:
      break;
  }
  return std::bit_cast<f32>(static_cast<u32>(eval(Opcode::Cast, to, {&from, 1}, {&bits, 1})));
}
/// All numbers of a 16-bit or 8-bit format, by their bits.
const std::vector<f32>& numbers(DType elem, MmaFormat format) {
  static std::map<std::pair<DType, MmaFormat>, std::vector<f32>> tables;
  auto& table = tables[{elem, format}];
  if (table.empty()) {
    table.resize(std::size_t{1} << (8 * dtype_size(elem)));
    for (u64 bits = 0; bits < table.size(); ++bits) table[bits] = number(elem, format, bits);
  }
  return table;
}

/// d += a * b, with b as [n, k]. A product of two numbers of at most 12 bits is exact in f32 unless it leaves the range
/// of the exponent, which only bf16 can; there each step is a fused one.
void multiply_add(std::vector<f32>& d, const std::vector<f32>& a, const std::vector<f32>& b, u32 rows, u32 cols,
                  u32 k) {
  const auto extremes = [](const std::vector<f32>& v) {
    std::pair<f32, f32> r{INFINITY, 0.0f};
    for (const f32 x : v)
      if (x != 0 && std::isfinite(x)) r = {std::min(r.first, std::fabs(x)), std::max(r.second, std::fabs(x))};
    return r;
  };
  const auto [a_least, a_most] = extremes(a);
  const auto [b_least, b_most] = extremes(b);
  const bool plain = f64{a_least} * b_least > 0x1p-120 && f64{a_most} * b_most < 0x1p126;
  // Columns run innermost, so that the sums of a row advance together.
  std::vector<f32> across(std::size_t{k} * cols);
  for (u32 j = 0; j < cols; ++j)
    for (u32 i = 0; i < k; ++i) across[std::size_t{i} * cols + j] = b[std::size_t{j} * k + i];
  for (u32 row = 0; row < rows; ++row) {
    f32* const __restrict out = d.data() + std::size_t{row} * cols;
    for (u32 i = 0; i < k; ++i) {
      const f32 x = a[std::size_t{row} * k + i];
      const f32* const right = across.data() + std::size_t{i} * cols;
      if (plain)
        for (u32 j = 0; j < cols; ++j) out[j] = x * right[j] + out[j];
      else
        for (u32 j = 0; j < cols; ++j) out[j] = std::fma(x, right[j], out[j]);
    }
  }
}
}  // namespace

// --- starting and settling
void Tier::multiply(std::span<Simdgroup* const> who, const Instr& in) {
  ++m_.time;
  const auto imm = unpack<MmaImm>(in.imm);
  Group& g = *who[0]->group;
  const u32 wg = warpgroup_of(*who[0]);
  const u32* const operands = m_.program.operands.data() + in.first;
  const OpId a = m_.kernel.operand(in.op, 1);
  Batch batch;
  batch.op = in.op, batch.time = m_.time, batch.acc = operands[0];
  const u8 accumulate = reg<u8>(*who[0], operands[3])[0] & 1;
  for (const Simdgroup* s : who)
    for (u32 l = 0; l < m_.width; ++l)
      if ((reg<u8>(*s, operands[3])[l] & 1) != accumulate && m_.fresh(code::not_uniform, in.op))
        m_.report({code::not_uniform, fmt::format("whether a product accumulates differs in {}", m_.thread_name(*s, l)),
                   "make it the same for all threads of the warpgroup"},
                  in.op);
  batch.accumulate = accumulate != 0;
  AccState& acc = g.tier->accs[wg][batch.acc];
  if (batch.accumulate && !acc.written && m_.fresh(code::uninitialised, in.op))
    m_.report({code::uninitialised, "a product adds to an accumulator before anything is written to it",
               "clear() it, or let the first product not accumulate"},
              in.op, plan.accs[batch.acc].op, "the accumulator is here");
  acc.written = true;

  const Knowledge k = starter(who);
  const Touch now = stream_touch(g, in, agents.products(wg));
  const auto view = [&](u32 number) {
    const Rectangle r = rectangle(who, in, number);
    const Mem& mem = m_.program.mems[r.mem];
    if (r.good)
      for (u32 row = 0; row < r.rows; ++row)
        stream_read(k, g, in, mem, g.shared_shadow[mem.root], mem.offset + r.element(row, 0) * mem.size,
                    r.cols * mem.size, now);
    return r;
  };
  batch.b = view(operands[2]);
  if (m_.kernel.type(a).is_value()) {  // registers are read while the product is in flight; nothing may set them
    const u32 size = dtype_size(m_.kernel.type(a).elem), rows = m_.kernel.type(a).rows;
    batch.a_bits.resize(std::size_t{rows} * imm.k);
    for (u32 w = 0; w < who.size(); ++w)
      for (u32 e = 0; e < m_.kernel.type(a).lanes; ++e)
        for (u32 l = 0; l < m_.width; ++l)
          batch.a_bits[std::size_t{fragment_row(w, l, e)} * imm.k + fragment_col(l, e)] =
              static_cast<u32>(lane_bits(*who[w], operands[1], size, e * m_.width + l));
  } else {
    batch.a = view(operands[1]);
  }
  auto& in_flight = warpgroup(*who[0]).in_flight;
  in_flight.push_back(std::move(batch));
  if (m_.options.schedule == Schedule::reverse) land_batch(g, wg, in_flight.back());  // as soon as can be
}

void Tier::settle(std::span<Simdgroup* const> who, u64 keep) {
  Warpgroup& wg = warpgroup(*who[0]);
  if (wg.in_flight.size() <= keep) return;
  const auto end = wg.in_flight.end() - static_cast<std::ptrdiff_t>(keep);
  const u32 agent = agents.products(warpgroup_of(*who[0])), time = (end - 1)->time;
  for (auto b = wg.in_flight.begin(); b != end; ++b) land_batch(*who[0]->group, warpgroup_of(*who[0]), *b);
  wg.in_flight.erase(wg.in_flight.begin(), end);
  for (Simdgroup* s : who) {
    known(*s).plain.raise(s->group->id, agent, time);
    known(*s).asynchronous.raise(s->group->id, agent, time);
  }
}

void Tier::land_batch(Group& g, u32 wg, Batch& b) {
  if (b.landed) return;
  b.landed = true;
  const auto imm = unpack<MmaImm>(m_.kernel.op(b.op).imm);
  const DType elem = m_.kernel.type(m_.kernel.operand(b.op, 2)).elem;
  const auto& table = numbers(elem, imm.format);
  const AccPlan& acc = plan.accs[b.acc];
  const u32 rows = acc.type.rows, cols = acc.type.cols, k = imm.k;
  // A as [rows, k], B as [cols, k], whatever lies in memory.
  const auto read = [&](const Rectangle& r, bool swapped, u32 lines) {
    std::vector<f32> v(std::size_t{lines} * k);
    const Mem& mem = m_.program.mems[r.mem];
    if (!r.good) return v;
    for (u32 i = 0; i < lines; ++i)
      for (u32 j = 0; j < k; ++j) {
        u64 bits = 0;
        std::memcpy(&bits, shared_at(g, mem, swapped ? r.element(j, i) : r.element(i, j)), mem.size);
        v[std::size_t{i} * k + j] = table[bits];
      }
    return v;
  };
  std::vector<f32> left(b.a_bits.size());
  if (b.a)
    left = read(*b.a, imm.a_transposed, rows);
  else
    std::transform(b.a_bits.begin(), b.a_bits.end(), left.begin(), [&](u32 bits) { return table[bits]; });
  const std::vector<f32> right = read(*b.b, !imm.b_transposed, cols);
  std::vector<f32> sums(std::size_t{rows} * cols);
  const auto each = [&](auto&& f) {
    for (u32 w = 0; w < 4; ++w) {
      f32* const own = reg<f32>(g.simdgroups[wg * 4 + w], acc.reg);
      for (u32 e = 0; e < acc.type.rows * cols / Type::warpgroup_threads; ++e)
        for (u32 l = 0; l < m_.width; ++l)
          f(sums[std::size_t{fragment_row(w, l, e)} * cols + fragment_col(l, e)], own[e * m_.width + l]);
    }
  };
  if (b.accumulate) each([](f32& sum, f32& own) { sum = own; });
  multiply_add(sums, left, right, rows, cols, k);
  each([](f32& sum, f32& own) { own = sum == sum ? sum : std::numeric_limits<f32>::quiet_NaN(); });
}

// --- what plain code may touch
bool Tier::usable(const Simdgroup& s, const Instr& in, bool reads) {
  const u32 number = m_.program.operands[in.first];
  const AccPlan& acc = plan.accs[number];
  for (const Batch& b : of(s).warpgroups[warpgroup_of(s)].in_flight)
    if (b.acc == number) {
      if (m_.fresh(code::in_flight, in.op, b.op))
        m_.report(
            {code::in_flight,
             fmt::format("{} touches an accumulator of warpgroup {} of threadgroup {} while a product into it is in "
                         "flight",
                         m_.kernel.info_of(in.op).text, warpgroup_of(s), s.group->id),
             "settle() the product first"},
            in.op, b.op, "the product starts here");
      return false;
    }
  if (reads && !of(s).accs[warpgroup_of(s)][number].written && m_.fresh(code::uninitialised, in.op))
    m_.report({code::uninitialised, "an accumulator is read before anything is written to it",
               "clear() it, or let the first product not accumulate"},
              in.op, acc.op, "the accumulator is here");
  return true;
}

void Tier::check_fragment(const Simdgroup& s, const Instr& in, OpId value) {
  for (const Batch& b : of(s).warpgroups[warpgroup_of(s)].in_flight)
    if (m_.kernel.operand(b.op, 1) == value && m_.fresh(code::in_flight, in.op, b.op))
      m_.report({code::in_flight,
                 fmt::format("a fragment of warpgroup {} of threadgroup {} is set while a product reads it",
                             warpgroup_of(s), s.group->id),
                 "settle() the product first"},
                in.op, b.op, "the product starts here");
}

// --- fragments in memory
void Tier::put(Simdgroup& s, const Instr& in) {
  ++m_.time;
  Simdgroup* const who[] = {&s};
  const Rectangle r = rectangle(who, in, m_.program.operands[in.first]);
  if (!r.good) return;
  const Mem& mem = m_.program.mems[r.mem];
  Shadow& shadow = s.group->shared_shadow[mem.root];
  const u32 from = m_.program.operands[in.first + 1], elements = m_.kernel.type(m_.kernel.operand(in.op, 1)).lanes;
  for_lanes(s.mask, m_.backwards(), [&](u32 l) {
    const Touch now = m_.touch(s, in, l);
    for (u32 e = 0; e < elements; e += 2) {  // two neighbours
      const u64 at = r.element(fragment_row(s.index % 4, l, e), fragment_col(l, e));
      for (u32 i = 0; i < 2; ++i) {
        const u64 bits = lane_bits(s, from, mem.size, (e + i) * m_.width + l);
        std::memcpy(shared_at(*s.group, mem, at + i), &bits, mem.size);
      }
      note_write(s, in, mem, shadow, mem.offset + at * mem.size, 2 * mem.size, now);
    }
  });
}

// --- handlers
namespace {
using Work = void (*)(Machine&, Simdgroup&, const Instr&);
template <Work work>
Status together(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  work(m, s, in);
  return Status::access;
}
Status arrive(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  return Status::collective;
}
const AccPlan& acc_of(const Machine& m, const Instr& in) { return m.tier->plan.accs[m.program.operands[in.first]]; }
u32 operand(const Machine& m, const Instr& in, u32 n) { return m.program.operands[in.first + n]; }

Status acc_new(Machine& m, Simdgroup& s, const Instr& in) {
  m.tier->forget(s, static_cast<u32>(in.imm));
  return Status::next;
}
Status acc_value(Machine& m, Simdgroup& s, const Instr& in) {
  m.tier->usable(s, in, true);
  std::memcpy(s.regs + in.dst, s.regs + acc_of(m, in).reg, std::size_t{in.n} * sizeof(f32));
  return Status::next;
}
Status acc_set(Machine& m, Simdgroup& s, const Instr& in) {
  m.tier->usable(s, in, false);
  const AccPlan& acc = acc_of(m, in);
  std::memcpy(s.regs + acc.reg, s.regs + operand(m, in, 1),
              std::size_t{acc.type.rows} * acc.type.cols / 4 * sizeof(f32));
  m.tier->set_written(s, operand(m, in, 0));
  return Status::next;
}
Status acc_clear(Machine& m, Simdgroup& s, const Instr& in) {
  m.tier->usable(s, in, false);
  const AccPlan& acc = acc_of(m, in);
  std::memset(s.regs + acc.reg, 0, std::size_t{acc.type.rows} * acc.type.cols / 4 * sizeof(f32));
  m.tier->set_written(s, operand(m, in, 0));
  return Status::next;
}
Status acc_scale(Machine& m, Simdgroup& s, const Instr& in) {
  m.tier->usable(s, in, true);
  const AccPlan& acc = acc_of(m, in);
  f32* const v = reg<f32>(s, acc.reg);
  const f32* const by = reg<f32>(s, operand(m, in, 1));
  for (u32 e = 0; e < u32{acc.type.rows} * acc.type.cols / Type::warpgroup_threads; ++e)
    for (u32 l = 0; l < m.width; ++l) {
      f32& x = v[e * m.width + l];
      x *= by[e / 2 % 2 * m.width + l];
      if (x != x) x = std::numeric_limits<f32>::quiet_NaN();
    }
  return Status::next;
}

template <bool Row>
Status place(Machine& m, Simdgroup& s, const Instr& in) {
  i64* const out = reg<i64>(s, in.dst);
  for (u32 e = 0; e < in.lanes; ++e)
    for (u32 l = 0; l < m.width; ++l) out[e * m.width + l] = Row ? fragment_row(s.index % 4, l, e) : fragment_col(l, e);
  return Status::next;
}
Status splat(Machine& m, Simdgroup& s, const Instr& in) {
  const std::size_t row = std::size_t{m.width} * dtype_size(in.elem);
  for (u32 e = 0; e < in.lanes; ++e) std::memcpy(s.regs + in.dst + e * row, s.regs + in.a, row);
  return Status::next;
}
Status spread(Machine& m, Simdgroup& s, const Instr& in) {
  const std::size_t row = std::size_t{m.width} * dtype_size(in.elem);
  for (u32 e = 0; e < in.lanes; ++e) std::memcpy(s.regs + in.dst + e * row, s.regs + in.a + e / 2 % 2 * row, row);
  return Status::next;
}
Status columns(Machine& m, Simdgroup& s, const Instr& in) {
  const std::size_t size = dtype_size(in.elem);
  std::memcpy(s.regs + in.dst, s.regs + in.a + in.imm / 2 * m.width * size, in.n * size);
  return Status::next;
}
Status fold(Machine& m, Simdgroup& s, const Instr& in) {
  const auto kind = unpack<ReduceKind>(in.imm);
  const u32 size = dtype_size(in.elem), elements = m.kernel.type(m.kernel.operand(in.op, 0)).lanes;
  for (u32 half = 0; half < in.lanes; ++half)
    for (u32 l = 0; l < m.width; ++l) {
      u64 v = lane_bits(s, in.b, size, half * m.width + l);
      for (u32 e = 0; e < elements; ++e)
        if (e / 2 % 2 == half) v = reduce_step(kind, in.elem, v, lane_bits(s, in.a, size, e * m.width + l));
      set_lane_bits(s, in.dst, size, half * m.width + l, v);
    }
  return Status::next;
}

// `imm` is the view's number: its slot, row and column are kept as they are here.
Status view(Machine& m, Simdgroup& s, const Instr& in) {
  const u32 row = 8 * m.width, to = m.tier->plan.views[in.imm].reg, from[] = {in.a, in.b, in.c};
  for (u32 i = 0; i < 3; ++i) std::memcpy(s.regs + to + i * row, s.regs + from[i], row);
  return Status::next;
}
Status nothing(Machine&, Simdgroup&, const Instr&) { return Status::next; }
Status role_number(Machine& m, Simdgroup& s, const Instr& in) {
  std::fill_n(reg<i64>(s, in.dst), m.width, i64{m.tier->role_index(s)});
  return Status::next;
}
Status cluster_rank(Machine& m, Simdgroup& s, const Instr& in) {
  std::fill_n(reg<i64>(s, in.dst), m.width, i64{s.group->tier->rank});
  return Status::next;
}
Status check(Machine& m, Simdgroup& s, const Instr& in) {
  m.tier->check_fragment(s, in, static_cast<OpId>(in.imm));
  return Status::next;
}
void expect(Machine& m, Simdgroup& s, const Instr& in) { m.tier->expect(s, in); }
void load(Machine& m, Simdgroup& s, const Instr& in) { m.tier->load(s, in); }
void put(Machine& m, Simdgroup& s, const Instr& in) { m.tier->put(s, in); }
template <Work work>
Status alone(Machine& m, Simdgroup& s, const Instr& in) {
  work(m, s, in);
  return Status::access;
}
void peer_load(Machine& m, Simdgroup& s, const Instr& in) { m.tier->peer_load(s, in); }
Status acquire(Machine& m, Simdgroup& s, const Instr& in) { return m.tier->acquire_slot(s, in); }
}  // namespace

Handler fragment_check_handler() { return check; }

Handler tier_handler(Opcode code) {
  switch (code) {
    case Opcode::RoleIndex:
      return role_number;
    case Opcode::ClusterRank:
      return cluster_rank;
    case Opcode::RoleBarrier:
    case Opcode::ClusterSync:
    case Opcode::PipeWait:
    case Opcode::PipeRelease:
    case Opcode::TmaStore:
    case Opcode::Reclaim:
    case Opcode::AccMma:
    case Opcode::AccSettle:
    case Opcode::TurnEnter:
    case Opcode::TurnLeave:
      return arrive;
    case Opcode::PeerLoad:
      return alone<peer_load>;
    case Opcode::SharedView:
      return view;
    case Opcode::TmaLoad:
      return alone<load>;
    case Opcode::PipeAcquire:
      return acquire;
    case Opcode::PipeExpect:
      return alone<expect>;
    case Opcode::PipeNew:
    case Opcode::TurnNew:
      return nothing;
    case Opcode::AccNew:
      return acc_new;
    case Opcode::AccValue:
      return acc_value;
    case Opcode::AccSet:
      return acc_set;
    case Opcode::AccScale:
      return acc_scale;
    case Opcode::AccClear:
      return acc_clear;
    case Opcode::FragRow:
      return place<true>;
    case Opcode::FragCol:
      return place<false>;
    case Opcode::FragSplat:
      return splat;
    case Opcode::FragSpread:
      return spread;
    case Opcode::FragCols:
      return columns;
    case Opcode::FragFold:
      return fold;
    case Opcode::FragPut:
      return together<put>;
    default:
      return nullptr;
  }
}

}  // namespace iron::exec
