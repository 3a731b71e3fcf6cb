// Loads and stores: the form of the index picks the access (one scalar, one vector, or a lane at a time).
#include <fmt/format.h>

#include "cpu/lowering.h"

namespace iron::cpu {

using ir::Opcode;

Memory Lowering::memory(OpId id) {
  u64 offset = 0;
  const DType elem = k_.type(id).elem;
  while (k_.op(id).code == Opcode::View || k_.op(id).code == Opcode::SharedAlias) {
    offset += k_.op(id).imm;
    id = k_.operand(id, 0);
  }
  Memory m;
  m.elem = elem, m.space = k_.type(id).space;
  switch (k_.op(id).code) {
    case Opcode::Param:
      m.base = c_.gep(params_[k_.op(id).imm], offset);
      m.streams = stream_ && k_.params[k_.op(id).imm].kind == ir::ParamKind::out;
      return m;
    case Opcode::SharedNew:
      m.base = c_.gep(c_.scratch(), shared_.at(id) + offset), m.atomic_plain = true;
      if (const auto it = packing_.find(id); it != packing_.end()) {
        m.row = it->second.row, m.panel = it->second.panel, m.panel_step = it->second.step;
        m.widened = it->second.widened;
        if (m.widened) m.elem = DType::f32;
      }
      return m;
    case Opcode::ArrayNew:
      m.base = c_.gep(c_.scratch(), shared_.at(id)), m.atomic_plain = true, m.length = k_.op(id).imm;
      return m;
    default:
      fail("CPU03", id, "this is no memory that the CPU device knows");
  }
}

V Lowering::stored(V v) { return c_.num(v) == Num::i1 ? c_.conv(Conv::zext, Num::i8, v) : v; }
V Lowering::loaded(V v, DType elem) { return elem == DType::boolean ? c_.cmp(Cmp::ne, v, c_.zero_like(v)) : v; }

V Lowering::lane_address(const Memory& m, const Part& index, u32 lane) {
  V at = index.v;
  if (c_.lanes(at))
    at = c_.extract(at, lane);
  else if (index.stride && lane)
    at = c_.bin(Bin::add, at, c_.bin(Bin::mul, index.stride, c_.i64(lane)));
  if (m.panel) {
    V column = c_.bin(Bin::urem, at, c_.i64(m.row)), line = c_.bin(Bin::udiv, at, c_.i64(m.row));
    V first = c_.bin(Bin::mul, c_.bin(Bin::udiv, column, c_.i64(m.panel)), c_.i64(static_cast<i64>(m.panel_step)));
    V within = c_.bin(Bin::add, c_.bin(Bin::mul, line, c_.i64(m.panel)), c_.bin(Bin::urem, column, c_.i64(m.panel)));
    at = c_.bin(Bin::add, first, within);
  }
  return c_.gep(m.base, c_.bin(Bin::mul, at, c_.i64(dtype_size(m.elem))));
}

std::vector<V> Lowering::lane_addresses(const Memory& m, const Part& index, V mask) {
  std::vector<V> out;
  V first = c_.lanes(index.v) || m.panel ? nullptr : lane_address(m, index, 0);
  V step = first && index.stride ? c_.bin(Bin::mul, index.stride, c_.i64(dtype_size(m.elem))) : nullptr;
  V bits = mask ? c_.mask_bits(mask) : nullptr;
  for (u32 l = 0; l < lanes_; ++l) {
    V at = !first ? lane_address(m, index, l) : l && step ? c_.gep(first, c_.bin(Bin::mul, step, c_.i64(l))) : first;
    if (mask) at = c_.select(c_.cmp(Cmp::ne, c_.bin(Bin::and_, bits, c_.i32(1u << l)), c_.i32(0)), at, dummy());
    out.push_back(at);
  }
  return out;
}

// Blocks of n x n elements, side by side in n packets, each on its other side: log2 n rounds that interleave the lower
// halves, and the upper halves, of the blocks of two packets.
std::vector<V> Lowering::transpose_blocks(std::vector<V> v) {
  const u32 n = static_cast<u32>(v.size());
  std::vector<int> low(lanes_), high(lanes_);
  for (u32 i = 0; i < lanes_; ++i) {
    const u32 block = i / n * n, within = i % n;
    low[i] = static_cast<int>(block + within / 2 + within % 2 * lanes_);
    high[i] = low[i] + static_cast<int>(n / 2);
  }
  for (u32 round = 1; round < n; round *= 2) {
    std::vector<V> next;
    for (u32 k = 0; k < n / 2; ++k) {
      next.push_back(c_.shuffle(v[k], v[k + n / 2], low));
      next.push_back(c_.shuffle(v[k], v[k + n / 2], high));
    }
    v = std::move(next);
  }
  return v;
}

namespace {
/// Pairs of 32 bits are picked from two packets by one instruction if a block of four lanes takes whole pairs.
bool pairs_of_words(u32 n, u32 bytes, u32 lanes) { return n == 2 && bytes == 4 && lanes >= 4; }
bool transposes(u32 n, u32 lanes) { return n > 1 && (n & (n - 1)) == 0 && n <= lanes; }
}  // namespace

// Shuffles of many registers at once cost LLVM much time and become long code: rows that lie one after the other are
// moved one by one as well.
bool Lowering::by_rows(u32 n) const { return n > 2 && transposes(n, lanes_); }

std::vector<V> Lowering::rows_to_packets(const std::vector<V>& rows, u32 n, u32 bytes) {
  if (!transposes(n, lanes_)) return {};
  const bool pairs = pairs_of_words(n, bytes, lanes_);
  const auto joined = [&](std::vector<V> parts) {
    for (u32 size = n; parts.size() > 1; size *= 2) {
      std::vector<int> both(2 * size);
      for (u32 i = 0; i < 2 * size; ++i) both[i] = static_cast<int>(i);
      std::vector<V> wider;
      for (std::size_t i = 0; i < parts.size(); i += 2) wider.push_back(c_.shuffle(parts[i], parts[i + 1], both));
      parts = std::move(wider);
    }
    return parts[0];
  };
  std::vector<V> packets;
  for (u32 k = 0; k < n; ++k) {
    std::vector<V>
        parts;  // block j of packet k holds row j * n + k; of pairs, blocks 2j and 2j + 1 rows 4j + 2k and + 1
    for (u32 j = 0; j < lanes_ / n; ++j) parts.push_back(rows[pairs ? j / 2 * 4 + k * 2 + j % 2 : j * n + k]);
    packets.push_back(joined(std::move(parts)));
  }
  if (!pairs) return transpose_blocks(std::move(packets));
  std::vector<V> out;
  for (u32 c = 0; c < 2; ++c) {
    std::vector<int> take(lanes_);
    for (u32 i = 0; i < lanes_; ++i) take[i] = static_cast<int>(i / 4 * 4 + i % 2 * 2 + c + (i % 4 >= 2 ? lanes_ : 0));
    out.push_back(c_.shuffle(packets[0], packets[1], take));
  }
  return out;
}

std::vector<V> Lowering::packets_to_rows(const std::vector<V>& packets, u32 bytes) {
  const u32 n = static_cast<u32>(packets.size());
  if (!transposes(n, lanes_)) return {};
  std::vector<V> blocks = packets;
  const bool pairs = pairs_of_words(n, bytes, lanes_);
  if (pairs) {
    for (u32 half = 0; half < 2; ++half) {
      std::vector<int> take(lanes_);
      for (u32 i = 0; i < lanes_; ++i)
        take[i] = static_cast<int>(i / 4 * 4 + half * 2 + i % 4 / 2 + (i % 2 ? lanes_ : 0));
      blocks[half] = c_.shuffle(packets[0], packets[1], take);
    }
  } else {
    blocks = transpose_blocks(std::move(blocks));
  }
  std::vector<V> rows;
  for (u32 l = 0; l < lanes_; ++l) {
    const u32 block = pairs ? l / 4 * 4 + l % 2 * 2 : l / n * n;
    std::vector<int> take(n);
    for (u32 i = 0; i < n; ++i) take[i] = static_cast<int>(block + i);
    V from = blocks[pairs ? l % 4 / 2 : l % n];
    rows.push_back(c_.shuffle(from, from, take));
  }
  return rows;
}

namespace {
Num stored_num(DType elem) { return elem == DType::boolean ? Num::i8 : num_of(elem); }
}  // namespace

Val Lowering::load_part(const Memory& m, const Val& index, ir::Type type, u32 align, const std::vector<V>& masks,
                        const Val* other) {
  const u32 n = type.lanes, size = dtype_size(m.elem);
  align = std::max(align, size);
  const Num num = stored_num(m.elem);
  const Ty scalar_type = c_.type(num), group_type = n > 1 ? c_.type(num, n) : scalar_type;
  const auto pick = [&](V whole, u32 comp) { return n > 1 ? c_.extract(whole, comp) : whole; };
  const bool masked = other != nullptr;  // otherwise a chunk that runs has a lane that runs
  if (is_uniform(index) && !masked) {
    V whole = c_.load(group_type, lane_address(m, index.parts[0], 0), align);
    Val out{1, {}};
    for (u32 c = 0; c < n; ++c) out.parts.push_back({loaded(pick(whole, c), m.elem), nullptr});
    return out;
  }
  const u32 width = chunk_->width;
  Val out{width, std::vector<Part>(static_cast<std::size_t>(n) * width)};
  for (u32 p = 0; p < width; ++p) {
    const Part& at = index.at(0, p);
    V mask = p < masks.size() ? masks[p] : nullptr;
    std::vector<V> result(n);
    i64 step = 0;
    const bool contiguous = at.stride && c_.constant_int(at.stride, step) && step == n;
    const auto otherwise = [&](u32 c) {
      return other ? stored(vector(other->at(c, p), m.elem)) : c_.zero_like(c_.poison(c_.type(num, lanes_)));
    };
    if (!c_.lanes(at.v) && !at.stride) {
      V ptr = lane_address(m, at, 0);
      if (mask) ptr = c_.select(c_.or_reduce(mask), ptr, dummy());
      V whole = c_.load(group_type, ptr, align);
      for (u32 c = 0; c < n; ++c) {
        V x = pick(whole, c);
        result[c] = mask && other ? c_.select(mask, c_.splat(x, lanes_), otherwise(c)) : x;
      }
    } else if (contiguous && n == 1 && !mask) {
      result[0] = c_.load(c_.type(num, lanes_), lane_address(m, at, 0), align);
    } else if (contiguous && n == 1 && size >= 4 && c_.target().sse41) {
      result[0] = c_.masked_load(c_.type(num, lanes_), lane_address(m, at, 0), align, mask, otherwise(0));
    } else if (contiguous && !mask && !by_rows(n)) {
      V whole = c_.load(c_.type(num, lanes_ * n), lane_address(m, at, 0), align);
      for (u32 c = 0; c < n; ++c) {
        std::vector<int> take(lanes_);
        for (u32 l = 0; l < lanes_; ++l) take[l] = static_cast<int>(l * n + c);
        result[c] = c_.shuffle(whole, whole, take);
      }
    } else {
      // Narrow elements have no masked access: where all lanes run, they are one vector; at an end, they come one by
      // one.
      Block together = nullptr, apart = nullptr, done = nullptr;
      V whole = nullptr;
      if (contiguous && n == 1) {
        together = c_.block("whole"), apart = c_.block("by_lane"), done = c_.block("loaded");
        V ptr = lane_address(m, at, 0), kept = c_.alloca_array(c_.type(num, lanes_), 1, 64);
        c_.br(every_lane(mask), together, apart);
        c_.set(together);
        whole = c_.load(c_.type(num, lanes_), ptr, align);
        c_.br(done);
        c_.set(apart);
        c_.store(otherwise(0), kept, 64);
        each_bit(c_.mask_bits(mask), [&](V lane) {
          V offset = c_.bin(Bin::mul, lane, c_.i64(size));
          c_.store(c_.load(scalar_type, c_.gep(ptr, offset), align), c_.gep(kept, offset), size);
        });
        V ones = c_.load(c_.type(num, lanes_), kept, 64);
        apart = c_.here();
        c_.br(done);
        c_.set(done);
        result[0] = c_.phi(c_.type(num, lanes_));
        c_.incoming(result[0], whole, together);
        c_.incoming(result[0], ones, apart);
      } else {
        // Lanes that do not run read what lies at dummy(): nobody looks at their values.
        std::vector<V> rows;
        for (V ptr : lane_addresses(m, at, mask)) rows.push_back(c_.load(group_type, ptr, align));
        if (n > 1) result = rows_to_packets(rows, n, size);
        if (n == 1 || result.empty()) {
          result.assign(n, c_.poison(c_.type(num, lanes_)));
          for (u32 l = 0; l < lanes_; ++l)
            for (u32 c = 0; c < n; ++c) result[c] = c_.insert(result[c], pick(rows[l], c), l);
        }
        for (u32 c = 0; c < n && mask && other; ++c) result[c] = c_.select(mask, result[c], otherwise(c));
      }
    }
    for (u32 c = 0; c < n; ++c) out.at(c, p) = {loaded(result[c], m.elem), nullptr};
  }
  return out;
}

void Lowering::store_part(const Memory& m, const Val& index, const Val& value, ir::Type type, u32 align,
                          bool in_order) {
  const u32 n = type.lanes, size = dtype_size(m.elem);
  align = std::max(align, size);
  const Num num = stored_num(m.elem);
  for (u32 p = 0; p < chunk_->width; ++p) {
    const Part& at = index.at(0, p);
    V mask = part_mask(p);
    i64 step = 0;
    const bool contiguous = in_order && at.stride && c_.constant_int(at.stride, step) && step == n;
    const auto joined = [&](auto&& part) {  // n components as one vector of the stored type
      if (n == 1) return part(0u);
      V whole = c_.poison(c_.type(num, n));
      for (u32 c = 0; c < n; ++c) whole = c_.insert(whole, part(c), c);
      return whole;
    };
    if (!c_.lanes(at.v) && !at.stride) {
      // One address: the one lane that runs (R7 forbids several writers).
      V ptr = lane_address(m, at, 0), lane = c_.i32(lanes_ - 1);
      if (mask) {
        ptr = c_.select(c_.or_reduce(mask), ptr, dummy());
        lane = c_.bin(Bin::and_, c_.fn(Fn::ctz, c_.mask_bits(mask)), c_.i32(lanes_ - 1));
      }
      c_.store(joined([&](u32 c) {
                 V x = stored(plain(value.at(c, p), m.elem));
                 return c_.lanes(x) ? c_.extract(x, lane) : x;
               }),
               ptr, align);
    } else if (contiguous && n == 1 && !mask) {
      V packet = stored(vector(value.at(0, p), m.elem)), ptr = lane_address(m, at, 0);
      const u32 bytes = lanes_ * size;
      if (!m.streams || bytes < 16) {
        c_.store(packet, ptr, align);
        continue;
      }
      // Only whole aligned packets may go past the caches.
      Block past = c_.block("past"), through = c_.block("through"), done = c_.block("stored");
      V low = c_.bin(Bin::and_, c_.address(ptr), c_.i64(bytes - 1));
      c_.br(c_.cmp(Cmp::eq, low, c_.i64(0)), past, through);
      c_.set(past);
      c_.store_nontemporal(packet, ptr, bytes);
      c_.br(done);
      c_.set(through);
      c_.store(packet, ptr, align);
      c_.br(done);
      c_.set(done);
    } else if (contiguous && n == 1 && size >= 4 && c_.target().sse41) {
      c_.masked_store(stored(vector(value.at(0, p), m.elem)), lane_address(m, at, 0), align, mask);
    } else if (contiguous && !mask && !by_rows(n)) {
      // Interleaves the components: lane by lane they follow each other in memory.
      V whole = stored(vector(value.at(0, p), m.elem));
      for (u32 c = 1; c < n; ++c) {
        std::vector<int> all(lanes_ * (c + 1)), grow(lanes_ * c);
        for (u32 i = 0; i < lanes_ * (c + 1); ++i) all[i] = static_cast<int>(i);
        V next = stored(vector(value.at(c, p), m.elem));
        for (u32 i = 0; i < lanes_ * c; ++i) grow[i] = i < lanes_ ? static_cast<int>(i) : -1;
        if (c > 1) next = c_.shuffle(next, next, grow);
        whole = c_.shuffle(whole, next, all);
      }
      std::vector<int> order(lanes_ * n);
      for (u32 l = 0; l < lanes_; ++l)
        for (u32 c = 0; c < n; ++c) order[l * n + c] = static_cast<int>(c * lanes_ + l);
      c_.store(c_.shuffle(whole, whole, order), lane_address(m, at, 0), align);
    } else {
      if (contiguous && n == 1) {
        Block together = c_.block("whole"), apart = c_.block("by_lane"), done = c_.block("stored");
        V packet = stored(vector(value.at(0, p), m.elem)), ptr = lane_address(m, at, 0);
        V kept = c_.alloca_array(c_.type(num, lanes_), 1, 64);
        c_.br(every_lane(mask), together, apart);
        c_.set(together);
        c_.store(packet, ptr, align);
        c_.br(done);
        c_.set(apart);
        c_.store(packet, kept, 64);
        each_bit(c_.mask_bits(mask), [&](V lane) {
          V offset = c_.bin(Bin::mul, lane, c_.i64(size));
          c_.store(c_.load(c_.type(num), c_.gep(kept, offset), size), c_.gep(ptr, offset), align);
        });
        c_.br(done);
        c_.set(done);
        continue;
      }
      std::vector<V> parts(n), rows;
      bool varies = false;
      for (u32 c = 0; c < n; ++c) parts[c] = stored(plain(value.at(c, p), m.elem)), varies |= c_.lanes(parts[c]) != 0;
      if (n > 1 && varies) {
        std::vector<V> packets = parts;
        for (V& x : packets) x = c_.lanes(x) ? x : c_.splat(x, lanes_);
        rows = packets_to_rows(packets, size);
      }
      const auto pointers = lane_addresses(m, at, mask);
      for (u32 l = 0; l < lanes_; ++l) {
        const auto lane = [&](u32 c) { return c_.lanes(parts[c]) ? c_.extract(parts[c], l) : parts[c]; };
        c_.store(rows.empty() ? joined(lane) : rows[l], pointers[l], align);
      }
    }
  }
}

Val Lowering::load(OpId id) {
  const auto& op = k_.op(id);
  const OpId root = ir::memory_root(k_, k_.operand(id, 0));
  if (k_.op(root).code == Opcode::ArrayNew) return thread_array(id, false);
  const Memory m = memory(k_.operand(id, 0));
  const u32 align = 1u << ir::unpack<ir::MemoryImm>(op.imm).align_log2;
  const Val index = value(k_.operand(id, 1));
  if (const auto it = ahead_.find(id); it != ahead_.end())
    for (u32 p = 0; p < index.packets; ++p)
      c_.prefetch(c_.gep(lane_address(m, index.at(0, p), 0), static_cast<u64>(it->second)));
  if (chunk_ && !prefetch_rows(k_.operand(id, 1), m)) prefetch_next_group(id, index, m);
  if (op.code == Opcode::Load)
    return load_part(m, index, op.type, align, chunk_ ? chunk_->mask : std::vector<V>{}, nullptr);
  const Val condition = value(k_.operand(id, 2)), other = value(k_.operand(id, 3));
  if (is_uniform(condition) && is_uniform(index) && is_uniform(other)) {
    // At one address for all: the load goes elsewhere where the condition fails.
    V on = condition.parts[0].v;
    const u32 n = op.type.lanes;
    V ptr = c_.select(on, lane_address(m, index.parts[0], 0), dummy());
    V whole = c_.load(n > 1 ? c_.type(stored_num(m.elem), n) : c_.type(stored_num(m.elem)), ptr,
                      std::max(align, dtype_size(m.elem)));
    Val out{1, {}};
    for (u32 c = 0; c < n; ++c)
      out.parts.push_back(
          {c_.select(on, loaded(n > 1 ? c_.extract(whole, c) : whole, m.elem), other.parts[c].v), nullptr});
    return out;
  }
  std::vector<V> masks;
  for (u32 p = 0; p < chunk_->width; ++p) {
    V c = vector(condition.at(0, p), DType::boolean);
    masks.push_back(part_mask(p) ? c_.bin(Bin::and_, part_mask(p), c) : c);
  }
  return load_part(m, index, op.type, align, masks, &other);
}

void Lowering::store(OpId id) {
  const OpId root = ir::memory_root(k_, k_.operand(id, 0));
  if (k_.op(root).code == Opcode::ArrayNew) {
    thread_array(id, true);
    return;
  }
  const u32 align = 1u << ir::unpack<ir::MemoryImm>(k_.op(id).imm).align_log2;
  const Val index = value(k_.operand(id, 1));
  Val v = value(k_.operand(id, 2));
  const Memory m = memory(k_.operand(id, 0));
  const DType elem = k_.type(k_.operand(id, 2)).elem;
  if (m.widened)
    for (auto& part : v.parts) part = {math_.widen(elem, plain(part, elem)), nullptr};
  // A packet that starts at a multiple of the lanes stays within its panel.
  store_part(m, index, v, m.widened ? ir::Type::value(DType::f32) : k_.type(k_.operand(id, 2)), align,
             m.panel == 0 || starts_aligned(k_.operand(id, 1)));
}

// A thread's array lies element by element, each for all threads side by side: equal subscripts are one vector.
Val Lowering::thread_array(OpId id, bool is_store) {
  const Memory m = memory(k_.operand(id, 0));
  const ir::Type type = is_store ? k_.type(k_.operand(id, 2)) : k_.type(id);
  const Val index = value(k_.operand(id, 1));
  const u64 padded = (count_ + 31) / 32 * 32;
  const bool guarded = !is_store && k_.op(id).code == Opcode::LoadOr;
  Val condition, other, v;
  if (guarded) condition = value(k_.operand(id, 2)), other = value(k_.operand(id, 3));
  if (is_store) v = value(k_.operand(id, 2));
  std::vector<V> masks = chunk_->mask;
  if (guarded) {
    masks.clear();
    for (u32 p = 0; p < chunk_->width; ++p)
      masks.push_back(c_.bin(Bin::and_, mask_or_ones(p), vector(condition.at(0, p), DType::boolean)));
  }
  Val out{chunk_->width, {}};
  for (u32 c = 0; c < type.lanes; ++c) {
    Val at{chunk_->width, {}};
    for (u32 p = 0; p < chunk_->width; ++p) {
      V thread = c_.bin(Bin::add, chunk_->base, c_.i64(static_cast<i64>(p) * lanes_));
      const Part i = index.at(0, p);
      if (c_.lanes(i.v) || i.stride) {
        V element = c_.bin(Bin::add, vector(i, DType::index), c_.integer(Num::i64, c, lanes_));
        V row = c_.bin(Bin::mul, element, c_.integer(Num::i64, padded, lanes_));
        at.parts.push_back({c_.bin(Bin::add, row, vector({thread, c_.i64(1)}, DType::index)), nullptr});
      } else {
        V row = c_.bin(Bin::mul, c_.bin(Bin::add, i.v, c_.i64(c)), c_.i64(static_cast<i64>(padded)));
        at.parts.push_back({c_.bin(Bin::add, row, thread), c_.i64(1)});
      }
    }
    const ir::Type one = ir::Type::value(type.elem);
    Val part;
    if (is_store || guarded) {
      const Val& from = is_store ? v : other;
      part.packets = from.packets;
      for (u32 p = 0; p < from.packets; ++p) part.parts.push_back(from.at(c, p));
    }
    if (is_store) {
      store_part(m, at, part, one, 1);
      continue;
    }
    const Val loaded_part = load_part(m, at, one, 1, masks, guarded ? &part : nullptr);
    out.parts.insert(out.parts.end(), loaded_part.parts.begin(), loaded_part.parts.end());
  }
  return out;
}

}  // namespace iron::cpu
