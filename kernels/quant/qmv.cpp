// Affine-quantised matrix times vector: qmv, and qmm that reuses one pass over the weights for several vectors.
#include "quant/qmv.h"

#include <algorithm>

#include "iron/library.h"
#include "quant/affine_case.h"
#include "registry.h"

namespace iron::kernels {

namespace {
template <class T>
Case product(Gen& g, u32 m, u32 n, u32 k, QmvSpec spec) {
  const auto w = packed_matrix<T>(g, spec.format.bits, spec.format.group, n, k);
  const auto x = g.values<T>(m, k);
  const auto out = g.output<T>(m, n);
  return Case{AffineQmv<T>{.w = w.words,
                           .scales = w.scales,
                           .biases = w.biases,
                           .x = x,
                           .out = out,
                           .m = m,
                           .n = n,
                           .k = k,
                           .spec = spec}}
      .expect("out", affine_product(w.values, x, m, n, k))
      .computes(2.0 * m * n * k);
}

void add(Registry& r, const std::string& name, QmvSpec spec, const std::string& doc) {
  auto k = r.kernel<AffineQmv>(name, "quant", dtypes<f32, f16, bf16>, [spec](auto& q) { q.spec = spec; });
  k.doc(doc);
  k.shapes("x: [m, k]; out: [m, n]");
  const u32 step = 32 * spec.per_lane, group = spec.format.group;
  k.test("rows and vectors ragged, one step and a part", affine_limit, [=]<class T>(Gen& g) {
    return product<T>(g, spec.vectors + 1, spec.rows_a_group() + 3, (step + group) / group * group, spec);
  });
  for (u32 rest = 1; rest <= std::max(spec.rows, spec.vectors); ++rest)
    k.test(std::to_string(rest) + " rows and vectors left", affine_limit, [=]<class T>(Gen& g) {
      return product<T>(g, spec.vectors + std::min(rest, spec.vectors), spec.rows_a_group() + rest, 2 * group, spec);
    });
  k.test("one row, one group", affine_limit, [=]<class T>(Gen& g) { return product<T>(g, 1, 1, group, spec); });
  k.bench(std::to_string(spec.vectors) + " x 2048 x 2048",
          [=]<class T>(Gen& g) { return product<T>(g, spec.vectors, 2048, 2048, spec); });
}
}  // namespace

void register_qmv(Registry& r) {
  const auto fast = [](u32 bits, u32 vectors) {
    return QmvSpec{.format = {.bits = bits, .group = 64}, .per_lane = bits == 8 ? 4u : 16u, .vectors = vectors};
  };
  const std::string shapes = ": w [N,K] codes, scales and biases [N,K/64], x [M,K], out [M,N]";
  add(r, "qmv", fast(4, 1), "int4" + shapes + "; 8 rows a threadgroup, 16 codes a lane.");
  add(r, "qmv_int8_fast", fast(8, 1), "int8" + shapes + "; 8 rows a threadgroup, 4 codes a lane.");
  add(r, "qmm", fast(4, 1), "int4" + shapes + "; one pass over the weights a vector.");
  add(r, "qmm_int8_fast", fast(8, 1), "int8" + shapes + "; one pass over the weights a vector.");
  for (const u32 vectors : {2u, 4u}) {
    const auto bm = "qmm_bm" + std::to_string(vectors);
    const auto share = "; " + std::to_string(vectors) + " vectors share a pass over the weights.";
    add(r, bm, fast(4, vectors), "int4" + shapes + share);
    add(r, bm + "_int8_fast", fast(8, vectors), "int8" + shapes + share);
  }
  for (const u32 bits : {3u, 4u, 5u, 6u, 8u}) {
    // Whole words of any width: 32 codes a lane. Groups of 32, as the straddling widths are packed.
    QmvSpec spec{.format = {.bits = bits, .group = 32}, .per_lane = 32, .rows = 1, .simdgroups = 2, .vectors = 1};
    const auto width = "int" + std::to_string(bits);
    const std::string generic = ": w [N,K] codes, scales and biases [N,K/32], x [M,K], out [M,N]; a row a simdgroup";
    add(r, "qmv_b" + std::to_string(bits), spec, width + generic + ".");
    spec.vectors = 2;
    add(r, "qmm_b" + std::to_string(bits), spec, width + generic + ", 2 vectors a pass over the weights.");
  }
}

}  // namespace iron::kernels
