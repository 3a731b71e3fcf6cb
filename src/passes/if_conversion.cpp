// if_conversion: a small branch that only computes becomes selects. Keeps every bit; no load leaves its guard (D08).
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
constexpr u32 triangle_limit = 5, diamond_limit = 8;

class Converter : public Rewriter {
 public:
  Converter(Kernel& k, PassContext& context) : Rewriter(k), context_(context) {}

 protected:
  void visit(OpId id) override {
    if (k_.op(id).code != Opcode::If) return keep(id);
    rewrite_regions(id);  // inner branches first: what they become may let this one go
    if (!convertible(id)) return emit(id);
    const auto given = results(id);
    const OpId condition = k_.operand(id, 0);
    const auto yes = splice(k_.region_of(id, 0), true), no = splice(k_.region_of(id, 1), true);
    for (std::size_t i = 0; i < given.size(); ++i)
      forward(given[i], yes[i] == no[i] ? yes[i] : build().op(Opcode::Select, {condition, yes[i], no[i]}));
    context_.done(k_, id, "a branch became a select");
    drop(id);
  }

 private:
  // Ops of an arm that would run always; a value past every limit where one may not.
  u32 cost(RegionId arm) const {
    constexpr u32 never = 1000;
    u32 sum = 0;
    for (const OpId id : k_.region(arm).ops) {
      const auto& op = k_.op(id);
      if (op.code == Opcode::Yield || op.code == Opcode::Const) continue;
      // Expansions of transcendental functions and memory are worth their branch.
      if (!op.type.is_value() || !k_.info_of(id).pure() || k_.info_of(id).has(Math | Fast)) return never;
      switch (op.code) {
        case Opcode::Div:
        case Opcode::Rem:
        case Opcode::Sqrt:
        case Opcode::Rsqrt:
        case Opcode::Recip:
          sum += 4;
          break;
        default:
          ++sum;
          break;
      }
    }
    return sum;
  }
  bool convertible(OpId id) const {
    if (results(id).empty()) return false;
    const u32 yes = cost(k_.region_of(id, 0)), no = cost(k_.region_of(id, 1));
    return yes + no <= (yes == 0 || no == 0 ? triangle_limit : diamond_limit);
  }
  PassContext& context_;
};
}  // namespace

Changed run_if_conversion(Kernel& k, PassContext& context) { return Converter(k, context).run(); }

}  // namespace iron::passes
