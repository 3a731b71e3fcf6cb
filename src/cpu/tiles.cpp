// Tile ops in software.
#include "cpu/tiles.h"

#include <fmt/format.h>

namespace iron::cpu {

using ir::Opcode;

Tiles::Tiles(Lowering& l) : l_(l), c_(l.c_), math_(l.math_) {}

const Tiles::Tile& Tiles::tile(OpId id) {
  if (const auto it = tiles_.find(id); it != tiles_.end()) return it->second;
  const auto& op = l_.k_.op(id);
  const auto imm = ir::unpack<ir::TileImm>(op.imm);
  Tile t;
  t.whole_group = imm.scope >= ir::Scope::threadgroup;
  if (!t.whole_group && imm.scope != ir::Scope::simdgroup)
    l_.fail("CPU03", id, fmt::format("the CPU device has no tiles of scope {}", ir::name(imm.scope)),
            "use simdgroup or threadgroup");
  t.map = {op.type.rows, op.type.cols, t.whole_group ? l_.count_ : 32};
  t.accumulator = op.type.elem, t.input = imm.input;
  t.chain = op.type.elem == DType::f64 ? DType::f64 : is_float(op.type.elem) ? DType::f32 : DType::i32;
  t.element = dtype_size(t.chain);
  t.stride = (op.type.cols + l_.lanes_ - 1) / l_.lanes_ * l_.lanes_;
  t.packets = t.stride / l_.lanes_;
  // Rows a large power of two apart would meet in a few sets of the caches.
  if (t.stride * t.element % 1024 == 0) t.stride += std::max(l_.lanes_, 64 / t.element);
  t.bytes = u64{t.stride} * op.type.rows * t.element;
  t.at = l_.scratch(t.bytes * (t.whole_group ? 1 : (l_.count_ + 31) / 32));
  return tiles_[id] = t;
}

V Tiles::base(const Tile& t) {
  V at = c_.gep(c_.scratch(), t.at);
  if (t.whole_group) return at;
  return c_.gep(at, c_.bin(Bin::mul, c_.bin(Bin::lshr, l_.chunk_->base, c_.i64(5)), c_.i64(static_cast<i64>(t.bytes))));
}

void Tiles::each(V count, const std::function<void(V)>& body) {
  Block before = c_.here(), head = c_.block("each"), run = c_.block("one"), after = c_.block("all");
  c_.br(head);
  c_.set(head);
  V i = c_.phi(c_.type(Num::i64));
  c_.incoming(i, c_.i64(0), before);
  c_.br(c_.cmp(Cmp::slt, i, count), run, after);
  c_.set(run);
  body(i);
  c_.incoming(i, c_.bin(Bin::add, i, c_.i64(1)), c_.here());
  c_.br(head);
  c_.set(after);
}

V Tiles::to_chain(const Tile& t, DType from, V v) { return math_.cast(t.chain, t.input, math_.cast(t.input, from, v)); }
V Tiles::from_accumulator(const Tile& t, DType to, V v) {
  return math_.cast(to, t.accumulator, math_.cast(t.accumulator, t.chain, v));
}

void Tiles::collective(OpId id) { act(id); }

bool Tiles::op(OpId id, Val& result) {
  const auto code = l_.k_.op(id).code;
  const Tile& t = tile(l_.k_.operand(id, 0));
  switch (code) {
    case Opcode::TileElems:
      result = l_.uniform(c_.i64(static_cast<i64>(t.map.elements())));
      return true;
    case Opcode::TileGet:
    case Opcode::TileSet:
    case Opcode::TileRow:
    case Opcode::TileCol:
      result = element(id, t);
      return code != Opcode::TileSet;
    default:
      break;
  }
  act(id);
  return false;
}

void Tiles::act(OpId id) {
  const Tile& t = tile(l_.k_.operand(id, 0));
  switch (l_.k_.op(id).code) {
    case Opcode::TileZero:
      zero(t);
      return;
    case Opcode::TileMma:
      multiply(id, t);
      return;
    case Opcode::TileLoad:
      transfer(id, t, false);
      return;
    case Opcode::TileStore:
      transfer(id, t, true);
      return;
    default:
      l_.fail("CPU03", id, "the CPU device has no code for this tile op");
  }
}

void Tiles::zero(const Tile& t) {
  V to = base(t);
  const u32 bytes = l_.lanes_ * t.element;
  V nothing = c_.bits(num(t), 0, l_.lanes_);
  each(t.stride / l_.lanes_ * t.map.rows,
       [&](V i) { c_.store(nothing, c_.gep(to, c_.bin(Bin::mul, i, c_.i64(bytes))), bytes < 64 ? bytes : 64); });
}

// A matrix copied into scratch in the chain's format, in panels of some columns, each row by row: what one block reads
// lies in sequence.
Tiles::Operand Tiles::packed(const Tile& t, const Memory& m, V offset, V stride, bool transposed, u32 rows, u32 cols,
                             u64 scratch, u32 panel) {
  const i64 size = dtype_size(m.elem), out = t.element;
  const u32 width = l_.lanes_;
  V to = c_.gep(c_.scratch(), scratch), from = c_.gep(m.base, c_.bin(Bin::mul, offset, c_.i64(size)));
  V step = c_.bin(Bin::mul, stride, c_.i64(size));
  const i64 line_bytes = i64{panel} * out, panel_bytes = line_bytes * rows;
  const auto copy = [&](V source, V target, u32 lanes) {
    V v = c_.load(c_.type(m.elem == DType::boolean ? Num::i8 : num_of(m.elem), lanes), source, static_cast<u32>(size));
    c_.store(to_chain(t, m.elem, l_.loaded(v, m.elem)), target, t.element);
  };
  each(rows, [&](V r) {
    V line = c_.gep(to, c_.bin(Bin::mul, r, c_.i64(line_bytes)));
    V row = c_.gep(from, transposed ? c_.bin(Bin::mul, r, c_.i64(size)) : c_.bin(Bin::mul, r, step));
    const auto columns = [&](V p, u32 count) {
      V target = c_.gep(line, c_.bin(Bin::mul, p, c_.i64(panel_bytes)));
      V first = c_.bin(Bin::mul, p, c_.i64(panel));
      V source = c_.gep(row, transposed ? c_.bin(Bin::mul, first, step) : c_.bin(Bin::mul, first, c_.i64(size)));
      if (transposed) {
        each(count, [&](V j) {
          copy(c_.gep(source, c_.bin(Bin::mul, j, step)), c_.gep(target, c_.bin(Bin::mul, j, c_.i64(out))), 0);
        });
        return;
      }
      const u32 packets = count / width;
      if (packets <= 4) {
        for (u32 j = 0; j < packets; ++j)
          copy(c_.gep(source, u64{j} * width * static_cast<u64>(size)),
               c_.gep(target, u64{j} * width * static_cast<u64>(out)), width);
      } else {
        each(packets, [&](V j) {
          V at = c_.bin(Bin::mul, j, c_.i64(width));
          copy(c_.gep(source, c_.bin(Bin::mul, at, c_.i64(size))), c_.gep(target, c_.bin(Bin::mul, at, c_.i64(out))),
               width);
        });
      }
      for (u32 j = packets * width; j < count; ++j)
        copy(c_.gep(source, u64{j} * static_cast<u64>(size)), c_.gep(target, u64{j} * static_cast<u64>(out)), 0);
    };
    if (cols / panel) each(cols / panel, [&](V p) { columns(p, panel); });
    if (cols % panel) columns(c_.i64(cols / panel), cols % panel);
  });
  // A column that starts a panel lies a whole panel's rows behind the one before.
  return {to, c_.i64(line_bytes), c_.i64(out), c_.i64(i64{rows} * out)};
}

void Tiles::block(const Tile& t, V acc, const Operand& a, const Operand& b, V row, V col, u32 rows, u32 packets,
                  u32 depth) {
  const u32 width = l_.lanes_, bytes = width * t.element, align = bytes < 64 ? bytes : 64;
  V corner =
      c_.gep(acc, c_.bin(Bin::mul, c_.bin(Bin::add, c_.bin(Bin::mul, row, c_.i64(t.stride)), col), c_.i64(t.element)));
  const auto place = [&](u32 i, u32 p) { return c_.gep(corner, (u64{i} * t.stride + u64{p} * width) * t.element); };
  std::vector<V> start, sum, next;
  for (u32 i = 0; i < rows; ++i)
    for (u32 p = 0; p < packets; ++p) start.push_back(c_.load(c_.type(num(t), width), place(i, p), align));
  V b_start = c_.gep(b.base, c_.bin(Bin::mul, col, b.panel));
  std::vector<V> a_rows;
  V a_start = c_.gep(a.base, c_.bin(Bin::mul, row, a.row));
  for (u32 i = 0; i < rows; ++i) a_rows.push_back(c_.gep(a_start, c_.bin(Bin::mul, a.row, c_.i64(i))));
  Block before = c_.here(), head = c_.block("k"), after = c_.block("stored");
  c_.br(head);
  c_.set(head);
  V k = c_.phi(c_.type(Num::i64)), b_line = c_.phi(c_.type(Num::ptr)), a_at = c_.phi(c_.type(Num::i64));
  c_.incoming(k, c_.i64(0), before);
  c_.incoming(b_line, b_start, before);
  c_.incoming(a_at, c_.i64(0), before);
  for (V s : start) {
    sum.push_back(c_.phi(c_.type(num(t), width)));
    c_.incoming(sum.back(), s, before);
  }
  const u32 steps = depth % 4 == 0 ? 4 : depth % 2 == 0 ? 2 : 1;
  next = sum;
  V line = b_line, at = a_at;
  for (u32 step = 0; step < steps; ++step) {
    std::vector<V> right;
    for (u32 p = 0; p < packets; ++p)
      right.push_back(c_.load(c_.type(num(t), width), c_.gep(line, u64{p} * bytes), t.element));
    for (u32 i = 0; i < rows; ++i) {
      V left = c_.splat(c_.load(c_.type(num(t)), c_.gep(a_rows[i], at), t.element), width);
      for (u32 p = 0; p < packets; ++p) {
        V& s = next[i * packets + p];
        s = t.chain == DType::i32 ? c_.bin(Bin::add, c_.bin(Bin::mul, left, right[p]), s)
                                  : math_.apply(Opcode::Fma, t.chain, {left, right[p], s});
      }
    }
    line = c_.gep(line, b.row), at = c_.bin(Bin::add, at, a.col);
  }
  V more = c_.bin(Bin::add, k, c_.i64(steps));
  Block end = c_.here();
  c_.incoming(k, more, end);
  c_.incoming(b_line, line, end);
  c_.incoming(a_at, at, end);
  for (std::size_t i = 0; i < sum.size(); ++i) c_.incoming(sum[i], next[i], end);
  c_.br(c_.cmp(Cmp::slt, more, c_.i64(depth)), head, after);
  c_.set(after);
  for (u32 i = 0; i < rows; ++i)
    for (u32 p = 0; p < packets; ++p) {
      V r = next[i * packets + p];
      if (t.accumulator == DType::f16 || t.accumulator == DType::bf16)
        r = math_.widen(t.accumulator, math_.narrow(t.accumulator, r));
      else if (t.chain == DType::i32 && dtype_bits(t.accumulator) < 32)
        r = math_.cast(DType::i32, t.accumulator, math_.cast(t.accumulator, DType::i32, r));
      c_.store(r, place(i, p), align);
    }
}

void Tiles::multiply(OpId id, const Tile& t) {
  const auto layout = ir::unpack<ir::LayoutImm>(l_.k_.op(id).imm);
  if (layout.k == 0) return;
  const auto& target = c_.target();
  const u32 width = l_.lanes_, rows = t.map.rows, cols = t.map.cols, depth = layout.k;
  const Memory ma = l_.memory(l_.k_.operand(id, 1)), mb = l_.memory(l_.k_.operand(id, 4));
  V a_at = l_.scalar(l_.k_.operand(id, 2)), a_stride = l_.scalar(l_.k_.operand(id, 3));
  V b_at = l_.scalar(l_.k_.operand(id, 5)), b_stride = l_.scalar(l_.k_.operand(id, 6));
  const auto direct = [&](const Memory& m) { return m.widened || (m.elem == t.input && t.input == t.chain); };
  const u32 block_rows = Tiles::block_rows(target), block_packets = Tiles::block_packets(target, t.element);
  const u32 panel = block_packets * width;
  const u64 b_elements = (u64{cols} + panel - 1) / panel * panel * depth;
  // Rows that would sit in a few sets of the first cache are worth a copy, if enough blocks read it.
  const bool reused = rows >= 8 * block_rows;
  const bool a_in_place = direct(ma), b_in_place = direct(mb) && !layout.b_transposed && cols % width == 0 && !reused;
  const u64 a_elements = a_in_place ? 0 : u64{rows} * depth;
  if (!panels_.count(id) && (!a_in_place || !(mb.panel || b_in_place)))
    panels_[id] = l_.scratch((a_elements + (mb.panel || b_in_place ? 0 : b_elements)) * t.element + 64);
  const u64 a_panel = panels_[id], b_panel = (a_panel + a_elements * t.element + 63) / 64 * 64;

  Operand a, b;
  if (a_in_place) {
    const i64 size = t.element;
    a.base = c_.gep(ma.base, c_.bin(Bin::mul, a_at, c_.i64(size)));
    V step = c_.bin(Bin::mul, a_stride, c_.i64(size));
    a.row = layout.a_transposed ? c_.i64(size) : step;
    a.col = layout.a_transposed ? step : c_.i64(size);
  } else {
    a = packed(t, ma, a_at, a_stride, layout.a_transposed, rows, depth, a_panel, depth);
    a.col = c_.i64(t.element);
  }
  if (mb.panel) {
    b = {mb.base, c_.i64(i64{panel} * t.element), c_.i64(t.element),
         c_.i64(static_cast<i64>(mb.panel_step * t.element / panel))};
  } else if (b_in_place) {
    b = {c_.gep(mb.base, c_.bin(Bin::mul, b_at, c_.i64(t.element))), c_.bin(Bin::mul, b_stride, c_.i64(t.element)),
         c_.i64(t.element), c_.i64(t.element)};
  } else {
    b = packed(t, mb, b_at, b_stride, layout.b_transposed, depth, cols, b_panel, panel);
  }
  V acc = base(t);
  const u32 packets = t.packets;
  const auto columns = [&](V col, u32 wide) {
    if (rows / block_rows)
      each(rows / block_rows,
           [&](V i) { block(t, acc, a, b, c_.bin(Bin::mul, i, c_.i64(block_rows)), col, block_rows, wide, depth); });
    if (rows % block_rows)
      block(t, acc, a, b, c_.i64(rows / block_rows * block_rows), col, rows % block_rows, wide, depth);
  };
  if (packets / block_packets)
    each(packets / block_packets,
         [&](V j) { columns(c_.bin(Bin::mul, j, c_.i64(i64{block_packets} * width)), block_packets); });
  if (packets % block_packets)
    columns(c_.i64(i64{packets / block_packets * block_packets} * width), packets % block_packets);
}

void Tiles::transfer(OpId id, const Tile& t, bool store) {
  const auto& k = l_.k_;
  const Memory m = l_.memory(k.operand(id, 1));
  V at = l_.scalar(k.operand(id, 2)), stride = l_.scalar(k.operand(id, 3));
  V rows = l_.scalar(k.operand(id, 4)), cols = l_.scalar(k.operand(id, 5));
  if (!store) zero(t);
  const auto cut = [&](V v, u32 most) {
    V high = c_.i64(most);
    v = c_.select(c_.cmp(Cmp::slt, v, high), v, high);
    return c_.select(c_.cmp(Cmp::slt, v, c_.i64(0)), c_.i64(0), v);
  };
  rows = cut(rows, t.map.rows), cols = cut(cols, t.map.cols);
  V acc = base(t);
  const i64 size = dtype_size(m.elem);
  const u32 width = l_.lanes_;
  const auto move = [&](V memory_at, V tile_at, u32 lanes) {
    const Num stored_num = m.elem == DType::boolean ? Num::i8 : num_of(m.elem);
    if (store) {
      c_.store(l_.stored(from_accumulator(t, m.elem, c_.load(c_.type(num(t), lanes), tile_at, t.element))), memory_at,
               static_cast<u32>(size));
    } else {
      V v = l_.loaded(c_.load(c_.type(stored_num, lanes), memory_at, static_cast<u32>(size)), m.elem);
      c_.store(math_.cast(t.chain, t.accumulator, math_.cast(t.accumulator, m.elem, v)), tile_at, t.element);
    }
  };
  V from = c_.gep(m.base, c_.bin(Bin::mul, at, c_.i64(size)));
  V packets = c_.bin(Bin::sdiv, cols, c_.i64(width));
  V done = c_.bin(Bin::mul, packets, c_.i64(width));
  each(rows, [&](V i) {
    V row = c_.gep(from, c_.bin(Bin::mul, c_.bin(Bin::mul, i, stride), c_.i64(size)));
    V line = c_.gep(acc, c_.bin(Bin::mul, i, c_.i64(i64{t.stride} * t.element)));
    const auto go = [&](V j, u32 lanes) {
      move(c_.gep(row, c_.bin(Bin::mul, j, c_.i64(size))), c_.gep(line, c_.bin(Bin::mul, j, c_.i64(t.element))), lanes);
    };
    each(packets, [&](V p) { go(c_.bin(Bin::mul, p, c_.i64(width)), width); });
    each(c_.bin(Bin::sub, cols, done), [&](V j) { go(c_.bin(Bin::add, done, j), 0); });
  });
}

// A thread's own element: number e of thread t is element e * T + t, row by row.
Val Tiles::element(OpId id, const Tile& t) {
  const auto& k = l_.k_;
  const auto code = k.op(id).code;
  const u32 width = l_.lanes_;
  Chunk& chunk = *l_.chunk_;
  const Val number = l_.value(k.operand(id, 1));
  const auto wide = [&](u64 v) { return c_.integer(Num::i64, v, width); };
  std::vector<V> linear;
  for (u32 p = 0; p < chunk.width; ++p) {
    V first = c_.bin(Bin::add, chunk.base, c_.i64(i64{p} * width));
    if (!t.whole_group) first = c_.bin(Bin::and_, first, c_.i64(31));
    V thread = l_.vector({first, c_.i64(1)}, DType::index);
    linear.push_back(
        c_.bin(Bin::add, c_.bin(Bin::mul, l_.vector(number.at(0, p), DType::index), wide(t.map.threads)), thread));
  }
  Val out{chunk.width, {}};
  if (code == Opcode::TileRow || code == Opcode::TileCol) {
    for (V at : linear)
      out.parts.push_back({c_.bin(code == Opcode::TileRow ? Bin::udiv : Bin::urem, at, wide(t.map.cols)), nullptr});
    return out;
  }
  Val v;
  if (code == Opcode::TileSet) v = l_.value(k.operand(id, 2));
  const u64 size = u64{t.map.rows} * t.map.cols;
  V acc = base(t);
  for (u32 p = 0; p < chunk.width; ++p) {
    V inside = c_.cmp(Cmp::ult, linear[p], wide(size));
    V on = l_.part_mask(p) ? c_.bin(Bin::and_, inside, l_.part_mask(p)) : inside;
    V row = c_.bin(Bin::udiv, linear[p], wide(t.map.cols)), col = c_.bin(Bin::urem, linear[p], wide(t.map.cols));
    V at = c_.bin(Bin::mul, c_.bin(Bin::add, c_.bin(Bin::mul, row, wide(t.stride)), col), wide(t.element));
    if (code == Opcode::TileGet) {
      V all = c_.bits(num(t), 0, width);
      for (u32 l = 0; l < width; ++l) {
        V ptr = c_.select(c_.extract(on, l), c_.gep(acc, c_.extract(at, l)), l_.dummy());
        V x = c_.load(c_.type(num(t)), ptr, t.element);
        all = c_.insert(all, c_.select(c_.extract(on, l), x, c_.bits(num(t), 0)), l);
      }
      out.parts.push_back({from_accumulator(t, k.type(id).elem, all), nullptr});
    } else {
      const DType elem = k.type(k.operand(id, 2)).elem;
      V x = math_.cast(t.chain, t.accumulator, math_.cast(t.accumulator, elem, l_.vector(v.at(0, p), elem)));
      for (u32 l = 0; l < width; ++l)
        c_.store(c_.extract(x, l), c_.select(c_.extract(on, l), c_.gep(acc, c_.extract(at, l)), l_.dummy()), t.element);
    }
  }
  return out;
}

}  // namespace iron::cpu
