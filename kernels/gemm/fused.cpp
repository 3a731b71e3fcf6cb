// GEMM with its epilogue in the accumulator: scale and add before the one rounding.
#include "gemm/oracle.h"
#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

// c[m, n] = alpha * sum_k a[m, k] * b[k, n] + beta * addend[m, n]      a: [M, K], b: [K, N], addend, c: [M, N]
template <class T>
struct SteelGemmFused {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> a, b, addend;
  Out<T> c;
  Scalar<u32> m, n, k;
  Scalar<f32> alpha, beta;
  GemmSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value()); }

  void operator()() const {
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    GemmTile<T> tile(spec);
    tile.sum.zero();
    tile.multiply(0, k, block_rows(a, m0, m, k), block_columns(b, n0, n));
    for (auto e : range(tile.sum.elements())) {
      const auto row = m0 + tile.sum.row(e), col = n0 + tile.sum.col(e);
      const auto add = addend.load_or(row < m && col < n, row * n + col, T{});
      const auto scaled = alpha * tile.sum.get(e);
      tile.sum.set(e, scaled + beta * cast<f32>(add));
    }
    tile.sum.store(Block(c, m0 * n + n0, n), valid(m, m0, spec.bm), valid(n, n0, spec.bn));
  }
};

namespace {
template <class T>
Case fused(Gen& g, u32 m, u32 n, u32 k) {
  const auto a = g.values<T>(m, k), b = g.values<T>(k, n), addend = g.values<T>(m, n);
  const auto c = g.output<T>(m, n);
  const f32 alpha = -0.5f, beta = 1.25f;
  auto expected = gemm_oracle(a, b, m, n, k);
  for (u64 i = 0; i < expected.size(); ++i) expected[i] = f64{alpha} * expected[i] + f64{beta} * addend.at(i);
  return Case{SteelGemmFused<T>{.a = a,
                                .b = b,
                                .addend = addend,
                                .c = c,
                                .m = m,
                                .n = n,
                                .k = k,
                                .alpha = alpha,
                                .beta = beta,
                                .spec = {.bm = 32, .bn = 32, .bk = 32}}}
      .expect("c", std::move(expected))
      .computes(2.0 * m * n * k);
}
}  // namespace

void register_fused_gemm(Registry& r) {
  auto k = r.kernel<SteelGemmFused>("steel_gemm_fused_nax", "gemm", dtypes<f32, f16, bf16>,
                                    [](auto& g) { g.spec = {.bm = 32, .bn = 32, .bk = 32}; });
  k.doc("C = alpha * A * B + beta * addend in 32 x 32 x 32 blocks, the epilogue in the accumulator.");
  k.shapes("a: [m, k]; b: [k, n]; addend, c: [m, n]");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  k.test("ragged", gemm_limit, []<class T>(Gen& g) { return fused<T>(g, 37, 45, 50); });
  k.bench("512 x 512 x 512", []<class T>(Gen& g) { return fused<T>(g, 512, 512, 512); });
}

}  // namespace iron::kernels
