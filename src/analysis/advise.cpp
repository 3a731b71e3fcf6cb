// What is legal and yet likely wrong: warnings and remarks on the author's kernel.
#include <fmt/format.h>

#include <set>
#include <utility>

#include "analysis/affine.h"
#include "analysis/contract_impl.h"
#include "analysis/range.h"
#include "analysis/verify_effects.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

namespace {
constexpr u64 smallest_shared_bytes = 32 * 1024;  // Metal

class Adviser {
 public:
  explicit Adviser(const Kernel& k) : k_(k), users_(use_lists(k)), affine_(k) {}

  std::vector<Diagnostic> run() {
    walk(k_.body());
    if (const u64 bytes = shared_bytes(k_); bytes > smallest_shared_bytes) {
      auto& d =
          say(Severity::remark, "D27", first_shared(),
              fmt::format("threadgroup arrays take {} bytes, some devices have {}", bytes, smallest_shared_bytes));
      d.fix = "offer a variant with smaller tiles; devices with less memory refuse this one";
    }
    return std::move(found_);
  }

 private:
  Diagnostic& say(Severity severity, std::string_view code, OpId id, std::string message) {
    Diagnostic d;
    d.severity = severity, d.code = code, d.message = std::move(message), d.kernel = k_.name;
    if (id != none) d.file = k_.location(id).file, d.line = k_.location(id).line;
    found_.push_back(std::move(d));
    return found_.back();
  }

  void walk(RegionId r) {
    for (const OpId id : k_.region(r).ops) {
      switch (k_.op(id).code) {
        case Opcode::Shl:
        case Opcode::Shr:
          shift(id);
          break;
        case Opcode::Load:
          selected_load(id);
          break;
        case Opcode::For: {
          // A write anywhere in the body may come before a read in its next trip.
          const auto before = written_;
          note_writes(k_.region_of(id, 0));
          loops_.push_back(std::exchange(written_, before));
          walk(k_.region_of(id, 0));
          loops_.pop_back();
          continue;
        }
        default:
          break;
      }
      reads(id);
      writes(id);
      for (u32 i = 0; i < k_.op(id).region_count; ++i) walk(k_.region_of(id, i));
    }
  }

  // --- D32
  OpId local_root(OpId v) const {
    const OpId root = memory_root(k_, v);
    const Opcode code = k_.op(root).code;
    return code == Opcode::SharedNew || code == Opcode::ArrayNew || code == Opcode::TileNew ? root : none;
  }
  void note_writes(RegionId r) {
    k_.walk(r, [&](OpId id) { writes(id); });
  }
  void writes(OpId id) {
    const auto& i = k_.info_of(id);
    if (!i.has(Writes) || k_.op(id).code == Opcode::Call) return;
    if (k_.op(id).code == Opcode::TileStore) {
      if (const OpId root = local_root(k_.operand(id, 1)); root != none) written_.insert(root);
      return;
    }
    if (const OpId root = local_root(k_.operand(id, 0)); root != none) written_.insert(root);
  }
  void reads(OpId id) {
    const auto& i = k_.info_of(id);
    if (!i.has(Reads)) return;
    for (u32 n = 0; n < k_.op(id).operand_count; ++n) {
      const OpId v = k_.operand(id, n);
      if (!k_.type(v).is_memory() && k_.type(v).kind != TypeKind::tile) continue;
      const Opcode code = k_.op(id).code;
      if ((code == Opcode::TileZero || code == Opcode::TileLoad) && n == 0) continue;  // they set the tile
      if (code == Opcode::TileStore && n == 1) continue;
      const OpId root = local_root(v);
      if (root == none || written_.count(root) || warned_.count(root)) continue;
      bool in_loop = false;
      for (const auto& set : loops_) in_loop |= set.count(root) != 0;
      if (in_loop) continue;
      warned_.insert(root);
      const auto what = k_.op(root).code == Opcode::SharedNew ? "threadgroup memory"
                        : k_.op(root).code == Opcode::TileNew ? "the tile"
                                                              : "the thread's array";
      auto& d = say(Severity::warning, "D32", id,
                    fmt::format("{} is read before anything is written to it: its contents are undefined", what));
      d.notes.push_back(
          {fmt::format("it is made here: {}", expression(k_, root)), k_.location(root).file, k_.location(root).line});
      d.fix = k_.op(root).code == Opcode::SharedNew ? "store to it first, then barrier()" : "store to it first";
    }
  }

