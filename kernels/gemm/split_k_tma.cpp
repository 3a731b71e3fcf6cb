// Registration of the Hopper members of the split-K family, and which of them a shape gets.
#include "gemm/split_k_tma.h"

#include <algorithm>

#include "gemm/oracle.h"
#include "gemm/split_k.h"
#include "registry.h"

namespace iron::kernels {

u32 split_k_parts(u32 m, u32 n, u32 k, u32 units) {
  if (m == 0 || n == 0 || k == 0)
    throw Error("LIB03", "a product of " + std::to_string(m) + " x " + std::to_string(n) + " over " + std::to_string(k),
                "give every dimension at least 1");
  const u32 blocks = (k + 63) / 64, tiles = split_k_spec(1).tiles(m, n);
  const u32 wanted = std::clamp((2 * units + tiles - 1) / tiles, 1u, (blocks + 3) / 4);
  const u32 part = (blocks + wanted - 1) / wanted;
  return (blocks + part - 1) / part;
}

SplitKChoice split_k_tma_for(u32 m, u32 n, u32 k, u32 units) {
  const u32 slices = split_k_parts(m, n, k, units);
  for (const u32 cluster : {8u, 4u, 2u})
    if (split_k_spec(cluster).tiles(m, n) * cluster <= (cluster == 2 ? units : units * 3 / 4))
      return {cluster, cluster};
  return {1, slices};
}

namespace {
// b: [N, K], rows along k.
template <class T>
std::vector<f64> oracle(const Array<T>& a, const Array<T>& b, u64 m, u64 n, u64 k, u64 from, u64 end) {
  std::vector<f64> c(m * n);
  for (u64 i = 0; i < m; ++i)
    for (u64 j = 0; j < n; ++j)
      for (u64 t = from; t < std::min(end, k); ++t) c[i * n + j] += a.at(i * k + t) * b.at(j * k + t);
  return c;
}
f64 work(u32 m, u32 n, u32 k) { return 2.0 * m * n * k; }
u64 traffic(u64 m, u64 n, u64 k, u64 size) { return size * (m * k + n * k + m * n); }

template <class T>
GemmSplitKTma<T> launch(Array<T> a, Array<T> b, Array<f32> partials, u32 m, u32 n, u32 k, u32 splits,
                        SplitKTmaSpec spec) {
  return {.a = {a, {k, m}},
          .b = {b, {k, n}},
          .partials = {partials, {n, m, splits}},
          .m = m,
          .n = n,
          .k = k,
          .splits = splits,
          .spec = spec};
}
template <class T>
Case slices(Gen& g, u32 m, u32 n, u32 k, u32 splits, SplitKTmaSpec spec) {
  const auto a = g.values<T>(m, k), b = g.values<T>(n, k);
  const auto partials = g.output<f32>(splits, m, n);
  const u32 part = ((k + 63) / 64 + splits - 1) / splits * 64;
  std::vector<f64> want;
  for (u32 s = 0; s < splits; ++s) {
    const auto slice = oracle(a, b, m, n, k, u64{s} * part, u64{s + 1} * part);
    want.insert(want.end(), slice.begin(), slice.end());
  }
  return Case{launch<T>(a, b, partials, m, n, k, splits, spec)}.expect("partials", std::move(want));
}
// Both steps, against the whole product.
template <class T>
Case summed(Gen& g, u32 m, u32 n, u32 k, u32 splits, SplitKTmaSpec spec) {
  const auto a = g.values<T>(m, k), b = g.values<T>(n, k);
  const auto partials = g.output<f32>(splits, m, n);
  const auto c = g.output<T>(m, n);
  return Case{launch<T>(a, b, partials, m, n, k, splits, spec)}
      .then(SplitKAccum<T>{.partials = partials, .c = c, .splits = splits})
      .expect("c", oracle(a, b, m, n, k, 0, k))
      .computes(work(m, n, k))
      .moves(traffic(m, n, k, sizeof(T)));
}
template <class T>
Case joined(Gen& g, u32 m, u32 n, u32 k, SplitKTmaSpec spec) {
  const auto a = g.values<T>(m, k), b = g.values<T>(n, k);
  const auto c = g.output<T>(m, n);
  return Case{GemmSplitKCluster<T>{.a = {a, {k, m}}, .b = {b, {k, n}}, .c = c, .m = m, .n = n, .k = k, .spec = spec}}
      .expect("c", oracle(a, b, m, n, k, 0, k))
      .computes(work(m, n, k))
      .moves(traffic(m, n, k, sizeof(T)));
}

constexpr auto record = "docs/benchmarks/h200-hopper-tier.md";

void add_slices(Registry& r) {
  const SplitKTmaSpec spec = split_k_spec(1);
  auto k = r.kernel<GemmSplitKTma>("gemm_splitk_tma", "gemm", dtypes<f16, bf16>, [spec](auto& g) { g.spec = spec; });
  k.doc(
      "partials[s,M,N] (f32) = A * B^T over the s-th part of the depth, by the Hopper tier: blocks of 64 x 128, tensor "
      "copies, no barrier in the loop; splitk_accum adds the slices in order.");
  k.shapes("a: [m, k]; b: [n, k]; partials: [splits, m, n]");
  k.determinism("bitwise on one device: each part has a slice of its own, slices are added in order");
  k.needs("roles");
  k.test("parts of unequal length, ragged on every side", gemm_limit,
         [spec]<class T>(Gen& g) { return slices<T>(g, 71, 132, 200, 3, spec); });
  k.test("more splits than blocks", gemm_limit, [spec]<class T>(Gen& g) { return slices<T>(g, 9, 12, 72, 3, spec); });
  k.test("with its accumulation", gemm_limit, [spec]<class T>(Gen& g) { return summed<T>(g, 33, 136, 456, 4, spec); });
  k.rejected("a part for every block of 64 terms", "64 x 64 x 16384: 20.1 us for 256 slices, 9.5 us for 32", record);
  for (const auto& [m, n, depth] : {std::tuple{64u, 64u, 16384u}, {256u, 96u, 5120u}, {16u, 8192u, 8192u}}) {
    const u32 splits = split_k_parts(m, n, depth, 132);
    k.bench(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(depth) + ", " +
                std::to_string(splits) + " splits",
            [=]<class T>(Gen& g) { return summed<T>(g, m, n, depth, splits, spec); });
  }
}
void add_joined(Registry& r, u32 cluster) {
  const SplitKTmaSpec spec = split_k_spec(cluster);
  const std::string n = std::to_string(cluster);
  auto k = r.kernel<GemmSplitKCluster>("gemm_splitk_tma_cluster" + n, "gemm", dtypes<f16, bf16>,
                                       [spec](auto& g) { g.spec = spec; });
  k.doc("C[M,N] = A * B^T in one launch by the Hopper tier: the depth shared by a cluster of " + n +
        ", partial sums of 64 x " + std::to_string(spec.bn) + " joined out of each other's threadgroup memory.");
  k.shapes("a: [m, k]; b: [n, k]; c: [m, n]");
  k.determinism("bitwise on one device: ranks are added in order");
  k.needs("roles");
  k.test("ragged on every side", gemm_limit,
         [spec]<class T>(Gen& g) { return joined<T>(g, 71, 129, 128 * spec.cluster - 56, spec); });
  k.test("whole tiles across", gemm_limit,
         [spec]<class T>(Gen& g) { return joined<T>(g, 70, 128, 64 * spec.cluster + 8, spec); });
  k.test("ranks without terms", gemm_limit, [spec]<class T>(Gen& g) { return joined<T>(g, 5, 9, 72, spec); });
  k.bench("96 x 512 x 2048", [spec]<class T>(Gen& g) { return joined<T>(g, 96, 512, 2048, spec); });
  k.bench("256 x 96 x 5120", [spec]<class T>(Gen& g) { return joined<T>(g, 256, 96, 5120, spec); });
  if (cluster == 8) {
    k.rejected("blocks of 64 x 128, three stages", "256 x 96 x 5120: 8.35 us, 5.48 us for 64 x 64 and ten", record);
    k.rejected("slices and their sum", "256 x 96 x 5120: 6.41 us at best (64 x 64, 16 slices)", record);
  }
}
void add_few_rows(Registry& r, u32 rows) {
  const SplitKTmaSpec spec = few_rows_spec(rows);
  const std::string n = std::to_string(rows);
  auto k =
      r.kernel<GemmSplitKCluster>("gemm_tma_rows" + n, "gemm", dtypes<f16, bf16>, [spec](auto& g) { g.spec = spec; });
  k.doc("C[M,N] = A * B^T for up to " + n +
        " rows of A, by the Hopper tier: 64 rows of B are the rows of a warpgroup's " + "product, " + n +
        " rows of A its columns, " + std::to_string(spec.stages) + " stages of tensor copies.");
  k.shapes("a: [m, k]; b: [n, k]; c: [m, n]");
  k.determinism("bitwise on one device: ranks are added in order");
  k.needs("roles");
  k.test("ragged on every side", gemm_limit,
         [spec]<class T>(Gen& g) { return joined<T>(g, spec.bn - 3, 131, 64 * spec.stages + 200, spec); });
  k.test("more rows than columns of a tile", gemm_limit,
         [spec]<class T>(Gen& g) { return joined<T>(g, spec.bn + 5, 64, 136, spec); });
  k.test("two threadgroups share the depth", gemm_limit, [spec]<class T>(Gen& g) {
    SplitKTmaSpec two = spec;
    two.cluster = 2;
    return joined<T>(g, spec.bn, 72, 520, two);
  });
  k.bench(n + " x 8192 x 8192", [spec]<class T>(Gen& g) { return joined<T>(g, spec.bn, 8192, 8192, spec); });
}
}  // namespace

void register_split_k_tma(Registry& r) {
  add_slices(r);
  for (const u32 cluster : {2u, 4u, 8u}) add_joined(r, cluster);
  for (const u32 rows : {16u, 32u, 64u}) add_few_rows(r, rows);
}

}  // namespace iron::kernels
