// A value as its author would write it, for messages: `x[thread_id() + 64 * group_id(x)]`.
#include <fmt/format.h>

#include "ir/text.h"

namespace iron::ir {

namespace {
enum Strength : int { lowest, comparison, bits, sum, product, unary, atom };

struct Infix {
  std::string_view sign;
  Strength strength = atom;
};
Infix infix(Opcode code) {
  switch (code) {
    case Opcode::Add:
      return {"+", sum};
    case Opcode::Sub:
      return {"-", sum};
    case Opcode::Mul:
      return {"*", product};
    case Opcode::Div:
      return {"/", product};
    case Opcode::Rem:
      return {"%", product};
    case Opcode::And:
      return {"&", bits};
    case Opcode::Or:
      return {"|", bits};
    case Opcode::Xor:
      return {"^", bits};
    case Opcode::Shl:
      return {"<<", bits};
    case Opcode::Shr:
      return {">>", bits};
    case Opcode::Eq:
      return {"==", comparison};
    case Opcode::Ne:
      return {"!=", comparison};
    case Opcode::Lt:
      return {"<", comparison};
    case Opcode::Le:
      return {"<=", comparison};
    case Opcode::Gt:
      return {">", comparison};
    case Opcode::Ge:
      return {">=", comparison};
    default:
      return {};
  }
}

class Writer {
 public:
  explicit Writer(const Kernel& k) : k_(k) {}

  std::string write(OpId id, Strength around, int depth) const {
    if (depth > deepest) return "...";
    const Op& op = k_.op(id);
    const auto operand = [&](u32 i, Strength s = lowest) { return write(k_.operand(id, i), s, depth + 1); };
    if (const Infix sign = infix(op.code); !sign.sign.empty()) {
      // Only sums and products of the same strength chain without brackets, from the left.
      const Strength left = sign.strength >= sum ? sign.strength : unary;
      const std::string text =
          fmt::format("{} {} {}", operand(0, left), sign.sign, operand(1, static_cast<Strength>(sign.strength + 1)));
      return around > sign.strength ? "(" + text + ")" : text;
    }
    switch (op.code) {
      case Opcode::Const:
        return value_text(op.type.elem, op.imm);
      case Opcode::Param:
        return k_.params[op.imm].name;
      case Opcode::SharedNew:
        return fmt::format("shared {}[{}]", dtype_name(op.type.elem), op.imm);
      case Opcode::ArrayNew:
        return fmt::format("array {}[{}]", dtype_name(op.type.elem), op.imm);
      case Opcode::SharedAlias:
      case Opcode::View:
        return operand(0, around);
      case Opcode::Cast:
        if (is_float(op.type.elem) || is_float(k_.type(k_.operand(id, 0)).elem))
          return fmt::format("cast<{}>({})", to_string(op.type), operand(0));
        return write(k_.operand(id, 0), around, depth);  // the number is the same, or the message shows its range
      case Opcode::Load:
        return fmt::format("{}[{}]", operand(0, atom), operand(1));
      case Opcode::LoadOr:
        return fmt::format("{}.load_or({}, {}, {})", operand(0, atom), operand(2), operand(1), operand(3));
      case Opcode::Neg:
        return "-" + operand(0, unary);
      case Opcode::Not:
        return (op.type.is_bool() ? "!" : "~") + operand(0, unary);
      case Opcode::Arg:
        return argument(id);
      case Opcode::Result:
        return fmt::format("the result of the {} in line {}", k_.info_of(k_.operand(id, 0)).text,
                           k_.location(k_.operand(id, 0)).line);
      default:
        break;
    }
    std::string list;
    if (k_.info_of(id).imm == ImmKind::Axis) list += "xyz"[op.imm % 3];
    for (u32 i = 0; i < op.operand_count; ++i) list += (list.empty() ? "" : ", ") + operand(i);
    return fmt::format("{}({})", k_.info_of(id).text, list);
  }

 private:
  // Loop variables by the depth of their loop: i, j, k, ...; what a loop carries by its line.
  std::string argument(OpId id) const {
    const Region& r = k_.region(k_.op(id).region);
    const bool variable = !r.args.empty() && r.args[0] == id;
    if (!variable) return fmt::format("the value carried by the loop in line {}", k_.location(r.parent).line);
    u32 loops = 0;
    for (OpId at = r.parent; at != none;) {
      if (k_.op(at).code == Opcode::For) ++loops;
      at = k_.region(k_.op(at).region).parent;
    }
    return std::string(1, "ijklmnop"[(loops ? loops - 1 : 0) % 8]);
  }

  static constexpr int deepest = 8;
  const Kernel& k_;
};
}  // namespace

std::string expression(const Kernel& k, OpId id) { return Writer(k).write(id, lowest, 0); }

}  // namespace iron::ir
