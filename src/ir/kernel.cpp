// Storage, walking and canonical order of kernels.
#include "ir/kernel.h"

#include <algorithm>
#include <array>
#include <utility>

namespace iron::ir {

std::string_view name(Mode m) {
  static constexpr std::array<std::string_view, 5> names{"elementwise", "threadgroup", "grid3d", "tile2d",
                                                         "simdgroup2d"};
  return names[static_cast<std::size_t>(m)];
}
std::string_view name(Numerics n) {
  static constexpr std::array<std::string_view, 3> names{"exact", "fused", "fast"};
  return names[static_cast<std::size_t>(n)];
}
std::string_view name(ParamKind k) {
  static constexpr std::array<std::string_view, 4> names{"in", "out", "inout", "scalar"};
  return names[static_cast<std::size_t>(k)];
}

Kernel::Kernel() {
  regions_.emplace_back();
  locations_.push_back({});
}

std::vector<OpId> Kernel::results(OpId id) const {
  std::vector<OpId> out;
  const auto& list = regions_[ops_[id].region].ops;
  auto it = std::find(list.begin(), list.end(), id);
  for (++it; it != list.end() && ops_[*it].code == Opcode::Result && operand(*it, 0) == id; ++it) out.push_back(*it);
  return out;
}

OpId Kernel::terminator(RegionId r) const { return regions_[r].ops.empty() ? none : regions_[r].ops.back(); }

bool Kernel::encloses(RegionId outer, RegionId inner) const {
  for (RegionId r = inner;;) {
    if (r == outer) return true;
    const OpId parent = regions_[r].parent;
    if (parent == none) return false;
    r = ops_[parent].region;
    if (r == none) return false;
  }
}

OpId Kernel::param(std::string_view param_name) const {
  for (const auto& p : params)
    if (p.name == param_name) return p.op;
  return none;
}

LocId Kernel::intern_location(std::string_view file_name, int line) {
  for (std::size_t i = locations_.size(); i-- > 0;)  // recent first: neighbours share lines
    if (locations_[i].line == line && locations_[i].file == file_name) return static_cast<LocId>(i);
  locations_.push_back({std::string(file_name), line});
  return static_cast<LocId>(locations_.size() - 1);
}

u64 Kernel::intern_text(std::string_view text) {
  for (std::size_t i = 0; i < texts.size(); ++i)
    if (texts[i] == text) return i;
  texts.emplace_back(text);
  return texts.size() - 1;
}

void Kernel::set_operands(OpId id, std::span<const OpId> values) {
  ops_[id].first_operand = static_cast<u32>(operands_.size());
  ops_[id].operand_count = static_cast<u16>(values.size());
  const std::vector<OpId> copy(values.begin(), values.end());  // `values` may point into operands_
  operands_.insert(operands_.end(), copy.begin(), copy.end());
}

OpId Kernel::create(Opcode code, Type type, std::span<const OpId> operands, u64 imm, LocId loc, u32 region_count) {
  const auto id = static_cast<OpId>(ops_.size());
  Op op;
  op.code = code, op.type = type, op.imm = imm, op.loc = loc;
  if (region_count) {
    op.first_region = static_cast<RegionId>(regions_.size());
    op.region_count = region_count;
    for (u32 i = 0; i < region_count; ++i) regions_.push_back({id, {}, {}});
  }
  ops_.push_back(op);
  set_operands(id, operands);
  return id;
}

void Kernel::insert(RegionId r, std::size_t at, OpId id) {
  ops_[id].region = r;
  auto& list = regions_[r].ops;
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), id);
}

OpId Kernel::add_arg(RegionId r, Type type, LocId loc) {
  const OpId id = create(Opcode::Arg, type, {}, regions_[r].args.size(), loc);
  ops_[id].region = r;
  regions_[r].args.push_back(id);
  return id;
}

OpId Kernel::add_param(std::string param_name, ParamKind kind, DType elem, LocId loc, bool tensor) {
  const Type type = kind == ParamKind::scalar ? Type::value(elem) : Type::memory(Space::global, elem);
  const OpId id = create(Opcode::Param, type, {}, params.size(), loc);
  append(body(), id);
  params.push_back({std::move(param_name), kind, elem, id, tensor});
  return id;
}

