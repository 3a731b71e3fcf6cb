// int4 matrix times vector for long rows: 16 bytes of codes a lane and row, decoded by few operations a code.
#include <vector>

#include "iron/dsl.h"
#include "iron/library.h"
#include "quant/affine_case.h"
#include "registry.h"

namespace iron::kernels {

namespace {

constexpr u32 group = 64;  // codes a scale
constexpr u32 chunk = 32;  // codes of a lane and turn: one access of 16 bytes
constexpr u32 chunk_words = 4;

// The inputs of a chunk; the sum of them, and what the leading digits of the decoded codes add to a dot, negated.
struct Inputs {
  std::vector<Val<f32>> x;
  Val<f32> sum, offset;
};

// sum_j q_j * x_j / 16 over a chunk. Under the exponent of 1 a code q in bits 19 to 22 is the number 1 + q / 16; under
// that of 16, in bits 15 to 18, it is 16 + q / 16: half of the codes need no shift, and none a conversion.
inline Val<f32> chunk_dot(const Vec<u32, chunk_words>& words, const Inputs& in) {
  std::vector<Val<f32>> dot{in.offset};
  for (u32 w = 0; w < chunk_words; ++w) {
    const Val<u32> word = words[w];
    for (u32 pair = 0; pair < 4; ++pair) {
      const Val<u32> codes = pair < 2 ? word << (15 - 8 * pair) : word >> (8 * pair - 15);
      const auto even = bitcast<f32>((codes & 0x00078000u) | 0x41800000u);
      const auto odd = bitcast<f32>((codes & 0x00780000u) | 0x3f800000u);
      const u32 j = 8 * w + 2 * pair;
      dot.push_back(fma(even, in.x[j], dot.back()));
      dot.push_back(fma(odd, in.x[j + 1], dot.back()));
    }
  }
  return dot.back();
}

// out[m, n] = sum_k (scales[n, k / 64] * q[n, k] + biases[n, k / 64]) * x[m, k]
// w: int4 codes [N, K], scales, biases: [N, K / 64], x: [M, K], out: [M, N]; K a multiple of 64. A pass over the
// weights a vector. The simdgroups of a threadgroup share its rows: each takes every so many steps of 1,024 codes, a
// lane 32 of them; within a chunk codes ascending, then scale * sum(q * x) and bias * sum(x); then the lanes by R4,
// then the simdgroups in order.
template <class T>
struct AffineQmvStream {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 width = 16 / sizeof(T);

  In<u32> w;
  In<T> scales, biases, x;
  Out<T> out;
  Scalar<u32> m, n, k;
  u32 rows = 8, splits = 4;

  Grid grid() const { return {Threadgroups{(n.value() + rows - 1) / rows, m.value()}, Threads{32 * splits}}; }

  void operator()() const {
    const Val<Index> depth(k), height(n), chunks = depth / chunk, vector = threadgroup_id(Axis::y);
    const auto n0 = threadgroup_id(Axis::x) * rows;
    std::vector<Val<Index>> row;  // rows beyond the edge repeat the last one; they are not stored
    for (u32 r = 0; r < rows; ++r) row.push_back(min(n0 + r, height - 1));
    Vars<f32> sums(rows, 0.0f);
    const u32 step = 32 * splits;
    for (auto turn : range(0u, (chunks + (step - 1)) / step)) {
      const auto wanted = turn * step + thread_id();
      const auto inside = wanted < chunks;
      const auto at = min(wanted, chunks - 1);
      std::vector<Vec<u32, chunk_words>> words;
      std::vector<Val<T>> scale, bias;
      for (u32 r = 0; r < rows; ++r) {
        words.push_back(load_vec<chunk_words>(w, (row[r] * chunks + at) * chunk_words));
        const auto scale_at = row[r] * (depth / group) + at / (group / chunk);
        scale.push_back(scales[scale_at]), bias.push_back(biases[scale_at]);
      }
      const auto in = inputs(vector * depth + at * chunk);
      for (u32 r = 0; r < rows; ++r) {
        const Val<f32> old = sums[r];
        const auto added =
            fma(cast<f32>(scale[r]) * 16.0f, chunk_dot(words[r], in), fma(cast<f32>(bias[r]), in.sum, old));
        sums[r] = select(inside, added, old);
      }
    }
    Shared<f32> partial(rows * splits);
    for (u32 r = 0; r < rows; ++r) {
      const auto total = simd_sum(sums[r]);
      if_(lane_id() == 0u) { partial[simdgroup_id() * rows + r] = total; }
    }
    barrier();
    if_(thread_id() < rows && n0 + thread_id() < height) {
      std::vector<Val<f32>> total;
      for (u32 s = 0; s < splits; ++s) {
        const Val part = partial[s * rows + thread_id()];
        total.push_back(s == 0 ? part : total.back() + part);
      }
      out[vector * height + n0 + thread_id()] = cast<T>(total.back());
    }
  }

  Inputs inputs(const Val<Index>& first) const {
    std::vector<Vec<T, width>> parts;
    for (u32 i = 0; i < chunk / width; ++i) parts.push_back(load_vec<width>(x, first + i * width));
    std::vector<Val<f32>> v, even, odd;
    for (u32 j = 0; j < chunk; ++j) {
      auto& sums = j % 2 == 0 ? even : odd;
      v.push_back(cast<f32>(parts[j / width][j % width]));
      sums.push_back(j < 2 ? v.back() : sums.back() + v.back());
    }
    return {std::move(v), even.back() + odd.back(), fma(even.back(), -16.0f, -odd.back())};
  }
};

}  // namespace

void register_qmv_stream(Registry& r) {
  auto k = r.kernel<AffineQmvStream>("qmv_stream", "quant", dtypes<f32, f16, bf16>);
  k.doc("As qmv, for long rows: int4 codes [N,K] by 16 bytes a lane, 8 rows a threadgroup, whose simdgroups share k.");
  k.shapes("x: [m, k]; out: [m, n]");
  k.test("rows ragged, one step and a part", affine_limit,
         []<class T>(Gen& g) { return int4_product<AffineQmvStream<T>>(g, group, 2, 19, 1344); });
  k.test("whole steps", affine_limit,
         []<class T>(Gen& g) { return int4_product<AffineQmvStream<T>>(g, group, 1, 9, 3072); });
  k.test("one row, one group", affine_limit,
         []<class T>(Gen& g) { return int4_product<AffineQmvStream<T>>(g, group, 1, 1, group); });
  const char* const where = "H200, bf16 1 x 8192 x 8192, microseconds beside 15.0";
  k.rejected("fewer rows a threadgroup: each decodes the vector for itself", "4: 15.4 to 17.2, 2: 18.0 to 19.7", where);
  k.rejected("the next turn's codes loaded a turn ahead", "16.3: registers for 3 threadgroups where 4 fit", where);
  k.rejected("two shifts a word, with three codes each, instead of four", "16.3", where);
  k.rejected("the matrix unit, fed with pairs of codes under an exponent (1.7 to 2.5 instructions a code, not 3.5)",
             "rows of weights as its rows: 15.1 to 15.9; lanes of one row, its diagonal: 15.5 to 19.6", where);
  k.rejected("the same with the next turn's codes in registers, or asked for in the second cache", "16.8 to 25.5",
             where);
  k.bench("1 x 4096 x 4096", []<class T>(Gen& g) { return int4_product<AffineQmvStream<T>>(g, group, 1, 4096, 4096); });
}

}  // namespace iron::kernels
