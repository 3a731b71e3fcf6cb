#include "mutants.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/tier.h"

namespace iron::exec::tier {

namespace {
using namespace ir;

class Mutator {
 public:
  explicit Mutator(const Kernel& k) : k_(k) {}

  std::vector<Mutant> run() {
    std::map<Opcode, u32> seen;
    k_.walk([&](OpId id) {
      label_ = fmt::format("{} #{}", k_.info_of(id).text, ++seen[k_.op(id).code]);
      site(id);
    });
    return std::move(out_);
  }

 private:
  template <class F>
  void add(std::string_view how, F&& change) {
    Mutant m{fmt::format("{} {}", how, label_), k_};
    change(m.kernel);
    out_.push_back(std::move(m));
  }
  void drop(OpId id) {
    add("drop", [&](Kernel& m) { m.erase(id); });
  }
  void amount(OpId id, std::string_view how, i64 change) {
    const i64 to = static_cast<i64>(k_.op(id).imm) + change;
    if (to >= 0) add(how, [&](Kernel& m) { m.mutable_op(id).imm = static_cast<u64>(to); });
  }

  void site(OpId id) {
    switch (k_.op(id).code) {
      case Opcode::PipeAcquire:
      case Opcode::PipeWait:
        unsynchronised(id);
        next_slot(id);
        break;
      case Opcode::PipeRelease:
        drop(id);
        amount(id, "keep one more of", 1), amount(id, "keep one less of", -1);
        move(id);
        break;
      case Opcode::AccSettle:
        drop(id);
        amount(id, "leave one more in flight at", 1);
        move(id);
        break;
      case Opcode::PipeExpect:
        drop(id);
        amount(id, "16 bytes more at", 16), amount(id, "16 bytes less at", -16);
        amount(id, "twice the bytes at", static_cast<i64>(k_.op(id).imm));
        amount(id, "no bytes at", -static_cast<i64>(k_.op(id).imm));
        twice(id);
        move(id);
        break;
      case Opcode::TmaLoad:
        drop(id);
        twice(id);
        if (unpack<CopyImm>(k_.op(id).imm).multicast)
          add("only here", [&](Kernel& m) {
            auto imm = unpack<CopyImm>(m.op(id).imm);
            imm.multicast = false;
            m.mutable_op(id).imm = pack(imm);
          });
        break;
      case Opcode::TmaStore:
        twice(id);
        move(id);
        break;
      case Opcode::CopyAsync:
        drop(id);
        twice(id);
        break;
      case Opcode::CopyWait:
        drop(id);
        amount(id, "leave one more in flight at", 1);
        move(id);
        break;
      case Opcode::CopyCommit:
      case Opcode::Barrier:
      case Opcode::Reclaim:
      case Opcode::RoleBarrier:
      case Opcode::ClusterSync:
      case Opcode::TurnEnter:
      case Opcode::TurnLeave:
        drop(id);
        move(id);
        break;
      default:
        break;
    }
  }

  // The slot is what it would be, but nothing waited for it.
  void unsynchronised(OpId id) {
    add("drop", [&](Kernel& m) {
      const RegionId r = m.op(id).region;
      OpId trip = none;
      for (RegionId at = r; trip == none && m.region(at).parent != none; at = m.op(m.region(at).parent).region)
        if (m.op(m.region(at).parent).code == Opcode::For) trip = m.region(at).args[0];
      OpId slot = constant(m, id, 0);
      if (trip != none && m.type(trip).is_index()) {
        const OpId slots = constant(m, id, m.op(m.operand(id, 0)).imm);
        const OpId operands[] = {trip, slots};
        slot = before(m, id, Opcode::Rem, operands);
      }
      m.replace_uses({{id, slot}});
      m.erase(id);
    });
  }
  // Everything that the slot names is done in the slot after it.
  void next_slot(OpId id) {
    add("next slot after", [&](Kernel& m) {
      const u64 slots = m.op(m.operand(id, 0)).imm;
      const OpId one[] = {id, after(m, id, Opcode::Const, {}, 1)};
      OpId next = after(m, one[1], Opcode::Add, one);
      OpId last = next;
      if (slots > 1) {
        const OpId wrap[] = {next, after(m, next, Opcode::Const, {}, slots)};
        last = after(m, wrap[1], Opcode::Rem, wrap);
      }
      m.walk([&](OpId user) {
        if (user == next) return;
        for (u32 i = 0; i < m.op(user).operand_count; ++i)
          if (m.operand(user, i) == id) m.set_operand(user, i, last);
      });
    });
  }
  void twice(OpId id) {
    add("twice", [&](Kernel& m) {
      const std::vector<OpId> operands(m.operands(id).begin(), m.operands(id).end());
      const OpId copy = m.create(m.op(id).code, m.op(id).type, operands, m.op(id).imm, m.op(id).loc);
      m.insert(m.op(id).region, position(m, id) + 1, copy);
    });
  }
  // Over one to three ops with an effect, in its region: earlier and later.
  void move(OpId id) {
    constexpr u32 most = 3;
    const auto& ops = k_.region(k_.op(id).region).ops;
    const std::size_t at = position(k_, id);
    const auto has_effect = [&](OpId o) {
      return k_.info_of(o).has(Reads | Writes | Sync | TierOp | AtomicOp | HasRegions) &&
             !k_.info_of(o).has(Terminator);
    };
    const auto moved = [&](std::string how, std::size_t to) {
      add(how, [&](Kernel& m) {
        auto& list = m.mutable_region(m.op(id).region).ops;
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(to), id);
      });
    };
    u32 steps = 0;
    for (std::size_t i = at; i-- > 0 && steps < most;) {
      const auto operands = k_.operands(id);
      if (std::find(operands.begin(), operands.end(), ops[i]) != operands.end()) break;  // it uses that value
      if (has_effect(ops[i])) moved(fmt::format("{} earlier:", ++steps), i);
    }
    steps = 0;
    for (std::size_t i = at + 1; i < ops.size() && steps < most; ++i) {
      if (!has_effect(ops[i])) continue;
      std::size_t to = i;  // behind it, and behind the results of a branch or loop
      while (to + 1 < ops.size() && k_.op(ops[to + 1]).code == Opcode::Result) ++to;
      moved(fmt::format("{} later:", ++steps), to);
    }
  }

  static std::size_t position(const Kernel& m, OpId id) {
    const auto& ops = m.region(m.op(id).region).ops;
    return static_cast<std::size_t>(std::find(ops.begin(), ops.end(), id) - ops.begin());
  }
  static OpId before(Kernel& m, OpId id, Opcode code, std::span<const OpId> operands, u64 imm = 0) {
    const OpId made = m.create(code, index_type, operands, imm, m.op(id).loc);
    m.insert(m.op(id).region, position(m, id), made);
    return made;
  }
  static OpId after(Kernel& m, OpId id, Opcode code, std::span<const OpId> operands, u64 imm = 0) {
    const OpId made = m.create(code, index_type, operands, imm, m.op(id).loc);
    m.insert(m.op(id).region, position(m, id) + 1, made);
    return made;
  }
  static OpId constant(Kernel& m, OpId id, u64 value) { return before(m, id, Opcode::Const, {}, value); }

  const Kernel& k_;
  std::string label_;
  std::vector<Mutant> out_;
};
}  // namespace

std::vector<Mutant> mutants(const Kernel& k) { return Mutator(k).run(); }

}  // namespace iron::exec::tier
