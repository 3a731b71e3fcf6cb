// Recorded decode of the 32-element GGUF formats. Field places come from the table that also drives the packer.
#include "gguf/codec.h"

#include <algorithm>
#include <iterator>

#include "iron/error.h"

namespace iron::kernels {

using quant::GgufType;
using quant::prepacked_rows;

namespace {
bool four_bits(GgufType t) { return t == GgufType::q4_0 || t == GgufType::q4_1; }
bool five_bits(GgufType t) { return t == GgufType::q5_0 || t == GgufType::q5_1; }
bool own_minimum(GgufType t) { return t == GgufType::q4_1 || t == GgufType::q5_1; }
// The middle of the codes of a format without a minimum of its own.
f32 middle(GgufType t) { return t == GgufType::q4_0 ? 8.0f : 16.0f; }

// Fields in packed order: the scale, the minimum where there is one, the fifth bits where there are any, the codes.
quant::PrepackedField codes_field(GgufType t) { return quant::prepacked_fields(t).back(); }
quant::PrepackedField high_field(GgufType t) { return quant::prepacked_fields(t)[own_minimum(t) ? 2 : 1]; }
}  // namespace

bool GgufCodec::has(GgufType t) { return std::find(std::begin(types), std::end(types), t) != std::end(types); }

u32 GgufCodec::record_bytes() const { return quant::gguf_format(type).bytes * prepacked_rows; }

std::string GgufCodec::spec_text() const { return std::string(quant::gguf_format(type).name) + ".rows16.v1"; }

GgufRecord::GgufRecord(const GgufCodec& codec, const In<u8>& packed, const Val<Index>& record, const Val<Index>& lane)
    : codec_(codec), packed_(packed), record_(record), lane_(lane) {
  if (!GgufCodec::has(codec.type))
    throw Error("QUANT01",
                std::string(quant::gguf_format(codec.type).name) + " has no recorded decode of 32-element blocks",
                "use Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0");
  const auto load = [&](const quant::PrepackedField& field, std::vector<Val<u32>>& words) {
    const auto view = packed_.view<u32>(field.packed_offset);
    const Val<Index> start = record_ * (codec_.record_bytes() / 4) + lane_;
    for (u32 g = 0; g < field.bytes / 4; ++g) words.emplace_back(view[start + g * prepacked_rows]);
  };
  load(codes_field(codec.type), words_);
  if (five_bits(codec.type)) load(high_field(codec.type), high_);
}

Val<f32> GgufRecord::half(u32 field) const {
  const auto view = packed_.view<f16>(quant::prepacked_fields(codec_.type)[field].packed_offset);
  return cast<f32>(view[record_ * (codec_.record_bytes() / 2) + lane_]);
}
Val<f32> GgufRecord::scale() const { return half(0); }
Val<f32> GgufRecord::minimum() const {
  if (own_minimum(codec_.type)) return half(1);
  return scale() * -middle(codec_.type);  // exact: a power of two
}

u32 GgufRecord::positions() const { return codec_.type == GgufType::q8_0 ? 4 : 8; }

// A word holds four elements and, in its high nibbles, the four that lie 16 further on.
u32 GgufRecord::element(u32 position, u32 word) const {
  if (codec_.type == GgufType::q8_0) return 4 * word + position;
  return 16 * (position % 2) + 4 * word + position / 2;
}

u32 GgufRecord::weight(u32 position) const {
  if (codec_.type == GgufType::q8_0) return 24;
  return four_bits(codec_.type) && position < 7 ? 4 * position : 0;
}

Val<u32> GgufRecord::fifth_bit(u32 position, u32 word) const {
  return ((high_[0] >> element(position, word)) & 1u) << 4u;
}

// Conversions start from i32: a vector of u32 has no conversion of its own on most machines.
Val<f32> GgufRecord::weighted_code(u32 position, u32 word) const {
  const Val<u32>& w = words_[word];
  if (codec_.type == GgufType::q8_0) {  // the byte on top, so that its sign is the word's
    const Val<u32> top = position == 3 ? w : w << (24 - 8 * position);
    return cast<f32>(bitcast<i32>(position == 0 ? top : top & 0xff000000u));
  }
  if (four_bits(codec_.type) && position < 7) return cast<f32>(bitcast<i32>(w & (15u << (4 * position))));
  return code(position, word);
}

Val<f32> GgufRecord::code(u32 position, u32 word) const {
  const Val<u32>& w = words_[word];
  if (codec_.type == GgufType::q8_0) {
    const Val<i32> top = bitcast<i32>(position == 3 ? w : w << (24 - 8 * position));
    return cast<f32>(top >> 24);
  }
  const Val<u32> low = position == 0 ? w & 15u : position == 7 ? w >> 28u : (w >> (4 * position)) & 15u;
  return cast<f32>(bitcast<i32>(five_bits(codec_.type) ? low | fifth_bit(position, word) : low));
}

// Word w holds the codes 4 w and up in its low nibbles and 16 + 4 w and up in its high ones.
Val<u32> GgufRecord::bytes(u32 j) const {
  if (codec_.type == GgufType::q8_0) return words_[j] ^ 0x80808080u;
  const Val<u32>& w = words_[j % 4];
  const Val<u32> low = (j < 4 ? w : w >> 4u) & 0x0f0f0f0fu;
  if (four_bits(codec_.type)) return low;
  // Bits 4 j to 4 j + 3 go to bit 4 of one byte each: a product with shifts by 0, 7, 14 and 21.
  const Val<u32> fifth = ((high_[0] >> (4 * j)) & 15u) * 0x00204081u;
  return low | ((fifth & 0x01010101u) << 4u);
}

Val<f32> gguf_element(const GgufCodec& codec, const In<u8>& packed, const Val<Index>& record, const Val<Index>& lane,
                      const Val<Index>& element) {
  const GgufType type = codec.type;
  const u32 bytes = codec.record_bytes();
  const auto half = [&](u32 field) {
    const auto view = packed.view<f16>(quant::prepacked_fields(type)[field].packed_offset);
    return Val<f32>(cast<f32>(view[record * (bytes / 2) + lane]));
  };
  // Byte b of a field lies in grain b / 4, which has 4 bytes for each of the 16 rows.
  const auto place = [&](const Val<Index>& b) {
    return Val<Index>(record * bytes + (b / 4) * (4 * prepacked_rows) + lane * 4 + b % 4);
  };
  const u32 codes = codes_field(type).packed_offset;
  const Val<f32> d = half(0);
  if (type == GgufType::q8_0) return cast<f32>(cast<i32>(packed.view<i8>(codes)[place(element)])) * d;

  const Val<u32> pair = cast<u32>(packed.view<u8>(codes)[place(element % 16)]);
  const Val<u32> nibble = (pair >> (cast<u32>(element / 16) * 4u)) & 15u;
  const auto number = [&](const Val<u32>& q) { return Val<f32>(cast<f32>(bitcast<i32>(q))); };
  const Val<f32> m = own_minimum(type) ? half(1) : d * -middle(type);
  if (four_bits(type)) return fma(number(nibble), d, m);
  const auto high = packed.view<u32>(high_field(type).packed_offset)[record * (bytes / 4) + lane];
  return fma(number(nibble | (((high >> cast<u32>(element)) & 1u) << 4u)), d, m);
}

}  // namespace iron::kernels