  // --- D23
  void shift(OpId id) {
    const OpId amount = k_.operand(id, 1);
    if (is_const(k_, amount)) return;  // an error of its own where out of range
    const Range r = bound(amount, 0);
    const u32 width = dtype_bits(k_.type(id).elem);
    if (r.lo >= 0 && r.hi < Wide{width}) return;
    auto& d =
        say(Severity::remark, "D23", id,
            fmt::format("the shift amount is in {}, not shown to be below the width {}: amounts count modulo the width",
                        to_string(r), width));
    d.fix = fmt::format("write b & {} where that is meant, or guard amounts of {} and more", width - 1, width);
  }
  // Bounds that hold in every launch.
  Range bound(OpId v, int depth) const {
    const auto& op = k_.op(v);
    const DType type = op.type.elem;
    const Range full = op.type.is_scalar() ? Range::of(type) : Range::of(type == DType::none ? DType::index : type);
    i64 c = 0;
    if (const_index(k_, v, c))
      return Range::point(type == DType::u64 ? static_cast<Wide>(static_cast<u64>(c)) : Wide{c});
    if (depth > 16 || !op.type.is_value() || is_float(type)) return full;
    const auto at = [&](u32 i) { return bound(k_.operand(v, i), depth + 1); };
    bool wrapped = false;
    switch (op.code) {
      case Opcode::LaneId:
        return Range::between(0, 31);
      case Opcode::ThreadId:
      case Opcode::ThreadPos:
      case Opcode::SimdgroupId:
        return Range::between(0, 1023);
      case Opcode::GroupId:
      case Opcode::GridThreadId:
      case Opcode::GridPos:
        return Range::between(0, full.hi);
      case Opcode::Cast:
        return is_float(k_.type(k_.operand(v, 0)).elem) ? full : convert(k_.type(k_.operand(v, 0)).elem, type, at(0));
      case Opcode::Select:
        return hull(at(1), at(2));
      case Opcode::Bounded:
        return apply(Opcode::Min, type, apply(Opcode::Max, type, at(0), at(1), wrapped), at(2), wrapped);
      case Opcode::AssumeUniform:
        return at(0);
      case Opcode::VecMake: {
        Range r;
        for (u32 i = 0; i < op.operand_count; ++i) r = hull(r, at(i));
        return r;
      }
      case Opcode::VecExtract:
        return at(0);
      case Opcode::Arg: {
        const OpId loop = k_.region(op.region).parent;
        if (op.imm != 0 || loop == none || k_.op(loop).code != Opcode::For) return full;
        const Range start = bound(k_.operand(loop, 0), depth + 1), end = bound(k_.operand(loop, 1), depth + 1);
        return Range::between(start.lo, std::max(start.lo, end.hi - 1));
      }
      case Opcode::Add:
      case Opcode::Sub:
      case Opcode::Mul:
      case Opcode::Div:
      case Opcode::Rem:
      case Opcode::Min:
      case Opcode::Max:
      case Opcode::And:
      case Opcode::Or:
      case Opcode::Xor:
      case Opcode::Shl:
      case Opcode::Shr:
        return apply(op.code, type, at(0), at(1), wrapped);
      case Opcode::Popcount:
      case Opcode::Clz:
      case Opcode::Ctz:
        return apply(op.code, type, full, full, wrapped);
      default:
        return full;
    }
  }

  // --- D08
  void selected_load(OpId id) {
    if (k_.type(k_.operand(id, 0)).space != Space::global || users_[id].empty()) return;
    OpId condition = none;
    for (const OpId user : users_[id]) {
      if (k_.op(user).code != Opcode::Select || k_.operand(user, 0) == id) return;
      condition = k_.operand(user, 0);
    }
    if (!guards(condition, k_.operand(id, 1), 0)) return;
    auto& d = say(Severity::warning, "D08", id,
                  "this load is made whether or not the condition of its select holds: select evaluates both values");
    d.notes.push_back({fmt::format("the condition that looks like its guard is {}", expression(k_, condition)),
                       k_.location(condition).file, k_.location(condition).line});
    d.fix = "load_or(condition, i, other), or if_(condition)";
  }
  // The condition compares the subscript, or a value a constant away from it.
  bool guards(OpId condition, OpId index, int depth) {
    if (depth > 6) return false;
    switch (k_.op(condition).code) {
      case Opcode::And:
      case Opcode::Or:
        return guards(k_.operand(condition, 0), index, depth + 1) || guards(k_.operand(condition, 1), index, depth + 1);
      case Opcode::Not:
        return guards(k_.operand(condition, 0), index, depth + 1);
      case Opcode::Lt:
      case Opcode::Le:
      case Opcode::Gt:
      case Opcode::Ge:
      case Opcode::Eq:
      case Opcode::Ne:
        for (const OpId side : k_.operands(condition))
          if (!is_const(k_, side) && k_.type(side).is_index() && affine_.distance(side, index)) return true;
        return false;
      default:
        return false;
    }
  }

  OpId first_shared() const {
    OpId first = none;
    k_.walk([&](OpId id) {
      if (first == none && k_.op(id).code == Opcode::SharedNew) first = id;
    });
    return first;
  }

  const Kernel& k_;
  std::vector<std::vector<OpId>> users_;
  Affine affine_;
  std::set<OpId> written_, warned_;
  std::vector<std::set<OpId>> loops_;
  std::vector<Diagnostic> found_;
};
}  // namespace

std::vector<Diagnostic> advise_effects(const Kernel& k) { return Adviser(k).run(); }

}  // namespace iron::analysis
