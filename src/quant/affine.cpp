// Packing, encoding and decoding of affine integers.
#include "quant/affine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "iron/error.h"

namespace iron::quant {

namespace {
// A scale or bias as its type stores it.
f32 load_scale(DType type, const std::byte* at) {
  u16 bits = 0;
  if (type == DType::f32) {
    f32 value = 0;
    std::memcpy(&value, at, 4);
    return value;
  }
  std::memcpy(&bits, at, 2);
  return type == DType::f16 ? static_cast<f32>(f16::from_bits(bits)) : static_cast<f32>(bf16::from_bits(bits));
}

void store_scale(DType type, f32 value, std::byte* at) {
  if (type == DType::f32) {
    std::memcpy(at, &value, 4);
    return;
  }
  const u16 bits = type == DType::f16 ? f16(value).bits : bf16(value).bits;
  std::memcpy(at, &bits, 2);
}

struct Range {
  f32 low, high;
};

Range group_range(std::span<const f32> group, u64 row, u64 col) {
  Range r{group[0], group[0]};
  for (u64 i = 0; i < group.size(); ++i) {
    if (!std::isfinite(group[i]))
      throw Error("QUANT04", fmt::format("the element at row {}, column {} is {}", row, col + i, group[i]),
                  "remove infinities and NaNs before quantising");
    r.low = std::min(r.low, group[i]);
    r.high = std::max(r.high, group[i]);
  }
  return r;
}

void write_code(std::span<u32> words, u64 i, u32 bits, u32 code) {
  const CodePlace p = code_place(i, bits);
  words[p.word] |= code << p.shift;
  if (p.low_bits < bits) words[p.word + 1] |= code >> p.low_bits;
}

void check_bits(u32 bits) {
  if (bits != 2 && bits != 3 && bits != 4 && bits != 5 && bits != 6 && bits != 8)
    throw Error("QUANT03", fmt::format("affine codes of {} bits do not exist", bits), "use 2, 3, 4, 5, 6 or 8 bits");
}
}  // namespace

std::vector<u32> pack_codes(std::span<const u32> codes, u32 bits) {
  check_bits(bits);
  std::vector<u32> words(code_words(codes.size(), bits), 0);
  for (u64 i = 0; i < codes.size(); ++i) {
    if (codes[i] >> bits != 0)
      throw Error("QUANT04",
                  fmt::format("code {} of the stream is {}, which needs more than {} bits", i, codes[i], bits),
                  fmt::format("clamp codes to 0..{}", (1u << bits) - 1));
    write_code(words, i, bits, codes[i]);
  }
  return words;
}

void check_affine(const AffineSpec& spec, u64 rows, u64 cols) {
  check_bits(spec.bits);
  if (spec.group != 32 && spec.group != 64 && spec.group != 128)
    throw Error("QUANT03", fmt::format("affine groups of {} elements do not exist", spec.group), "use 32, 64 or 128");
  if (spec.scale_type != DType::f16 && spec.scale_type != DType::bf16 && spec.scale_type != DType::f32)
    throw Error("QUANT03", fmt::format("scales of type {} do not exist", dtype_name(spec.scale_type)),
                "use f16, bf16 or f32");
  if (cols == 0 || cols % spec.group != 0)  // whole groups also start every row on a word: group is a multiple of 32
    throw Error("QUANT03", fmt::format("a row of {} elements is no whole number of groups of {}", cols, spec.group),
                "pad the row or choose a smaller group");
  if (rows > std::numeric_limits<u64>::max() / 64 / cols)
    throw Error("QUANT03", fmt::format("a matrix of {} x {} has more bits than 64-bit sizes hold", rows, cols),
                "check the shape");
}

AffineMatrix encode_affine(const AffineSpec& spec, u64 rows, u64 cols, std::span<const f32> values) {
  check_affine(spec, rows, cols);
  if (values.size() != rows * cols)
    throw Error("QUANT02", fmt::format("{} elements are no {} x {} matrix", values.size(), rows, cols),
                "pass the whole row-major matrix");
  const u64 groups = rows * cols / spec.group, size = dtype_size(spec.scale_type);
  const f32 largest = static_cast<f32>((1u << spec.bits) - 1u);
  AffineMatrix m{spec,
                 rows,
                 cols,
                 std::vector<u32>(code_words(rows * cols, spec.bits), 0),
                 std::vector<std::byte>(groups * size),
                 std::vector<std::byte>(groups * size)};
  for (u64 g = 0; g < groups; ++g) {
    const u64 first = g * spec.group, row = first / cols, col = first % cols;
    const auto group = values.subspan(first, spec.group);
    const Range range = group_range(group, row, col);
    const f32 ideal = (range.high - range.low) / largest;
    store_scale(spec.scale_type, ideal < 1e-7f ? 1.0f : ideal, m.scales.data() + g * size);
    store_scale(spec.scale_type, range.low, m.biases.data() + g * size);
    const f32 scale = load_scale(spec.scale_type, m.scales.data() + g * size);
    const f32 bias = load_scale(spec.scale_type, m.biases.data() + g * size);
    if (!std::isfinite(scale) || !std::isfinite(bias))
      throw Error("QUANT04",
                  fmt::format("the group at row {}, column {} spans {} to {}: its scale or bias overflows {}", row, col,
                              range.low, range.high, dtype_name(spec.scale_type)),
                  "use scales of a type with a wider range");
    for (u64 i = 0; i < spec.group; ++i) {
      const f32 code = std::floor((group[i] - bias) / scale + 0.5f);
      write_code(m.words, first + i, spec.bits, static_cast<u32>(std::clamp(code, 0.0f, largest)));
    }
  }
  return m;
}

void decode_affine(const AffineMatrix& m, std::span<f32> out) {
  check_affine(m.spec, m.rows, m.cols);
  const u64 count = m.rows * m.cols, groups = count / m.spec.group, size = dtype_size(m.spec.scale_type);
  const u64 words = code_words(count, m.spec.bits);
  if (m.words.size() != words || m.scales.size() != groups * size || m.biases.size() != groups * size ||
      out.size() != count)
    throw Error("QUANT02",
                fmt::format("a {} x {} matrix of {}-bit codes has {} words and {} bytes of scales and of biases, not "
                            "{}, {} and {}; room is for {} elements",
                            m.rows, m.cols, m.spec.bits, words, groups * size, m.words.size(), m.scales.size(),
                            m.biases.size(), out.size()),
                "size the parts with code_words(), guard word included, and cols / group");
  for (u64 g = 0; g < groups; ++g) {
    const f32 scale = load_scale(m.spec.scale_type, m.scales.data() + g * size);
    const f32 bias = load_scale(m.spec.scale_type, m.biases.data() + g * size);
    for (u64 i = g * m.spec.group; i < (g + 1) * m.spec.group; ++i)
      out[i] = std::fma(static_cast<f32>(read_code(m.words, i, m.spec.bits)), scale, bias);
  }
}

}  // namespace iron::quant
