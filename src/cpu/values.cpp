// Values in a chunk: scalars, packets, and indices kept as base plus lane times stride.
#include <fmt/format.h>

#include "cpu/lowering.h"
#include "cpu/tiles.h"
#include "ir/text.h"

namespace iron::cpu {

using ir::Opcode;

void Lowering::fail(std::string_view code, OpId id, std::string message, std::string fix) const {
  Diagnostic d;
  d.code = code, d.message = std::move(message), d.kernel = k_.name, d.fix = std::move(fix);
  if (id != ir::none) {
    d.file = k_.location(id).file, d.line = k_.location(id).line;
    d.notes.push_back({ir::print_op(k_, id), "", 0});
  }
  throw Error(std::move(d));
}

bool Lowering::is_uniform(const Val& v) const {
  if (v.packets != 1) return false;
  for (const auto& p : v.parts)
    if (p.stride || c_.lanes(p.v)) return false;
  return true;
}

V Lowering::iota(Num n) {
  std::vector<u64> values(lanes_);
  for (u32 i = 0; i < lanes_; ++i) values[i] = i;
  return c_.constants(n, values);
}

V Lowering::vector(const Part& p, DType) {
  if (!p.stride) return c_.lanes(p.v) ? p.v : c_.splat(p.v, lanes_);
  V steps = c_.bin(Bin::mul, iota(Num::i64), c_.splat(p.stride, lanes_));
  return c_.bin(Bin::add, c_.splat(p.v, lanes_), steps);
}
V Lowering::plain(const Part& p, DType elem) { return p.stride ? vector(p, elem) : p.v; }

Val Lowering::vectors(const Val& v, DType elem, u32 comps) {
  Val out{chunk_->width, {}};
  for (u32 c = 0; c < comps; ++c)
    for (u32 p = 0; p < chunk_->width; ++p) out.parts.push_back({vector(v.at(c, p), elem), nullptr});
  return out;
}

V Lowering::mask_or_ones(u32 packet) {
  V m = part_mask(packet);
  return m ? m : c_.integer(Num::i1, 1, lanes_);
}
V Lowering::every_lane(V mask) {
  return c_.cmp(Cmp::eq, c_.mask_bits(mask), c_.i32(static_cast<u32>((u64{1} << lanes_) - 1)));
}
V Lowering::any_lane() {
  V all = nullptr;
  for (V m : chunk_->mask) all = all ? c_.bin(Bin::or_, all, m) : m;
  return all ? c_.or_reduce(all) : c_.integer(Num::i1, 1);
}

Val Lowering::value(OpId id) {
  if (const auto it = group_.find(id); it != group_.end()) return it->second;
  if (chunk_)
    if (const auto it = chunk_->values.find(id); it != chunk_->values.end()) return it->second;
  const auto& op = k_.op(id);
  if (op.code == Opcode::Const) {
    Val v{1, {}};
    for (u32 i = 0; i < op.type.lanes; ++i) v.parts.push_back({math_.constant(op.type.elem, op.imm), nullptr});
    return v;
  }
  if (op.code == Opcode::Param) return uniform(params_[op.imm]);
  if (!chunk_) {
    // At group level only what is uniform may be asked for.
    if (k_.info_of(id).pure() && op.region_count == 0) return group_[id] = pure(id);
    fail("CPU90", id, "a varying value was needed once for the threadgroup");
  }
  // From here on the value enters the chunk at its head, so that it stands for every later use.
  const Block here = c_.here();
  const bool at_head = chunk_->head != nullptr && here != chunk_->head;
  if (at_head) c_.set(chunk_->head);
  Val v;
  if (const auto it = arrays_.find(id); it != arrays_.end() && !chunk_->leader) {
    v = load_array(it->second, op.type.elem);
    if (scan_prefix_.count(id)) {
      // A scan over the threadgroup: the prefix of the simdgroups before comes first.
      const DType elem = op.type.elem;
      const u64 size = dtype_size(elem);
      for (u32 c = 0; c < op.type.lanes; ++c) {
        V at = c_.bin(Bin::mul, c_.bin(Bin::lshr, chunk_->base, c_.i64(5)), c_.i64(static_cast<i64>(size)));
        V before = c_.load(c_.type(num_of(elem)), c_.gep(c_.gep(partials_.at(id), u64{c} * 32 * size), at),
                           static_cast<u32>(size));
        for (u32 p = 0; p < chunk_->width; ++p)
          v.at(c, p).v =
              math_.reduce(ir::unpack<ir::ScanImm>(op.imm).kind, elem, c_.splat(before, lanes_), v.at(c, p).v);
      }
    }
    // Kept a value a thread, since it differs between simdgroups; within this one it is a number.
    if (uniformity_.uniform(id, ir::Scope::simdgroup) && !is_uniform(v)) {
      Val once{1, {}};
      for (u32 c = 0; c < op.type.lanes; ++c)
        once.parts.push_back({c_.extract(plain(v.at(c, 0), op.type.elem), 0u), nullptr});
      v = once;
    }
  } else if (k_.info_of(id).pure() && op.region_count == 0)
    v = pure(id);
  else
    fail("CPU90", id, "a value does not reach its use");
  if (at_head) {
    chunk_->head = c_.here();
    c_.set(here);
  }
  return chunk_->values[id] = v;
}

V Lowering::scalar(OpId id) {
  const Val v = value(id);
  if (!is_uniform(v)) fail("CPU90", id, "a value that should be uniform varies");
  return v.parts[0].v;
}

// --- index arithmetic that keeps base and stride apart
// -----------------------------------------------------------------

Part Lowering::index_op(Opcode code, const Part& a, const Part& b, bool& done) {
  done = true;
  const auto is_vector = [&](const Part& p) { return p.v && c_.lanes(p.v) != 0; };
  if (is_vector(a) || is_vector(b)) return done = false, Part{};
  switch (code) {
    case Opcode::Add: {
      V stride = a.stride && b.stride ? c_.bin(Bin::add, a.stride, b.stride) : a.stride ? a.stride : b.stride;
      return {c_.bin(Bin::add, a.v, b.v), stride};
    }
    case Opcode::Sub: {
      V stride = a.stride && b.stride ? c_.bin(Bin::sub, a.stride, b.stride)
                 : a.stride           ? a.stride
                 : b.stride           ? c_.bin(Bin::sub, c_.i64(0), b.stride)
                                      : nullptr;
      return {c_.bin(Bin::sub, a.v, b.v), stride};
    }
    case Opcode::Neg:
      return {c_.bin(Bin::sub, c_.i64(0), a.v), a.stride ? c_.bin(Bin::sub, c_.i64(0), a.stride) : nullptr};
    case Opcode::Mul:
      if (a.stride && b.stride) break;
      if (b.stride) return {c_.bin(Bin::mul, a.v, b.v), c_.bin(Bin::mul, b.stride, a.v)};
      return {c_.bin(Bin::mul, a.v, b.v), a.stride ? c_.bin(Bin::mul, a.stride, b.v) : nullptr};
    case Opcode::Shl:
      if (b.stride) break;
      {
        V n = c_.bin(Bin::and_, b.v, c_.i64(63));
        return {c_.bin(Bin::shl, a.v, n), a.stride ? c_.bin(Bin::shl, a.stride, n) : nullptr};
      }
    default:
      break;
  }
  done = false;
  return {};
}

V Lowering::lanes_below(V limit) {
  V mask = c_.cmp(Cmp::slt, iota(Num::i32), c_.splat(limit, lanes_));
  return mask_limits_[mask] = limit, mask;
}

Part Lowering::compare_index(Opcode code, const Part& a, const Part& b, bool& done) {
  done = false;
  if ((a.v && c_.lanes(a.v)) || (b.v && c_.lanes(b.v)) || (!a.stride && !b.stride)) return {};
  // Only lanes that count up by one against a scalar: l compared with the distance, cut to what a lane can tell.
  i64 step = 0;
  const bool left = a.stride != nullptr;
  if (a.stride && b.stride) return {};
  if (!c_.constant_int(left ? a.stride : b.stride, step) || step != 1) return {};
  done = true;
  V d = left ? c_.bin(Bin::sub, b.v, a.v) : c_.bin(Bin::sub, a.v, b.v);
  V low = c_.i64(-1), high = c_.i64(lanes_);
  d = c_.select(c_.cmp(Cmp::slt, d, low), low, d);
  d = c_.select(c_.cmp(Cmp::sgt, d, high), high, d);
  V limit = c_.conv(Conv::trunc, Num::i32, d);
  if (left && code == Opcode::Lt) return {lanes_below(limit), nullptr};
  limit = c_.splat(limit, lanes_);
  V lane = iota(Num::i32);
  return {left ? math_.apply(code, DType::i32, {lane, limit}) : math_.apply(code, DType::i32, {limit, lane}), nullptr};
}

Part Lowering::cast_index(DType to, const Part& a, bool& done) {
  done = false;
  if (!a.stride || is_float(to) || to == DType::boolean || bits_of(num_of(to)) > 32) return {};
  done = true;  // the low bits of a sum are the sum of the low bits
  const Num n = num_of(to);
  V base = c_.splat(c_.conv(Conv::trunc, n, a.v), lanes_);
  V stride = c_.splat(c_.conv(Conv::trunc, n, a.stride), lanes_);
  return {c_.bin(Bin::add, base, c_.bin(Bin::mul, iota(n), stride)), nullptr};
}

// --- ids
// ---------------------------------------------------------------------------------------------------------------

Val Lowering::id_value(OpId id) {
  const auto& op = k_.op(id);
  const u32 axis = static_cast<u32>(op.imm);
  const u32 dims[3] = {threads_.x, threads_.y, threads_.z};
  const auto from_thread = [&](auto&& f) {  // f(thread id of the packet's first lane) -> Part
    if (!chunk_ || chunk_->leader) {
      Part p = f(chunk_ && chunk_->base ? chunk_->base : c_.i64(0));
      p.stride = nullptr;
      return Val{1, {p}};
    }
    Val v{chunk_->width, {}};
    for (u32 p = 0; p < chunk_->width; ++p)
      v.parts.push_back(f(c_.bin(Bin::add, chunk_->base, c_.i64(static_cast<i64>(p) * lanes_))));
    return v;
  };
  const auto thread_pos = [&](u32 a, V base) -> Part {
    if (dims[0] * dims[1] * dims[2] == dims[a]) return {base, c_.i64(1)};
    if (dims[a] == 1) return {c_.i64(0), nullptr};
    const u64 below = a == 0 ? 1 : a == 1 ? dims[0] : u64{dims[0]} * dims[1];
    const auto place = [&](V t, u32 l) {
      const Num n = c_.num(t);
      V q = c_.bin(Bin::udiv, t, c_.integer(n, below, l));
      return a == 2 ? q : c_.bin(Bin::urem, q, c_.integer(n, dims[a], l));
    };
    if ((chunk_ && chunk_->leader) || dims[0] % lanes_ == 0) return {place(base, 0), a == 0 ? c_.i64(1) : nullptr};
    V lane = c_.bin(Bin::add, c_.splat(c_.conv(Conv::trunc, Num::i32, base), lanes_), iota(Num::i32));
    return {c_.conv(Conv::zext, Num::i64, place(lane, lanes_)), nullptr};
  };
  switch (op.code) {
    case Opcode::ThreadId:
      return from_thread([&](V t) { return Part{t, c_.i64(1)}; });
    case Opcode::LaneId:
      return from_thread([&](V t) { return Part{c_.bin(Bin::and_, t, c_.i64(31)), c_.i64(1)}; });
    case Opcode::ThreadPos:
      return from_thread([&](V t) { return thread_pos(axis, t); });
    case Opcode::GridPos:
      return from_thread([&](V t) {
        Part p = thread_pos(axis, t);
        V offset = c_.bin(Bin::mul, group_ids_[axis], c_.i64(dims[axis]));
        if (c_.lanes(p.v)) return Part{c_.bin(Bin::add, p.v, c_.splat(offset, lanes_)), nullptr};
        return Part{c_.bin(Bin::add, p.v, offset), p.stride};
      });
    case Opcode::GridThreadId:
      return from_thread(
          [&](V t) { return Part{c_.bin(Bin::add, c_.bin(Bin::mul, group_linear_, c_.i64(count_)), t), c_.i64(1)}; });
    case Opcode::SimdgroupId: {
      V t = chunk_ && chunk_->base ? chunk_->base : c_.i64(0);
      return uniform(c_.bin(Bin::lshr, t, c_.i64(5)));
    }
    case Opcode::GroupId:
      return uniform(group_ids_[axis]);
    case Opcode::GroupCount:
      return uniform(groups_[axis]);
    case Opcode::GroupSize:
      return uniform(c_.i64(count_));
    case Opcode::GroupDim:
      return uniform(c_.i64(dims[axis]));
    case Opcode::SimdgroupCount:
      return uniform(c_.i64((count_ + 31) / 32));
    case Opcode::SimdWidth:
      return uniform(c_.i64(32));
    case Opcode::ItemCount:
      return uniform(items_);
    case Opcode::Length: {
      u64 offset = 0;
      OpId mem = k_.operand(id, 0);
      const u64 size = dtype_size(k_.type(mem).elem);
      for (; k_.op(mem).code == Opcode::View; mem = k_.operand(mem, 0)) offset += k_.op(mem).imm;
      if (k_.op(mem).code != Opcode::Param) {
        const u64 bytes = k_.op(mem).imm * dtype_size(k_.type(mem).elem);
        return uniform(c_.i64(static_cast<i64>(bytes / size)));
      }
      V bytes = c_.bin(Bin::sub, lengths_.at(static_cast<u32>(k_.op(mem).imm)), c_.i64(static_cast<i64>(offset)));
      return uniform(c_.bin(Bin::udiv, bytes, c_.i64(static_cast<i64>(size))));
    }
    default:
      fail("CPU03", id, fmt::format("the CPU device has no code for {}", ir::info(op.code).text));
  }
}

// --- pure ops
// ------------------------------------------------------------------------------------------------------------

Val Lowering::pure(OpId id) {
  const auto& op = k_.op(id);
  const auto operands = k_.operands(id);
  if (op.code >= Opcode::ThreadId && op.code <= Opcode::Length) return id_value(id);
  if (op.code >= Opcode::TileNew) {
    Val v;
    tiles_->op(id, v);
    return v;
  }
  std::vector<Val> v;
  for (const OpId o : operands) v.push_back(value(o));
  switch (op.code) {
    case Opcode::VecExtract: {
      Val out{v[0].packets, {}};
      for (u32 p = 0; p < v[0].packets; ++p) out.parts.push_back(v[0].at(static_cast<u32>(op.imm), p));
      return out;
    }
    case Opcode::VecMake:
    case Opcode::VecInsert: {
      u32 packets = 1;
      for (const auto& x : v) packets = std::max(packets, x.packets);
      Val out{packets, {}};
      for (u32 c = 0; c < op.type.lanes; ++c)
        for (u32 p = 0; p < packets; ++p) {
          const bool make = op.code == Opcode::VecMake;
          out.parts.push_back(make ? v[c].at(0, p) : c == op.imm ? v[1].at(0, p) : v[0].at(c, p));
        }
      return out;
    }
    case Opcode::Bitcast: {
      const ir::Type from = k_.type(operands[0]);
      const u32 a = from.bytes() / from.lanes, b = op.type.bytes() / op.type.lanes;
      Val out{v[0].packets, {}};
      const Num to = num_of(op.type.elem);
      if (a == b) {
        for (const auto& p : v[0].parts) out.parts.push_back({c_.bitcast(to, p.v), nullptr});
        return out;
      }
      // Between elements of different sizes: through integers, little end first.
      const u32 ratio = std::max(a, b) / std::min(a, b);
      const Num wide = std::max(a, b) == 8 ? Num::i64 : std::max(a, b) == 4 ? Num::i32 : Num::i16;
      const Num small = std::min(a, b) == 4 ? Num::i32 : std::min(a, b) == 2 ? Num::i16 : Num::i8;
      for (u32 c = 0; c < op.type.lanes; ++c)
        for (u32 p = 0; p < v[0].packets; ++p) {
          V r = nullptr;
          if (a < b) {
            for (u32 i = 0; i < ratio; ++i) {
              V e = c_.conv(Conv::zext, wide, c_.bitcast(small, v[0].at(c * ratio + i, p).v));
              V placed = c_.bin(Bin::shl, e, c_.integer(wide, u64{i} * a * 8, c_.lanes(e)));
              // Elements of one vector may be uniform beside others that vary.
              if (r && c_.lanes(r) == 0 && c_.lanes(placed)) r = c_.splat(r, c_.lanes(placed));
              if (r && c_.lanes(r) && c_.lanes(placed) == 0) placed = c_.splat(placed, c_.lanes(r));
              r = r ? c_.bin(Bin::or_, r, placed) : placed;
            }
          } else {
            V whole = c_.bitcast(wide, v[0].at(c / ratio, p).v);
            r = c_.conv(Conv::trunc, small,
                        c_.bin(Bin::lshr, whole, c_.integer(wide, u64{c % ratio} * b * 8, c_.lanes(whole))));
          }
          out.parts.push_back({c_.bitcast(to, r), nullptr});
        }
      return out;
    }
    default:
      break;
  }
  if (op.code != Opcode::Cast && !(op.code >= Opcode::Add && op.code <= Opcode::DecodeE8M0))
    fail("CPU03", id, fmt::format("the CPU device has no code for {}", ir::info(op.code).text));
  if (k_.info_of(id).has(ir::Math) || (op.code >= Opcode::FastExp && op.code <= Opcode::FastTanh))
    fail("CPU02", id, fmt::format("{} reached the CPU device", ir::info(op.code).text),
         "run expand_math over the kernel before it is compiled");

  u32 packets = 1;
  for (const auto& x : v) packets = std::max(packets, x.packets);
  const DType elem = k_.type(operands[op.code == Opcode::Select ? 1 : 0]).elem;
  const auto exponent = op.code == Opcode::Ldexp ? integer_range(operands[1]) : std::pair<i64, i64>{};
  Val out{packets, {}};
  for (u32 c = 0; c < op.type.lanes; ++c)
    for (u32 p = 0; p < packets; ++p) {
      std::vector<Part> x;
      for (std::size_t i = 0; i < v.size(); ++i) x.push_back(v[i].at(v[i].comps() == 1 ? 0 : c, p));
      bool done = false;
      if (elem == DType::index) {
        Part r;
        if (op.code >= Opcode::Eq && op.code <= Opcode::Ge)
          r = compare_index(op.code, x[0], x[1], done);
        else if (op.code == Opcode::Cast)
          r = op.type.elem == DType::index ? (done = true, x[0]) : cast_index(op.type.elem, x[0], done);
        else if (op.code != Opcode::Select)
          r = index_op(op.code, x[0], x.size() > 1 ? x[1] : x[0], done);
        if (!done && op.type.is_index()) r = split_index(id, x[0], done);
        if (done) {
          out.parts.push_back(r);
          continue;
        }
      }
      if (elem == DType::boolean && op.code == Opcode::And) {
        // A condition of all lanes joins a bound of the lanes before it becomes a mask.
        const bool swap = mask_limits_.count(x[0].v) != 0;
        const auto bound = mask_limits_.find(x[swap ? 0 : 1].v);
        if (V all = x[swap ? 1 : 0].v; bound != mask_limits_.end() && !c_.lanes(all)) {
          out.parts.push_back({lanes_below(c_.select(all, bound->second, c_.i32(0))), nullptr});
          continue;
        }
      }
      bool any_vector = false;
      for (const auto& part : x) any_vector |= part.stride != nullptr || c_.lanes(part.v) != 0;
      std::vector<V> plain_values;
      for (std::size_t i = 0; i < x.size(); ++i) {
        // A scalar condition may choose between packets.
        const bool keep = op.code == Opcode::Select && i == 0 && !x[0].stride && !c_.lanes(x[0].v);
        plain_values.push_back(any_vector && !keep ? vector(x[i], elem) : x[i].v);
      }
      V r = nullptr;
      if (op.code == Opcode::Cast)
        r = math_.cast(op.type.elem, elem, plain_values[0]);
      else if (op.code == Opcode::Ldexp)
        r = math_.ldexp(elem, plain_values[0], plain_values[1], exponent.first, exponent.second);
      else
        r = math_.apply(op.code, elem, plain_values, op.imm);
      out.parts.push_back({r, nullptr});
    }
  return out;
}

}  // namespace iron::cpu