void Kernel::erase(OpId id) {
  for (u32 i = 0; i < ops_[id].region_count; ++i) {
    auto& nested = regions_[region_of(id, i)];
    while (!nested.ops.empty()) erase(nested.ops.back());
    for (const OpId arg : nested.args) ops_[arg].region = none;
  }
  auto& list = regions_[ops_[id].region].ops;
  // Erasure at the end is the common case: search from there.
  const auto it = std::find(list.rbegin(), list.rend(), id);
  if (it != list.rend()) list.erase(std::next(it).base());
  ops_[id].region = none;
}

void Kernel::replace_uses(const std::unordered_map<OpId, OpId>& forward) {
  if (forward.empty()) return;
  const auto final_value = [&](OpId v) {
    for (auto it = forward.find(v); it != forward.end(); it = forward.find(v)) v = it->second;
    return v;
  };
  for (OpId id = 0; id < ops_.size(); ++id) {
    if (!alive(id)) continue;
    for (u32 i = 0; i < ops_[id].operand_count; ++i) {
      auto& use = operands_[ops_[id].first_operand + i];
      use = final_value(use);
    }
  }
}

void Kernel::walk(RegionId r, const std::function<void(OpId)>& visit) const {
  for (std::size_t i = 0; i < regions_[r].ops.size(); ++i) {
    const OpId id = regions_[r].ops[i];
    visit(id);
    for (u32 j = 0; j < ops_[id].region_count; ++j) walk(region_of(id, j), visit);
  }
}

std::vector<std::vector<OpId>> use_lists(const Kernel& k) {
  std::vector<std::vector<OpId>> users(k.op_capacity());
  k.walk([&](OpId id) {
    for (const OpId v : k.operands(id)) users[v].push_back(id);
  });
  return users;
}

OpId memory_root(const Kernel& k, OpId mem) {
  while (k.op(mem).code == Opcode::View || k.op(mem).code == Opcode::SharedAlias) mem = k.operand(mem, 0);
  return mem;
}

bool reads_immutable(const Kernel& k, OpId id) {
  const auto code = k.op(id).code;
  if (code != Opcode::Load && code != Opcode::LoadOr) return false;
  const OpId root = memory_root(k, k.operand(id, 0));
  return k.op(root).code == Opcode::Param && k.params[k.op(root).imm].kind == ParamKind::in;
}

bool fragment_op(const Kernel& k, OpId id) {
  const auto& op = k.op(id);
  if (!op.type.is_frag() && !op.type.is_row_values()) return false;
  return op.code != Opcode::Const && op.code != Opcode::Arg && op.code != Opcode::Result;
}

bool pinned(const Kernel& k, OpId id) {
  const auto& i = k.info_of(id);
  if (i.has(Terminator | HasRegions | Writes | WritesSlot | ReadsSlot | AtomicOp | Sync | Waits | Fact | Report |
            TierOp))
    return true;
  if (fragment_op(k, id)) return true;
  if (i.has(Reads)) return !reads_immutable(k, id);
  return k.op(id).code == Opcode::Prefetch;
}

namespace {
// Copies a kernel in canonical order. Ids of the copy are dense and follow the text.
class Canonicaliser {
 public:
  explicit Canonicaliser(const Kernel& in)
      : in_(in), map_(in.op_capacity(), none), live_(in.op_capacity(), false), visited_(in.op_capacity(), 0) {}

  Kernel run() {
    out_.name = in_.name, out_.mode = in_.mode, out_.numerics = in_.numerics, out_.spec = in_.spec,
    out_.file = in_.file;
    out_.width_generic = in_.width_generic;
    out_.callees = in_.callees;
    for (const auto& p : in_.params) map_[p.op] = out_.add_param(p.name, p.kind, p.elem, location(p.op), p.tensor);
    mark(in_.body());
    copy_region(in_.body(), out_.body());
    return std::move(out_);
  }

 private:
  LocId location(OpId id) {
    const auto& l = in_.location(id);
    return l.line == 0 ? 0 : out_.intern_location(l.file, l.line);
  }

