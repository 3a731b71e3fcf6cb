// Matrices for tests of the GGUF kernels.
#pragma once

#include <cstring>
#include <vector>

#include "iron/library.h"
#include "quant/prepack.h"

namespace iron::kernels {

// A matrix of random blocks with scales near those of a model, prepacked, and its values.
struct GgufTestMatrix {
  Array<u8> packed;
  std::vector<f32> values;
};
inline GgufTestMatrix random_matrix(Gen& g, quant::GgufType type, u64 rows, u64 cols) {
  const auto& format = quant::gguf_format(type);
  std::vector<std::byte> blocks(rows * cols / format.elements * format.bytes);
  for (auto& b : blocks) b = static_cast<std::byte>(g.next());
  const auto put = [](std::byte* at, f64 v) {
    const f16 half(v);
    std::memcpy(at, &half.bits, 2);
  };
  for (u64 at = 0; at < blocks.size(); at += format.bytes) {
    put(&blocks[at], 0.02 + 0.03 * g.unit());
    if (type == quant::GgufType::q4_1 || type == quant::GgufType::q5_1) put(&blocks[at + 2], -0.4 + 0.3 * g.unit());
  }
  std::vector<std::byte> packed(quant::prepacked_bytes(type, rows, cols));
  quant::prepack(type, rows, cols, blocks, packed);
  GgufTestMatrix m{g.from<u8>([&](u64 i) { return std::to_integer<u32>(packed[i]); }, packed.size()), {}};
  m.values.resize(rows * cols);
  quant::decode(type, blocks, m.values);
  return m;
}

}  // namespace iron::kernels
