// Interleaving of GGUF blocks by 16 rows, driven by one table of fields per format.
#include "quant/prepack.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>

#include "iron/error.h"

namespace iron::quant {

namespace {
struct Field {
  u32 file_offset, bytes, grain;
};

// Packed offsets follow from the order: each field takes 16 times its bytes.
template <std::size_t N>
constexpr std::array<PrepackedField, N> in_order(const Field (&fields)[N]) {
  std::array<PrepackedField, N> out{};
  u32 at = 0;
  for (std::size_t i = 0; i < N; ++i) {
    out[i] = {fields[i].file_offset, fields[i].bytes, fields[i].grain, at};
    at += fields[i].bytes * prepacked_rows;
  }
  return out;
}

constexpr auto q4_0 = in_order({{offsetof(BlockQ4_0, d), 2, 2}, {offsetof(BlockQ4_0, q), 16, 4}});
constexpr auto q4_1 =
    in_order({{offsetof(BlockQ4_1, d), 2, 2}, {offsetof(BlockQ4_1, m), 2, 2}, {offsetof(BlockQ4_1, q), 16, 4}});
constexpr auto q5_0 =
    in_order({{offsetof(BlockQ5_0, d), 2, 2}, {offsetof(BlockQ5_0, high), 4, 4}, {offsetof(BlockQ5_0, q), 16, 4}});
constexpr auto q5_1 = in_order({{offsetof(BlockQ5_1, d), 2, 2},
                                {offsetof(BlockQ5_1, m), 2, 2},
                                {offsetof(BlockQ5_1, high), 4, 4},
                                {offsetof(BlockQ5_1, q), 16, 4}});
constexpr auto q8_0 = in_order({{offsetof(BlockQ8_0, d), 2, 2}, {offsetof(BlockQ8_0, q), 32, 4}});
constexpr auto q4_k = in_order({{offsetof(BlockQ4_K, d), 2, 2},
                                {offsetof(BlockQ4_K, m), 2, 2},
                                {offsetof(BlockQ4_K, scales), 12, 4},
                                {offsetof(BlockQ4_K, q), 128, 4}});
constexpr auto q6_k = in_order({{offsetof(BlockQ6_K, d), 2, 2},
                                {offsetof(BlockQ6_K, scales), 16, 4},
                                {offsetof(BlockQ6_K, low), 128, 4},
                                {offsetof(BlockQ6_K, high), 64, 4}});

std::span<const PrepackedField> fields_or_none(GgufType type) {
  switch (type) {
    case GgufType::q4_0:
      return q4_0;
    case GgufType::q4_1:
      return q4_1;
    case GgufType::q5_0:
      return q5_0;
    case GgufType::q5_1:
      return q5_1;
    case GgufType::q8_0:
      return q8_0;
    case GgufType::q4_k:
      return q4_k;
    case GgufType::q6_k:
      return q6_k;
    case GgufType::f32:
    case GgufType::f16:
    case GgufType::bf16:
      break;
  }
  return {};
}

void check_size(const char* what, u64 is, u64 must_be) {
  if (is != must_be)
    throw Error("QUANT02", fmt::format("the {} has {} bytes, the matrix needs {}", what, is, must_be),
                "size both buffers with gguf_format() and prepacked_bytes()");
}

u64 file_bytes(const GgufFormat& format, u64 rows, u64 cols) { return rows * (cols / format.elements) * format.bytes; }

// Calls copy(file offset, packed offset, grain) for every grain of a matrix. A grain is 2 or 4 bytes.
template <class Copy>
void for_each_grain(GgufType type, u64 rows, u64 cols, Copy&& copy) {
  const GgufFormat& format = gguf_format(type);
  const auto fields = prepacked_fields(type);
  const u64 columns = cols / format.elements;
  for (u64 row = 0; row < rows; ++row) {
    const u64 lane = row % prepacked_rows, record0 = row / prepacked_rows * columns;
    for (u64 column = 0; column < columns; ++column) {
      const u64 file = (row * columns + column) * format.bytes;
      const u64 packed = (record0 + column) * format.bytes * prepacked_rows;
      for (const PrepackedField& f : fields)
        for (u64 g = 0; g < f.bytes / f.grain; ++g)
          copy(file + f.file_offset + g * f.grain, packed + f.packed_offset + (g * prepacked_rows + lane) * f.grain,
               f.grain);
    }
  }
}

// The two lengths are spelled out so that each copy is one move.
void copy_grain(std::byte* to, const std::byte* from, u32 grain) {
  if (grain == 4)
    std::memcpy(to, from, 4);
  else
    std::memcpy(to, from, 2);
}
}  // namespace

bool has_prepacked_layout(GgufType type) { return !fields_or_none(type).empty(); }

std::span<const PrepackedField> prepacked_fields(GgufType type) {
  const auto fields = fields_or_none(type);
  if (fields.empty())
    throw Error("QUANT01", fmt::format("{} has no prepacked layout", gguf_format(type).name),
                "use the tensor as it lies in the file; only block formats are interleaved");
  return fields;
}

u64 prepacked_bytes(GgufType type, u64 rows, u64 cols) {
  prepacked_fields(type);
  const GgufFormat& format = gguf_format(type);
  if (cols % format.elements != 0)
    throw Error(
        "QUANT03",
        fmt::format("a row of {} elements is no whole number of {} blocks of {}", cols, format.name, format.elements),
        "pad the row, or choose a format whose block divides it");
  return file_bytes(format, (rows + prepacked_rows - 1) / prepacked_rows * prepacked_rows, cols);
}

void prepack(GgufType type, u64 rows, u64 cols, std::span<const std::byte> blocks, std::span<std::byte> packed) {
  check_size("prepacked buffer", packed.size(), prepacked_bytes(type, rows, cols));
  check_size("buffer of file blocks", blocks.size(), file_bytes(gguf_format(type), rows, cols));
  const u64 whole = file_bytes(gguf_format(type), rows / prepacked_rows * prepacked_rows, cols);
  if (whole < packed.size()) std::memset(packed.data() + whole, 0, packed.size() - whole);
  for_each_grain(type, rows, cols,
                 [&](u64 file, u64 at, u32 grain) { copy_grain(packed.data() + at, blocks.data() + file, grain); });
}

void unprepack(GgufType type, u64 rows, u64 cols, std::span<const std::byte> packed, std::span<std::byte> blocks) {
  check_size("prepacked buffer", packed.size(), prepacked_bytes(type, rows, cols));
  check_size("buffer of file blocks", blocks.size(), file_bytes(gguf_format(type), rows, cols));
  for_each_grain(type, rows, cols,
                 [&](u64 file, u64 at, u32 grain) { copy_grain(blocks.data() + file, packed.data() + at, grain); });
}

void decode_prepacked_row(GgufType type, u64 rows, u64 cols, std::span<const std::byte> packed, u64 row,
                          std::span<f32> out) {
  const GgufFormat& format = gguf_format(type);
  check_size("prepacked buffer", packed.size(), prepacked_bytes(type, rows, cols));
  if (row >= rows || out.size() != cols)
    throw Error(
        "QUANT02",
        fmt::format("row {} with room for {} elements is not a row of a {} x {} matrix", row, out.size(), rows, cols),
        "pass a row below the number of rows and room for one whole row");
  const u64 columns = cols / format.elements, lane = row % prepacked_rows;
  std::byte block[sizeof(BlockQ6_K)];  // the largest block
  for (u64 column = 0; column < columns; ++column) {
    const std::byte* record = packed.data() + (row / prepacked_rows * columns + column) * format.bytes * prepacked_rows;
    for (const PrepackedField& f : prepacked_fields(type))
      for (u64 g = 0; g < f.bytes / f.grain; ++g)
        copy_grain(block + f.file_offset + g * f.grain,
                   record + f.packed_offset + (g * prepacked_rows + lane) * f.grain, f.grain);
    decode(type, {block, format.bytes}, out.subspan(column * format.elements, format.elements));
  }
}

}  // namespace iron::quant
