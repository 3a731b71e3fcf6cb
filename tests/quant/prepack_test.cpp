// The prepacked layout: places of every byte, round trip, padding, and decode equal to the file's.
#include "quant/prepack.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "iron/error.h"

namespace iron::quant {
namespace {

const GgufType block_types[] = {GgufType::q4_0, GgufType::q4_1, GgufType::q5_0, GgufType::q5_1,
                                GgufType::q8_0, GgufType::q4_k, GgufType::q6_k};

std::vector<std::byte> random_bytes(std::size_t count, u32 seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

std::string code_of(auto&& act) {
  try {
    act();
  } catch (const Error& e) {
    return e.code();
  }
  return "none";
}

TEST(Prepack, FieldsCoverEveryByteOfTheBlockOnce) {
  for (GgufType type : block_types) {
    const GgufFormat& format = gguf_format(type);
    std::multiset<u32> file, packed;
    for (const PrepackedField& f : prepacked_fields(type)) {
      EXPECT_TRUE(f.grain == 2 || f.grain == 4) << format.name;
      EXPECT_EQ(f.bytes % f.grain, 0u) << format.name;
      for (u32 b = 0; b < f.bytes; ++b) file.insert(f.file_offset + b);
      for (u32 b = 0; b < f.bytes * prepacked_rows; ++b) packed.insert(f.packed_offset + b);
    }
    ASSERT_EQ(file.size(), format.bytes) << format.name;
    ASSERT_EQ(packed.size(), std::size_t{format.bytes} * prepacked_rows) << format.name;
    u32 at = 0;
    for (u32 b : file) EXPECT_EQ(b, at++) << format.name;
    at = 0;
    for (u32 b : packed) EXPECT_EQ(b, at++) << format.name;
  }
}

// The layout as kernels read it, written out for Q4_1 with no help from the field table.
TEST(Prepack, Q4_1RecordIsScalesMinimumsThenFourStepsOfNibbles) {
  const u64 rows = 32, cols = 96, columns = cols / 32;
  const auto file = random_bytes(rows * columns * sizeof(BlockQ4_1), 1);
  std::vector<std::byte> packed(prepacked_bytes(GgufType::q4_1, rows, cols));
  prepack(GgufType::q4_1, rows, cols, file, packed);
  struct Record {
    u16 d[16], m[16];
    u8 q[4][64];
  };
  static_assert(sizeof(Record) == 320);
  for (u64 row = 0; row < rows; ++row)
    for (u64 column = 0; column < columns; ++column) {
      BlockQ4_1 block;
      Record record;
      std::memcpy(&block, file.data() + (row * columns + column) * sizeof block, sizeof block);
      std::memcpy(&record, packed.data() + (row / 16 * columns + column) * sizeof record, sizeof record);
      const u64 l = row % 16;
      EXPECT_EQ(record.d[l], block.d);
      EXPECT_EQ(record.m[l], block.m);
      for (u32 s = 0; s < 4; ++s)
        for (u32 j = 0; j < 4; ++j) {
          const u32 low = 4 * s + j, high = 16 + 4 * s + j;  // the elements the two nibbles must hold
          EXPECT_EQ(record.q[s][4 * l + j] & 15, block.q[low] & 15);
          EXPECT_EQ(record.q[s][4 * l + j] >> 4, block.q[high - 16] >> 4);
        }
    }
}

TEST(Prepack, EveryFormatRoundTripsAndDecodesAsTheFileDoes) {
  for (GgufType type : block_types)
    for (u64 rows : {1u, 15u, 16u, 17u, 35u})
      for (u64 columns : {1u, 3u}) {
        const GgufFormat& format = gguf_format(type);
        const u64 cols = columns * format.elements;
        const auto file = random_bytes(rows * columns * format.bytes, static_cast<u32>(rows + 100 * columns));
        std::vector<std::byte> packed(prepacked_bytes(type, rows, cols), std::byte{0xaa}), back(file.size());
        EXPECT_EQ(packed.size(), (rows + 15) / 16 * 16 * columns * format.bytes);
        prepack(type, rows, cols, file, packed);
        unprepack(type, rows, cols, packed, back);
        EXPECT_EQ(back, file) << format.name << ' ' << rows;
        std::vector<f32> want(rows * cols), row(cols);
        decode(type, file, want);
        for (u64 r = 0; r < rows; ++r) {
          decode_prepacked_row(type, rows, cols, packed, r, row);
          EXPECT_EQ(std::memcmp(row.data(), want.data() + r * cols, cols * 4), 0) << format.name << ' ' << r;
        }
      }
}

TEST(Prepack, PaddingRowsDecodeToZero) {
  for (GgufType type : block_types) {
    const GgufFormat& format = gguf_format(type);
    const auto file = random_bytes(std::size_t{format.bytes} * 3, 9);
    std::vector<std::byte> packed(prepacked_bytes(type, 3, format.elements), std::byte{0xff});
    prepack(type, 3, format.elements, file, packed);
    std::vector<f32> row(format.elements);
    for (u64 r = 3; r < 16; ++r) {  // the same record, read as one of 16 rows
      decode_prepacked_row(type, 16, format.elements, packed, r, row);
      for (f32 x : row) ASSERT_EQ(x, 0.0f) << format.name;
    }
  }
}

TEST(Prepack, BadUseIsAnError) {
  std::vector<std::byte> file(20 * 16), packed(20 * 16);
  std::vector<f32> out(32);
  EXPECT_FALSE(has_prepacked_layout(GgufType::f32));
  EXPECT_FALSE(has_prepacked_layout(GgufType::f16));
  EXPECT_FALSE(has_prepacked_layout(GgufType::bf16));
  for (GgufType type : block_types) EXPECT_TRUE(has_prepacked_layout(type));
  EXPECT_EQ(code_of([] { prepacked_fields(GgufType::bf16); }), "QUANT01");
  EXPECT_EQ(code_of([] { prepacked_bytes(GgufType::q4_1, 16, 33); }), "QUANT03");
  EXPECT_EQ(code_of([&] { prepack(GgufType::q4_1, 16, 32, file, packed); }), "none");
  EXPECT_EQ(code_of([&] { prepack(GgufType::q4_1, 15, 32, file, packed); }), "QUANT02");
  EXPECT_EQ(code_of([&] { prepack(GgufType::q4_1, 17, 32, file, packed); }), "QUANT02");
  EXPECT_EQ(code_of([&] { unprepack(GgufType::q4_1, 16, 64, packed, file); }), "QUANT02");
  EXPECT_EQ(code_of([&] { decode_prepacked_row(GgufType::q4_1, 16, 32, packed, 16, out); }), "QUANT02");
  EXPECT_EQ(code_of([&] { decode_prepacked_row(GgufType::q4_1, 16, 32, packed, 0, std::span(out).first(31)); }),
            "QUANT02");
}

}  // namespace
}  // namespace iron::quant
