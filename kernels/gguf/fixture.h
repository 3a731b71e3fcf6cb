// GGUF matrices for tests and benches, and what products with them must be.
#pragma once

#include "iron/library.h"
#include "quant/gguf_blocks.h"

namespace iron::kernels {

/// Random blocks [rows, cols / elements], with scales near those of a model, and their values.
struct GgufMatrix {
  std::vector<std::byte> blocks;
  std::vector<f32> values;
};
inline GgufMatrix random_gguf_matrix(Gen& g, quant::GgufType type, u64 rows, u64 cols) {
  using quant::GgufType;
  const auto& format = quant::gguf_format(type);
  GgufMatrix m{std::vector<std::byte>(rows * cols / format.elements * format.bytes), std::vector<f32>(rows * cols)};
  for (auto& b : m.blocks) b = static_cast<std::byte>(g.next());
  const auto put = [](std::byte* at, f64 v) {
    const f16 half(v);
    std::memcpy(at, &half.bits, 2);
  };
  for (u64 at = 0; at < m.blocks.size(); at += format.bytes) {
    std::byte* block = &m.blocks[at];
    if (type == GgufType::q4_k) {
      put(block, 1e-3 * (1.0 + g.unit())), put(block + 2, 5e-3 * (1.0 + g.unit()));
    } else if (type == GgufType::q6_k) {
      put(block + 208, 2e-4 * (1.0 + g.unit()));
    } else {
      put(block, 0.02 + 0.03 * g.unit());
      if (type == GgufType::q4_1 || type == GgufType::q5_1) put(block + 2, -0.4 + 0.3 * g.unit());
    }
  }
  quant::decode(type, m.blocks, m.values);
  return m;
}

/// Shape of a product: x [tokens, cols] times a matrix [rows, cols].
struct GgufShape {
  u32 tokens, rows, cols;
};
/// y[t, r] = sum_c w[r, c] * x[t, c], added to the residual where there is one.
inline std::vector<f64> gguf_product(const std::vector<f32>& w, const Array<f32>& x, const GgufShape& s,
                                     const Array<f32>* residual) {
  std::vector<f64> want;
  for (u64 t = 0; t < s.tokens; ++t)
    for (u64 r = 0; r < s.rows; ++r) {
      f64 sum = residual ? residual->at(t * s.rows + r) : 0.0;
      for (u64 c = s.cols; c-- > 0;) sum += f64{w[r * s.cols + c]} * x.at(t * s.cols + c);
      want.push_back(sum);
    }
  return want;
}
/// Rows of the values by their numbers.
inline std::vector<f32> gguf_rows(const std::vector<f32>& values, const std::vector<u32>& ids, u64 cols) {
  std::vector<f32> want;
  for (const u64 id : ids)
    want.insert(want.end(), values.begin() + static_cast<i64>(id * cols),
                values.begin() + static_cast<i64>((id + 1) * cols));
  return want;
}

}  // namespace iron::kernels
