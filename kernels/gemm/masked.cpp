// Block-masked GEMM: whole blocks of the output and of the depth are left out.
#include "gemm/oracle.h"
#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

// c[m, n] = out_mask[m / bm, n / bn] ? sum_{k: op_mask[k / bk]} a[m, k] * b[k, n] : 0
// a: [M, K], b: [K, N], c: [M, N], out_mask: [ceil(M / bm), ceil(N / bn)], op_mask: [ceil(K / bk)]; a mask of 0 leaves
// the block out, and nothing of it is read.
template <class T>
struct SteelGemmMasked {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> a, b;
  In<u32> out_mask, op_mask;
  Out<T> c;
  Scalar<u32> m, n, k;
  GemmSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value()); }

  void operator()() const {
    const auto tile_row = threadgroup_id(Axis::y), tile_col = threadgroup_id(Axis::x);
    const auto m0 = tile_row * spec.bm, n0 = tile_col * spec.bn;
    GemmTile<T> tile(spec);
    tile.sum.zero();
    if_(out_mask[tile_row * threadgroups(Axis::x) + tile_col] != 0) {
      for (auto block : range(ceil_div(k, spec.bk))) if_(op_mask[block] != 0) {
          tile.step(block * spec.bk, k, block_rows(a, m0, m, k), block_columns(b, n0, n));
        }
    }
    tile.sum.store(Block(c, m0 * n + n0, n), valid(m, m0, spec.bm), valid(n, n0, spec.bn));
  }
};

namespace {
template <class T>
Case masked(Gen& g, u32 m, u32 n, u32 k, GemmSpec spec) {
  const auto up = [](u32 size, u32 block) { return (size + block - 1) / block; };
  const auto a = g.values<T>(m, k), b = g.values<T>(k, n);
  const auto out_mask = g.from<u32>([](u64 i) { return i % 3 == 1 ? 0u : 7u; }, up(m, spec.bm), up(n, spec.bn));
  const auto op_mask = g.from<u32>([](u64 i) { return i % 2 == 0 ? 1u : 0u; }, up(k, spec.bk));
  const auto c = g.output<T>(m, n);
  std::vector<f64> expected(c.size());
  for (u64 i = 0; i < m; ++i)
    for (u64 j = 0; j < n; ++j) {
      if (!out_mask[i / spec.bm * up(n, spec.bn) + j / spec.bn]) continue;
      for (u64 t = 0; t < k; ++t)
        if (op_mask[t / spec.bk]) expected[i * n + j] += a.at(i * k + t) * b.at(t * n + j);
    }
  return Case{
      SteelGemmMasked<T>{
          .a = a, .b = b, .out_mask = out_mask, .op_mask = op_mask, .c = c, .m = m, .n = n, .k = k, .spec = spec}}
      .expect("c", std::move(expected));
}
}  // namespace

void register_masked_gemm(Registry& r) {
  for (const u32 size : {64u, 32u}) {
    const GemmSpec spec{.bm = size, .bn = size};
    const auto name = "steel_gemm_masked_" + std::to_string(size) + "x" + std::to_string(size);
    auto k = r.kernel<SteelGemmMasked>(name, "gemm", dtypes<f32, f16, bf16>, [spec](auto& g) { g.spec = spec; });
    k.doc(
        "C = A * B with block masks: out_mask a bm x bn block of C (0: zeros), op_mask a block of 16 terms (0: "
        "skipped).");
    k.determinism("bitwise in software; a device's matrix unit sums in its own order");
    k.test("ragged, some blocks left out", gemm_limit,
           [spec]<class T>(Gen& g) { return masked<T>(g, spec.bm + 3, 2 * spec.bn + 1, 53, spec); });
    k.bench("512 x 512 x 512", [spec]<class T>(Gen& g) { return masked<T>(g, 512, 512, 512, spec); });
  }
}

}  // namespace iron::kernels
