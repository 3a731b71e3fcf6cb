// Affine codes inside kernels: the one recorded decode of MLX's layout (src/quant/affine.h is its host side).
#pragma once

#include <vector>

#include "iron/dsl.h"

namespace iron::kernels {

/// Width of the codes and elements a scale covers. Rows are whole groups, so they start on a word.
struct AffineFormat {
  u32 bits = 4;
  u32 group = 64;

  /// Fewest neighbouring codes that fill whole words, at least 32 bits of them: 16, 8 and 4 for 2, 4 and 8 bits,
  /// else 32.
  constexpr u32 chunk() const { return 32 % bits == 0 ? 32 / bits : 32; }
  constexpr u32 words(u32 codes) const { return codes * bits / 32; }
};

/// Code i of a stream. Codes of 3, 5 and 6 bits straddle words: two words are read, of which the guard word at the end
/// of the stream is the last.
inline Val<u32> read_code(const In<u32>& words, Use<Index> i, u32 bits) {
  const Val<Index> code(i);
  const u32 mask = (1u << bits) - 1;
  if (32 % bits == 0) {
    const u32 per_word = 32 / bits;
    const auto word = words[code / per_word];
    return word >> cast<u32>(code % per_word * bits) & mask;
  }
  const auto bit = code * bits;
  const auto at = bit / 32;
  const auto low = words[at], high = words[at + 1];
  return funnel_shr(high, low, cast<u32>(bit % 32)) & mask;
}

/// The codes of whole words from `first` on: no code straddles the end, so no guard word is read.
inline std::vector<Val<u32>> read_codes(const In<u32>& words, Use<Index> first, u32 count, u32 bits) {
  const Val<Index> start(first);
  std::vector<Val<u32>> loaded, codes;
  for (u32 w = 0; w < count * bits / 32; ++w) loaded.push_back(words[start + w]);
  const u32 mask = (1u << bits) - 1;
  for (u32 j = 0; j < count; ++j) {
    const u32 word = j * bits / 32, shift = j * bits % 32;
    if (shift + bits < 32)
      codes.push_back(loaded[word] >> shift & mask);
    else if (shift + bits == 32)
      codes.push_back(loaded[word] >> shift);
    else
      codes.push_back(funnel_shr(loaded[word + 1], loaded[word], shift) & mask);
  }
  return codes;
}

/// q * scale + bias with one rounding: what the host's decode_affine gives.
inline Val<f32> affine_value(Use<u32> code, Use<f32> scale, Use<f32> bias) {
  const Val<f32> s(scale), b(bias);
  return fma(cast<f32>(Val<u32>(code)), s, b);
}

/// Scale of a group whose values lie in [least, most]: 1 where the range is below 1e-7 of the codes.
inline Val<f32> affine_scale(const Val<f32>& least, const Val<f32>& most, u32 bits) {
  const auto ideal = (most - least) / static_cast<f32>((1u << bits) - 1);
  return select(ideal < 1e-7f, constant<f32>(1.0f), ideal);
}
/// The code of a value against the stored scale and bias.
inline Val<u32> affine_code(const Val<f32>& value, const Val<f32>& scale, const Val<f32>& bias, u32 bits) {
  const auto code = floor((value - bias) / scale + 0.5f);
  return cast<u32>(max(min(code, static_cast<f32>((1u << bits) - 1)), 0.0f));
}

}  // namespace iron::kernels
