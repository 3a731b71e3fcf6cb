// Copies that threads start: what they may copy, and that somebody waits before what they fill is read. Which groups a
// wait leaves in flight depends on the trip; that is the interpreter's to judge.
#include "analysis/verify_copies.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/contract_impl.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

namespace {
class CopiesVerifier {
 public:
  CopiesVerifier(const Kernel& k, std::string_view pass) : k_(k), pass_(pass) {}

  std::vector<Diagnostic> run() {
    k_.walk([&](OpId id) {
      switch (k_.op(id).code) {
        case Opcode::CopyAsync:
          copy(id);
          break;
        case Opcode::CopyCommit:
          step(State::started, State::closed);
          break;
        case Opcode::CopyWait:
          step(State::closed, State::waited);
          break;
        case Opcode::Call:
          break;  // its own accesses are checked once it is inlined
        default:
          if (k_.info_of(id).has(Reads)) read(id);
          break;
      }
    });
    for (const auto& [root, f] : filled_)
      if (f.state < State::waited)
        say("COPY02", f.copy,
            f.state == State::started ? "no commit follows the copies into this array"
                                      : "no wait follows the copies into this array",
            "commit_copies() after the copies of a step, wait_copies() before they are read or the kernel ends");
    return std::move(found_);
  }

 private:
  enum class State { started, closed, waited };
  struct Filled {
    State state = State::started;
    OpId copy = none;
  };

  void say(std::string_view code, OpId id, std::string message, std::string fix, OpId other = none) {
    Diagnostic d;
    d.code = code, d.message = std::move(message), d.fix = std::move(fix), d.kernel = k_.name, d.after_pass = pass_;
    d.file = k_.location(id).file, d.line = k_.location(id).line;
    d.notes.push_back({print_op(k_, id), "", 0});
    if (other != none)
      d.notes.push_back({"filled here: " + print_op(k_, other), k_.location(other).file, k_.location(other).line});
    found_.push_back(std::move(d));
  }

  void copy(OpId id) {
    const OpId memory = k_.operand(id, 0), value = k_.operand(id, 2);
    const Type t = k_.type(value);
    const u32 bytes = t.lanes * dtype_size(t.elem);
    if (k_.type(memory).space != Space::shared)
      say("COPY01", id, "a copy goes into threadgroup memory, nowhere else", "store the value, or copy into a Shared");
    else if (bytes != 4 && bytes != 8 && bytes != 16)
      say("COPY01", id, fmt::format("a copy of {} bytes: copies have 4, 8 or 16", bytes),
          "copy another number of elements, or store the value");
    else if (access_of(k_, id).align != bytes)
      say("COPY01", id, fmt::format("a copy of {} bytes that is aligned to {}", bytes, access_of(k_, id).align),
          "align a copy, and the load it comes from, to its size");
    else if (!comes_from_buffer(value, bytes))
      say("COPY01", id,
          "the value of a copy comes from memory as it is: it is an aligned load of an input, or the guarded one with "
          "zeros as the other value",
          "copy from an In<T>, or store the value");
    filled_.emplace(memory_root(k_, memory), Filled{State::started, id});
  }

  bool zero(OpId v) const {
    if (k_.op(v).code == Opcode::Const) return k_.op(v).imm == 0;
    const auto parts = k_.operands(v);
    return k_.op(v).code == Opcode::VecMake && std::all_of(parts.begin(), parts.end(), [&](OpId p) { return zero(p); });
  }
  // Folding leaves the zeros of a guard that never holds.
  bool comes_from_buffer(OpId v, u32 bytes) const {
    if (zero(v)) return true;
    const auto code = k_.op(v).code;
    if (code != Opcode::Load && code != Opcode::LoadOr) return false;
    if (k_.type(k_.operand(v, 0)).space != Space::global || !reads_immutable(k_, v)) return false;
    return access_of(k_, v).align == bytes && (code == Opcode::Load || zero(k_.operand(v, 3)));
  }

  void step(State from, State to) {
    for (auto& [root, f] : filled_)
      if (f.state == from) f.state = to;
  }

  void read(OpId id) {
    for (const OpId v : k_.operands(id)) {
      if (!k_.type(v).is_memory()) continue;
      const auto it = filled_.find(memory_root(k_, v));
      if (it == filled_.end() || it->second.state == State::waited) continue;
      say("COPY02", id, "what copies fill is read before any wait for them",
          "commit_copies() after the copies, wait_copies() and a barrier() before the read", it->second.copy);
      it->second.state = State::waited;  // said once
    }
  }

  const Kernel& k_;
  std::string_view pass_;
  std::map<OpId, Filled> filled_;
  std::vector<Diagnostic> found_;
};
}  // namespace

std::vector<Diagnostic> verify_copies(const Kernel& k, std::string_view after_pass) {
  return CopiesVerifier(k, after_pass).run();
}

}  // namespace iron::analysis
