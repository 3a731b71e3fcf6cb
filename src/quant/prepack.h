// The prepacked layout of GGUF matrices: 16 rows interleaved, so that a lane is a row and no product needs a horizontal
// sum.
//
// A group of 16 rows and one block column is one record, as long as the 16 file blocks it holds. Each field of the file
// block is cut into grains (2 bytes for a scale, 4 bytes for codes) and grain g of the field becomes 16 neighbours, one
// a row. For Q4_1 a record is thus 16 scales, 16 minimums, and 4 x 64 bytes of nibbles: byte 4 l + j of step s holds
// elements 4 s + j (low nibble) and 16 + 4 s + j (high nibble) of row l. Records run along a row group, row groups
// follow each other.
#pragma once

#include <span>

#include "quant/gguf_blocks.h"

namespace iron::quant {

inline constexpr u32 prepacked_rows = 16;

/// Where a field of the file block goes. Byte b of the field in row l of a record is at
/// `packed_offset + b / grain * (16 * grain) + l * grain + b % grain`.
struct PrepackedField {
  u32 file_offset, bytes, grain, packed_offset;
};

/// Whether a type has a prepacked layout: all block formats do, F32, F16 and BF16 do not.
bool has_prepacked_layout(GgufType type);
/// The fields of a type in packed order, scales first. QUANT01 when it has no such layout.
std::span<const PrepackedField> prepacked_fields(GgufType type);

/// Bytes of a prepacked matrix; the rows are padded to whole groups. QUANT03 unless a row is whole blocks.
u64 prepacked_bytes(GgufType type, u64 rows, u64 cols);
/// Packs a row-major matrix of file blocks. Padding rows are zero bytes, which decode to zeros times zero scales.
void prepack(GgufType type, u64 rows, u64 cols, std::span<const std::byte> blocks, std::span<std::byte> packed);
/// The inverse of prepack.
void unprepack(GgufType type, u64 rows, u64 cols, std::span<const std::byte> packed, std::span<std::byte> blocks);
/// Decodes one row of a prepacked matrix; the values equal decode() of that row's file blocks.
void decode_prepacked_row(GgufType type, u64 rows, u64 cols, std::span<const std::byte> packed, u64 row,
                          std::span<f32> out);

}  // namespace iron::quant
