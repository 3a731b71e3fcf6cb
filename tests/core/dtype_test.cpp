// The 16-bit floats, exhaustively: every bit pattern, and the rounding between every two neighbours.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "iron/types.h"

namespace iron {
namespace {

// Patterns from zero up to infinity are in order of value, so neighbours are one bit pattern apart.
template <class T>
void check_rounding_between_neighbours(u16 infinity) {
  for (u16 low = 0; low + 1 < infinity; ++low) {
    const u16 high = static_cast<u16>(low + 1);
    const u16 even = (low & 1) != 0 ? high : low;
    const f64 a = static_cast<f64>(T::from_bits(low)), b = static_cast<f64>(T::from_bits(high));
    const f64 middle = (a + b) / 2;  // exact in binary64
    ASSERT_LT(a, b);
    ASSERT_EQ(T{a}.bits, low);
    ASSERT_EQ(T{middle}.bits, even) << middle;
    ASSERT_EQ(T{std::nextafter(middle, a)}.bits, low) << middle;
    ASSERT_EQ(T{std::nextafter(middle, b)}.bits, high) << middle;
    ASSERT_EQ(T{-middle}.bits, even | 0x8000u) << middle;
    ASSERT_EQ(T{static_cast<f32>(middle)}.bits, even) << middle;  // one more bit than T has: exact in binary32
  }
}

template <class T>
void check_overflow_and_specials(u16 infinity) {
  const u16 largest = static_cast<u16>(infinity - 1);
  const f64 top = static_cast<f64>(T::from_bits(largest));
  const f64 step = top - static_cast<f64>(T::from_bits(static_cast<u16>(largest - 1)));
  EXPECT_EQ(T{std::nextafter(top + step / 2, 0.0)}.bits, largest);
  EXPECT_EQ(T{top + step / 2}.bits, infinity);
  EXPECT_EQ(T{std::numeric_limits<f64>::max()}.bits, infinity);
  EXPECT_EQ(T{-std::numeric_limits<f32>::infinity()}.bits, infinity | 0x8000u);
  EXPECT_EQ(T{-0.0}.bits, 0x8000u);
  EXPECT_EQ(T{-0.0f}.bits, 0x8000u);
  EXPECT_EQ(T{std::numeric_limits<f64>::denorm_min()}.bits, 0u);
}

template <class T>
void check_every_pattern_survives_f32(u16 infinity, u16 quiet) {
  for (u32 bits = 0; bits < 0x10000u; ++bits) {
    const T value = T::from_bits(static_cast<u16>(bits));
    const bool is_nan = (bits & 0x7fffu) > infinity;
    ASSERT_EQ(std::isnan(static_cast<f32>(value)), is_nan);
    ASSERT_EQ(T{static_cast<f32>(value)}.bits, is_nan ? bits | quiet : bits);
  }
}

TEST(F16, RoundsToNearestEvenBetweenAllNeighbours) { check_rounding_between_neighbours<f16>(0x7c00); }
TEST(F16, OverflowsAtHalfAStepAboveTheLargest) { check_overflow_and_specials<f16>(0x7c00); }
TEST(F16, EveryPatternSurvivesAndNanIsQuieted) { check_every_pattern_survives_f32<f16>(0x7c00, 0x0200); }
TEST(Bf16, RoundsToNearestEvenBetweenAllNeighbours) { check_rounding_between_neighbours<bf16>(0x7f80); }
TEST(Bf16, OverflowsAtHalfAStepAboveTheLargest) { check_overflow_and_specials<bf16>(0x7f80); }
TEST(Bf16, EveryPatternSurvivesAndNanIsQuieted) { check_every_pattern_survives_f32<bf16>(0x7f80, 0x0040); }

TEST(F16, KnownValues) {
  EXPECT_EQ(f16{1.0f}.bits, 0x3c00u);
  EXPECT_EQ(f16{65504.0f}.bits, 0x7bffu);
  EXPECT_EQ(f16{0x1p-24}.bits, 0x0001u);
  EXPECT_EQ(static_cast<f32>(f16::from_bits(0x3555)), 0.333251953125f);
}

TEST(F16, RoundsADoubleOnce) {
  // Through binary32 this would round to the middle first and then down to even.
  EXPECT_EQ(f16{1.0 + 0x1p-11 + 0x1p-40}.bits, 0x3c01u);
  EXPECT_EQ(bf16{1.0 + 0x1p-8 + 0x1p-40}.bits, 0x3f81u);
}

TEST(DType, NamesRoundTrip) {
  for (int i = 1; i < dtype_count; ++i) {
    const auto type = static_cast<DType>(i);
    EXPECT_EQ(dtype_from_name(dtype_name(type)), type);
  }
  EXPECT_EQ(dtype_from_name("float"), DType::none);
  EXPECT_EQ(dtype_from_name("none"), DType::none);
}

TEST(DType, TagsAgreeWithTheHostTypes) {
  EXPECT_EQ(dtype_size(dtype_of<bf16>), sizeof(bf16));
  EXPECT_EQ(dtype_size(dtype_of<f64>), sizeof(f64));
  EXPECT_EQ(dtype_size(dtype_of<u8>), sizeof(u8));
  EXPECT_EQ(dtype_of<void*>, DType::none);
  EXPECT_TRUE(is_int(DType::i8));
  EXPECT_FALSE(is_int(DType::index));
  EXPECT_FALSE(is_int(DType::boolean));
}

}  // namespace
}  // namespace iron
