// Registration of the Hopper members of the GEMM family: cases against f64, benches, rejected ideas.
#include "gemm/gemm_tma.h"

#include "gemm/oracle.h"
#include "registry.h"

namespace iron::kernels {

namespace {
// b: [N, K], rows along k.
template <class T>
std::vector<f64> oracle(const Array<T>& a, const Array<T>& b, u64 m, u64 n, u64 k) {
  std::vector<f64> c(m * n);
  for (u64 i = 0; i < m; ++i)
    for (u64 j = 0; j < n; ++j)
      for (u64 t = 0; t < k; ++t) c[i * n + j] += a.at(i * k + t) * b.at(j * k + t);
  return c;
}
constexpr f64 e4m3_deviation = 0.5;  // well inside the format's range

template <class T>
Case product(Gen& g, u32 m, u32 n, u32 k, GemmTmaSpec spec, bool judged) {
  const auto a = g.values<T>(m, k), b = g.values<T>(n, k);
  const auto c = g.output<T>(m, n);
  Case made{GemmTma<T>{.a = {a, {k, m}}, .b = {b, {k, n}}, .c = {c, {n, m}}, .m = m, .n = n, .k = k, .spec = spec}};
  if (judged) made.expect("c", oracle(a, b, m, n, k));
  return made.computes(2.0 * m * n * k);
}
template <class T>
Case product_e4m3(Gen& g, u32 m, u32 n, u32 k, GemmTmaSpec spec, bool judged) {
  const auto a = g.normal<e4m3>(e4m3_deviation, m, k), b = g.normal<e4m3>(e4m3_deviation, n, k);
  const auto c = g.output<T>(m, n);
  Case made{GemmTmaE4M3<T>{
      .a = {a, {k, m}}, .b = {b, {k, n}}, .c = {c, {n, m}}, .m = m, .n = n, .k = k, .scale = 1.0f, .spec = spec}};
  if (judged) made.expect("c", oracle(a, b, m, n, k));
  return made.computes(2.0 * m * n * k);
}
}  // namespace

void register_gemm_tma(Registry& r) {
  for (const u32 cluster : {1u, 2u}) {
    const GemmTmaSpec spec{.cluster = cluster};
    const std::string suffix = cluster == 1 ? "" : "_cluster2";
    const std::string blocks =
        "blocks of 128 x 256, two warpgroups, four stages of tensor copies" +
        std::string(cluster == 1 ? "" : "; two threadgroups share their blocks of B by multicast");
    auto k = r.kernel<GemmTma>("gemm_tma" + suffix, "gemm", dtypes<f16, bf16>, [spec](auto& g) { g.spec = spec; });
    k.doc("C[M,N] = A[M,K] * B[N,K]^T by the Hopper tier: " + blocks + ".");
    k.determinism("bitwise on one device: the matrix unit sums in its own fixed order");
    k.needs("roles");
    k.test("ragged on every side", gemm_limit,
           [spec]<class T>(Gen& g) { return product<T>(g, 133, 264, 72, spec, true); });
    k.test("several tiles a threadgroup", gemm_limit, [spec]<class T>(Gen& g) {
      GemmTmaSpec few = spec;
      few.units = 2;
      return product<T>(g, 300, 520, 200, few, true);
    });
    k.bench("4096 x 4096 x 4096", [spec]<class T>(Gen& g) { return product<T>(g, 4096, 4096, 4096, spec, false); });
    k.rejected("super-rows of 4 or 16 tiles of B's columns", "8192^3: 0.973 of cuBLASLt for both, 0.981 to 0.985 for 8",
               "docs/benchmarks/h200-hopper-tier.md");

    auto e = r.kernel<GemmTmaE4M3>("gemm_tma_e4m3" + suffix, "gemm", dtypes<bf16>, [spec](auto& g) { g.spec = spec; });
    e.doc("C[M,N] = scale * A[M,K] * B[N,K]^T, A and B in E4M3, by the Hopper tier: " + blocks + ".");
    e.determinism("bitwise on one device: the matrix unit sums in its own fixed order");
    e.needs("roles");
    e.test("ragged on every side", gemm_limit,
           [spec]<class T>(Gen& g) { return product_e4m3<T>(g, 133, 264, 144, spec, true); });
    e.bench("4096 x 4096 x 4096",
            [spec]<class T>(Gen& g) { return product_e4m3<T>(g, 4096, 4096, 4096, spec, false); });
  }
}

}  // namespace iron::kernels
