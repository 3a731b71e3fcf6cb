// Simdgroup ops as vector permutes over the packets of one simdgroup, in the order that R4 states.
#include <fmt/format.h>

#include "cpu/lowering.h"
#include "ir/eval.h"

namespace iron::cpu {

using ir::Opcode;

std::vector<V> Lowering::packets_of(OpId id, u32 comp) {
  const Val v = value(id);
  std::vector<V> out;
  for (u32 p = 0; p < chunk_->width; ++p) out.push_back(vector(v.at(comp, p), k_.type(id).elem));
  return out;
}

// Lane l of the result is lane source(l) of the 32 lanes; below zero: whatever.
std::vector<V> Lowering::permute(const std::vector<V>& packets, const std::function<int(int)>& source) {
  const int width = static_cast<int>(lanes_), count = static_cast<int>(packets.size());
  std::vector<V> out;
  for (int p = 0; p < count; ++p) {
    V made = nullptr;
    // Packets that this one draws from, two at a time.
    std::vector<int> from;
    for (int l = 0; l < width; ++l)
      if (const int s = source(p * width + l); s >= 0 && std::find(from.begin(), from.end(), s / width) == from.end())
        from.push_back(s / width);
    if (from.empty()) from.push_back(p);
    for (std::size_t i = 0; i < from.size(); i += i ? 1 : 2) {
      std::vector<int> take(static_cast<std::size_t>(width));
      V second = i ? packets[from[i]] : packets[from[std::min<std::size_t>(1, from.size() - 1)]];
      V first = i ? made : packets[from[0]];
      for (int l = 0; l < width; ++l) {
        const int s = source(p * width + l);
        int& t = take[static_cast<std::size_t>(l)];
        t = -1;
        if (i)
          t = s >= 0 && s / width == from[i] ? width + s % width : l;
        else if (s >= 0 && s / width == from[0])
          t = s % width;
        else if (s >= 0 && from.size() > 1 && s / width == from[1])
          t = width + s % width;
      }
      made = c_.shuffle(first, second, take);
      if (from.size() == 1) break;
    }
    out.push_back(made);
  }
  return out;
}

// The xor ladder; all lanes of it hold the same bits, so only the packets that lead to lane 0 are made.
V Lowering::ladder(std::vector<V> packets, ir::ReduceKind kind, DType elem) {
  for (u32 n = static_cast<u32>(packets.size()) / 2; n; n /= 2)
    for (u32 i = 0; i < n; ++i) packets[i] = math_.reduce(kind, elem, packets[i], packets[i + n]);
  V s = packets[0];
  for (u32 m = lanes_ / 2; m; m /= 2) {
    std::vector<int> take(lanes_);
    for (u32 l = 0; l < lanes_; ++l) take[l] = static_cast<int>(l ^ m);
    s = math_.reduce(kind, elem, s, c_.shuffle(s, s, take));
  }
  return c_.extract(s, 0u);
}

std::vector<V> Lowering::shuffle_up(const std::vector<V>& packets, u32 delta, V fill) {
  const int width = static_cast<int>(lanes_), d = static_cast<int>(delta);
  auto moved = permute(packets, [&](int l) { return l >= d ? l - d : fill ? -1 : l; });
  if (!fill) return moved;
  for (int p = 0; p < static_cast<int>(packets.size()); ++p) {
    if (p * width >= d) continue;
    std::vector<u64> keep(lanes_);
    for (int l = 0; l < width; ++l) keep[static_cast<std::size_t>(l)] = p * width + l >= d;
    moved[static_cast<std::size_t>(p)] =
        c_.select(c_.constants(Num::i1, keep), moved[static_cast<std::size_t>(p)], c_.splat(fill, lanes_));
  }
  return moved;
}

std::vector<V> Lowering::scan(std::vector<V> packets, ir::ReduceKind kind, DType elem, bool exclusive) {
  V identity = math_.constant(elem, ir::reduce_identity(kind, elem));
  for (u32 d = 1; d < 32; d *= 2) {
    const auto below = shuffle_up(packets, d, identity);
    for (u32 p = 0; p < packets.size(); ++p) {
      V sum = math_.reduce(kind, elem, below[p], packets[p]);
      if ((p + 1) * lanes_ <= d) continue;  // no lane of it has a partner
      std::vector<u64> has(lanes_);
      for (u32 l = 0; l < lanes_; ++l) has[l] = p * lanes_ + l >= d;
      packets[p] = p * lanes_ >= d ? sum : c_.select(c_.constants(Num::i1, has), sum, packets[p]);
    }
  }
  return exclusive ? shuffle_up(packets, 1, identity) : packets;
}

V Lowering::first_active(const Val& v, u32 comp, DType elem) {
  V result = nullptr;
  for (u32 p = v.packets; p-- > 0;) {
    V x = plain(v.at(comp, p), elem), m = part_mask(p);
    if (!m) {
      result = c_.lanes(x) ? c_.extract(x, 0u) : x;
      continue;
    }
    V bits = c_.mask_bits(m);
    V lane = c_.bin(Bin::and_, c_.fn(Fn::ctz, bits), c_.i32(lanes_ - 1));
    V mine = c_.lanes(x) ? c_.extract(x, lane) : x;
    result = result ? c_.select(c_.cmp(Cmp::ne, bits, c_.i32(0)), mine, result) : mine;
  }
  return result;
}

Val Lowering::simd(OpId id) {
  const auto& op = k_.op(id);
  const OpId from = k_.operand(id, 0);
  const DType elem = k_.type(from).elem;
  const u32 comps = k_.type(from).lanes;
  const auto per_comp = [&](auto&& f) {
    Val out{chunk_->width, {}};
    for (u32 c = 0; c < comps; ++c)
      for (V v : f(packets_of(from, c))) out.parts.push_back({v, nullptr});
    return out;
  };
  switch (op.code) {
    case Opcode::SimdReduce: {
      Val out{1, {}};
      for (u32 c = 0; c < comps; ++c)
        out.parts.push_back({ladder(packets_of(from, c), ir::unpack<ir::ReduceKind>(op.imm), elem), nullptr});
      return out;
    }
    case Opcode::SimdScan: {
      const auto s = ir::unpack<ir::ScanImm>(op.imm);
      return per_comp([&](std::vector<V> v) { return scan(std::move(v), s.kind, elem, s.exclusive); });
    }
    case Opcode::SimdShuffleXor: {
      if (const Val v = value(from); is_uniform(v)) return v;
      const int m = static_cast<int>(op.imm & 31);
      return per_comp([&](const std::vector<V>& v) { return permute(v, [&](int l) { return l ^ m; }); });
    }
    case Opcode::SimdShuffleUp: {
      if (const Val v = value(from); is_uniform(v)) return v;
      const int d = static_cast<int>(std::min<u64>(op.imm, 32));
      return per_comp([&](const std::vector<V>& v) { return permute(v, [&](int l) { return l >= d ? l - d : l; }); });
    }
    case Opcode::SimdShuffleDown: {
      if (const Val v = value(from); is_uniform(v)) return v;
      const int d = static_cast<int>(std::min<u64>(op.imm, 32));
      return per_comp(
          [&](const std::vector<V>& v) { return permute(v, [&](int l) { return l + d < 32 ? l + d : l; }); });
    }
    case Opcode::SimdShuffle:
    case Opcode::SimdBroadcast: {
      Val v = value(from);
      const Val lane = value(k_.operand(id, 1));
      if (is_uniform(v)) return v;
      // Through memory: 32 elements, then one load a lane.
      Val out{is_uniform(lane) ? 1 : chunk_->width, {}};
      for (u32 c = 0; c < comps; ++c) {
        const auto packets = packets_of(from, c);
        const Num num = elem == DType::boolean ? Num::i8 : num_of(elem);
        const u32 size = dtype_size(elem);
        V table = c_.alloca_array(c_.type(num, lanes_), 32 / lanes_, 64);
        for (u32 p = 0; p < packets.size(); ++p)
          c_.store(stored(packets[p]), c_.gep(table, u64{p} * lanes_ * size), lanes_ * size);
        const auto take = [&](V at) {
          V wrapped = c_.bin(Bin::and_, at, c_.i64(31));
          return loaded(c_.load(c_.type(num), c_.gep(table, c_.bin(Bin::mul, wrapped, c_.i64(size))), size), elem);
        };
        if (is_uniform(lane)) {
          out.parts.push_back({take(lane.parts[0].v), nullptr});
          continue;
        }
        for (u32 p = 0; p < chunk_->width; ++p) {
          V at = vector(lane.at(0, p), DType::index), r = c_.poison(c_.type(num_of(elem), lanes_));
          for (u32 l = 0; l < lanes_; ++l) r = c_.insert(r, take(c_.extract(at, l)), l);
          out.parts.push_back({r, nullptr});
        }
      }
      return out;
    }
    case Opcode::SimdBallot:
    case Opcode::SimdAny:
    case Opcode::SimdAll: {
      V bits = c_.i32(0);
      const auto packets = packets_of(from);
      for (u32 p = 0; p < packets.size(); ++p)
        bits = c_.bin(Bin::or_, bits, c_.bin(Bin::shl, c_.mask_bits(packets[p]), c_.i32(p * lanes_)));
      if (op.code == Opcode::SimdBallot) return uniform(bits);
      if (op.code == Opcode::SimdAny) return uniform(c_.cmp(Cmp::ne, bits, c_.i32(0)));
      return uniform(c_.cmp(Cmp::eq, bits, c_.i32(0xffffffffu)));
    }
    default:
      fail("CPU03", id, fmt::format("the CPU device has no code for {}", ir::info(op.code).text));
  }
}

}  // namespace iron::cpu
