// Tiles in software: one fma chain an element, k ascending (R4).
#include <fmt/format.h>

#include "exec/machine.h"
#include "exec/rows.h"
#include "ir/eval.h"
#include "ir/scalar.h"

namespace iron::exec {

namespace {
using namespace ir;

// The tile state that a simdgroup sees: the group's, or its own.
u32 state_of(const Machine& m, const Simdgroup& s, u32 tile) {
  const u32 per = static_cast<u32>(m.program.tiles.size());
  return m.program.tiles[tile].whole_group ? tile : per * (s.index + 1) + tile;
}
u32 thread_in_scope(const Machine& m, const Simdgroup& s, const Tile& t, u32 lane) {
  return t.whole_group ? s.index * m.width + lane : lane;
}

/// A memory operand of a tile op: read and written element by element, with all checks.
class View {
 public:
  View(Machine& m, Simdgroup& s, const Instr& in, const Tile& t, u32 mem)
      : m_(m), s_(s), in_(in), mem_(m.program.mems[mem]), place_(m.place(s, mem_)) {
    now_ = m.touch(s, in, 0);
    now_.who = Touch::make_who(m.index_of(in), t.whole_group ? everyone : collective + s.index, false);
  }
  DType elem() const { return mem_.elem; }
  bool read(i64 at, u64& bits) {
    bits = 0;
    if (!inside(at, "read")) return false;
    std::memcpy(&bits, place_.base + static_cast<u64>(at) * mem_.size, mem_.size);
    if (place_.shadow) m_.note_read(s_, in_, mem_, *place_.shadow, byte(at), mem_.size, now_);
    return true;
  }
  void write(i64 at, u64 bits) {
    if (!inside(at, "write")) return;
    std::memcpy(place_.base + static_cast<u64>(at) * mem_.size, &bits, mem_.size);
    if (place_.shadow) m_.note_write(s_, in_, mem_, *place_.shadow, byte(at), mem_.size, now_);
  }

