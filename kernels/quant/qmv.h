// Affine-quantised matrix times vector, and times a few vectors that share one pass over the weights.
#pragma once

#include "iron/dsl.h"
#include "quant/decode.h"

namespace iron::kernels {

/// Work of a threadgroup: `simdgroups` x `rows` rows of weights against `vectors` rows of activations; a lane reads
/// `per_lane` neighbouring codes a step.
struct QmvSpec {
  AffineFormat format;
  u32 per_lane = 16, rows = 4, simdgroups = 2, vectors = 1;

  constexpr u32 rows_a_group() const { return rows * simdgroups; }
};

/// Adds to sums[r * vectors + v] this lane's part of sum_k w[row(r), k] * x[v, k], as scale * sum(q * x) + bias *
/// sum(x) a group: the same value as term by term up to rounding. input(v, first, j) is x[v, first + j] in f32.
template <class T, class Row, class Input>
void affine_dots(const QmvSpec& s, const In<u32>& words, const In<T>& scales, const In<T>& biases, Use<Index> depth,
                 Row row, Input input, Vars<f32>& sums) {
  const Val<Index> k(depth);
  const auto row_words = k / 32 * s.format.bits, row_groups = k / s.format.group;
  for (auto step : range(lane_id(), k / s.per_lane, 32)) {
    const auto first = step * s.per_lane;
    const auto group = first / s.format.group;
    std::vector<std::vector<Val<f32>>> inputs(s.vectors);
    std::vector<Val<f32>> totals;
    for (u32 v = 0; v < s.vectors; ++v) {
      for (u32 j = 0; j < s.per_lane; ++j) inputs[v].push_back(input(v, first, j));
      Val<f32> total = inputs[v][0];
      std::vector<Val<f32>> chain{total};
      for (u32 j = 1; j < s.per_lane; ++j) chain.push_back(chain.back() + inputs[v][j]);
      totals.push_back(chain.back());
    }
    for (u32 r = 0; r < s.rows; ++r) {
      const Val<Index> at(row(r));
      const auto codes =
          read_codes(words, at * row_words + step * s.format.words(s.per_lane), s.per_lane, s.format.bits);
      const auto scale = cast<f32>(scales[at * row_groups + group]), bias = cast<f32>(biases[at * row_groups + group]);
      std::vector<Val<f32>> q;
      for (const auto& code : codes) q.push_back(cast<f32>(code));
      for (u32 v = 0; v < s.vectors; ++v) {
        std::vector<Val<f32>> dot{q[0] * inputs[v][0]};
        for (u32 j = 1; j < s.per_lane; ++j) dot.push_back(fma(q[j], inputs[v][j], dot.back()));
        const auto scaled = fma(scale, dot.back(), bias * totals[v]);
        sums[r * s.vectors + v] += scaled;
      }
    }
  }
}

/// The inputs of affine_dots that are rows of x: [.., depth]; vector(v) is the row.
template <class T, class Vector>
auto input_rows(const In<T>& x, Use<Index> depth, Vector vector) {
  return [&x, k = Val<Index>(depth), vector](u32 v, const Val<Index>& first, u32 j) {
    const Val<Index> start(vector(v) * k + first);
    return cast<f32>(x[start + j]);
  };
}

/// out[m, n] = sum_k (scales[n, k / G] * q[n, k] + biases[n, k / G]) * x[m, k]
/// w: codes [N, K] (src/quant/affine.h), scales, biases: [N, K / G], x: [M, K], out: [M, N]; K a multiple of G.
template <class T>
struct AffineQmv {
  static constexpr Mode mode = Mode::Threadgroup;

  In<u32> w;
  In<T> scales, biases, x;
  Out<T> out;
  Scalar<u32> m, n, k;
  QmvSpec spec;

  Grid grid() const {
    const u32 rows = spec.rows_a_group();
    return {Threadgroups{(n.value() + rows - 1) / rows, (m.value() + spec.vectors - 1) / spec.vectors},
            Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const auto n0 = (threadgroup_id(Axis::x) * spec.simdgroups + simdgroup_id()) * spec.rows;
    const auto m0 = threadgroup_id(Axis::y) * spec.vectors;
    const Val<Index> rows(n), vectors(m);
    Vars<f32> sums(spec.rows * spec.vectors, 0.0f);
    // Rows beyond the edge repeat the last one; they are not stored.
    affine_dots<T>(
        spec, w, scales, biases, k, [&](u32 r) { return min(n0 + r, rows - 1); },
        input_rows(x, k, [&](u32 v) { return min(m0 + v, vectors - 1); }), sums);
    for (u32 r = 0; r < spec.rows; ++r)
      for (u32 v = 0; v < spec.vectors; ++v) {
        const auto total = simd_sum(sums[r * spec.vectors + v]);
        if_(lane_id() == 0 && n0 + r < rows && m0 + v < vectors) { out[(m0 + v) * rows + n0 + r] = cast<T>(total); }
      }
  }
};

}  // namespace iron::kernels
