// const_fold: ops on constants become constants by the one evaluator; branches and loops with constant conditions go.
// Keeps every bit. Transcendental functions wait for their expansion, which defines their bits.
#include "ir/eval.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
class Folder : public Rewriter {
 public:
  using Rewriter::Rewriter;

 protected:
  void visit(OpId id) override {
    const auto code = k_.op(id).code;
    if (code == Opcode::If && is_const(k_, k_.operand(id, 0))) return branch(id);
    if (code == Opcode::For && never_runs(id)) return dead_loop(id);
    fold(id);
    keep(id);
  }

 private:
  void branch(OpId id) {
    const auto given = results(id);
    const u32 arm = k_.op(k_.operand(id, 0)).imm ? 0 : 1;
    const auto values = splice(k_.region_of(id, arm), false);
    for (std::size_t i = 0; i < given.size(); ++i) forward(given[i], values[i]);
    remove(id);
  }

  bool never_runs(OpId id) const {
    if (trip_count(k_, id) == u64{0}) return true;
    const auto until = unpack<UntilImm>(k_.op(id).imm);
    if (!until.carried_plus_one) return false;
    const OpId init = k_.operand(id, until.carried_plus_one + 2);
    return is_const(k_, init) && k_.op(init).imm != 0;
  }
  void dead_loop(OpId id) {
    const auto given = results(id);
    for (u32 i = 0; i < given.size(); ++i) forward(given[i], k_.operand(id, i + 3));
    remove(id);
  }

  void fold(OpId id) {
    const Op op = k_.op(id);
    if (op.code == Opcode::VecExtract && is_const(k_, k_.operand(id, 0)))
      return become(id, k_.op(k_.operand(id, 0)).imm);
    if (!can_eval(op.code) || op.operand_count == 0 || !op.type.is_value()) return;
    std::vector<Type> types;
    std::vector<u64> bits;
    for (const OpId v : k_.operands(id)) {
      if (!is_const(k_, v)) return;
      types.push_back(Type::value(k_.type(v).elem));
      bits.push_back(k_.op(v).imm);
    }
    // A bitcast between unequal lane counts would not give a splat.
    if (op.code == Opcode::Bitcast && k_.type(k_.operand(id, 0)).lanes != op.type.lanes) return;
    become(id, eval(op.code, Type::value(op.type.elem), types, bits, op.imm));
  }
  void become(OpId id, u64 bits) {
    k_.mutable_op(id).code = Opcode::Const;
    k_.mutable_op(id).imm = bits;
    k_.set_operands(id, {});
    touch();
  }
};
}  // namespace

Changed run_const_fold(Kernel& k, PassContext&) {
  bool changed = Folder(k).run();
  return sweep(k) || changed;
}

}  // namespace iron::passes
