// GGUF block decode: every code, every binary16 scale, and values recorded from llama.cpp's own dequantisers.
#include "quant/gguf_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <random>
#include <vector>

#include "iron/error.h"

namespace iron::quant {
namespace {

std::vector<f32> decoded(GgufType type, const void* block, std::size_t bytes) {
  const GgufFormat& format = gguf_format(type);
  std::vector<f32> out(bytes / format.bytes * format.elements, std::numeric_limits<f32>::quiet_NaN());
  decode(type, {static_cast<const std::byte*>(block), bytes}, out);
  return out;
}

template <class Block>
std::vector<f32> decoded(GgufType type, const Block& block) {
  return decoded(type, &block, sizeof block);
}

bool same_bits(f32 a, f32 b) {
  return std::bit_cast<u32>(a) == std::bit_cast<u32>(b) || (std::isnan(a) && std::isnan(b));
}

// Rounds the exact value once: products and sums below are exact in binary64.
f32 once(f64 value) { return static_cast<f32>(value); }
f64 half(u16 bits) { return f64{f16_bits_to_f32(bits)}; }

TEST(GgufFormats, SizesAndNumbersAreThoseOfTheFormat) {
  struct Row {
    u32 number, elements, bytes;
    const char* name;
  };
  const Row rows[] = {{0, 1, 4, "F32"},       {1, 1, 2, "F16"},    {2, 32, 18, "Q4_0"}, {3, 32, 20, "Q4_1"},
                      {6, 32, 22, "Q5_0"},    {7, 32, 24, "Q5_1"}, {8, 32, 34, "Q8_0"}, {12, 256, 144, "Q4_K"},
                      {14, 256, 210, "Q6_K"}, {30, 1, 2, "BF16"}};
  EXPECT_EQ(gguf_formats().size(), std::size(rows));
  for (u32 number = 0, row = 0; number < 64; ++number) {
    const GgufFormat* f = find_gguf_format(number);
    if (row < std::size(rows) && rows[row].number == number) {
      ASSERT_NE(f, nullptr) << number;
      EXPECT_EQ(f->name, rows[row].name);
      EXPECT_EQ(f->elements, rows[row].elements);
      EXPECT_EQ(f->bytes, rows[row].bytes);
      ++row;
    } else {
      EXPECT_EQ(f, nullptr) << number;
    }
  }
}

TEST(GgufFormats, UnknownTypeIsAnError) {
  try {
    gguf_format(static_cast<GgufType>(4));  // Q4_2, removed long ago
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "QUANT01");
    EXPECT_NE(std::string(e.what()).find("4 is the number of no tensor format"), std::string::npos);
  }
}

TEST(GgufDecode, Float16AndBfloat16OverAllBits) {
  std::vector<u16> bits(65536);
  for (u32 i = 0; i < 65536; ++i) bits[i] = static_cast<u16>(i);
  const auto h = decoded(GgufType::f16, bits.data(), 2 * bits.size());
  const auto b = decoded(GgufType::bf16, bits.data(), 2 * bits.size());
  for (u32 i = 0; i < 65536; ++i) {
    const int exponent = static_cast<int>(i >> 10 & 31), mantissa = static_cast<int>(i & 1023);
    f64 want = exponent == 0    ? std::ldexp(mantissa, -24)
               : exponent == 31 ? (mantissa ? std::nan("") : std::numeric_limits<f64>::infinity())
                                : std::ldexp(1024 + mantissa, exponent - 25);
    if (i >> 15) want = -want;
    EXPECT_TRUE(same_bits(h[i], once(want))) << i;
    EXPECT_TRUE(same_bits(b[i], std::bit_cast<f32>(i << 16))) << i;
  }
}

TEST(GgufDecode, Float32IsCopied) {
  const f32 values[] = {0.0f, -0.0f, 1.5f, 1e-42f, std::numeric_limits<f32>::infinity()};
  const auto out = decoded(GgufType::f32, values, sizeof values);
  for (std::size_t i = 0; i < std::size(values); ++i) EXPECT_TRUE(same_bits(out[i], values[i]));
}

// Every scale bit pattern against every code; the minimum walks through all patterns too.
TEST(GgufDecode, FourAndFiveBitBlocksOverAllScalesAndCodes) {
  for (u32 pattern = 0; pattern < 65536; ++pattern) {
    const u16 d = static_cast<u16>(pattern), m = static_cast<u16>(pattern * 40503u + 77u);
    BlockQ4_0 b40{d, {}};
    BlockQ4_1 b41{d, m, {}};
    BlockQ5_0 b50{d, {}, {}};
    BlockQ5_1 b51{d, m, {}, {}};
    u32 code[32];
    for (u32 i = 0; i < 32; ++i) code[i] = (i * 7 + pattern) & 31;  // 7 is odd: all 32 codes occur
    for (u32 i = 0; i < 16; ++i) {
      const u8 q = static_cast<u8>((code[i] & 15) | (code[i + 16] & 15) << 4);
      b40.q[i] = b41.q[i] = b50.q[i] = b51.q[i] = q;
    }
    for (u32 i = 0; i < 32; ++i) {
      b50.high[i / 8] = static_cast<u8>(b50.high[i / 8] | (code[i] >> 4) << (i % 8));
      b51.high[i / 8] = b50.high[i / 8];
    }
    const auto y40 = decoded(GgufType::q4_0, b40), y41 = decoded(GgufType::q4_1, b41);
    const auto y50 = decoded(GgufType::q5_0, b50), y51 = decoded(GgufType::q5_1, b51);
    for (u32 i = 0; i < 32; ++i) {
      const f64 q = code[i], low = code[i] & 15;
      ASSERT_TRUE(same_bits(y40[i], once(half(d) * (low - 8)))) << pattern << ' ' << i;
      ASSERT_TRUE(same_bits(y41[i], once(half(d) * low + half(m)))) << pattern << ' ' << i;
      ASSERT_TRUE(same_bits(y50[i], once(half(d) * (q - 16)))) << pattern << ' ' << i;
      ASSERT_TRUE(same_bits(y51[i], once(half(d) * q + half(m)))) << pattern << ' ' << i;
    }
  }
}

TEST(GgufDecode, Q8_0OverAllScalesAndCodes) {
  for (u32 pattern = 0; pattern < 65536; ++pattern) {
    BlockQ8_0 b{static_cast<u16>(pattern), {}};
    for (u32 i = 0; i < 32; ++i) b.q[i] = static_cast<i8>(static_cast<u8>(i * 8 + pattern % 8));
    const auto y = decoded(GgufType::q8_0, b);
    for (u32 i = 0; i < 32; ++i) ASSERT_TRUE(same_bits(y[i], once(half(b.d) * b.q[i]))) << pattern << ' ' << i;
  }
}

// Writes scales and minimums bit by bit, as the format's text describes them.
void set_scale_min(BlockQ4_K& b, u32 group, u32 scale, u32 minimum) {
  const auto put = [&](u32 byte, u32 shift, u32 bits, u32 value) {
    const u32 mask = ((1u << bits) - 1u) << shift;
    b.scales[byte] = static_cast<u8>((b.scales[byte] & ~mask) | ((value << shift) & mask));
  };
  if (group < 4) {
    put(group, 0, 6, scale);
    put(group + 4, 0, 6, minimum);
  } else {
    put(group + 4, 0, 4, scale & 15);
    put(group + 4, 4, 4, minimum & 15);
    put(group - 4, 6, 2, scale >> 4);
    put(group, 6, 2, minimum >> 4);
  }
}

TEST(GgufDecode, Q4_KOverAllScalesMinimumsAndCodes) {
  std::mt19937 random(4);
  for (u32 s = 0; s < 64; ++s)
    for (u32 k = 0; k < 64; ++k) {
      BlockQ4_K b{static_cast<u16>(random() & 0x7bff), static_cast<u16>(random() & 0xfbff), {}, {}};
      for (u32 group = 0; group < 8; ++group) set_scale_min(b, group, (s + 9 * group) & 63, (k + 5 * group) & 63);
      for (u32 i = 0; i < 128; ++i) b.q[i] = static_cast<u8>(i * 2 + s);
      const auto y = decoded(GgufType::q4_k, b);
      for (u32 i = 0; i < 256; ++i) {
        const u32 group = i / 32, byte = i / 64 * 32 + i % 32;
        const f64 q = i % 64 < 32 ? b.q[byte] & 15 : b.q[byte] >> 4;
        const f64 scale = (s + 9 * group) & 63, minimum = (k + 5 * group) & 63;
        ASSERT_TRUE(same_bits(y[i], once(half(b.d) * scale * q - half(b.m) * minimum))) << s << ' ' << k << ' ' << i;
      }
    }
}

TEST(GgufDecode, Q6_KOverAllScalesAndCodes) {
  std::mt19937 random(6);
  for (int scale = -128; scale < 128; ++scale)
    for (u32 turn = 0; turn < 16; ++turn) {
      BlockQ6_K b{};
      b.d = static_cast<u16>(random() & 0xfbff);
      u32 code[256];
      for (u32 i = 0; i < 256; ++i) code[i] = (i * 5 + turn * 11) & 63;
      for (u32 g = 0; g < 16; ++g) b.scales[g] = static_cast<i8>(static_cast<u8>(scale + static_cast<int>(g * 37)));
      for (u32 h = 0; h < 2; ++h)  // four codes share one byte of upper bits: elements l, l + 32, l + 64, l + 96
        for (u32 l = 0; l < 32; ++l) {
          const u32* c = code + 128 * h + l;
          b.low[64 * h + l] = static_cast<u8>((c[0] & 15) | (c[64] & 15) << 4);
          b.low[64 * h + 32 + l] = static_cast<u8>((c[32] & 15) | (c[96] & 15) << 4);
          b.high[32 * h + l] = static_cast<u8>(c[0] >> 4 | c[32] >> 4 << 2 | c[64] >> 4 << 4 | c[96] >> 4 << 6);
        }
      const auto y = decoded(GgufType::q6_k, b);
      for (u32 i = 0; i < 256; ++i)
        ASSERT_TRUE(same_bits(y[i], once(half(b.d) * b.scales[i / 16] * (static_cast<int>(code[i]) - 32)))) << i;
    }
}

// ggml_blocks.bin is recorded by record_ggml_blocks.py: per type a u32 number and u32 block count, then the blocks as
// they lie in a file, then llama.cpp's values.
TEST(GgufDecode, EqualsRecordedValuesOfLlamaCpp) {
  std::ifstream in(IRON_SOURCE_DIR "/tests/quant/data/ggml_blocks.bin", std::ios::binary);
  ASSERT_TRUE(in) << "tests/quant/data/ggml_blocks.bin is missing";
  u32 types = 0;
  for (u32 head[2]; in.read(reinterpret_cast<char*>(head), sizeof head); ++types) {
    const GgufFormat* format = find_gguf_format(head[0]);
    ASSERT_NE(format, nullptr) << head[0];
    std::vector<std::byte> blocks(std::size_t{head[1]} * format->bytes);
    std::vector<f32> want(std::size_t{head[1]} * format->elements), got(want.size());
    in.read(reinterpret_cast<char*>(blocks.data()), static_cast<std::streamsize>(blocks.size()));
    in.read(reinterpret_cast<char*>(want.data()), static_cast<std::streamsize>(want.size() * 4));
    ASSERT_TRUE(in) << format->name;
    decode(format->type, blocks, got);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_TRUE(same_bits(got[i], want[i])) << format->name << ' ' << i;
  }
  EXPECT_EQ(types, 9u) << "all formats but F32, which has no dequantiser";
}

TEST(GgufDecode, SizesThatDisagreeAreErrors) {
  const std::vector<std::byte> bytes(40);
  std::vector<f32> out(64);
  const auto code = [&](std::size_t in, std::size_t room) -> std::string {
    try {
      decode(GgufType::q4_1, std::span(bytes).first(in), std::span(out).first(room));
    } catch (const Error& e) {
      return e.code();
    }
    return "none";
  };
  EXPECT_EQ(code(40, 64), "none");
  EXPECT_EQ(code(0, 0), "none");
  EXPECT_EQ(code(39, 64), "QUANT02");
  EXPECT_EQ(code(40, 63), "QUANT02");
  EXPECT_EQ(code(40, 32), "QUANT02");
  EXPECT_EQ(code(20, 64), "QUANT02");
}

TEST(GgufScales, TheFirstNonFiniteBlockIsFound) {
  for (const GgufFormat& f : gguf_formats()) {
    std::vector<std::byte> bytes(std::size_t{f.bytes} * 5);
    EXPECT_FALSE(first_non_finite_block(f.type, bytes)) << f.name;
    // Every block's scale, or element, has its top byte here; 0x7c00 (0x7f80) is infinity in the 16-bit (other)
    // formats.
    const u32 at = f.type == GgufType::q6_k ? 208 : f.type == GgufType::f32 ? 2 : 0;
    const bool wide = f.type == GgufType::f32 || f.type == GgufType::bf16;
    for (u32 block : {4u, 2u}) {
      const u16 infinity = wide ? 0x7f80 : 0x7c00;
      std::memcpy(bytes.data() + std::size_t{block} * f.bytes + at, &infinity, 2);
      EXPECT_EQ(first_non_finite_block(f.type, bytes), std::optional<u64>(block)) << f.name;
    }
  }
  BlockQ4_1 nan_minimum{0, 0x7e01, {}};
  EXPECT_EQ(first_non_finite_block(GgufType::q4_1, std::as_bytes(std::span(&nan_minimum, 1))), std::optional<u64>(0));
}

}  // namespace
}  // namespace iron::quant
