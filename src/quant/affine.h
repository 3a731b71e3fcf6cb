// Affine integers (MLX's layout): x = scale * q + bias, unsigned codes of 2, 3, 4, 5, 6 or 8 bits, one scale and one
// bias a group of neighbours along a row.
//
// Codes are a bit stream, least significant bit first, in little-endian 32-bit words: code i starts at bit i * bits.
// Where 32 is no multiple of `bits` a code may straddle two words, and one guard word ends the stream so that reading
// two words is always in bounds. Rows start on a word (cols * bits % 32 == 0), so a matrix, or a stack of them, is one
// stream.
#pragma once

#include <span>
#include <vector>

#include "iron/types.h"

namespace iron::quant {

struct AffineSpec {
  u32 bits = 4;                   ///< 2, 3, 4, 5, 6 or 8
  u32 group = 64;                 ///< 32, 64 or 128 elements
  DType scale_type = DType::f16;  ///< f16, bf16 or f32, of scales and biases
};

/// A matrix (or stack of matrices, rows counted over all of them) as kernels take it.
struct AffineMatrix {
  AffineSpec spec;
  u64 rows = 0, cols = 0;
  std::vector<u32> words;                 ///< code_words(rows * cols, bits)
  std::vector<std::byte> scales, biases;  ///< [rows, cols / group] of scale_type
};

/// Words of a stream of `count` codes, the guard word included where the width has one.
constexpr u64 code_words(u64 count, u32 bits) { return (count * bits + 31) / 32 + (32 % bits != 0 ? 1 : 0); }

/// Where code i lies: `low_bits` of it in word `word` from bit `shift`, the rest at the start of the next word.
struct CodePlace {
  u64 word;
  u32 shift, low_bits;
};
constexpr CodePlace code_place(u64 i, u32 bits) {
  const u32 shift = static_cast<u32>(i * bits % 32);
  return {i * bits / 32, shift, bits < 32 - shift ? bits : 32 - shift};
}

/// Code i of a stream. No shift reaches 32, so the same text is valid in a kernel.
constexpr u32 read_code(std::span<const u32> words, u64 i, u32 bits) {
  const CodePlace p = code_place(i, bits);
  const u32 low = (words[p.word] >> p.shift) & ((1u << p.low_bits) - 1u);
  const u64 next = p.low_bits == bits ? p.word : p.word + 1;  // without a spill the mask below is empty
  return low | (words[next] & ((1u << (bits - p.low_bits)) - 1u)) << p.low_bits;
}

/// Packs codes into `code_words(codes.size(), bits)` words; the guard word is zero. QUANT04 for a code that needs more
/// bits.
std::vector<u32> pack_codes(std::span<const u32> codes, u32 bits);

/// QUANT03 unless the spec and the shape are ones the layout can hold.
void check_affine(const AffineSpec& spec, u64 rows, u64 cols);

/// Encodes a row-major matrix. Per group, in f32: scale = (max - min) / (2^bits - 1), or 1 where that is below 1e-7;
/// bias = min; both are rounded to scale_type, and the codes are clamp(floor((x - bias) / scale + 1/2)) against those
/// stored values. QUANT04, with row and column, for what has no code: a non-finite element, or a scale or bias that
/// overflows its type.
AffineMatrix encode_affine(const AffineSpec& spec, u64 rows, u64 cols, std::span<const f32> values);

/// fma(q, scale, bias) for every element: one rounding. QUANT02 when the sizes of `m` or `out` disagree with its shape.
void decode_affine(const AffineMatrix& m, std::span<f32> out);

}  // namespace iron::quant
