// Rows of numbers: the vector forms give the scalar functions' bits.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "exec/rows.h"

namespace iron::exec {
namespace {

// A length that no vector divides, so that the rest is seen too.
constexpr u32 odd = 64 + 5;

TEST(Rows, EverySixteenBitFloatIsWidenedAlike) {
  std::vector<u16> in(1 << 16);
  for (u32 i = 0; i < in.size(); ++i) in[i] = static_cast<u16>(i);
  std::vector<f32> halves(in.size()), brains(in.size());
  widen_f16_row(in.data(), halves.data(), static_cast<u32>(in.size()));
  widen_bf16_row(in.data(), brains.data(), static_cast<u32>(in.size()));
  for (u32 i = 0; i < in.size(); ++i) {
    ASSERT_EQ(std::bit_cast<u32>(halves[i]), std::bit_cast<u32>(f16_bits_to_f32(in[i]))) << i;
    ASSERT_EQ(std::bit_cast<u32>(brains[i]), i << 16);
  }
}

TEST(Rows, EveryKindOfFloatIsNarrowedAlike) {
  std::mt19937 random(3);
  std::vector<f32> in(200'003);
  for (u32 i = 0; i < in.size(); ++i) {
    // All bits; and halfway between neighbours, where ties go to even.
    const u16 half = static_cast<u16>(random());
    in[i] = i % 2 ? std::bit_cast<f32>(static_cast<u32>(random()))
                  : std::bit_cast<f32>(std::bit_cast<u32>(f16_bits_to_f32(half)) | (random() % 2 ? 0x1000u : 0x8000u));
  }
  std::vector<u16> halves(in.size()), brains(in.size());
  narrow_f16_row(in.data(), halves.data(), static_cast<u32>(in.size()));
  narrow_bf16_row(in.data(), brains.data(), static_cast<u32>(in.size()));
  for (u32 i = 0; i < in.size(); ++i) {
    ASSERT_EQ(halves[i], f32_to_f16_bits(in[i])) << std::bit_cast<u32>(in[i]);
    ASSERT_EQ(brains[i], f32_to_bf16_bits(in[i])) << std::bit_cast<u32>(in[i]);
  }
}

TEST(Rows, ProductsAndSumsRoundOnce) {
  std::mt19937 random(5);
  const auto number = [&] { return std::bit_cast<f32>(static_cast<u32>(random()) & 0xbfffffffu); };
  for (u32 round = 0; round < 200; ++round) {
    f32 a[odd], b[odd], c[odd], out[odd], sums[odd];
    for (u32 i = 0; i < odd; ++i) a[i] = number(), b[i] = number(), sums[i] = c[i] = number();
    b[3] = std::numeric_limits<f32>::infinity(), a[3] = 0;
    fma_row(a, b, c, out, odd);
    fma_into_row(a[0], b, sums, odd);
    for (u32 i = 0; i < odd; ++i) {
      const f32 want = std::fma(a[i], b[i], c[i]), into = std::fma(a[0], b[i], c[i]);
      if (std::isnan(want))
        ASSERT_EQ(std::bit_cast<u32>(out[i]), std::bit_cast<u32>(std::numeric_limits<f32>::quiet_NaN()));
      else
        ASSERT_EQ(std::bit_cast<u32>(out[i]), std::bit_cast<u32>(want));
      if (std::isnan(into))
        ASSERT_TRUE(std::isnan(sums[i]));
      else
        ASSERT_EQ(std::bit_cast<u32>(sums[i]), std::bit_cast<u32>(into));
    }
  }
}

}  // namespace
}  // namespace iron::exec
