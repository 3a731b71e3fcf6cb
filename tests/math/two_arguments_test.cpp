// pow and atan2: special cases of IEEE 754 one by one, then the distance from the truth over random pairs.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <random>

#include "block_eval.h"
#include "one_op.h"
#include "truth.h"

namespace iron::test {
namespace {

using ir::Opcode;

constexpr f32 inf = std::numeric_limits<f32>::infinity();
constexpr f32 nan = std::numeric_limits<f32>::quiet_NaN();
constexpr f64 limit = 2.0;

class Pairs {
 public:
  explicit Pairs(Opcode code) : code_(code), kernel_(expanded(code)), program_(kernel_) {}

  void add(f32 x, f32 y) {
    x_[fill_] = std::bit_cast<u32>(x), y_[fill_] = std::bit_cast<u32>(y);
    if (++fill_ == block_size) flush();
  }
  ~Pairs() {
    while (fill_ != 0) add(1, 1);
    std::printf("| %s | %d | %d | %.3f | %a, %a | %llu pairs |\n", std::string(ir::info(code_).text).c_str(),
                program_.cost(), program_.branch_cost(), worst_, static_cast<f64>(at_[0]), static_cast<f64>(at_[1]),
                static_cast<unsigned long long>(count_));
    EXPECT_LE(worst_, limit) << at_[0] << ", " << at_[1];
  }

 private:
  static ir::Kernel expanded(Opcode code) {
    ir::Kernel k = one_op(code);
    passes::expand_math(k);
    return k;
  }
  void flush() {
    fill_ = 0;
    count_ += block_size;
    const u32* inputs[] = {x_.data(), y_.data()};
    program_.run(inputs, out_.data());
    for (std::size_t i = 0; i < block_size; ++i) {
      const f32 x = std::bit_cast<f32>(x_[i]), y = std::bit_cast<f32>(y_[i]);
      const f64 error = ulp_error(std::bit_cast<f32>(out_[i]), iron::math::truth(code_, x, y));
      if (error > worst_) worst_ = error, at_ = {x, y};
    }
  }

  Opcode code_;
  ir::Kernel kernel_;
  BlockProgram program_;
  std::array<u32, block_size> x_{}, y_{}, out_{};
  std::size_t fill_ = 0;
  u64 count_ = 0;
  f64 worst_ = 0;
  std::array<f32, 2> at_{};
};

const std::vector<f32>& specials() {
  static const std::vector<f32> values = [] {
    std::vector<f32> out;
    for (const f32 v : {0.0f,
                        0x1p-149f,
                        0x1.fffffcp-127f,
                        0x1p-126f,
                        0x1p-40f,
                        0.3f,
                        0.5f,
                        0x1.fffffep-1f,
                        1.0f,
                        0x1.000002p+0f,
                        1.5f,
                        2.0f,
                        2.5f,
                        3.0f,
                        4.0f,
                        5.0f,
                        127.0f,
                        128.0f,
                        149.0f,
                        150.0f,
                        0x1.fffffep23f,
                        0x1p23f,
                        0x1.000002p23f,
                        0x1p24f,
                        0x1.000002p24f,
                        0x1p31f,
                        0x1p126f,
                        0x1.fffffep127f,
                        inf,
                        nan})
      out.push_back(v), out.push_back(-v);
    return out;
  }();
  return values;
}

// Every pair of specials covers the tables of IEEE 754 for both functions: zeros, ones, infinities, NaN, odd and even
// powers.
TEST(TwoArguments, SpecialCases) {
  for (const Opcode code : {Opcode::Pow, Opcode::Atan2}) {
    Pairs pairs(code);
    for (const f32 x : specials())
      for (const f32 y : specials()) pairs.add(x, y);
  }
}

TEST(TwoArguments, PowOfRandomPairs) {
  std::mt19937_64 random(7);
  std::uniform_real_distribution<f64> exponent(-150, 128), unit(0, 1);
  Pairs pairs(Opcode::Pow);
  for (int n = 0; n < 1'500'000; ++n) {
    // Bases of all sizes with results of all sizes; then bases near 1 with large exponents; then everything.
    const f64 size = exponent(random);
    const f32 base = static_cast<f32>(std::exp2(exponent(random)));
    pairs.add(base, static_cast<f32>(size / std::log2(f64{base})));
    const f32 near_one = static_cast<f32>(1 + std::exp2(-24 * unit(random)) * (unit(random) - 0.5));
    pairs.add(near_one, static_cast<f32>(size / std::log2(f64{near_one})));
    pairs.add(-base, std::trunc(static_cast<f32>(8 * (unit(random) - 0.5))));
    pairs.add(std::bit_cast<f32>(static_cast<u32>(random())), std::bit_cast<f32>(static_cast<u32>(random())));
  }
}

TEST(TwoArguments, Atan2OfRandomPairs) {
  std::mt19937_64 random(8);
  std::uniform_real_distribution<f32> near(-2, 2);
  Pairs pairs(Opcode::Atan2);
  for (int n = 0; n < 2'000'000; ++n) {
    pairs.add(near(random), near(random));
    pairs.add(std::bit_cast<f32>(static_cast<u32>(random())), std::bit_cast<f32>(static_cast<u32>(random())));
  }
}

}  // namespace
}  // namespace iron::test
