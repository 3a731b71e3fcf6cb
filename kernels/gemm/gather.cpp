// Gathered GEMM: rows of A and column blocks of B chosen by index.
#include "gemm/oracle.h"
#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

// c[m, n] = sum_k a[lhs_indices[m], k] * b[k, rhs_indices[n / bn] * bn + n % bn]
// a: [A, K], b: [K, B], c: [M, N], lhs_indices: [M], rhs_indices: [ceil(N / bn)]. An index outside its matrix gives
// zeros and reads nothing.
template <class T>
struct SteelGemmGather {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> a, b;
  In<u32> lhs_indices, rhs_indices;
  Out<T> c;
  Scalar<u32> m, n, k, a_rows, b_cols;
  GemmSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value()); }

  void operator()() const {
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    const Val<Index> column_block(rhs_indices[threadgroup_id(Axis::x)]);
    const auto b0 = column_block * spec.bn;
    GemmTile<T> tile(spec);
    tile.sum.zero();
    tile.multiply(
        0, k,
        [&](auto r, auto at, auto inside) {
          const Val<Index> row(lhs_indices.load_or(m0 + r < m, m0 + r, 0xffffffffu));
          return a.load_or(inside && row < a_rows, row * k + at, T{});
        },
        [&](auto at, auto col, auto inside) {
          return b.load_or(inside && n0 + col < n && b0 + col < b_cols, at * b_cols + b0 + col, T{});
        });
    tile.sum.store(Block(c, m0 * n + n0, n), valid(m, m0, spec.bm), valid(n, n0, spec.bn));
  }
};

namespace {
template <class T>
Case gathered(Gen& g, u32 m, u32 n, u32 k, u32 a_rows, u32 blocks, bool invalid, GemmSpec spec) {
  const u32 b_cols = blocks * spec.bn - 3;  // the last block of B is ragged
  const auto a = g.values<T>(a_rows, k), b = g.values<T>(k, b_cols);
  auto lhs = g.integers<u32>(0, a_rows - 1, m);
  const u32 tiles = (n + spec.bn - 1) / spec.bn;
  const auto rhs = g.from<u32>([&](u64 i) { return static_cast<u32>((i + 1) * 2 % blocks); }, tiles);
  if (invalid) lhs[1] = a_rows, lhs[m - 1] = 0xffffffffu;
  const auto c = g.output<T>(m, n);
  std::vector<f64> expected(c.size());
  for (u64 i = 0; i < m; ++i)
    for (u64 j = 0; j < n; ++j) {
      const u64 row = lhs[i], col = u64{rhs[j / spec.bn]} * spec.bn + j % spec.bn;
      if (row >= a_rows || col >= b_cols) continue;
      for (u64 t = 0; t < k; ++t) expected[i * n + j] += a.at(row * k + t) * b.at(t * b_cols + col);
    }
  return Case{SteelGemmGather<T>{.a = a,
                                 .b = b,
                                 .lhs_indices = lhs,
                                 .rhs_indices = rhs,
                                 .c = c,
                                 .m = m,
                                 .n = n,
                                 .k = k,
                                 .a_rows = a_rows,
                                 .b_cols = b_cols,
                                 .spec = spec}}
      .expect("c", std::move(expected));
}
void add(Registry& r, const std::string& name, GemmSpec spec) {
  auto k = r.kernel<SteelGemmGather>(name, "gemm", dtypes<f32, f16, bf16>, [spec](auto& g) { g.spec = spec; });
  k.doc("C[m] = A[lhs_indices[m]] * B, column blocks of B by rhs_indices; an index outside its matrix gives zeros.");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  k.test("ragged, ids outside, ragged last block", gemm_limit,
         [spec]<class T>(Gen& g) { return gathered<T>(g, spec.bm + 2, 2 * spec.bn + 5, 21, 29, 5, true, spec); });
  k.bench("512 x 512 x 512 of 2048 rows",
          [spec]<class T>(Gen& g) { return gathered<T>(g, 512, 512, 512, 2048, 16, false, spec); });
}
}  // namespace

void register_gather_gemm(Registry& r) {
  add(r, "steel_gemm_gather_64x64", {.bm = 64, .bn = 64});
  add(r, "steel_gemm_gather_32x32", {.bm = 32, .bn = 32});
  add(r, "steel_gemm_gather_nax", {.bm = 32, .bn = 32, .bk = 32});
}

}  // namespace iron::kernels