 private:
  bool inside(i64 at, std::string_view verb) {
    if (static_cast<u64>(at) < place_.count) return true;
    m_.out_of_bounds(s_, in_, mem_, 0, at, place_.count, verb);
    return false;
  }
  u64 byte(i64 at) const { return place_.offset + static_cast<u64>(at) * mem_.size; }
  Machine& m_;
  Simdgroup& s_;
  const Instr& in_;
  const Mem& mem_;
  Place place_;
  Touch now_;
};

u64 convert(DType to, DType from, u64 bits) {
  if (to == from) return bits;
  if (to == DType::f32 && from == DType::f16)  // the usual operands of products, without the way through eval
    return std::bit_cast<u32>(scalar::quiet(f16_bits_to_f32(static_cast<u16>(bits))));
  if (to == DType::f32 && from == DType::bf16)
    return std::bit_cast<u32>(scalar::quiet(std::bit_cast<f32>(static_cast<u32>(bits) << 16)));
  const Type f = Type::value(from);
  return eval(Opcode::Cast, Type::value(to), {&f, 1}, {&bits, 1});
}

/// The n-th operand, which is the same for all threads of the scope.
i64 uniform(Machine& m, Simdgroup& s, const Instr& in, u32 n) {
  const u32 at = m.program.operands[in.first + n];
  const u32 first = s.mask ? static_cast<u32>(std::countr_zero(s.mask)) : 0;
  const i64 v = reg<i64>(s, at)[first];
  const auto check = [&](const Simdgroup& other) {
    for (u64 rest = other.mask; rest; rest &= rest - 1) {
      const auto l = static_cast<u32>(std::countr_zero(rest));
      if (reg<i64>(other, at)[l] != v && m.fresh(code::not_uniform, in.op))
        m.report({code::not_uniform,
                  fmt::format("operand {} of {} is {} in {} and {} elsewhere", n, m.kernel.info_of(in.op).text,
                              reg<i64>(other, at)[l], m.thread_name(other, l), v),
                  "tile ops take values that are uniform over the tile's scope"},
                 in.op);
    }
  };
  if (m.program.tiles[m.program.operands[in.first]].whole_group) {
    for (const auto& other : s.group->simdgroups) check(other);
  } else
    check(s);
  return v;
}

struct Accumulator {
  const Tile& tile;
  TileState& state;
};
Accumulator accumulator(Machine& m, Simdgroup& s, const Instr& in) {
  const u32 t = m.program.operands[in.first];
  return {m.program.tiles[t], s.group->tiles[state_of(m, s, t)]};
}
void unwritten(Machine& m, const Instr& in, u64 linear, const Tile& t) {
  if (!m.fresh(code::uninitialised, in.op)) return;
  m.report({code::uninitialised,
            fmt::format("element ({}, {}) of a tile is used before anything is written to it", linear / t.map.cols,
                        linear % t.map.cols),
            "clear the tile first"},
           in.op, t.op, "the tile is here");
}

void zero(Machine& m, Simdgroup& s, const Instr& in) {
  auto [tile, state] = accumulator(m, s, in);
  std::fill(state.bits.begin(), state.bits.end(), u64{0});
  std::fill(state.written.begin(), state.written.end(), u8{1});
}

template <class T>
T number(DType elem, u64 bits) {
  if constexpr (std::is_same_v<T, f32>)
    return std::bit_cast<f32>(static_cast<u32>(convert(DType::f32, elem, bits)));
  else if constexpr (std::is_same_v<T, f64>)
    return std::bit_cast<f64>(convert(DType::f64, elem, bits));
  else
    return static_cast<T>(static_cast<i32>(convert(DType::i32, elem, bits)));
}
template <class T>
void row_step(T a, const T* b, T* sums, u32 n) {
  if constexpr (std::is_same_v<T, f32>)
    fma_into_row(a, b, sums, n);
  else if constexpr (std::is_floating_point_v<T>)
    for (u32 j = 0; j < n; ++j) sums[j] = std::fma(a, b[j], sums[j]);
  else
    for (u32 j = 0; j < n; ++j) sums[j] = a * b[j] + sums[j];
}

// T is the number that the chain runs in; a 16-bit accumulator is widened, and rounded once at the end of the op.
template <class T>
void multiply(Machine& m, Simdgroup& s, const Instr& in, DType chain) {
  auto [tile, state] = accumulator(m, s, in);
  const auto layout = unpack<LayoutImm>(in.imm);
  View a(m, s, in, tile, m.program.operands[in.first + 1]), b(m, s, in, tile, m.program.operands[in.first + 4]);
  const i64 a_at = uniform(m, s, in, 2), a_stride = uniform(m, s, in, 3), b_at = uniform(m, s, in, 5),
            b_stride = uniform(m, s, in, 6);
  const u32 rows = tile.map.rows, cols = tile.map.cols, depth = layout.k;
  // Operands in the tile's input format, then in the chain's.
  const auto read = [&](View& v, i64 at) {
    u64 bits;
    v.read(at, bits);
    return number<T>(tile.input, convert(tile.input, v.elem(), bits));
  };
  std::vector<T> left(std::size_t{rows} * depth), right(std::size_t{depth} * cols);
  for (u32 i = 0; i < rows; ++i)
    for (u32 k = 0; k < depth; ++k)
      left[std::size_t{i} * depth + k] =
          read(a, layout.a_transposed ? a_at + k * a_stride + i : a_at + i * a_stride + k);
  for (u32 k = 0; k < depth; ++k)
    for (u32 j = 0; j < cols; ++j)
      right[std::size_t{k} * cols + j] =
          read(b, layout.b_transposed ? b_at + j * b_stride + k : b_at + k * b_stride + j);
  // The columns of a row advance together; each element is a chain of its own all the same.
  std::vector<T> sums(std::size_t{rows} * cols);
  for (std::size_t at = 0; at < sums.size(); ++at) sums[at] = number<T>(tile.accumulator, state.bits[at]);
  for (u32 i = 0; i < rows; ++i)
    for (u32 k = 0; k < depth; ++k)
      row_step(left[std::size_t{i} * depth + k], right.data() + std::size_t{k} * cols,
               sums.data() + std::size_t{i} * cols, cols);
  for (u32 i = 0; i < rows; ++i)
    for (u32 j = 0; j < cols; ++j) {
      const std::size_t at = std::size_t{i} * cols + j;
      if (!state.written[at]) unwritten(m, in, at, tile);
      T sum = sums[at];
      u64 bits = 0;
      std::memcpy(&bits, &sum, sizeof(T));
      // One NaN class: the interpreter keeps one NaN, as eval does.
      if constexpr (std::is_floating_point_v<T>)
        if (sum != sum) {
          const T quiet = std::numeric_limits<T>::quiet_NaN();
          std::memcpy(&bits, &quiet, sizeof(T));
        }
      state.bits[at] = convert(tile.accumulator, chain, bits);
      state.written[at] = 1;
    }
}
void mma(Machine& m, Simdgroup& s, const Instr& in) {
  const DType acc = m.program.tiles[m.program.operands[in.first]].accumulator;
  if (acc == DType::f64)
    multiply<f64>(m, s, in, DType::f64);
  else if (is_float(acc))
    multiply<f32>(m, s, in, DType::f32);
  else
    multiply<u32>(m, s, in, DType::i32);
}

void load(Machine& m, Simdgroup& s, const Instr& in) {
  auto [tile, state] = accumulator(m, s, in);
  View v(m, s, in, tile, m.program.operands[in.first + 1]);
  const i64 at = uniform(m, s, in, 2), stride = uniform(m, s, in, 3), rows = uniform(m, s, in, 4),
            cols = uniform(m, s, in, 5);
  for (u32 i = 0; i < tile.map.rows; ++i)
    for (u32 j = 0; j < tile.map.cols; ++j) {
      u64 bits = 0;
      const bool valid = i < rows && j < cols && v.read(at + i * stride + j, bits);
      state.bits[std::size_t{i} * tile.map.cols + j] = valid ? convert(tile.accumulator, v.elem(), bits) : 0;
      state.written[std::size_t{i} * tile.map.cols + j] = 1;
    }
}
void store(Machine& m, Simdgroup& s, const Instr& in) {
  auto [tile, state] = accumulator(m, s, in);
  View v(m, s, in, tile, m.program.operands[in.first + 1]);
  const i64 at = uniform(m, s, in, 2), stride = uniform(m, s, in, 3), rows = uniform(m, s, in, 4),
            cols = uniform(m, s, in, 5);
  for (u32 i = 0; i < tile.map.rows && i < rows; ++i)
    for (u32 j = 0; j < tile.map.cols && j < cols; ++j) {
      const std::size_t e = std::size_t{i} * tile.map.cols + j;
      if (!state.written[e]) unwritten(m, in, e, tile);
      v.write(at + i * stride + j, convert(v.elem(), tile.accumulator, state.bits[e]));
    }
}

using Whole = void (*)(Machine&, Simdgroup&, const Instr&);
template <Whole work>
void meet(Machine& m, Group& g, const Instr& in) {
  ++m.time;
  work(m, g.simdgroups[0], in);
}
template <Whole work>
Status each_simdgroup(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  ++m.time;
  work(m, s, in);
  return Status::access;
}
Status arrive(Machine& m, Simdgroup& s, const Instr& in) {
  check_convergent(m, s, in);
  return Status::rendezvous;
}

// --- a thread's own elements
bool owned(Machine& m, const Simdgroup& s, const Instr& in, const Tile& t, u32 lane, i64 number) {
  if (static_cast<u64>(number) < t.map.elements()) return true;
  if (m.fresh(code::out_of_bounds, in.op))
    m.report({code::out_of_bounds,
              fmt::format("{} of element {} of a tile, of which each thread owns {}, in {}",
                          m.kernel.info_of(in.op).text, number, t.map.elements(), m.thread_name(s, lane)),
              "count from 0 to the tile's elems()"},
             in.op, t.op, "the tile is here");
  return false;
}
Status get(Machine& m, Simdgroup& s, const Instr& in) {
  auto [tile, state] = accumulator(m, s, in);
  const i64* e = reg<i64>(s, m.program.operands[in.first + 1]);
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    const u32 thread = thread_in_scope(m, s, tile, l);
    u64 bits = 0;
    if (owned(m, s, in, tile, l, e[l]) && tile.map.inside(static_cast<u64>(e[l]), thread)) {
      const u64 at = tile.map.linear(static_cast<u64>(e[l]), thread);
      if (!state.written[at]) unwritten(m, in, at, tile);
      bits = convert(in.elem, tile.accumulator, state.bits[at]);
    }
    set_lane_bits(s, in.dst, dtype_size(in.elem), l, bits);
  }
  return Status::next;
}
Status set(Machine& m, Simdgroup& s, const Instr& in) {
  auto [tile, state] = accumulator(m, s, in);
  const i64* e = reg<i64>(s, m.program.operands[in.first + 1]);
  const DType from = m.kernel.type(m.kernel.operand(in.op, 2)).elem;
  for (u64 rest = s.mask; rest; rest &= rest - 1) {
    const auto l = static_cast<u32>(std::countr_zero(rest));
    const u32 thread = thread_in_scope(m, s, tile, l);
    if (!owned(m, s, in, tile, l, e[l]) || !tile.map.inside(static_cast<u64>(e[l]), thread)) continue;
    const u64 at = tile.map.linear(static_cast<u64>(e[l]), thread);
    state.bits[at] =
        convert(tile.accumulator, from, lane_bits(s, m.program.operands[in.first + 2], dtype_size(from), l));
    state.written[at] = 1;
  }
  return Status::next;
}
template <bool Row>
Status coordinate(Machine& m, Simdgroup& s, const Instr& in) {
  const Tile& t = m.program.tiles[m.program.operands[in.first]];
  const i64* e = reg<i64>(s, m.program.operands[in.first + 1]);
  i64* out = reg<i64>(s, in.dst);
  for (u32 l = 0; l < m.width; ++l) {
    const u64 number = static_cast<u64>(e[l]), thread = thread_in_scope(m, s, t, l);
    out[l] = static_cast<i64>(Row ? t.map.row(number, thread) : t.map.col(number, thread));
  }
  return Status::next;
}
Status elems(Machine& m, Simdgroup& s, const Instr& in) {
  const Tile& t = m.program.tiles[m.program.operands[in.first]];
  std::fill_n(reg<i64>(s, in.dst), m.width, static_cast<i64>(t.map.elements()));
  return Status::next;
}
}  // namespace

bool tile_handler(const Kernel& k, OpId id, const Program& p, Instr& in) {
  const bool whole = p.tiles[p.operands[in.first]].whole_group;
  const auto collective_op = [&](Handler each, Meeting all) {
    in.fn = whole ? arrive : each;
    in.meet = whole ? all : nullptr;
    return true;
  };
  switch (k.op(id).code) {
    case Opcode::TileZero:
      return collective_op(each_simdgroup<zero>, meet<zero>);
    case Opcode::TileMma:
      return collective_op(each_simdgroup<mma>, meet<mma>);
    case Opcode::TileLoad:
      return collective_op(each_simdgroup<load>, meet<load>);
    case Opcode::TileStore:
      return collective_op(each_simdgroup<store>, meet<store>);
    case Opcode::TileGet:
      in.fn = get;
      return true;
    case Opcode::TileSet:
      in.fn = set;
      return true;
    case Opcode::TileRow:
      in.fn = coordinate<true>;
      return true;
    case Opcode::TileCol:
      in.fn = coordinate<false>;
      return true;
    case Opcode::TileElems:
      in.fn = elems;
      return true;
    default:
      return false;
  }
}

}  // namespace iron::exec