  void mark(RegionId r) {
    for (const OpId id : in_.region(r).ops)
      if (pinned(in_, id)) mark_live(id);
  }
  void mark_live(OpId id) {
    if (live_[id]) return;
    live_[id] = true;
    for (const OpId v : in_.operands(id)) mark_live(v);
    for (u32 i = 0; i < in_.op(id).region_count; ++i) mark(in_.region_of(id, i));
  }

  void copy_region(RegionId from, RegionId to) {
    for (const OpId arg : in_.region(from).args) map_[arg] = out_.add_arg(to, in_.type(arg), location(arg));
    for (const OpId id : in_.region(from).ops)
      if (pinned(in_, id)) copy(id, from, to);
  }

  // Places what `id` needs from its own region, in post-order, then `id`.
  void copy(OpId id, RegionId from, RegionId to) {
    if (map_[id] != none) return;
    for (const OpId v : in_.operands(id)) need(v, from, to);
    for (u32 i = 0; i < in_.op(id).region_count; ++i) need_of_region(in_.region_of(id, i), from, to);
    const auto& op = in_.op(id);
    std::vector<OpId> operands;
    for (const OpId v : in_.operands(id)) operands.push_back(map_[v]);
    u64 imm = op.imm;
    const auto kind = in_.info_of(id).imm;
    if (kind == ImmKind::Text || kind == ImmKind::Roles) imm = out_.intern_text(in_.texts[imm]);
    const OpId made = out_.create(op.code, op.type, operands, imm, location(id), op.region_count);
    out_.append(to, made);
    map_[id] = made;
    for (u32 i = 0; i < op.region_count; ++i) copy_region(in_.region_of(id, i), out_.region_of(made, i));
    if (op.region_count)
      for (const OpId r : in_.results(id)) copy(r, from, to);
  }

  void need(OpId v, RegionId from, RegionId to) {
    if (map_[v] == none && in_.op(v).region == from) copy(v, from, to);
  }
  // What a region below needs from here, in the order in which its own copy will ask: pinned ops in program order, each
  // after the operands that it alone placed. Any other order would not survive a second run.
  void need_of_region(RegionId nested, RegionId from, RegionId to) {
    const bool outermost = depth_++ == 0;
    if (outermost) ++round_;
    for (const OpId id : in_.region(nested).ops)
      if (pinned(in_, id)) visit(id, from, to);
    --depth_;
  }
  void visit(OpId id, RegionId from, RegionId to) {
    if (map_[id] != none || visited_[id] == round_) return;
    visited_[id] = round_;
    for (const OpId v : in_.operands(id)) {
      if (in_.op(v).region == from)
        copy_needed(v, from, to);
      else
        visit(v, from, to);
    }
    for (u32 i = 0; i < in_.op(id).region_count; ++i) need_of_region(in_.region_of(id, i), from, to);
  }
  // Placing a value may place a region op, which starts a round of its own.
  void copy_needed(OpId v, RegionId from, RegionId to) {
    const u32 depth = std::exchange(depth_, 0), round = round_;
    need(v, from, to);
    depth_ = depth, round_ = round;
  }

  const Kernel& in_;
  Kernel out_;
  std::vector<OpId> map_;
  std::vector<bool> live_;
  std::vector<u32> visited_;
  u32 depth_ = 0, round_ = 0;
};
}  // namespace

Kernel canonical(const Kernel& k) { return Canonicaliser(k).run(); }

bool is_const(const Kernel& k, OpId id) { return k.op(id).code == Opcode::Const; }

bool const_index(const Kernel& k, OpId id, i64& value) {
  if (!is_const(k, id)) return false;
  const u64 bits = k.op(id).imm;
  switch (k.type(id).elem) {
    case DType::i8:
      value = static_cast<i8>(bits);
      return true;
    case DType::i16:
      value = static_cast<i16>(bits);
      return true;
    case DType::i32:
      value = static_cast<i32>(bits);
      return true;
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::i64:
    case DType::u64:
    case DType::index:
      value = static_cast<i64>(bits);
      return true;
    default:
      return false;
  }
}

}  // namespace iron::ir
