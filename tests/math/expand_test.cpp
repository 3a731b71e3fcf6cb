// What expand_math leaves behind: base ops only, the same bits in ir::eval and in the block programs, narrow floats
// rounded once, vectors element by element, f64 refused.
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "block_eval.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "one_op.h"
#include "truth.h"

namespace iron::test {
namespace {

using ir::Opcode;
using ir::OpId;

// Op by op through ir::eval, branches included; vectors element by element. Loads take `inputs` in order.
class Stepper {
 public:
  explicit Stepper(const ir::Kernel& k) : k_(k) {}

  std::vector<u64> run(const std::vector<std::vector<u64>>& inputs) {
    inputs_ = &inputs, next_input_ = 0;
    region(k_.body());
    return output_;
  }

 private:
  void region(ir::RegionId r) {
    for (const OpId id : k_.region(r).ops) step(id);
  }

  void step(OpId id) {
    const ir::Op& op = k_.op(id);
    const u8 lanes = op.type.is_value() ? op.type.lanes : 1;
    const auto arg = [&](u32 i) -> const std::vector<u64>& { return values_[k_.operand(id, i)]; };
    switch (op.code) {
      case Opcode::Param:
      case Opcode::GridThreadId:
      case Opcode::Yield:
      case Opcode::Result:
        return;
      case Opcode::Load:
        values_[id] = (*inputs_)[next_input_++];
        return;
      case Opcode::Store:
        output_ = arg(2);
        return;
      case Opcode::Const:
        values_[id].assign(lanes, op.imm);
        return;
      case Opcode::VecExtract:
        values_[id] = {arg(0)[op.imm]};
        return;
      case Opcode::VecMake:
        values_[id].clear();
        for (u32 i = 0; i < op.operand_count; ++i) values_[id].push_back(arg(i)[0]);
        return;
      case Opcode::If: {
        const ir::RegionId taken = k_.region_of(id, arg(0)[0] ? 0 : 1);
        region(taken);
        const auto results = k_.results(id);
        for (u32 i = 0; i < results.size(); ++i) values_[results[i]] = values_[k_.operand(k_.terminator(taken), i)];
        return;
      }
      default:
        break;
    }
    std::vector<u64> out(lanes);
    for (u8 lane = 0; lane < lanes; ++lane) {
      std::vector<ir::Type> types;
      std::vector<u64> bits;
      for (u32 i = 0; i < op.operand_count; ++i) {
        types.push_back(ir::Type::value(k_.type(k_.operand(id, i)).elem));
        const auto& v = arg(i);
        bits.push_back(v.size() == 1 ? v[0] : v[lane]);
        // The reference interpreter reports a NaN that meets a bitcast, since its bits differ between machines.
        if (op.code == Opcode::Bitcast && types[0].elem == DType::f32) {
          EXPECT_FALSE(std::isnan(std::bit_cast<f32>(static_cast<u32>(bits[0])))) << ir::print_op(k_, id);
        }
      }
      out[lane] = ir::eval(op.code, ir::Type::value(op.type.elem), types, bits, op.imm);
    }
    values_[id] = std::move(out);
  }

