// The table of algebraic identities, its small term language, matching and building.
#include "passes/rules.h"

#include <cstdlib>
#include <string>

#include "ir/eval.h"
#include "ir/float_bits.h"

namespace iron::passes {

using namespace ir;

u32 class_of(DType t) {
  if (is_signed_int(t)) return SignedInts;
  if (is_unsigned_int(t)) return UnsignedInts;
  switch (t) {
    case DType::index:
      return IndexType;
    case DType::f32:
    case DType::f64:
      return WideFloats;
    case DType::f16:
    case DType::bf16:
      return NarrowFloats;
    case DType::boolean:
      return Bools;
    default:
      return 0;
  }
}

u64 literal_bits(std::string_view literal, DType elem) {
  const std::string text(literal);
  if (is_float(elem)) return float_bits(elem, std::strtod(text.c_str(), nullptr));
  const u64 bits = static_cast<u64>(std::strtoll(text.c_str(), nullptr, 10));
  const u32 width = dtype_bits(elem);
  return width < 64 ? bits & ((u64{1} << width) - 1) : bits;
}

namespace {

bool x_varies(const Kernel& k, const Bindings& b) { return !is_const(k, b.at('x')); }

// 1/c without rounding: c is a power of two whose reciprocal is a number.
bool exact_reciprocal(const Kernel& k, const Bindings& b) {
  const OpId c = b.at('c');
  const DType elem = k.type(c).elem;
  const Type type = Type::value(elem), types[] = {type, type};
  const u64 one = literal_bits("1", elem), value = k.op(c).imm;
  const u64 divide[] = {one, value};
  const u64 reciprocal = eval(Opcode::Div, type, types, divide);
  const u64 back[] = {one, reciprocal};
  if (eval(Opcode::Div, type, types, back) != value) return false;
  // Both ways exact is not enough: only powers of two are exact, and their significands are zero.
  const u32 fraction = elem == DType::f16 ? 10 : elem == DType::bf16 ? 7 : elem == DType::f32 ? 23 : 52;
  const u64 significand = (u64{1} << fraction) - 1;
  const u64 exponents = ((u64{1} << (dtype_bits(elem) - 1)) - 1) ^ significand;
  const auto normal = [&](u64 bits) {
    return (bits & significand) == 0 && (bits & exponents) != 0 && (bits & exponents) != exponents;
  };
  return normal(value) && normal(reciprocal);
}

// Constants go to the right, so that the other rules need one form.
#define COMMUTES(op, types)                                                       \
  {                                                                               \
    op "-constant-right", "(" op " c x)", "(" op " x c)", types, x_varies, {}, {} \
  }
#define TURNS(op, turned)                                                               \
  {                                                                                     \
    op "-constant-right", "(" op " c x)", "(" turned " x c)", Numbers, x_varies, {}, {} \
  }
#define RULE(name, from, to, types)        \
  {                                        \
    name, from, to, types, nullptr, {}, {} \
  }
#define RULE_IF(name, from, to, types, condition) \
  {                                               \
    name, from, to, types, condition, {}, {}      \
  }

std::vector<Rule> table() {
  return {
      COMMUTES("add", Numbers),
      COMMUTES("mul", Numbers),
      COMMUTES("min", Numbers),
      COMMUTES("max", Numbers),
      COMMUTES("and", BitTypes),
      COMMUTES("or", BitTypes),
      COMMUTES("xor", BitTypes),
      COMMUTES("eq", AllTypes),
      COMMUTES("ne", AllTypes),
      TURNS("lt", "gt"),
      TURNS("le", "ge"),
      TURNS("gt", "lt"),
      TURNS("ge", "le"),

      // Only -0 is neutral for a float sum: -0 + 0 is +0.
      RULE("add-zero", "(add x 0)", "x", Integers),
      RULE("add-negative-zero", "(add x -0.0)", "x", Floats),
      RULE("sub-zero", "(sub x 0)", "x", Numbers),
      RULE("sub-self", "(sub x x)", "0", Integers),
      RULE("sub-from-zero", "(sub 0 x)", "(neg x)", Integers),
      RULE("sub-from-negative-zero", "(sub -0.0 x)", "(neg x)", Floats),
      RULE("sub-constant", "(sub x c)", "(add x (neg c))", Integers),
      RULE("add-negated", "(add x (neg y))", "(sub x y)", Numbers),
      RULE("add-negated-left", "(add (neg y) x)", "(sub x y)", Numbers),
      RULE("sub-negated", "(sub x (neg y))", "(add x y)", Numbers),
      RULE("add-chain", "(add (add x c) d)", "(add x (add c d))", Integers),
      // Constant offsets of addresses move outwards, where accesses fold them in.
      RULE("add-chain-right", "(add x (add y c))", "(add (add x y) c)", IndexType),
      RULE("add-chain-left", "(add (add x c) y)", "(add (add x y) c)", IndexType),

      RULE("mul-one", "(mul x 1)", "x", Numbers),
      RULE("mul-zero", "(mul x 0)", "0", Integers),
      RULE("mul-minus-one", "(mul x -1)", "(neg x)", Numbers),
      RULE("mul-chain", "(mul (mul x c) d)", "(mul x (mul c d))", Integers),
      RULE("mul-negated", "(mul (neg x) (neg y))", "(mul x y)", Numbers),
      RULE("div-one", "(div x 1)", "x", Numbers),
      RULE("div-negated", "(div (neg x) (neg y))", "(div x y)", Floats),
      RULE_IF("div-power-of-two", "(div x c)", "(mul x (div 1 c))", Floats, exact_reciprocal),
      RULE("rem-one", "(rem x 1)", "0", Integers),

      RULE("neg-neg", "(neg (neg x))", "x", Numbers),
      RULE("abs-abs", "(abs (abs x))", "(abs x)", Numbers),
      RULE("abs-neg", "(abs (neg x))", "(abs x)", SignedInts | IndexType | Floats),
      RULE("not-not", "(not (not x))", "x", BitTypes),
      RULE("min-self", "(min x x)", "x", Numbers),
      RULE("max-self", "(max x x)", "x", Numbers),
      RULE("min-chain", "(min (min x c) d)", "(min x (min c d))", Numbers),
      RULE("max-chain", "(max (max x c) d)", "(max x (max c d))", Numbers),

      RULE("and-self", "(and x x)", "x", BitTypes),
      RULE("or-self", "(or x x)", "x", BitTypes),
      RULE("xor-self", "(xor x x)", "0", BitTypes),
      RULE("and-zero", "(and x 0)", "0", BitTypes),
      RULE("and-ones", "(and x -1)", "x", BitTypes),
      RULE("or-zero", "(or x 0)", "x", BitTypes),
      RULE("or-ones", "(or x -1)", "-1", BitTypes),
      RULE("xor-zero", "(xor x 0)", "x", BitTypes),
      RULE("xor-ones", "(xor x -1)", "(not x)", BitTypes),
      RULE("and-chain", "(and (and x c) d)", "(and x (and c d))", BitTypes),
      RULE("or-chain", "(or (or x c) d)", "(or x (or c d))", BitTypes),
      RULE("xor-chain", "(xor (xor x c) d)", "(xor x (xor c d))", BitTypes),
      RULE("shl-zero", "(shl x 0)", "x", Integers),
      RULE("shr-zero", "(shr x 0)", "x", Integers),

      // A NaN differs from itself and is not ordered.
      RULE("eq-self", "(eq x x)", "true", BitTypes),
      RULE("ne-self", "(ne x x)", "false", BitTypes),
      RULE("ne-self-float", "(ne x x)", "(is_nan x)", Floats),
      RULE("lt-self", "(lt x x)", "false", Numbers),
      RULE("gt-self", "(gt x x)", "false", Numbers),
      RULE("le-self", "(le x x)", "true", Integers),
      RULE("ge-self", "(ge x x)", "true", Integers),
      RULE("not-eq", "(not (eq x y))", "(ne x y)", AllTypes),
      RULE("not-ne", "(not (ne x y))", "(eq x y)", AllTypes),
      RULE("not-lt", "(not (lt x y))", "(ge x y)", Integers),
      RULE("not-le", "(not (le x y))", "(gt x y)", Integers),
      RULE("not-gt", "(not (gt x y))", "(le x y)", Integers),
      RULE("not-ge", "(not (ge x y))", "(lt x y)", Integers),
      RULE("eq-true", "(eq x true)", "x", Bools),
      RULE("eq-false", "(eq x false)", "(not x)", Bools),
      RULE("ne-false", "(ne x false)", "x", Bools),
      RULE("ne-true", "(ne x true)", "(not x)", Bools),

      RULE("select-same", "(select p x x)", "x", AllTypes),
      RULE("select-not", "(select (not p) x y)", "(select p y x)", AllTypes),
      RULE("select-true", "(select true x y)", "x", AllTypes),
      RULE("select-false", "(select false x y)", "y", AllTypes),
      RULE("select-bool", "(select p true false)", "p", Bools),
      RULE("select-not-bool", "(select p false true)", "(not p)", Bools),

      RULE("fma-one", "(fma x 1 y)", "(add x y)", WideFloats),
      RULE("fma-no-sum", "(fma x y -0.0)", "(mul x y)", WideFloats),
  };
}
#undef RULE
#undef RULE_IF
#undef COMMUTES
#undef TURNS

Term parse_term(std::string_view text, std::size_t& at) {
  while (text[at] == ' ') ++at;
  Term t;
  if (text[at] == '(') {
    t.kind = Term::Apply;
    const auto end = text.find(' ', ++at);
    if (!opcode_from_text(text.substr(at, end - at), t.code))
      throw Error("IR0302", "a rule names an unknown op: " + std::string(text));
    at = end;
    while (text[at] != ')') {
      t.operands.push_back(parse_term(text, at));
      while (text[at] == ' ') ++at;
    }
    ++at;
    return t;
  }
  const auto end = std::min(text.find_first_of(" )", at), text.size());
  const auto word = text.substr(at, end - at);
  at = end;
  if (word.size() == 1 && word[0] >= 'a' && word[0] <= 'z') {
    t.name = word[0];
    t.kind = word[0] == 'p' ? Term::Bool : word[0] == 'c' || word[0] == 'd' ? Term::Constant : Term::Value;
  } else {
    t.kind = Term::Literal;
    t.literal = word;
  }
  return t;
}

bool is_bool_literal(std::string_view l) { return l == "true" || l == "false"; }

bool match_term(const Kernel& k, const Term& t, OpId id, Bindings& bound) {
  switch (t.kind) {
    case Term::Apply:
      if (k.op(id).code != t.code || k.op(id).operand_count != t.operands.size()) return false;
      for (u32 i = 0; i < t.operands.size(); ++i)
        if (!match_term(k, t.operands[i], k.operand(id, i), bound)) return false;
      return true;
    case Term::Literal:
      if (!is_const(k, id)) return false;
      if (is_bool_literal(t.literal)) return k.type(id).is_bool() && k.op(id).imm == (t.literal == "true" ? 1u : 0u);
      return k.op(id).imm == literal_bits(t.literal, k.type(id).elem);
    case Term::Constant:
      if (!is_const(k, id)) return false;
      break;
    case Term::Bool:
      if (!k.type(id).is_bool()) return false;
      break;
    case Term::Value:
      break;
  }
  const auto [it, fresh] = bound.emplace(t.name, id);
  if (fresh) return true;
  if (it->second == id) return true;
  return is_const(k, id) && is_const(k, it->second) && k.type(id) == k.type(it->second) &&
         k.op(id).imm == k.op(it->second).imm;
}
}  // namespace

std::span<const Rule> rules() {
  static const std::vector<Rule> all = [] {
    auto rows = table();
    for (auto& r : rows) {
      std::size_t at = 0;
      r.from = parse_term(r.pattern, at);
      at = 0;
      r.to = parse_term(r.replacement, at);
    }
    return rows;
  }();
  return all;
}

bool match(const Kernel& k, const Rule& rule, OpId id, Bindings& bound) {
  if (!match_term(k, rule.from, id, bound)) return false;
  const auto x = bound.find('x');
  const Type type = x == bound.end() ? k.type(id) : k.type(x->second);
  if (!(class_of(type.elem) & rule.types)) return false;
  return !rule.condition || rule.condition(k, bound);
}

OpId build_term(Builder& build, const Term& t, const Bindings& bound, Type type) {
  Kernel& k = build.kernel();
  switch (t.kind) {
    case Term::Value:
    case Term::Bool:
    case Term::Constant:
      return bound.at(t.name);
    case Term::Literal:
      if (is_bool_literal(t.literal)) return build.constant(type.with_elem(DType::boolean), t.literal == "true");
      return build.constant(type, literal_bits(t.literal, type.elem));
    case Term::Apply:
      break;
  }
  std::vector<OpId> operands;
  std::vector<Type> types;
  std::vector<u64> bits;
  for (const auto& o : t.operands) {
    const OpId v = build_term(build, o, bound, type);
    if (v == none) return none;
    operands.push_back(v);
    types.push_back(Type::value(k.type(v).elem));
    if (is_const(k, v)) bits.push_back(k.op(v).imm);
  }
  const auto [made, problem] = infer(k, t.code, operands, 0, none_type);
  if (!problem.empty()) return none;
  if (bits.size() == operands.size()) return build.constant(made, eval(t.code, Type::value(made.elem), types, bits));
  return build.op(t.code, operands);
}

}  // namespace iron::passes
