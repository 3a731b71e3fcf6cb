// fma_fusion: a product with one use in a sum becomes one fma. Saves a rounding, so it runs under fused and fast alone.
#include <fmt/format.h>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
class Fuser : public Rewriter {
 public:
  explicit Fuser(Kernel& k) : Rewriter(k), uses_(use_counts(k)) {}
  u32 made = 0;

 protected:
  void visit(OpId id) override {
    const auto& op = k_.op(id);
    // 16-bit sums round in f32 first (R2): there is no 16-bit fma.
    const bool wide = op.type.is_value() && (op.type.elem == DType::f32 || op.type.elem == DType::f64);
    if (!wide || (op.code != Opcode::Add && op.code != Opcode::Sub)) return keep(id);
    const OpId a = k_.operand(id, 0), b = k_.operand(id, 1);
    const bool sub = op.code == Opcode::Sub;
    if (product(a, op.region)) {  // the left product where both are: one order on every compiler
      const OpId sum = sub ? build().op(Opcode::Neg, {b}) : b;
      return fuse(id, k_.operand(a, 0), k_.operand(a, 1), sum);
    }
    if (product(b, op.region)) {
      const OpId factor = sub ? build().op(Opcode::Neg, {k_.operand(b, 0)}) : k_.operand(b, 0);
      return fuse(id, factor, k_.operand(b, 1), a);
    }
    keep(id);
  }

 private:
  bool product(OpId v, RegionId r) const {
    return k_.op(v).code == Opcode::Mul && v < uses_.size() && uses_[v] == 1 && k_.op(v).region == r;
  }
  void fuse(OpId id, OpId x, OpId y, OpId z) {
    ++made;
    replace(id, build().op(Opcode::Fma, {x, y, z}));
  }
  const std::vector<u32> uses_;
};
}  // namespace

Changed run_fma_fusion(Kernel& k, PassContext& context) {
  if (context.policy == Numerics::exact) return false;
  Fuser fuser(k);
  const bool changed = fuser.run();
  if (fuser.made) context.info(k, none, fmt::format("formed {} fma", fuser.made));
  if (changed) sweep(k);  // the products that are now inside an fma
  return changed;
}

}  // namespace iron::passes
