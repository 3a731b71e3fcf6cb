// Errors that need the whole kernel, yet no launch.
#include "analysis/verify_effects.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/affine.h"
#include "analysis/contract_impl.h"
#include "analysis/uniformity.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

namespace {
constexpr u32 bit(Mode m) { return 1u << static_cast<u32>(m); }
constexpr u32 every_mode = 31;

// The modes that have a builtin, as a set. Threads have ids in every mode; groups and items only where the mode has
// them.
u32 modes_of(const Kernel& k, OpId id) {
  const auto& op = k.op(id);
  switch (op.code) {
    case Opcode::GroupId:
      return every_mode & ~(bit(Mode::Elementwise) | bit(Mode::Grid3D));
    case Opcode::ItemCount:
      return bit(Mode::Elementwise);
    case Opcode::GridPos:
      return op.imm == 0 ? every_mode : every_mode & ~bit(Mode::Elementwise);
    default:
      return every_mode;
  }
}

class EffectsVerifier {
 public:
  EffectsVerifier(const Kernel& k, std::string_view pass) : k_(k), pass_(pass), uniform_(k), affine_(k) {}

  std::vector<Diagnostic> run() {
    k_.walk([&](OpId id) {
      builtin(id);
      immediate(id);
      output_read(id);
      if (k_.op(id).code == Opcode::For) reused_slots(id);
    });
    if (!writes_something(k_.body())) {
      auto& d = say("D04", none, "the kernel writes nothing: no store, atomic, print or check can be reached");
      d.fix = "store a result into an Out or InOut buffer";
      d.file = k_.file;
    }
    return std::move(found_);
  }

 private:
  Diagnostic& say(std::string_view code, OpId id, std::string message) {
    Diagnostic d;
    d.code = code, d.message = std::move(message), d.kernel = k_.name, d.after_pass = pass_;
    if (id != none) d.file = k_.location(id).file, d.line = k_.location(id).line;
    found_.push_back(std::move(d));
    return found_.back();
  }

  void builtin(OpId id) {
    const u32 allowed = modes_of(k_, id);
    if (allowed & bit(k_.mode)) return;
    std::string where;
    for (u32 m = 0; m < 5; ++m)
      if (allowed & (1u << m)) where += fmt::format("{}{}", where.empty() ? "" : ", ", name(static_cast<Mode>(m)));
    static constexpr std::string_view axes[] = {"<x>", "<y>", "<z>"};
    const auto& i = k_.info_of(id);
    auto& d = say("D01", id,
                  fmt::format("{}{} has no meaning in mode {}", i.text,
                              i.imm == ImmKind::Axis ? axes[k_.op(id).imm] : "", name(k_.mode)));
    d.fix = fmt::format("use grid_thread_id, or another mode: {} has {}", i.text, where);
  }

  void immediate(OpId id) {
    const auto& op = k_.op(id);
    switch (op.code) {
      case Opcode::SharedAlias: {
        const u64 whole = whole_bytes(k_.operand(id, 0));
        if (op.imm % 16)
          say("D16", id, fmt::format("an alias at byte {} of threadgroup memory", op.imm)).fix =
              "start aliases at multiples of 16 bytes";
        else if (op.imm >= whole)
          say("D16", id, fmt::format("an alias at byte {} of {} bytes of threadgroup memory", op.imm, whole)).fix =
              "start aliases inside the array";
        break;
      }
      case Opcode::View:
        if (op.imm % dtype_size(op.type.elem))
          say("D16", id,
              fmt::format("a view of {} from byte {}, which is no multiple of its {} bytes", dtype_name(op.type.elem),
                          op.imm, dtype_size(op.type.elem)))
              .fix = "start views at multiples of their element's size";
        break;
      case Opcode::TileNew:
        if (op.type.kind != TypeKind::tile || op.type.rows == 0 || op.type.cols == 0)
          say("D16", id, "a tile without rows or columns").fix = "give a tile a shape, 32 x 32";
        else if (const Scope s = unpack<TileImm>(op.imm).scope;
                 s != Scope::simdgroup && s != Scope::threadgroup && s != Scope::warpgroup && s != Scope::role)
          say("D17", id, fmt::format("a tile over the {}", name(s))).fix =
              "tiles belong to a simdgroup, a warpgroup, a role or a threadgroup";
        break;
      case Opcode::TileMma:
        if (unpack<LayoutImm>(op.imm).k == 0) say("D16", id, "a tile product over 0 elements").fix = "k is at least 1";
        break;
      case Opcode::SimdShuffleXor:
      case Opcode::SimdShuffleUp:
      case Opcode::SimdShuffleDown:
        if (op.imm > 31)
          say("D16", id, fmt::format("{} by {}: a simdgroup has 32 lanes", k_.info_of(id).text, op.imm)).fix =
              "use 0 to 31";
        break;
      default:
        break;
    }
    if (const AccessOf a = access_of(k_, id); a.memory != none && a.align > 16)
      say("D16", id,
          fmt::format("an access aligned to {} bytes: buffers are aligned to 16 at least, no more is promised",
                      a.align))
          .fix = "use accesses of at most 16 bytes";
  }
  u64 whole_bytes(OpId memory) const {
    const auto& op = k_.op(memory);
    if (op.code != Opcode::SharedAlias) return op.imm * dtype_size(op.type.elem);
    const u64 base = whole_bytes(k_.operand(memory, 0));
    return op.imm < base ? base - op.imm : 0;
  }

