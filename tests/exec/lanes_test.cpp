// Every pure op on every type it takes: the interpreter's lane loops give eval's bits.
#include <random>

#include "helpers.h"
#include "ir/builder.h"
#include "ir/eval.h"

namespace iron::exec {
namespace {
using namespace ir;

constexpr DType all_types[] = {DType::boolean, DType::i8,  DType::u8,  DType::i16,  DType::u16,
                               DType::i32,     DType::u32, DType::i64, DType::u64,  DType::f16,
                               DType::bf16,    DType::f32, DType::f64, DType::index};
constexpr u32 samples = 512;

/// Random bits, small numbers, and the edges of integers and floats.
std::vector<u64> values(DType t, u32 seed) {
  std::mt19937_64 random(seed * 131 + static_cast<u32>(t));
  const u32 n = dtype_bits(t);
  const u64 mask = n == 64 ? ~u64{0} : (u64{1} << n) - 1;
  const u64 edges[] = {0, 1, 2, mask, mask >> 1, (mask >> 1) + 1, (mask >> 1) + 2, n - 1, n, 3};
  std::vector<u64> v(samples);
  for (auto& x : v) {
    const u64 pick = random() % 4;
    x = pick == 0 ? edges[random() % 10] : pick == 1 ? random() % 100 : random();
    if (pick == 3 && is_float(t)) {
      const Type from = Type::value(DType::f64);
      const u64 bits = std::bit_cast<u64>(static_cast<f64>(static_cast<i64>(random() % 4000) - 2000) / 8.0);
      x = eval(Opcode::Cast, Type::value(t), {&from, 1}, {&bits, 1});
    }
    x &= mask;
  }
  return v;
}

DType stored(DType t) { return t == DType::index ? DType::i64 : t; }

/// Runs one op on buffers of its operands and compares each result with eval.
void check(Opcode code, Type result, const std::vector<Type>& operands, u64 imm) {
  Kernel k;
  k.name = "op", k.mode = Mode::Threadgroup;
  const u8 lanes = result.lanes;
  std::vector<std::vector<u8>> memory;
  std::vector<std::vector<u64>> bits;
  std::vector<LaunchArg> args;
  for (u32 i = 0; i < operands.size(); ++i) {
    const DType t = operands[i].elem;
    k.add_param("a" + std::to_string(i), ParamKind::in, stored(t));
    bits.push_back(values(t, i + 1));
    std::vector<u8> bytes(samples * dtype_size(t));
    for (u32 n = 0; n < samples; ++n) std::memcpy(&bytes[n * dtype_size(t)], &bits[i][n], dtype_size(t));
    memory.push_back(std::move(bytes));
  }
  for (auto& m : memory) args.push_back(buffer(m));
  k.add_param("y", ParamKind::out, stored(result.elem));
  std::vector<u8> y(samples * dtype_size(result.elem));
  args.push_back(buffer(y));
  Builder b(k);
  OpId at = b.op(Opcode::GridThreadId, {});
  if (lanes > 1) at = b.op(Opcode::Mul, {at, b.const_index(lanes)});
  std::vector<OpId> in;
  for (u32 i = 0; i < operands.size(); ++i) {
    const OpId v = b.op(Opcode::Load, Type::value(stored(operands[i].elem), lanes), {k.params[i].op, at});
    in.push_back(operands[i].elem == DType::index ? b.cast(Type::value(DType::index, lanes), v) : v);
  }
  OpId r = b.op(code, result, in, imm);
  if (result.elem == DType::index) r = b.cast(Type::value(DType::i64, lanes), r);
  b.op(Opcode::Store, {k.params.back().op, at, r});
  const auto got = run(k, geometry(samples / 64 / lanes, 64), args);
  for (const auto& d : got.findings) ASSERT_EQ(d.code, code::nan_bits) << d.render();
  const u32 size = dtype_size(result.elem);
  std::vector<Type> scalars;
  for (const Type t : operands) scalars.push_back(Type::value(t.elem));
  for (u32 n = 0; n < samples; ++n) {
    std::vector<u64> v;
    for (const auto& o : bits) v.push_back(o[n]);
    u64 have = 0;
    std::memcpy(&have, &y[n * size], size);
    ASSERT_EQ(have, eval(code, Type::value(result.elem), scalars, v, imm))
        << info(code).text << " " << to_string(result) << " from " << to_string(operands[0]) << " at " << n << std::hex
        << ": " << v[0] << " " << (v.size() > 1 ? v[1] : 0);
  }
}

TEST(Lanes, EveryOpOnEveryTypeEqualsEval) {
  int checked = 0;
  for (int c = 0; c < opcode_count; ++c) {
    const auto code = static_cast<Opcode>(c);
    if (!can_eval(code)) continue;
    for (const DType t : all_types)
      for (const u8 lanes : {u8{1}, u8{4}}) {
        std::vector<Type> operands(static_cast<std::size_t>(info(code).operands), Type::value(t, lanes));
        if (code == Opcode::Ldexp) operands[1] = Type::value(DType::i32, lanes);
        if (code == Opcode::Select) operands[0] = Type::value(DType::boolean, lanes);
        const u64 imm = code == Opcode::Dot4I8 ? pack(SignsImm{true, false}) : 0;
        // Casts and bitcasts go to every type that infer admits.
        const bool converts = code == Opcode::Cast || code == Opcode::Bitcast;
        for (const DType to : all_types) {
          if (!converts && to != t) continue;
          Kernel k;
          std::vector<OpId> o;
          for (const Type operand : operands) {
            o.push_back(k.create(Opcode::Const, operand, {}, 0));
            k.append(k.body(), o.back());
          }
          const auto [type, problem] = infer(k, code, o, imm, converts ? Type::value(to, lanes) : none_type);
          if (!problem.empty()) continue;
          ASSERT_NO_FATAL_FAILURE(check(code, type, operands, imm));
          ++checked;
        }
      }
  }
  EXPECT_GT(checked, 1200);  // ops x types x {scalar, vector}
}

}  // namespace
}  // namespace iron::exec
