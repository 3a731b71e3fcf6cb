// Every one-argument function of expand_math stays within 2 ULP: a sample of all f32 inputs in the normal run, those
// with 2^-6 <= |x| < 2^7 with IRON_TEST_FULL=dense, all 2^32 with IRON_TEST_FULL=1. IRON_MATH_ONLY=name restricts the
// run to one function.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "block_eval.h"
#include "ir/verify.h"
#include "one_op.h"
#include "truth.h"

namespace iron::test {
namespace {

using ir::Opcode;

constexpr f64 limit = 2.0;

struct Worst {
  f64 ulp = 0;
  u32 input = 0;
  u64 inputs = 0;
};

class Sweep {
 public:
  Sweep(Opcode code, BlockProgram& program) : code_(code), program_(program) {}

  void add(u32 input) {
    in_[fill_++] = input;
    if (fill_ == block_size) flush();
  }
  Worst finish() {
    while (fill_ != 0) add(in_[0]);
    return worst_;
  }

 private:
  void flush() {
    fill_ = 0;
    const u32* inputs[] = {in_.data()};
    program_.run(inputs, out_.data());
    for (std::size_t i = 0; i < block_size; ++i) {
      const f64 truth = iron::math::truth(code_, std::bit_cast<f32>(in_[i]), 0);
      const f32 got = std::bit_cast<f32>(out_[i]);
      if (std::bit_cast<u32>(static_cast<f32>(truth)) == out_[i]) continue;  // correctly rounded
      const f64 error = ulp_error(got, truth);
      if (error > worst_.ulp) worst_.ulp = error, worst_.input = in_[i];
    }
    worst_.inputs += block_size;
  }

  Opcode code_;
  BlockProgram& program_;
  alignas(64) std::array<u32, block_size> in_{}, out_{};
  std::size_t fill_ = 0;
  Worst worst_;
};

// Bits whose neighbourhoods are swept densely: zeros, denormals, one, thresholds of the expansions, the ends.
std::set<u32> special_points() {
  std::set<u32> points;
  for (const f32 v : {0.0f,
                      0x1p-149f,
                      0x1p-126f,
                      0x1p-40f,
                      0x1p-12f,
                      0.25f,
                      0.41421357f,
                      0.5f,
                      0.5625f,
                      0.70710678f,
                      0.78539816f,
                      1.0f,
                      1.4142135f,
                      1.5707964f,
                      2.0f,
                      2.3561945f,
                      3.1415927f,
                      4.0f,
                      6.2831855f,
                      9.0f,
                      10.0f,
                      16.6f,
                      18.0f,
                      32.0f,
                      45.154545f,
                      87.33655f,
                      88.37626f,
                      88.72284f,
                      89.0f,
                      89.415985f,
                      90.0f,
                      103.27893f,
                      103.97208f,
                      104.0f,
                      126.0f,
                      127.5f,
                      128.0f,
                      149.0f,
                      150.0f,
                      151.0f,
                      0x1p17f,
                      0x1p18f,
                      0x1p22f,
                      0x1p24f,
                      0x1p30f,
                      0x1p64f,
                      0x1p126f,
                      0x1p127f,
                      0x1.6a09e6p127f,
                      0x1.fffffep127f,
                      std::numeric_limits<f32>::infinity()})
    points.insert({std::bit_cast<u32>(v), std::bit_cast<u32>(-v)});
  return points;
}

class Ulp : public ::testing::TestWithParam<Opcode> {};

TEST_P(Ulp, StaysWithinTwo) {
  const Opcode code = GetParam();
  const std::string name(ir::info(code).text);
  if (const char* only = std::getenv("IRON_MATH_ONLY"); only && name != only) GTEST_SKIP() << "IRON_MATH_ONLY=" << only;
  ir::Kernel k = one_op(code);
  ASSERT_EQ(passes::expand_math(k), 1);
  for (const auto& d : ir::verify_structure(k, "expand_math")) ADD_FAILURE() << d.message;
  BlockProgram program(k);
  const auto start = std::chrono::steady_clock::now();
  Sweep sweep(code, program);
  const char* full = std::getenv("IRON_TEST_FULL");
  if (full && std::string_view(full) == "dense") {
    for (u32 input = std::bit_cast<u32>(0x1p-6f); input < std::bit_cast<u32>(0x1p7f); ++input) {
      sweep.add(input);
      sweep.add(input | 0x80000000u);
    }
  } else if (full && std::string_view(full) == "1") {
    for (u64 input = 0; input <= 0xffffffffu; ++input) sweep.add(static_cast<u32>(input));
  } else {
    for (u64 input = 0; input <= 0xffffffffu; input += 1009) sweep.add(static_cast<u32>(input));
    for (const u32 point : special_points())
      for (u32 d = 0; d < 4096; ++d) sweep.add(point - 2048 + d);
  }
  const Worst w = sweep.finish();
  const auto seconds = std::chrono::duration<f64>(std::chrono::steady_clock::now() - start).count();
  std::printf("| %s | %d | %d | %.3f | %a (0x%08x) | %llu | %.1f s |\n", name.c_str(), program.cost(),
              program.branch_cost(), w.ulp, static_cast<f64>(std::bit_cast<f32>(w.input)), w.input,
              static_cast<unsigned long long>(w.inputs), seconds);
  std::fflush(stdout);
  EXPECT_LE(w.ulp, limit) << name << "(" << std::bit_cast<f32>(w.input) << ")";
}

std::vector<Opcode> one_argument_functions() {
  std::vector<Opcode> out;
  for (int n = 0; n < ir::opcode_count; ++n)
    if (const auto code = static_cast<Opcode>(n); ir::info(code).has(ir::Math) && ir::info(code).operands == 1)
      out.push_back(code);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Math, Ulp, ::testing::ValuesIn(one_argument_functions()),
                         [](const auto& p) { return std::string(ir::info(p.param).text); });

}  // namespace
}  // namespace iron::test
