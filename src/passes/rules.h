// Algebraic identities as rows of text: a pattern, what it becomes, for which types, under which condition.
#pragma once

#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "ir/builder.h"

namespace iron::passes {

/// Kinds of element types for which a rule holds.
enum TypeClass : u32 {
  SignedInts = 1u << 0,
  UnsignedInts = 1u << 1,
  IndexType = 1u << 2,
  WideFloats = 1u << 3,    ///< f32, f64
  NarrowFloats = 1u << 4,  ///< f16, bf16
  Bools = 1u << 5,
  Machine = SignedInts | UnsignedInts,
  Integers = Machine | IndexType,
  Floats = WideFloats | NarrowFloats,
  Numbers = Integers | Floats,
  BitTypes = Integers | Bools,
  AllTypes = Numbers | Bools,
};
u32 class_of(DType elem);

/// A term: x y z are any values of the rule's type, p any bool, c d constants of the rule's type; numbers are literals.
struct Term {
  enum Kind : u8 { Value, Bool, Constant, Literal, Apply } kind = Value;
  char name = 0;
  ir::Opcode code = ir::Opcode::Const;
  std::string_view literal;
  std::vector<Term> operands;
};

/// What the names of a rule stand for in a match.
using Bindings = std::map<char, ir::OpId>;
using Condition = bool (*)(const ir::Kernel&, const Bindings&);

struct Rule {
  std::string_view name;
  std::string_view pattern, replacement;
  u32 types;            ///< TypeClass bits
  Condition condition;  ///< nullptr: always
  Term from, to;        ///< parsed
};

/// Every rule; each keeps the value for NaN (as one class), signed zeros and wrap.
std::span<const Rule> rules();

/// Matches a rule at an op; false if it does not fit.
bool match(const ir::Kernel& k, const Rule& rule, ir::OpId id, Bindings& bound);
/// Builds a term at the builder's point: literals and constants take `type`, bools `bool_type` of the same lanes. Terms
/// over constants alone are evaluated. ir::none if the types do not fit.
ir::OpId build_term(ir::Builder& build, const Term& term, const Bindings& bound, ir::Type type);
/// The bits of a literal as an element.
u64 literal_bits(std::string_view literal, DType elem);

}  // namespace iron::passes
