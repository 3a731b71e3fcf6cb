// Decoding of GGUF blocks. Every product below is exact in binary32 (an 11-bit scale times a few bits), so one rounding
// at most happens per element and contraction could not change a value.
#include "quant/gguf_blocks.h"

#include <fmt/format.h>

#include <cmath>

#include "iron/error.h"

namespace iron::quant {

namespace {
constexpr GgufFormat formats[] = {
    {GgufType::f32, "F32", 1, 4},
    {GgufType::f16, "F16", 1, 2},
    {GgufType::q4_0, "Q4_0", BlockQ4_0::elements, sizeof(BlockQ4_0)},
    {GgufType::q4_1, "Q4_1", BlockQ4_1::elements, sizeof(BlockQ4_1)},
    {GgufType::q5_0, "Q5_0", BlockQ5_0::elements, sizeof(BlockQ5_0)},
    {GgufType::q5_1, "Q5_1", BlockQ5_1::elements, sizeof(BlockQ5_1)},
    {GgufType::q8_0, "Q8_0", BlockQ8_0::elements, sizeof(BlockQ8_0)},
    {GgufType::q4_k, "Q4_K", BlockQ4_K::elements, sizeof(BlockQ4_K)},
    {GgufType::q6_k, "Q6_K", BlockQ6_K::elements, sizeof(BlockQ6_K)},
    {GgufType::bf16, "BF16", 1, 2},
};

void decode_block(f32 value, f32* out) { *out = value; }
void decode_block(f16 value, f32* out) { *out = static_cast<f32>(value); }
void decode_block(bf16 value, f32* out) { *out = static_cast<f32>(value); }

void decode_block(const BlockQ4_0& b, f32* out) {
  const f32 d = f16_bits_to_f32(b.d);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<f32>((b.q[i] & 15) - 8) * d;
    out[i + 16] = static_cast<f32>((b.q[i] >> 4) - 8) * d;
  }
}

void decode_block(const BlockQ4_1& b, f32* out) {
  const f32 d = f16_bits_to_f32(b.d), m = f16_bits_to_f32(b.m);
  for (int i = 0; i < 16; ++i) {
    out[i] = static_cast<f32>(b.q[i] & 15) * d + m;
    out[i + 16] = static_cast<f32>(b.q[i] >> 4) * d + m;
  }
}

// The 5-bit code of element i, for Q5_0 and Q5_1.
template <class Block>
int code5(const Block& b, int i) {
  const int nibble = i < 16 ? b.q[i] & 15 : b.q[i - 16] >> 4;
  return nibble | ((b.high[i / 8] >> (i % 8)) & 1) << 4;
}

void decode_block(const BlockQ5_0& b, f32* out) {
  const f32 d = f16_bits_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<f32>(code5(b, i) - 16) * d;
}

void decode_block(const BlockQ5_1& b, f32* out) {
  const f32 d = f16_bits_to_f32(b.d), m = f16_bits_to_f32(b.m);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<f32>(code5(b, i)) * d + m;
}

void decode_block(const BlockQ8_0& b, f32* out) {
  const f32 d = f16_bits_to_f32(b.d);
  for (int i = 0; i < 32; ++i) out[i] = static_cast<f32>(b.q[i]) * d;
}

void decode_block(const BlockQ4_K& b, f32* out) {
  const f32 d = f16_bits_to_f32(b.d), m = f16_bits_to_f32(b.m);
  for (u32 group = 0; group < 8; ++group) {
    const ScaleMin s = q4_k_scale_min(b.scales, group);
    const f32 scale = d * static_cast<f32>(s.scale), minimum = m * static_cast<f32>(s.minimum);
    const u8* q = b.q + 32 * (group / 2);
    const int shift = group % 2 ? 4 : 0;
    for (u32 i = 0; i < 32; ++i) out[32 * group + i] = scale * static_cast<f32>((q[i] >> shift) & 15) - minimum;
  }
}

void decode_block(const BlockQ6_K& b, f32* out) {
  const f32 d = f16_bits_to_f32(b.d);
  for (u32 i = 0; i < 256; ++i) {
    // Each half of 128 elements is four runs of 32: runs 0 and 2 are nibbles of the same bytes, and so are 1 and 3.
    const u32 half = i / 128, run = i / 32 % 4, at = i % 32;
    const int low = (b.low[64 * half + 32 * (run % 2) + at] >> (run / 2 * 4)) & 15;
    const int high = (b.high[32 * half + at] >> (2 * run)) & 3;
    const int scale = b.scales[i / 16];
    out[i] = d * static_cast<f32>(scale) * static_cast<f32>((low | high << 4) - 32);
  }
}

// Calls `use` with a value of the type's block; blocks in a file are not aligned, so they are copied out.
template <class Use>
void with_block_type(GgufType type, Use&& use) {
  switch (type) {
    case GgufType::f32:
      return use(f32{});
    case GgufType::f16:
      return use(f16{});
    case GgufType::bf16:
      return use(bf16{});
    case GgufType::q4_0:
      return use(BlockQ4_0{});
    case GgufType::q4_1:
      return use(BlockQ4_1{});
    case GgufType::q5_0:
      return use(BlockQ5_0{});
    case GgufType::q5_1:
      return use(BlockQ5_1{});
    case GgufType::q8_0:
      return use(BlockQ8_0{});
    case GgufType::q4_k:
      return use(BlockQ4_K{});
    case GgufType::q6_k:
      return use(BlockQ6_K{});
  }
}
}  // namespace

