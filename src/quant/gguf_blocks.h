// The tensor formats of GGUF files: block structs, sizes, and exact host decode.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "iron/types.h"

namespace iron::quant {

/// The formats Iron decodes, with the numbers that GGUF files give them.
enum class GgufType : u32 {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q6_k = 14,
  bf16 = 30
};

// Each block covers `elements` neighbours of one row. d is a scale, m a minimum, q the codes; d and m are binary16
// bits.

/// x = d * (q - 8); the low nibbles are elements 0..15, the high ones 16..31.
struct BlockQ4_0 {
  static constexpr u32 elements = 32;
  u16 d;
  u8 q[16];
};

/// x = d * q + m, nibbles as in Q4_0.
struct BlockQ4_1 {
  static constexpr u32 elements = 32;
  u16 d, m;
  u8 q[16];
};

/// x = d * (q - 16); bit i of `high`, little-endian, is the fifth bit of element i.
struct BlockQ5_0 {
  static constexpr u32 elements = 32;
  u16 d;
  u8 high[4];
  u8 q[16];
};

/// x = d * q + m, codes as in Q5_0.
struct BlockQ5_1 {
  static constexpr u32 elements = 32;
  u16 d, m;
  u8 high[4];
  u8 q[16];
};

/// x = d * q.
struct BlockQ8_0 {
  static constexpr u32 elements = 32;
  u16 d;
  i8 q[32];
};

/// Eight groups of 32: x = (d * scale) * q - (m * minimum). Scales and minimums have 6 bits, packed in 12 bytes. Groups
/// 2p and 2p + 1 are the low and the high nibbles of bytes 32p..32p+31.
struct BlockQ4_K {
  static constexpr u32 elements = 256;
  u16 d, m;
  u8 scales[12];
  u8 q[128];
};

/// Sixteen groups of 16: x = d * scale * (q - 32). The code's low four bits are in `low`, its upper two in `high`.
struct BlockQ6_K {
  static constexpr u32 elements = 256;
  u8 low[128];
  u8 high[64];
  i8 scales[16];
  u16 d;
};

static_assert(sizeof(BlockQ4_0) == 18 && sizeof(BlockQ4_1) == 20 && sizeof(BlockQ5_0) == 22 && sizeof(BlockQ5_1) == 24);
static_assert(sizeof(BlockQ8_0) == 34 && sizeof(BlockQ4_K) == 144 && sizeof(BlockQ6_K) == 210);

struct GgufFormat {
  GgufType type;
  std::string_view name;  ///< "Q4_1"
  u32 elements, bytes;    ///< of one block
};

/// Every format Iron decodes, by ascending number.
std::span<const GgufFormat> gguf_formats();
/// The format with this number in a file, or null for one that Iron does not know.
const GgufFormat* find_gguf_format(u32 number);
/// The format of a type; QUANT01 when the value is none of the enumerators.
const GgufFormat& gguf_format(GgufType type);

/// Decodes whole blocks; the values equal llama.cpp's bit for bit. QUANT02 unless `out` is as long as `blocks` says.
void decode(GgufType type, std::span<const std::byte> blocks, std::span<f32> out);

/// The number of the first block that holds an infinity or a NaN, be it a scale, a minimum or an element.
std::optional<u64> first_non_finite_block(GgufType type, std::span<const std::byte> blocks);

/// The 6-bit scale and minimum of group 0..7 of a Q4_K block.
struct ScaleMin {
  u8 scale, minimum;
};
ScaleMin q4_k_scale_min(const u8 (&scales)[12], u32 group);

}  // namespace iron::quant
