// Prepacked matrices for tests of the products that read them.
#pragma once

#include "gguf/fixture.h"
#include "quant/prepack.h"

namespace iron::kernels {

/// A random matrix [rows, cols], prepacked, and its values.
struct PrepackedMatrix {
  Array<u8> packed;
  std::vector<f32> values;
};
inline PrepackedMatrix random_prepacked_matrix(Gen& g, quant::GgufType type, u64 rows, u64 cols) {
  auto m = random_gguf_matrix(g, type, rows, cols);
  std::vector<std::byte> packed(quant::prepacked_bytes(type, rows, cols));
  quant::prepack(type, rows, cols, m.blocks, packed);
  return {g.from<u8>([&](u64 i) { return std::to_integer<u32>(packed[i]); }, packed.size()), std::move(m.values)};
}

}  // namespace iron::kernels
