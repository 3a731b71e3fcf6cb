// Every algebraic rule, for every type it claims, against the evaluator on edge values and random ones.
#include "passes/rules.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/eval.h"

namespace iron::passes {
namespace {
using namespace ir;

constexpr DType all_types[] = {DType::boolean, DType::i8,  DType::u8,  DType::i16,  DType::u16,
                               DType::i32,     DType::u32, DType::i64, DType::u64,  DType::f16,
                               DType::bf16,    DType::f32, DType::f64, DType::index};

u64 mask(DType t) { return dtype_bits(t) == 64 ? ~u64{0} : (u64{1} << dtype_bits(t)) - 1; }

// Zeros of both signs, ones, extremes, infinities, NaNs quiet and signalling, denormals, powers of two, and anything.
u64 sample(DType t, std::mt19937_64& random) {
  if (is_float(t)) {
    static constexpr const char* values[] = {"0", "-0.0", "1",   "-1",   "2",     "0.5",  "-8",
                                             "3", "1e-3", "inf", "-inf", "65504", "1e-7", "0.125"};
    if (const u64 pick = random() % 28; pick < 14) return literal_bits(values[pick], t);
    const u64 infinity = literal_bits("inf", t);
    if (const u64 pick = random() % 8; pick == 0)
      return infinity | 1;
    else if (pick == 1)
      return literal_bits("nan", t);
    else if (pick == 2)
      return 1 + random() % 3;  // denormals
    return random() & mask(t);
  }
  switch (random() % 4) {
    case 0:
      return random() % 3 & mask(t);
    case 1:
      return (0 - random() % 3) & mask(t);
    case 2:
      return (u64{1} << (random() % dtype_bits(t))) & mask(t);
    default:
      return random() & mask(t);
  }
}

bool is_nan(DType t, u64 bits) {
  if (!is_float(t)) return false;
  const Type type = Type::value(t);
  return eval(Opcode::IsNan, bool_type, {&type, 1}, {&bits, 1}) != 0;
}

u64 value(const Kernel& k, OpId id, const std::map<OpId, u64>& given) {
  if (const auto it = given.find(id); it != given.end()) return it->second;
  if (is_const(k, id)) return k.op(id).imm;
  std::vector<Type> types;
  std::vector<u64> bits;
  for (const OpId v : k.operands(id)) types.push_back(k.type(v)), bits.push_back(value(k, v, given));
  return eval(k.op(id).code, k.type(id), types, bits, k.op(id).imm);
}

TEST(AlgebraicRules, KeepEveryValue) {
  std::mt19937_64 random(7);
  for (const Rule& rule : rules()) {
    for (const DType t : all_types) {
      if (!(class_of(t) & rule.types)) continue;
      int matched = 0;
      for (int turn = 0; turn < 60; ++turn) {
        Kernel k;
        Bindings bound;
        for (const char* name : {"x", "y", "z"}) bound[name[0]] = k.add_param(name, ParamKind::scalar, t);
        bound['p'] = k.add_param("p", ParamKind::scalar, DType::boolean);
        Builder build(k);
        bound['c'] = build.constant(Type::value(t), sample(t, random));
        bound['d'] = build.constant(Type::value(t), sample(t, random));
        const OpId before = build_term(build, rule.from, bound, Type::value(t));
        ASSERT_NE(before, none) << rule.name << " does not fit " << dtype_name(t);
        Bindings found;
        if (!match(k, rule, before, found)) continue;
        ++matched;
        const OpId after = build_term(build, rule.to, found, Type::value(t));
        ASSERT_NE(after, none) << rule.name;
        ASSERT_EQ(k.type(after), k.type(before)) << rule.name;
        for (int i = 0; i < 40; ++i) {
          const std::map<OpId, u64> given{{bound['x'], sample(t, random)},
                                          {bound['y'], sample(t, random)},
                                          {bound['z'], sample(t, random)},
                                          {bound['p'], random() & 1}};
          const u64 a = value(k, before, given), b = value(k, after, given);
          const DType r = k.type(before).elem;
          ASSERT_TRUE(a == b || (is_nan(r, a) && is_nan(r, b)))
              << rule.name << " on " << dtype_name(t) << ": " << std::hex << a << " became " << b
              << ", x = " << given.at(bound['x']) << ", y = " << given.at(bound['y'])
              << ", c = " << k.op(bound['c']).imm << ", d = " << k.op(bound['d']).imm;
        }
      }
      EXPECT_GT(matched, 0) << rule.name << " never matches on " << dtype_name(t);
    }
  }
}

TEST(AlgebraicRules, HaveNamesOfTheirOwn) {
  std::map<std::string_view, int> names;
  for (const Rule& rule : rules()) EXPECT_EQ(++names[rule.name], 1) << rule.name;
  EXPECT_GT(names.size(), 60u);
}

}  // namespace
}  // namespace iron::passes