  void output_read(OpId id) {
    if (!k_.info_of(id).has(Reads) || k_.info_of(id).has(Alloc) || k_.op(id).code == Opcode::Call) return;
    const bool tile = k_.info_of(id).has(TileOp);
    for (const OpId v : k_.operands(id)) {
      if (!k_.type(v).is_memory() || (tile && k_.op(id).code == Opcode::TileStore)) continue;
      const OpId root = memory_root(k_, v);
      if (k_.op(root).code != Opcode::Param || k_.params[k_.op(root).imm].kind != ParamKind::out) continue;
      const auto& p = k_.params[k_.op(root).imm];
      say("D24", id,
          fmt::format("{} reads {}, which is an output: what it holds before the kernel writes it is undefined",
                      k_.info_of(id).text, p.name))
          .fix = fmt::format("declare {} as InOut<T>, or keep the value in a variable", p.name);
    }
  }

  // --- D04
  bool writes_something(RegionId r) const {
    for (const OpId id : k_.region(r).ops) {
      const auto& op = k_.op(id);
      const auto& i = k_.info_of(id);
      if (i.has(Report) || op.code == Opcode::Call) return true;
      if (i.has(Writes))
        for (const OpId v : k_.operands(id))
          if (k_.type(v).is_memory() && k_.op(memory_root(k_, v)).code == Opcode::Param &&
              (!i.has(TileOp) || op.code == Opcode::TileStore))
            return true;
      for (u32 n = 0; n < op.region_count; ++n) {
        if (op.code == Opcode::If && is_const(k_, k_.operand(id, 0)) && (k_.op(k_.operand(id, 0)).imm != 0) != (n == 0))
          continue;
        if (op.code == Opcode::For) {
          i64 start = 0, end = 0;
          if (const_index(k_, k_.operand(id, 0), start) && const_index(k_, k_.operand(id, 1), end) && end <= start)
            continue;
        }
        if (writes_something(k_.region_of(id, n))) return true;
      }
    }
    return false;
  }

  // --- D10: in a loop, a store to the slot that all threads read at the end of the trip before
  struct Event {
    enum Kind { barrier, load, store } kind;
    OpId id;
  };
  void events(RegionId r, std::vector<Event>& out) const {
    for (const OpId id : k_.region(r).ops) {
      const auto& op = k_.op(id);
      if (op.code == Opcode::Barrier) out.push_back({Event::barrier, id});
      if (const AccessOf a = access_of(k_, id); a.memory != none && !k_.info_of(id).has(AtomicOp) &&
                                                k_.op(memory_root(k_, a.memory)).code == Opcode::SharedNew)
        out.push_back({a.writes ? Event::store : Event::load, id});
      for (u32 i = 0; i < op.region_count; ++i) events(k_.region_of(id, i), out);
    }
  }
  // Both touch one address, the same for all threads of the group and in every trip of the loop.
  bool one_slot(OpId a, OpId b, OpId loop) {
    const AccessOf x = access_of(k_, a), y = access_of(k_, b);
    if (memory_root(k_, x.memory) != memory_root(k_, y.memory) || k_.type(x.memory).elem != k_.type(y.memory).elem)
      return false;
    if (!uniform_.uniform(x.index, Scope::threadgroup) || !uniform_.uniform(y.index, Scope::threadgroup)) return false;
    const i64 size = dtype_size(k_.type(x.memory).elem);
    const auto apart = affine_.distance(x.index, y.index);
    if (!apart ||
        *apart * size + static_cast<i64>(byte_offset(k_, y.memory)) != static_cast<i64>(byte_offset(k_, x.memory)))
      return false;
    for (const auto& [product, c] : affine_.of(x.index).terms)
      for (const OpId leaf : product)
        if (k_.encloses(k_.region_of(loop, 0), k_.op(leaf).region)) return false;
    return true;
  }
  // The load runs only where the store runs: a thread reads back what it wrote itself.
  bool same_threads(OpId store, OpId load) const {
    const RegionId r = k_.op(store).region;
    return uniform_.control(r) < Scope::threadgroup && k_.encloses(r, k_.op(load).region);
  }
  void reused_slots(OpId loop) {
    std::vector<Event> list;
    events(k_.region_of(loop, 0), list);
    for (std::size_t s = 0; s < list.size(); ++s) {
      if (list[s].kind != Event::store || barrier_between(list, 0, s)) continue;
      for (std::size_t l = list.size(); l-- > s + 1;) {
        if (list[l].kind == Event::barrier) break;
        if (list[l].kind != Event::load || !one_slot(list[s].id, list[l].id, loop) ||
            same_threads(list[s].id, list[l].id))
          continue;
        const OpId store = list[s].id, load = list[l].id;
        if (std::any_of(found_.begin(), found_.end(),
                        [&](const Diagnostic& d) { return d.code == "D10" && d.line == k_.location(store).line; }))
          break;
        auto& d = say("D10", store,
                      "the next trip of the loop stores into a slot of threadgroup memory that other threads may still "
                      "be reading");
        d.notes.push_back({fmt::format("the read of the trip before is {}", expression(k_, load)),
                           k_.location(load).file, k_.location(load).line});
        d.notes.push_back(
            {"no barrier stands between that read and the store", k_.location(loop).file, k_.location(loop).line});
        d.fix = "put a second barrier() after the read, or alternate between two slots";
        break;
      }
    }
  }
  static bool barrier_between(const std::vector<Event>& list, std::size_t from, std::size_t to) {
    return std::any_of(list.begin() + static_cast<std::ptrdiff_t>(from), list.begin() + static_cast<std::ptrdiff_t>(to),
                       [](const Event& e) { return e.kind == Event::barrier; });
  }

  const Kernel& k_;
  std::string_view pass_;
  Uniformity uniform_;
  Affine affine_;
  std::vector<Diagnostic> found_;
};
}  // namespace

std::vector<Diagnostic> verify_effects(const Kernel& k, std::string_view after_pass) {
  return EffectsVerifier(k, after_pass).run();
}

}  // namespace iron::analysis
