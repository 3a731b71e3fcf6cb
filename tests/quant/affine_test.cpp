// Affine integers: packing of every width against a bit-by-bit stream, the guard word, and encode against stored
// values.
#include "quant/affine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "iron/error.h"

namespace iron::quant {
namespace {

constexpr u32 widths[] = {2, 3, 4, 5, 6, 8};

std::string code_of(auto&& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.code();
  }
  return "none";
}

std::vector<u32> random_codes(u64 count, u32 bits, u32 seed) {
  std::mt19937 random(seed);
  std::vector<u32> codes(count);
  for (auto& c : codes) c = static_cast<u32>(random()) & ((1u << bits) - 1u);
  return codes;
}

TEST(AffinePacking, EveryWidthAndLengthEqualsTheBitStream) {
  for (u32 bits : widths)
    for (u64 count = 0; count <= 200; ++count) {
      const auto codes = random_codes(count, bits, static_cast<u32>(count));
      auto words = pack_codes(codes, bits);
      std::vector<u32> want((count * bits + 31) / 32 + (bits == 3 || bits == 5 || bits == 6), 0);
      for (u64 i = 0; i < count; ++i)
        for (u32 b = 0; b < bits; ++b) {
          const u64 at = i * bits + b;
          want[at / 32] |= (codes[i] >> b & 1u) << (at % 32);
        }
      ASSERT_EQ(words, want) << bits << ' ' << count;
      if (bits == 3 || bits == 5 || bits == 6) words.back() = 0xffffffffu;  // the guard word must never show
      for (u64 i = 0; i < count; ++i) ASSERT_EQ(read_code(words, i, bits), codes[i]) << bits << ' ' << i;
    }
}

TEST(AffinePacking, EveryCodeAtEveryPlace) {
  for (u32 bits : widths)
    for (u32 place = 0; place < 32; ++place)
      for (u32 code = 0; code < 1u << bits; ++code) {
        std::vector<u32> codes(40, ((1u << bits) - 1u) ^ code);
        codes[place] = code;
        ASSERT_EQ(read_code(pack_codes(codes, bits), place, bits), code) << bits << ' ' << place;
      }
}

TEST(AffinePacking, TooLargeACodeIsAnError) {
  const u32 codes[] = {3, 8};
  EXPECT_EQ(code_of([&] { pack_codes(codes, 3); }), "QUANT04");
  EXPECT_EQ(code_of([&] { pack_codes(codes, 4); }), "none");
  EXPECT_EQ(code_of([&] { pack_codes(codes, 7); }), "QUANT03");
}

TEST(AffineDecode, EveryCodeTimesScalesIsOneRounding) {
  std::mt19937 random(3);
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (u32 bits : widths)
      for (u32 turn = 0; turn < 20; ++turn) {
        AffineMatrix m{{bits, 32, type}, 8, 32, {}, {}, {}};
        std::vector<u32> codes(256);
        for (u32 i = 0; i < 256; ++i) codes[i] = i & ((1u << bits) - 1u);
        m.words = pack_codes(codes, bits);
        std::vector<f64> scale(8), bias(8);
        m.scales.resize(8 * dtype_size(type));
        m.biases.resize(8 * dtype_size(type));
        for (u32 r = 0; r < 8; ++r)
          for (auto [to, values] : {std::pair{&m.scales, &scale}, std::pair{&m.biases, &bias}}) {
            const f32 value = static_cast<f32>(random()) * 0x1p-31f - 1.0f;
            std::byte* at = to->data() + r * dtype_size(type);
            if (type == DType::f32) {
              std::memcpy(at, &value, 4);
              (*values)[r] = f64{value};
            } else if (type == DType::f16) {
              const f16 h(value);
              std::memcpy(at, &h, 2);
              (*values)[r] = static_cast<f64>(h);
            } else {
              const bf16 h(value);
              std::memcpy(at, &h, 2);
              (*values)[r] = static_cast<f64>(h);
            }
          }
        std::vector<f32> out(256);
        decode_affine(m, out);
        // scale * q + bias needs at most 24 + 8 bits plus the distance of two values in [-1, 1): exact in binary64
        // except far below the last place of the result, so rounding it once more is the fma.
        for (u32 i = 0; i < 256; ++i)
          ASSERT_EQ(out[i], static_cast<f32>(scale[i / 32] * codes[i] + bias[i / 32])) << bits << ' ' << i;
      }
}

// A decoded matrix is representable: when its codes reach both ends, encoding it again gives the same parts.
TEST(AffineEncode, RepresentableMatricesAreExact) {
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (u32 bits : widths)
      for (u32 group : {32u, 64u, 128u}) {
        const u64 rows = 3, cols = 256, groups = rows * cols / group;
        auto codes = random_codes(rows * cols, bits, bits * group);
        AffineMatrix m{{bits, group, type}, rows, cols, {}, {}, {}};
        for (u64 g = 0; g < groups; ++g) {
          codes[g * group] = 0;
          codes[g * group + 1] = (1u << bits) - 1u;
          const f32 scale = std::ldexp(1.0f, static_cast<int>(g % 9) - 6), bias = -3.0f * scale;
          for (auto [to, value] : {std::pair{&m.scales, scale}, std::pair{&m.biases, bias}}) {
            const auto old = to->size();
            to->resize(old + dtype_size(type));
            const u16 narrow = type == DType::f16 ? f16(value).bits : bf16(value).bits;
            if (type == DType::f32)
              std::memcpy(to->data() + old, &value, 4);
            else
              std::memcpy(to->data() + old, &narrow, 2);
          }
        }
        m.words = pack_codes(codes, bits);
        std::vector<f32> values(rows * cols), again(rows * cols);
        decode_affine(m, values);
        const AffineMatrix e = encode_affine(m.spec, rows, cols, values);
        EXPECT_EQ(e.words, m.words) << bits << ' ' << group;
        EXPECT_EQ(e.scales, m.scales) << bits << ' ' << group;
        EXPECT_EQ(e.biases, m.biases) << bits << ' ' << group;
        decode_affine(e, again);
        EXPECT_EQ(again, values);
      }
}

// Scale or bias g, from its bytes.
f64 stored(DType type, const std::vector<std::byte>& values, u64 g) {
  u32 bits = 0;
  std::memcpy(&bits, values.data() + g * dtype_size(type), dtype_size(type));
  if (type == DType::f32) return f64{std::bit_cast<f32>(bits)};
  const u16 narrow = static_cast<u16>(bits);
  return type == DType::f16 ? static_cast<f64>(f16::from_bits(narrow)) : static_cast<f64>(bf16::from_bits(narrow));
}

// Codes are chosen against the stored scale and bias: no other code may lie clearly nearer to the element.
TEST(AffineEncode, EveryElementGetsTheNearestCodeOfTheStoredGrid) {
  std::mt19937 random(11);
  std::normal_distribution<f32> normal(0.02f, 0.3f);
  std::vector<f32> values(4 * 256), decoded(values.size());
  for (auto& v : values) v = normal(random);
  for (DType type : {DType::f32, DType::f16, DType::bf16})
    for (u32 bits : widths) {
      const AffineMatrix m = encode_affine({bits, 64, type}, 4, 256, values);
      decode_affine(m, decoded);
      const u32 largest = (1u << bits) - 1u;
      for (u64 i = 0; i < values.size(); ++i) {
        const u64 g = i / 64;
        const f64 scale = stored(type, m.scales, g), bias = stored(type, m.biases, g);
        const f64 error = std::abs(f64{decoded[i]} - f64{values[i]});
        for (u32 q = 0; q <= largest; ++q) {
          const f64 other = std::abs(bias + scale * q - f64{values[i]});
          ASSERT_LE(error, other + 1e-6) << bits << ' ' << i << ' ' << q;
        }
      }
    }
}

TEST(AffineEncode, ConstantGroupsAndTinyRangesHaveScaleOne) {
  std::vector<f32> values(64, 0.75f), out(64);
  for (u64 i = 32; i < 64; ++i) values[i] = 1e-9f * static_cast<f32>(i);
  const AffineMatrix m = encode_affine({4, 32, DType::f32}, 1, 64, values);
  f32 scale[2];
  std::memcpy(scale, m.scales.data(), 8);
  EXPECT_EQ(scale[0], 1.0f);
  EXPECT_EQ(scale[1], 1.0f);
  decode_affine(m, out);
  for (u64 i = 0; i < 32; ++i) EXPECT_EQ(out[i], 0.75f);
  for (u64 i = 32; i < 64; ++i) EXPECT_EQ(out[i], values[32]);
}

TEST(AffineEncode, WhatHasNoCodeIsAnErrorThatNamesThePlace) {
  std::vector<f32> values(2 * 64, 1.0f);
  values[64 + 5] = std::numeric_limits<f32>::quiet_NaN();
  try {
    encode_affine({4, 64, DType::f16}, 2, 64, values);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "QUANT04");
    EXPECT_NE(std::string(e.what()).find("row 1, column 5"), std::string::npos) << e.what();
  }
  values[64 + 5] = 1e6f;
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::f16}, 2, 64, values); }), "QUANT04") << "scale overflows f16";
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::bf16}, 2, 64, values); }), "none");
  values[0] = -3e38f;
  values[1] = 3e38f;
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::f32}, 2, 64, values); }), "QUANT04") << "the range overflows";
}

TEST(AffineSpecs, ShapesTheLayoutCannotHoldAreErrors) {
  const std::vector<f32> values(256, 0.0f);
  EXPECT_EQ(code_of([&] { encode_affine({7, 64, DType::f16}, 1, 256, values); }), "QUANT03");
  EXPECT_EQ(code_of([&] { encode_affine({4, 48, DType::f16}, 1, 256, values); }), "QUANT03");
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::i8}, 1, 256, values); }), "QUANT03");
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::f16}, 2, 96, values); }), "QUANT03");
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::f16}, 2, 0, values); }), "QUANT03");
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::f16}, ~u64{0} / 64, 64, values); }), "QUANT03");
  EXPECT_EQ(code_of([&] { encode_affine({4, 64, DType::f16}, 2, 256, values); }), "QUANT02");
  AffineMatrix m = encode_affine({3, 64, DType::f16}, 1, 256, values);
  std::vector<f32> out(256);
  EXPECT_EQ(m.words.size(), 256u * 3 / 32 + 1);
  m.words.pop_back();  // the guard word counts
  EXPECT_EQ(code_of([&] { decode_affine(m, out); }), "QUANT02");
}

}  // namespace
}  // namespace iron::quant
