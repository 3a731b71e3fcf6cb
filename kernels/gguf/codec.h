// The recorded decode of prepacked GGUF blocks: what a kernel does with one record of src/quant/prepack.h.
#pragma once

#include <string>
#include <vector>

#include "iron/dsl.h"
#include "quant/prepack.h"

namespace iron::kernels {

/// The format of a matrix, as a spec field. Formats of 32 elements a block have a recorded decode: Q4_0, Q4_1, Q5_0,
/// Q5_1 and Q8_0.
struct GgufCodec {
  quant::GgufType type = quant::GgufType::q4_1;

  static constexpr u32 elements = 32;  ///< of a block
  /// The formats with a recorded decode.
  static constexpr quant::GgufType types[] = {quant::GgufType::q4_0, quant::GgufType::q4_1, quant::GgufType::q5_0,
                                              quant::GgufType::q5_1, quant::GgufType::q8_0};
  static bool has(quant::GgufType type);
  /// Whether x = d * q + m has an m, so that a product needs the sums of the activations over blocks. Q4_0 and Q5_0
  /// count as m = -8 d and -16 d with unsigned codes.
  bool has_minimum() const { return type != quant::GgufType::q8_0; }
  u32 record_bytes() const;
  std::string spec_text() const;
};

/// One row's block in a record: `lane` is the row within its 16. Codes come in `positions` of the bits of a word, each
/// with one element in every word.
class GgufRecord {
 public:
  GgufRecord(const GgufCodec& codec, const In<u8>& packed, const Val<Index>& record, const Val<Index>& lane);

  Val<f32> scale() const;
  Val<f32> minimum() const;

  u32 words() const { return static_cast<u32>(words_.size()); }
  u32 positions() const;
  u32 element(u32 position, u32 word) const;
  /// The code times 2^weight(position), where that is cheaper than the code itself.
  Val<f32> weighted_code(u32 position, u32 word) const;
  u32 weight(u32 position) const;
  Val<f32> code(u32 position, u32 word) const;

  /// The codes 4 j to 4 j + 3, j < 8, as the bytes of a word, least first. Unsigned, except that of Q8_0 they are the
  /// signed codes plus 128.
  Val<u32> bytes(u32 j) const;

 private:
  Val<f32> half(u32 field) const;
  Val<u32> fifth_bit(u32 position, u32 word) const;

  const GgufCodec codec_;
  const In<u8>& packed_;
  Val<Index> record_, lane_;
  std::vector<Val<u32>> words_, high_;
};

/// Element `element` (0 to 31) of a row's block, as the host decodes it.
Val<f32> gguf_element(const GgufCodec& codec, const In<u8>& packed, const Val<Index>& record, const Val<Index>& lane,
                      const Val<Index>& element);

}  // namespace iron::kernels