std::span<const GgufFormat> gguf_formats() { return formats; }

const GgufFormat* find_gguf_format(u32 number) {
  for (const GgufFormat& f : formats)
    if (static_cast<u32>(f.type) == number) return &f;
  return nullptr;
}

const GgufFormat& gguf_format(GgufType type) {
  if (const GgufFormat* f = find_gguf_format(static_cast<u32>(type))) return *f;
  throw Error("QUANT01", fmt::format("{} is the number of no tensor format that Iron decodes", static_cast<u32>(type)),
              "use one of F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q6_K");
}

void decode(GgufType type, std::span<const std::byte> blocks, std::span<f32> out) {
  const GgufFormat& format = gguf_format(type);
  const u64 count = blocks.size() / format.bytes;
  if (blocks.size() % format.bytes != 0 || out.size() / format.elements != count || out.size() % format.elements != 0)
    throw Error("QUANT02",
                fmt::format("{} bytes of {} blocks ({} bytes for {} elements each) do not decode to {} elements",
                            blocks.size(), format.name, format.bytes, format.elements, out.size()),
                "pass whole blocks, and room for exactly their elements");
  with_block_type(type, [&](auto block) {
    for (u64 i = 0; i < count; ++i) {
      std::memcpy(&block, blocks.data() + i * sizeof block, sizeof block);
      decode_block(block, out.data() + i * format.elements);
    }
  });
}

std::optional<u64> first_non_finite_block(GgufType type, std::span<const std::byte> blocks) {
  const GgufFormat& format = gguf_format(type);
  std::optional<u64> found;
  with_block_type(type, [&](auto block) {
    for (u64 i = 0; i < blocks.size() / format.bytes && !found; ++i) {
      std::memcpy(&block, blocks.data() + i * sizeof block, sizeof block);
      bool finite = true;
      if constexpr (requires { block.d; })
        finite = std::isfinite(f16_bits_to_f32(block.d));
      else
        finite = std::isfinite(static_cast<f32>(block));
      if constexpr (requires { block.m; }) finite = finite && std::isfinite(f16_bits_to_f32(block.m));
      if (!finite) found = i;
    }
  });
  return found;
}

ScaleMin q4_k_scale_min(const u8 (&scales)[12], u32 group) {
  if (group < 4) return {static_cast<u8>(scales[group] & 63), static_cast<u8>(scales[group + 4] & 63)};
  // The last four groups: low nibbles in bytes 8..11, the upper two bits above the first four groups' values.
  return {static_cast<u8>((scales[group + 4] & 15) | (scales[group - 4] >> 6) << 4),
          static_cast<u8>((scales[group + 4] >> 4) | (scales[group] >> 6) << 4)};
}

}  // namespace iron::quant