  const ir::Kernel& k_;
  std::map<OpId, std::vector<u64>> values_;
  const std::vector<std::vector<u64>>* inputs_ = nullptr;
  std::size_t next_input_ = 0;
  std::vector<u64> output_;
};

std::vector<Opcode> math_ops(int most_operands) {
  std::vector<Opcode> out;
  for (int n = 0; n < ir::opcode_count; ++n)
    if (const auto code = static_cast<Opcode>(n);
        ir::info(code).has(ir::Math) && ir::info(code).operands <= most_operands)
      out.push_back(code);
  return out;
}
std::string op_name(const ::testing::TestParamInfo<Opcode>& p) { return std::string(ir::info(p.param).text); }

// Bits of f32 that meet every branch: specials, then magnitudes of all sizes, then everyday numbers.
std::vector<u32> sample(u32 seed, std::size_t count) {
  std::vector<u32> out;
  for (const f32 v : {0.0f, 0x1p-149f, 0x1p-126f, 0.5f, 1.0f, 2.0f, 3.0f, 0x1p17f, 0x1p23f, 0x1p127f,
                      std::numeric_limits<f32>::infinity(), std::numeric_limits<f32>::quiet_NaN()})
    out.push_back(std::bit_cast<u32>(v)), out.push_back(std::bit_cast<u32>(-v));
  std::mt19937 random(seed);
  std::uniform_real_distribution<f32> everyday(-8, 8);
  while (out.size() < count) {
    out.push_back(static_cast<u32>(random()));
    out.push_back(std::bit_cast<u32>(everyday(random)));
  }
  out.resize(count);
  return out;
}

bool same(u32 a, u32 b) { return a == b || (std::isnan(std::bit_cast<f32>(a)) && std::isnan(std::bit_cast<f32>(b))); }

class Expansion : public ::testing::TestWithParam<Opcode> {};

TEST_P(Expansion, HoldsBaseOpsOnlyAndKeepsTheText) {
  ir::Kernel k = one_op(GetParam());
  EXPECT_EQ(passes::expand_math(k), 1);
  EXPECT_TRUE(ir::verify_structure(k, "expand_math").empty());
  k.walk([&](OpId id) { EXPECT_FALSE(k.info_of(id).has(ir::Math | ir::Fast)) << ir::print_op(k, id); });
  const auto text = ir::print(ir::canonical(k));
  EXPECT_EQ(ir::print(ir::parse(text)), text);
}

TEST_P(Expansion, GivesTheSameBitsInBothEvaluators) {
  ir::Kernel k = one_op(GetParam());
  passes::expand_math(k);
  BlockProgram block(k);
  Stepper steps(k);
  const auto x = sample(1, block_size);
  auto y = sample(2, block_size);
  std::shuffle(y.begin(), y.end(), std::mt19937(3));
  const u32* inputs[] = {x.data(), y.data()};
  std::array<u32, block_size> out{};
  block.run(inputs, out.data());
  for (std::size_t i = 0; i < block_size; ++i) {
    const auto expected = static_cast<u32>(steps.run({{x[i]}, {y[i]}})[0]);
    EXPECT_TRUE(same(out[i], expected)) << std::hex << x[i] << " " << y[i] << ": " << out[i] << " and " << expected;
  }
}

TEST_P(Expansion, TakesVectors) {
  const Opcode code = GetParam();
  ir::Kernel scalar = one_op(code);
  passes::expand_math(scalar);
  ir::Kernel k;
  k.name = "vector";
  std::vector<OpId> memory, values;
  for (int n = 0; n < ir::info(code).operands; ++n)
    memory.push_back(k.add_param("x" + std::to_string(n), ir::ParamKind::in, DType::f32));
  const OpId out = k.add_param("y", ir::ParamKind::out, DType::f32);
  ir::Builder b(k);
  const OpId at = b.op(Opcode::GridThreadId, {});
  for (const OpId m : memory) values.push_back(b.op(Opcode::Load, ir::Type::value(DType::f32, 4), {m, at}));
  b.op(Opcode::Store, {out, at, b.op(code, std::span<const OpId>(values))});
  ASSERT_EQ(passes::expand_math(k), 1);
  for (const auto& d : ir::verify_structure(k, "expand_math")) ADD_FAILURE() << d.message;
  Stepper vector(k), single(scalar);
  const auto x = sample(4, 64), y = sample(5, 64);
  for (std::size_t i = 0; i < 64; i += 4) {
    std::vector<std::vector<u64>> inputs(2);
    for (std::size_t lane = 0; lane < 4; ++lane) inputs[0].push_back(x[i + lane]), inputs[1].push_back(y[i + lane]);
    const auto got = vector.run(inputs);
    ASSERT_EQ(got.size(), 4u);
    for (std::size_t lane = 0; lane < 4; ++lane)
      EXPECT_TRUE(same(static_cast<u32>(got[lane]), static_cast<u32>(single.run({{x[i + lane]}, {y[i + lane]}})[0])));
  }
}

// All 65,536 inputs: the f32 value is within 2 ULP of f32, so the narrow one is the truth rounded, or its neighbour
// where the truth is all but halfway between two.
class NarrowFloats : public ::testing::TestWithParam<Opcode> {};
TEST_P(NarrowFloats, RoundOnce) {
  const Opcode code = GetParam();
  for (const DType elem : {DType::f16, DType::bf16}) {
    ir::Kernel k = one_op(code, elem);
    ASSERT_EQ(passes::expand_math(k), 1);
    BlockProgram program(k);
    const auto value = [&](u32 bits) {
      return elem == DType::f16 ? f16_bits_to_f32(static_cast<u16>(bits)) : std::bit_cast<f32>(bits << 16);
    };
    int off_by_one = 0;
    std::array<u32, block_size> in{}, out{};
    const u32* inputs[] = {in.data()};
    for (u32 first = 0; first < 0x10000; first += block_size) {
      for (u32 i = 0; i < block_size; ++i) in[i] = first + i;
      program.run(inputs, out.data());
      for (u32 i = 0; i < block_size; ++i) {
        const f64 truth = iron::math::truth(code, value(in[i]), 0);
        const u32 expected = elem == DType::f16 ? f64_to_f16_bits(truth) : f64_to_bf16_bits(truth);
        if (std::isnan(truth)) {
          EXPECT_TRUE(std::isnan(value(out[i]))) << value(in[i]);
        } else if (out[i] != expected) {
          ++off_by_one;
          EXPECT_LE(out[i] > expected ? out[i] - expected : expected - out[i], 1u) << value(in[i]);
        }
      }
    }
    EXPECT_LE(off_by_one, 32) << dtype_name(elem);
  }
}

TEST_P(Expansion, RefusesDoubles) {
  ir::Kernel k = one_op(GetParam(), DType::f64);
  try {
    passes::expand_math(k);
    FAIL() << "f64 was expanded";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "MATH0001");
    EXPECT_NE(std::string(e.what()).find(ir::info(GetParam()).text), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Math, Expansion, ::testing::ValuesIn(math_ops(2)), op_name);
INSTANTIATE_TEST_SUITE_P(Math, NarrowFloats, ::testing::ValuesIn(math_ops(1)), op_name);

TEST(ExpandMath, ChainsKeepTheirOrder) {
  ir::Kernel k = ir::parse(
      "kernel @k(%x: in f32, %y: out f32) elementwise exact {\n  %0 = grid_thread_id : index\n  %1 = load %x[%0] : "
      "f32\n"
      "  %2 = sin %1 : f32\n  %3 = exp %2 : f32\n  %4 = atan2 %3, %2 : f32\n  store %y[%0], %4\n}\n");
  EXPECT_EQ(passes::expand_math(k), 3);
  for (const auto& d : ir::verify_structure(k, "expand_math")) ADD_FAILURE() << d.message;
  BlockProgram program(k);
  std::array<u32, block_size> in{}, out{};
  in.fill(std::bit_cast<u32>(1.25f));
  const u32* inputs[] = {in.data()};
  program.run(inputs, out.data());
  EXPECT_NEAR(std::bit_cast<f32>(out[0]), std::atan2(std::exp(std::sin(1.25)), std::sin(1.25)), 1e-6);
}

TEST(ExpandFast, TakesTheBaseOpUnlessTheDeviceHasTheFastOne) {
  const std::string_view text =
      "kernel @k(%x: in f32, %y: out f32) elementwise exact {\n  %0 = grid_thread_id : index\n  %1 = load %x[%0] : "
      "f32\n"
      "  %2 = fast_tanh %1 : f32\n  %3 = fast_rsqrt %2 : f32\n  %4 = fast_exp %3 : f32\n  store %y[%0], %4\n}\n";
  ir::Kernel all = ir::parse(text), some = ir::parse(text);
  EXPECT_EQ(passes::expand_fast(all), 3);
  EXPECT_NE(ir::print(all).find("= tanh %"), std::string::npos);
  EXPECT_NE(ir::print(all).find("= rsqrt %"), std::string::npos);
  EXPECT_EQ(ir::print(all).find("fast_"), std::string::npos);
  EXPECT_TRUE(ir::verify_structure(all, "expand_fast").empty());
  EXPECT_EQ(passes::expand_fast(some, {Opcode::FastTanh, Opcode::FastExp}), 1);
  EXPECT_NE(ir::print(some).find("fast_tanh"), std::string::npos);
  EXPECT_NE(ir::print(some).find("fast_exp"), std::string::npos);
}

struct FastForm {
  Opcode code;
  f64 relative, absolute;  ///< allowed: relative * |truth| + absolute
};
class FastForms : public ::testing::TestWithParam<FastForm> {};
TEST_P(FastForms, StayWithinTheirStatedError) {
  const auto [code, relative, absolute] = GetParam();
  ir::Kernel k = one_op(code);
  ASSERT_EQ(passes::expand_fast(k), 1);
  BlockProgram program(k);
  Stepper steps(k);
  std::array<u32, block_size> in{}, out{};
  const u32* inputs[] = {in.data()};
  const auto first = sample(6, block_size);
  f64 worst = 0;
  for (u64 start = 0; start < 0x100000000u; start += block_size * 4001) {
    for (u32 i = 0; i < block_size; ++i) in[i] = start ? static_cast<u32>(start + i * 4001) : first[i];
    program.run(inputs, out.data());
    for (u32 i = 0; i < block_size; ++i) {
      const f32 x = std::bit_cast<f32>(in[i]), got = std::bit_cast<f32>(out[i]);
      if (start == 0) {
        EXPECT_TRUE(same(out[i], static_cast<u32>(steps.run({{in[i]}})[0]))) << x;
      }
      const bool log = code == Opcode::FastLog || code == Opcode::FastLog2;
      const f64 truth = iron::math::truth(code, log && x > 0 && x < 0x1p-126f ? 0.0 : f64{x}, 0);
      if (std::isnan(truth) || std::isinf(truth)) {
        EXPECT_TRUE(std::isnan(truth) ? std::isnan(got) : got == static_cast<f32>(truth)) << x << ": " << got;
      } else if (std::abs(truth) < 0x1p-125) {
        EXPECT_LE(std::abs(got), 0x1p-125) << x;
      } else if (std::abs(truth) < 0x1.fffp127) {
        worst = std::max(worst, std::abs(got - truth) / (relative * std::abs(truth) + absolute));
      } else {
        EXPECT_GT(got, 0x1.ff0p127f) << x;
      }
    }
  }
  EXPECT_LE(worst, 1);
  std::printf("| %s | %d | %.2g of the stated error |\n", std::string(ir::info(code).text).c_str(), program.cost(),
              worst);
}
INSTANTIATE_TEST_SUITE_P(Math, FastForms,
                         ::testing::Values(FastForm{Opcode::FastExp, 0x1p-17, 0},
                                           FastForm{Opcode::FastExp2, 0x1p-20, 0},
                                           FastForm{Opcode::FastLog, 0x1p-20, 0x1p-20},
                                           FastForm{Opcode::FastLog2, 0x1p-20, 0x1p-20}),
                         [](const auto& p) { return std::string(ir::info(p.param.code).text); });

// The judge itself: a wrong constant, sign of zero, NaN or infinity must not pass.
TEST(UlpError, SeesWhatIsWrong) {
  EXPECT_EQ(ulp_error(1.0f, 1.0), 0);
  EXPECT_EQ(ulp_error(std::nextafter(1.0f, 2.0f), 1.0), 1);
  EXPECT_EQ(ulp_error(0x1p-149f, 0x1.8p-149), 0.5);
  EXPECT_EQ(ulp_error(std::numeric_limits<f32>::infinity(), 0x1.fffffep127), 1);
  EXPECT_TRUE(std::isinf(ulp_error(0.0f, -0.0)));
  EXPECT_TRUE(std::isinf(ulp_error(NAN, 1.0)));
  EXPECT_TRUE(std::isinf(ulp_error(1.0f, NAN)));
  EXPECT_TRUE(std::isinf(ulp_error(-1.0f, 1.0)));
  ir::Kernel k = one_op(Opcode::Exp);
  passes::expand_math(k);
  bool changed = false;
  k.walk([&](OpId id) {  // the second coefficient of the polynomial, by one part in a thousand
    if (k.op(id).code == Opcode::Const && k.type(id).elem == DType::f32 &&
        std::bit_cast<f32>(static_cast<u32>(k.op(id).imm)) == 0x1.5554a8p-3f)
      k.mutable_op(id).imm = std::bit_cast<u32>(0x1.5554a8p-3f * 1.001f), changed = true;
  });
  ASSERT_TRUE(changed);
  BlockProgram program(k);
  std::array<u32, block_size> in{}, out{};
  in.fill(std::bit_cast<u32>(0.3f));
  const u32* inputs[] = {in.data()};
  program.run(inputs, out.data());
  EXPECT_GT(ulp_error(std::bit_cast<f32>(out[0]), std::exp(f64{0.3f})), 2);
}

}  // namespace
}  // namespace iron::test
