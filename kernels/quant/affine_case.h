// Quantised matrices for tests and benches: packed by the host codec, with the values that they stand for.
#pragma once

#include "iron/library.h"
#include "quant/affine.h"

namespace iron::kernels {

/// A matrix [rows, cols] as kernels take it, and its exact values.
template <class T>
struct PackedMatrix {
  Array<u32> words;
  Array<T> scales, biases;
  std::vector<f64> values;
};

template <class T>
PackedMatrix<T> packed_matrix(Gen& g, u32 bits, u32 group, u64 rows, u64 cols) {
  std::vector<f32> source(rows * cols);
  for (auto& v : source) v = static_cast<f32>(0.25 * g.gaussian());
  const auto m = quant::encode_affine({.bits = bits, .group = group, .scale_type = dtype_of<T>}, rows, cols, source);
  const u64 groups = rows * cols / group;
  const auto part = [&](const std::vector<std::byte>& bytes) {
    auto a = g.zeros<T>(groups);
    std::memcpy(a.data(), bytes.data(), bytes.size());
    return a;
  };
  PackedMatrix<T> p{g.from<u32>([&](u64 i) { return m.words[i]; }, m.words.size()), part(m.scales), part(m.biases), {}};
  p.values.resize(rows * cols);
  for (u64 i = 0; i < p.values.size(); ++i)
    p.values[i] = quant::read_code(m.words, i, bits) * p.scales.at(i / group) + p.biases.at(i / group);
  return p;
}

/// out[m, n] = sum_k w[n, k] * x[m, k].
template <class T>
std::vector<f64> affine_product(const std::vector<f64>& w, const Array<T>& x, u64 m, u64 n, u64 k) {
  std::vector<f64> out(m * n);
  for (u64 r = 0; r < m; ++r)
    for (u64 o = 0; o < n; ++o)
      for (u64 i = 0; i < k; ++i) out[r * n + o] += w[o * k + i] * x.at(r * k + i);
  return out;
}

/// out = x * w^T by kernel K on int4 codes in groups of that many: w: [n, k], x: [m, k], out: [m, n].
template <class K>
Case int4_product(Gen& g, u32 group, u32 m, u32 n, u32 k) {
  using T = typename decltype(K::x)::element;
  const auto w = packed_matrix<T>(g, 4, group, n, k);
  const auto x = g.values<T>(m, k);
  const auto out = g.output<T>(m, n);
  return Case{K{.w = w.words, .scales = w.scales, .biases = w.biases, .x = x, .out = out, .m = m, .n = n, .k = k}}
      .expect("out", affine_product(w.values, x, m, n, k))
      .computes(2.0 * m * n * k)
      .moves(u64{m} * n * k / 2 + 2 * sizeof(T) * u64{m} * n * k / group + sizeof(T) * u64{m} * (n + k));
}

inline constexpr Tolerance affine_limit = tolerance(5e-3, 5e-2, 2e-1);

}  // namespace iron::kernels
