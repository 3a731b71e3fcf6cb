// type_check: every value has the type that the op table gives, outputs are written, and not read before that. Changes
// nothing.
#include <fmt/format.h>

#include <set>

#include "ir/verify.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
Diagnostic finding(const Kernel& k, OpId at, std::string code, std::string message, std::string fix) {
  Diagnostic d;
  d.code = std::move(code), d.message = std::move(message), d.fix = std::move(fix), d.kernel = k.name;
  if (at != none) d.file = k.location(at).file, d.line = k.location(at).line;
  return d;
}

bool has_output(const Kernel& k) {
  bool found = false;
  k.walk([&](OpId id) { found |= k.info_of(id).has(Writes | AtomicOp | Report) && k.op(id).code != Opcode::TileZero; });
  return found;
}

// Reads of an `out` parameter that no write precedes in the text (D24). A loop around a read may have written it
// before.
class OutReads {
 public:
  OutReads(const Kernel& k, std::vector<Diagnostic>& found) : k_(k), found_(found) {}
  void region(RegionId r) {
    for (const OpId id : k_.region(r).ops) {
      if (k_.op(id).code == Opcode::For) {
        const auto t = touched(k_, id);
        written_.insert(t.writes.begin(), t.writes.end());
      }
      if (k_.op(id).region_count == 0) check(id);
      for (u32 i = 0; i < k_.op(id).region_count; ++i) region(k_.region_of(id, i));
      if (k_.op(id).region_count == 0) mark(id);
    }
  }

 private:
  void check(OpId id) {
    const auto code = k_.op(id).code;
    if (code != Opcode::Load && code != Opcode::LoadOr) return;
    const OpId root = memory_root(k_, k_.operand(id, 0));
    if (k_.op(root).code != Opcode::Param || written_.count(root)) return;
    const auto& p = k_.params[k_.op(root).imm];
    if (p.kind == ParamKind::out)
      found_.push_back(finding(k_, id, "D24", fmt::format("{} is an output and is read before it is written", p.name),
                               "declare it InOut<T>"));
  }
  void mark(OpId id) {
    if (!k_.info_of(id).has(Writes) || k_.op(id).operand_count == 0) return;
    for (const OpId v : k_.operands(id))
      if (k_.type(v).is_memory()) written_.insert(memory_root(k_, v));
  }
  const Kernel& k_;
  std::vector<Diagnostic>& found_;
  std::set<OpId> written_;
};
}  // namespace

Changed run_type_check(Kernel& k, PassContext&) {
  auto found = verify_structure(k);
  if (found.empty()) {
    OutReads(k, found).region(k.body());
    if (!has_output(k))
      found.push_back(finding(k, none, "D04", fmt::format("kernel {} has no effect: it stores nothing", k.name),
                              "store the result into an Out<T> or InOut<T>"));
  }
  if (!found.empty()) throw Error(std::move(found));
  return false;
}

}  // namespace iron::passes
