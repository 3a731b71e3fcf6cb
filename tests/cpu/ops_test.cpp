// Every pure op on every element type: machine code against the interpreter, as packets and as scalars.
#include "differential.h"
#include "ir/builder.h"

namespace iron::cpu::test {
namespace {
using namespace ir;

constexpr DType all_types[] = {DType::boolean, DType::i8,  DType::u8,  DType::i16,  DType::u16,
                               DType::i32,     DType::u32, DType::i64, DType::u64,  DType::f16,
                               DType::bf16,    DType::f32, DType::f64, DType::index};

DType storage(DType t) { return t == DType::index ? DType::i64 : t; }

/// y[i] = op(a[i], b[i], ...), or nothing if the op does not take these types.
std::optional<Kernel> op_kernel(Opcode code, std::span<const DType> operands, DType result, u64 imm, bool uniform) {
  Kernel k;
  k.name = "op", k.mode = Mode::Threadgroup;
  std::vector<OpId> params;
  for (std::size_t i = 0; i < operands.size(); ++i)
    params.push_back(k.add_param(fmt::format("a{}", i), ParamKind::in, storage(operands[i])));
  Builder b(k);
  try {
    // A trial in a kernel of its own tells the result type.
    Kernel trial;
    Builder tb(trial);
    std::vector<OpId> v;
    for (const DType t : operands) v.push_back(tb.constant(Type::value(t), 1));
    const OpId r = result == DType::none ? tb.op(code, v, imm) : tb.op(code, Type::value(result), v, imm);
    result = trial.type(r).elem;
  } catch (const Error&) {
    return std::nullopt;
  }
  const OpId y = k.add_param("y", ParamKind::out, storage(result));
  b.set_point(k.body());
  const OpId i = uniform ? b.op(Opcode::GroupId, {}, 0) : b.op(Opcode::GridThreadId, {});
  std::vector<OpId> v;
  for (std::size_t n = 0; n < operands.size(); ++n) {
    OpId x = b.op(Opcode::Load, {params[n], i});
    if (operands[n] == DType::index) x = b.cast(index_type, x);
    v.push_back(x);
  }
  OpId r = b.op(code, Type::value(result), v, imm);
  if (result == DType::index) r = b.cast(Type::value(DType::i64), r);
  b.op(Opcode::Store, {y, i, r});
  return k;
}

void check(Opcode code, std::span<const DType> operands, DType result, u64 imm, int& count) {
  for (const bool uniform : {false, true}) {
    const auto k = op_kernel(code, operands, result, imm, uniform);
    if (!k) return;
    ++count;
    const std::size_t n = uniform ? 300 : 1280;
    std::vector<Argument> args;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      // All pairs of the special numbers, then random ones.
      auto special = interesting(operands[i] == DType::index ? DType::i64 : operands[i], 34, 1),
           values = interesting(storage(operands[i]), n, i + 7);
      for (std::size_t at = 0; at < n; ++at)
        if (at % 3 != 2 || uniform)
          values[at] = special[i == 0   ? at % special.size()
                               : i == 1 ? at / special.size() % special.size()
                                        : (at * 7) % special.size()];
      // An index is a mathematical integer: keep it from overflowing.
      if (operands[i] == DType::index)
        for (auto& x : values) x = static_cast<u64>(static_cast<i64>(static_cast<i32>(static_cast<u32>(x))));
      args.push_back(packed(storage(operands[i]), values));
    }
    const DType out = k->params.back().elem;
    args.push_back({std::vector<u8>(n * dtype_size(out), 0x77), 0});
    SCOPED_TRACE(fmt::format("{} on {}{}", info(code).text, dtype_name(operands.back()), uniform ? ", uniform" : ""));
    compare(*k, uniform ? exec::geometry(static_cast<u32>(n), 1) : exec::geometry(static_cast<u32>(n / 64), 64), args);
    if (::testing::Test::HasFailure()) return;
  }
}

class Ops : public ::testing::TestWithParam<int> {};
TEST_P(Ops, EqualTheInterpreter) {
  const auto code = static_cast<Opcode>(GetParam());
  const auto& i = info(code);
  int count = 0;
  for (const DType t : all_types) {
    std::vector<DType> operands(static_cast<std::size_t>(i.operands), t);
    if (code == Opcode::Select) operands[0] = DType::boolean;
    if (code == Opcode::Ldexp) operands[1] = DType::i32;
    if (code == Opcode::Cast || code == Opcode::Bitcast) {
      for (const DType to : all_types) {
        check(code, operands, to, 0, count);
        if (HasFailure()) return;
      }
      continue;
    }
    if (code == Opcode::Dot4I8) {
      if (dtype_bits(t) != 32) continue;
      for (const bool a : {false, true})
        for (const bool b : {false, true}) check(code, operands, DType::none, pack(SignsImm{a, b}), count);
    } else {
      check(code, operands, DType::none, 0, count);
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(count, 0) << "no element type was tried";
}
std::vector<int> pure_ops() {
  std::vector<int> v;
  for (int i = static_cast<int>(Opcode::Add); i <= static_cast<int>(Opcode::DecodeE8M0); ++i)
    if (!info(static_cast<Opcode>(i)).has(Math | Fast)) v.push_back(i);
  return v;
}
INSTANTIATE_TEST_SUITE_P(Table, Ops, ::testing::ValuesIn(pure_ops()),
                         [](const auto& p) { return std::string(ir::info(static_cast<Opcode>(p.param)).name); });

TEST(Refusal, TranscendentalOpsNeedTheirExpansion) {
  const DType f[] = {DType::f32};
  const auto k = op_kernel(Opcode::Exp, f, DType::none, 0, false);
  ASSERT_TRUE(k);
  try {
    compile(*k, {32, 1, 1}, named_target("sse2"), {.use_disk = false});
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "CPU02");
    EXPECT_NE(std::string(e.what()).find("exp"), std::string::npos);
  }
}

// Every target makes code for every op, whether or not it runs here, and needs no library for it.
class CompileOnly : public ::testing::TestWithParam<const char*> {};
TEST_P(CompileOnly, MakesCodeForEveryOp) {
  for (const int op : pure_ops()) {
    const auto code = static_cast<Opcode>(op);
    for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::i32, DType::u8, DType::f64, DType::i64}) {
      if (code == Opcode::Cast || code == Opcode::Bitcast) continue;
      std::vector<DType> operands(static_cast<std::size_t>(info(code).operands), t);
      if (code == Opcode::Select) operands[0] = DType::boolean;
      if (code == Opcode::Ldexp) operands[1] = DType::i32;
      if (code == Opcode::Dot4I8 && dtype_bits(t) != 32) continue;
      const auto k = op_kernel(code, operands, DType::none, 0, false);
      if (!k) continue;
      EXPECT_NO_THROW(EXPECT_FALSE(compile_object(*k, {64, 1, 1}, named_target(GetParam())).empty()))
          << info(code).text << " " << dtype_name(t);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Targets, CompileOnly, ::testing::Values("avx512", "avx512bf16", "avx2vnni"),
                         [](const auto& p) { return std::string(p.param); });

// Bytes that are known to have seven bits take the shorter way.
TEST(DotBytes, OfMaskedBytes) {
  for (const u64 mask : {0x7f7f7f7full, 0x0f0f0f0full, 0xff7f7f7full}) {
    Kernel k;
    const OpId a = k.add_param("a", ParamKind::in, DType::i32), b = k.add_param("b", ParamKind::in, DType::i32),
               y = k.add_param("y", ParamKind::out, DType::i32);
    Builder at(k);
    at.set_point(k.body());
    const OpId i = at.op(Opcode::GridThreadId, {});
    const OpId x = at.op(Opcode::And, {at.op(Opcode::Load, {a, i}), at.constant(Type::value(DType::i32), mask)});
    const OpId w = at.op(Opcode::Load, {b, i}), zero = at.constant(Type::value(DType::i32), 0);
    at.op(Opcode::Store, {y, i, at.op(Opcode::Dot4I8, {x, w, zero}, pack(SignsImm{false, true}))});
    auto special = interesting(DType::i32, 64, 3), values = special;
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = n % 2 ? 0x80808080 : 0x7f7f7f7f;
    special[0] = special[1] = 0xffffffff;
    const u32 n = static_cast<u32>(special.size());
    compare(k, exec::geometry(1, n), {packed(DType::i32, special), packed(DType::i32, values), zeros<i32>(n)});
  }
}

// Copies that threads start are stores here, commits and waits nothing.
TEST(Copies, AreStores) {
  std::vector<f32> x(400);
  for (u32 i = 0; i < 400; ++i) x[i] = static_cast<f32>(i) + 0.5f;
  compare(R"(kernel @k(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {
  %s = shared.new<512> : shared f32
  %t = thread_id : index
  %j = mul %t, 4 : index
  %e = cast %n : index
  %z = vec.make 0.0:f32, 0.0:f32, 0.0:f32, 0.0:f32 : f32x4
  %p = lt %j, %e : bool
  %v = load.or<align 16> %x[%j], %p, %z : f32x4
  copy.async<align 16> %s[%j], %v
  copy.commit
  %m = add %j, 256 : index
  %q = lt %m, %e : bool
  %w = load.or<align 16> %x[%m], %q, %z : f32x4
  copy.async<align 16> %s[%m], %w
  copy.commit
  copy.wait<1>
  barrier
  %o = sub 63, %t : index
  %a = load %s[%o] : f32
  store %y[%t], %a
  copy.wait<0>
  barrier
  %b = add %o, 360 : index
  %c = load %s[%b] : f32
  %d = add %t, 64 : index
  store %y[%d], %c
}
)",
          exec::geometry(1, 64), {buffer(x), zeros<f32>(128), scalar(400u)});
}

}  // namespace
}  // namespace iron::cpu::test
