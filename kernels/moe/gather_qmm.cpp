// Mixture of experts: rows times the int4 (and 3, 5, 6, 8 bit) weights of their expert, by segments.
#include "iron/library.h"
#include "quant/affine_case.h"
#include "quant/qmv.h"
#include "registry.h"

namespace iron::kernels {

// out[r, n] = sum_k w[e, n, k] * x[r, k] for expert_offsets[e] <= r < expert_offsets[e + 1]
// w: codes [E, N, K], scales, biases: [E, N, K / G], x: [R, K] expert-major, expert_offsets: [E + 1] from 0 to R and
// ascending, out: [R, N]. Empty experts are legal. An offset beyond R is clamped, and the interpreter reports it.
template <class T>
struct MoeGatherQmm {
  static constexpr Mode mode = Mode::Threadgroup;

  In<u32> w;
  In<T> scales, biases, x;
  In<u32> expert_offsets;
  Out<T> out;
  Scalar<u32> rows, n, k;
  QmvSpec spec;

  Grid grid() const {
    const u32 columns = spec.rows_a_group();
    return {Threadgroups{(n.value() + columns - 1) / columns, static_cast<u32>(expert_offsets.size() - 1)},
            Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const auto expert = threadgroup_id(Axis::y);
    const auto n0 = (threadgroup_id(Axis::x) * spec.simdgroups + simdgroup_id()) * spec.rows;
    const Val<Index> columns(n), all(rows);
    const Val<Index> from(bounded(expert_offsets[expert], 0, rows)), end(bounded(expert_offsets[expert + 1], 0, rows));
    for (auto first : range(from, end, spec.vectors)) {
      Vars<f32> sums(spec.rows * spec.vectors, 0.0f);
      affine_dots<T>(
          spec, w, scales, biases, k, [&](u32 r) { return expert * columns + min(n0 + r, columns - 1); },
          input_rows(x, k, [&](u32 v) { return min(first + v, all - 1); }), sums);
      for (u32 r = 0; r < spec.rows; ++r)
        for (u32 v = 0; v < spec.vectors; ++v) {
          const auto total = simd_sum(sums[r * spec.vectors + v]);
          if_(lane_id() == 0 && n0 + r < columns && first + v < end) {
            out[(first + v) * columns + n0 + r] = cast<T>(total);
          }
        }
    }
  }
};

namespace {
template <class T>
Case experts(Gen& g, std::vector<u32> offsets, u32 n, u32 k, QmvSpec spec) {
  const u64 count = offsets.size() - 1;
  const u32 rows = offsets.back();
  const auto w = packed_matrix<T>(g, spec.format.bits, spec.format.group, count * n, k);
  const auto x = g.values<T>(rows, k);
  const auto ends = g.from<u32>([&](u64 i) { return offsets[i]; }, offsets.size());
  const auto out = g.output<T>(rows, n);
  std::vector<f64> expected(out.size());
  for (u64 e = 0; e < count; ++e)
    for (u64 r = offsets[e]; r < offsets[e + 1]; ++r)
      for (u64 o = 0; o < n; ++o)
        for (u64 i = 0; i < k; ++i) expected[r * n + o] += w.values[(e * n + o) * k + i] * x.at(r * k + i);
  return Case{MoeGatherQmm<T>{.w = w.words,
                              .scales = w.scales,
                              .biases = w.biases,
                              .x = x,
                              .expert_offsets = ends,
                              .out = out,
                              .rows = rows,
                              .n = n,
                              .k = k,
                              .spec = spec}}
      .expect("out", std::move(expected))
      .computes(2.0 * rows * n * k);
}
void add(Registry& r, const std::string& name, QmvSpec spec) {
  auto k = r.kernel<MoeGatherQmm>(name, "moe", dtypes<f32, f16, bf16>, [spec](auto& q) { q.spec = spec; });
  k.doc("Expert-major rows x [R,K] times the int" + std::to_string(spec.format.bits) +
        " weights [E,N,K] of their expert, segments from expert_offsets [E+1]; " + std::to_string(spec.vectors) +
        " rows a pass over the weights.");
  k.shapes("x: [rows, k]; out: [rows, n]");
  const u32 group = spec.format.group;
  k.test("empty experts first, between and last; ragged", affine_limit, [=]<class T>(Gen& g) {
    const u32 v = spec.vectors;
    return experts<T>(g, {0, 0, 1, 1, 1 + v, 3 + v, 3 + v}, spec.rows_a_group() + 1, 2 * group, spec);
  });
  k.test("segments of every length", affine_limit, [=]<class T>(Gen& g) {
    std::vector<u32> offsets{0};
    for (u32 length = 1; length <= spec.vectors; ++length) offsets.push_back(offsets.back() + length);
    return experts<T>(g, offsets, spec.rows_a_group() + 1, group, spec);
  });
  for (u32 rest = 2; rest <= spec.rows; ++rest)
    k.test(std::to_string(rest) + " columns left", affine_limit, [=]<class T>(Gen& g) {
      return experts<T>(g, {0, 1, 1 + spec.vectors}, spec.rows_a_group() + rest, group, spec);
    });
  k.bench("256 rows, 8 experts of 1024 x 1024",
          [=]<class T>(Gen& g) { return experts<T>(g, {0, 32, 64, 64, 100, 160, 200, 220, 256}, 1024, 1024, spec); });
}
}  // namespace

void register_moe_gather_qmm(Registry& r) {
  const auto spec = [](u32 bits, u32 vectors) {
    const bool straddles = 32 % bits != 0;
    return QmvSpec{.format = {.bits = bits, .group = straddles ? 32u : 64u},
                   .per_lane = straddles   ? 32u
                               : bits == 8 ? 4u
                                           : 8u,
                   .rows = vectors > 1 ? 1u : 4u,
                   .simdgroups = 2,
                   .vectors = vectors};
  };
  add(r, "moe_gather_qmm_int4", spec(4, 1));
  for (const u32 bits : {3u, 5u, 6u, 8u}) add(r, "moe_gather_qmm_b" + std::to_string(bits), spec(bits, 1));
  for (const u32 vectors : {8u, 16u, 32u}) add(r, "moe_gather_qmm_int4_m" + std::to_string(vectors), spec(4, vectors));
}

}  // namespace iron::kernels
