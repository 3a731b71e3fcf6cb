// Registration of the E4M3 products with a scale a block: cases against f64, benches.
#include "gemm/gemm_tma_blocks.h"

#include "gemm/oracle.h"
#include "registry.h"

namespace iron::kernels {

namespace {
// Scales differ by orders, as those of real weights: a scale of another block would show.
template <class T>
Case product(Gen& g, u32 m, u32 n, u32 k, GemmTmaBlocksSpec spec, bool judged) {
  const u32 blocks = (k + 127) / 128, down = (n + 127) / 128;
  const auto a = g.normal<e4m3>(0.5, m, k), b = g.normal<e4m3>(0.5, n, k);
  const auto a_scales = g.uniform<f32>(0.05, 2.0, blocks, m), b_scales = g.uniform<f32>(0.05, 2.0, down, blocks);
  const auto c = g.output<T>(m, n);
  Case made{GemmTmaE4M3Blocks<T>{.a = {a, {k, m}},
                                 .b = {b, {k, n}},
                                 .a_scales = {a_scales, {m, blocks}},
                                 .b_scales = b_scales,
                                 .c = {c, {n, m}},
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .spec = spec}};
  if (judged) {
    std::vector<f64> want(u64{m} * n);
    for (u64 i = 0; i < m; ++i)
      for (u64 j = 0; j < n; ++j)
        for (u64 t = 0; t < k; ++t)
          want[i * n + j] += a.at(i * k + t) * b.at(j * k + t) * a_scales.at(t / 128 * m + i) *
                             b_scales.at(j / 128 * blocks + t / 128);
    made.expect("c", std::move(want));
  }
  return made.computes(2.0 * m * n * k).moves(u64{m} * k + u64{n} * k + u64{m} * n * sizeof(T) + 4ull * blocks * m);
}
}  // namespace

void register_gemm_tma_blocks(Registry& r) {
  for (const u32 cluster : {1u, 2u}) {
    const GemmTmaBlocksSpec spec{.cluster = cluster};
    auto k = r.kernel<GemmTmaE4M3Blocks>("gemm_tma_e4m3_blocks" + std::string(cluster == 1 ? "" : "_cluster2"), "gemm",
                                         dtypes<f16, bf16>, [spec](auto& g) { g.spec = spec; });
    k.doc(
        "C[M,N] = A[M,K] * B[N,K]^T in E4M3 with f32 scales, one a row and 128 terms of A, one a block of 128 x 128 of "
        "B, by the Hopper tier: blocks of 128 x 128, each block of terms promoted to f32" +
        std::string(cluster == 1 ? "." : "; two threadgroups share their blocks of B by multicast."));
    k.shapes("a: [m, k]; b: [n, k]; a_scales: [blocks, m]; b_scales: [down, blocks]; c: [m, n]");
    k.determinism("bitwise on one device: the matrix unit sums in its own fixed order, blocks are added in order");
    k.needs("roles");
    k.test("ragged on every side, an odd number of blocks", gemm_limit,
           [spec]<class T>(Gen& g) { return product<T>(g, 132, 136, 272, spec, true); });
    k.test("several tiles a threadgroup", gemm_limit, [spec]<class T>(Gen& g) {
      GemmTmaBlocksSpec few = spec;
      few.units = 2;
      return product<T>(g, 140, 264, 144, few, true);
    });
    k.rejected("a loop that drains after two blocks", "4096 x 4096 x 7168: 251 us with a cluster, 222 us after four",
               "docs/benchmarks/h200-hopper-tier.md");
    k.rejected("warpgroups in turns, four blocks each", "4096 x 4096 x 7168: 290 us with a cluster, 222 us without",
               "docs/benchmarks/h200-hopper-tier.md");
    k.bench("4096 x 4096 x 7168", [spec]<class T>(Gen& g) { return product<T>(g, 4096, 4096, 7168, spec, false); });
  }
}

}  // namespace iron::kernels
