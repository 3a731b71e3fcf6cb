// GEMM split over the depth: partial products in slices of their own, then sums of the slices in one order.
#include "gemm/split_k.h"

#include "gemm/oracle.h"
#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

// partials[s, m, n] = sum over the s-th part of the depth of a[m, k] * b[k, n]      a: [M, K], b: [K, N]
// The depth is cut into `splits` parts of whole blocks of bk terms; the last ones may be shorter or empty (zeros).
template <class T>
struct SteelGemmSplitK {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> a, b;
  Out<f32> partials;
  Scalar<u32> m, n, k, splits;
  GemmSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value(), splits.value()); }

  void operator()() const {
    const auto split = threadgroup_id(Axis::z);
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    const auto blocks = ceil_div(k, spec.bk);
    const auto part = ceil_div(blocks, splits) * spec.bk;
    const auto from = min(split * part, k);
    const auto end = min(from + part, k);
    GemmTile<T> tile(spec);
    tile.sum.zero();
    tile.multiply(from, end, block_rows(a, m0, m, k), block_columns(b, n0, n));
    tile.sum.store(Block(partials, (split * m + m0) * n + n0, n), valid(m, m0, spec.bm), valid(n, n0, spec.bn));
  }
};

// c[i] = alpha * sum_s partials[s, i] + beta * addend[i]
template <class T>
struct SplitKAccumAxpby {
  In<f32> partials;
  In<T> addend;
  Out<T> c;
  Scalar<u32> splits;
  Scalar<f32> alpha, beta;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto count = item_count();
    Var<f32> sum{0.0f};
    for (auto s : range(splits)) sum += partials[s * count + i];
    const auto scaled = alpha * sum;
    c[i] = cast<T>(scaled + beta * cast<f32>(addend[i]));
  }
};

namespace {
template <class T>
Case split(Gen& g, u32 m, u32 n, u32 k, u32 splits, GemmSpec spec) {
  const auto a = g.values<T>(m, k), b = g.values<T>(k, n);
  const auto partials = g.output<f32>(splits, m, n);
  const u32 blocks = (k + spec.bk - 1) / spec.bk, part = (blocks + splits - 1) / splits * spec.bk;
  std::vector<f64> expected(partials.size());
  for (u64 t = 0; t < k; ++t)
    for (u64 i = 0; i < m; ++i)
      for (u64 j = 0; j < n; ++j) expected[(t / part * m + i) * n + j] += a.at(i * k + t) * b.at(t * n + j);
  return Case{
      SteelGemmSplitK<T>{.a = a, .b = b, .partials = partials, .m = m, .n = n, .k = k, .splits = splits, .spec = spec}}
      .expect("partials", std::move(expected));
}
// Both steps, against the whole product.
template <class T>
Case whole(Gen& g, u32 m, u32 n, u32 k, u32 splits, GemmSpec spec) {
  const auto a = g.values<T>(m, k), b = g.values<T>(k, n);
  const auto partials = g.output<f32>(splits, m, n);
  const auto c = g.output<T>(m, n);
  return Case{
      SteelGemmSplitK<T>{.a = a, .b = b, .partials = partials, .m = m, .n = n, .k = k, .splits = splits, .spec = spec}}
      .then(SplitKAccum<T>{.partials = partials, .c = c, .splits = splits})
      .expect("c", gemm_oracle(a, b, m, n, k))
      .computes(2.0 * m * n * k);
}
template <class T>
Case accumulate(Gen& g, u32 count, u32 splits) {
  const auto partials = g.values<f32>(splits, count);
  const auto c = g.output<T>(count);
  std::vector<f64> expected(count);
  for (u64 i = 0; i < partials.size(); ++i) expected[i % count] += partials.at(i);
  return Case{SplitKAccum<T>{.partials = partials, .c = c, .splits = splits}}.expect("c", std::move(expected));
}
template <class T>
Case axpby(Gen& g, u32 count, u32 splits) {
  const auto partials = g.values<f32>(splits, count);
  const auto addend = g.values<T>(count);
  const auto c = g.output<T>(count);
  const f32 alpha = 0.75f, beta = -1.5f;
  std::vector<f64> expected(count);
  for (u64 i = 0; i < partials.size(); ++i) expected[i % count] += f64{alpha} * partials.at(i);
  for (u64 i = 0; i < count; ++i) expected[i] += f64{beta} * addend.at(i);
  return Case{SplitKAccumAxpby<T>{
                  .partials = partials, .addend = addend, .c = c, .splits = splits, .alpha = alpha, .beta = beta}}
      .expect("c", std::move(expected));
}
void add_split(Registry& r, const std::string& name, GemmSpec spec) {
  auto k = r.kernel<SteelGemmSplitK>(name, "gemm", dtypes<f32, f16, bf16>, [spec](auto& g) { g.spec = spec; });
  k.doc("partials[s,M,N] (f32) = A * B over the s-th part of the depth; splitk_accum adds the slices.");
  k.shapes("a: [m, k]; b: [k, n]; partials: [splits, m, n]");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  k.test("parts of unequal length", gemm_limit,
         [spec]<class T>(Gen& g) { return split<T>(g, spec.bm + 1, 35, 5 * spec.bk - 3, 2, spec); });
  k.test("more splits than blocks", gemm_limit,
         [spec]<class T>(Gen& g) { return split<T>(g, 9, 7, 2 * spec.bk, 3, spec); });
  k.test("with its accumulation", gemm_limit,
         [spec]<class T>(Gen& g) { return whole<T>(g, 33, 34, 3 * spec.bk + 1, 3, spec); });
  k.bench("64 x 64 x 16384, 16 splits", [spec]<class T>(Gen& g) { return whole<T>(g, 64, 64, 16384, 16, spec); });
}
void add_accum(Registry& r, const std::string& name) {
  auto k = r.kernel<SplitKAccum>(name, "gemm", dtypes<f32, f16, bf16>);
  k.doc("c[i] = sum over splits of partials[s,i], in that order: f32 partials, one rounding.");
  k.shapes("partials: [splits, ...]; c: [...]");
  k.test("ragged", gemm_limit, []<class T>(Gen& g) { return accumulate<T>(g, 777, 5); });
  k.test("one split", gemm_limit, []<class T>(Gen& g) { return accumulate<T>(g, 3, 1); });
  k.bench("16 x 256k", []<class T>(Gen& g) { return accumulate<T>(g, 256 * 1024, 16); });
}
}  // namespace

void register_split_k_gemm(Registry& r) {
  add_split(r, "steel_gemm_splitk_64x64x16_2x2", {.bm = 64, .bn = 64});
  add_split(r, "steel_gemm_splitk_32x32x16_2x2", {.bm = 32, .bn = 32});
  add_split(r, "steel_gemm_splitk_nax", {.bm = 32, .bn = 32, .bk = 32});
  add_accum(r, "splitk_accum");
  add_accum(r, "splitk_accum_nax");
  auto k = r.kernel<SplitKAccumAxpby>("splitk_accum_axpby", "gemm", dtypes<f32, f16, bf16>);
  k.doc("c[i] = alpha * (sum over splits of partials[s,i]) + beta * addend[i].");
  k.shapes("partials: [splits, ...]; addend, c: [...]");
  k.test("ragged", gemm_limit, []<class T>(Gen& g) { return axpby<T>(g, 777, 4); });
  k.bench("16 x 256k", []<class T>(Gen& g) { return axpby<T>(g, 256 * 1024, 16); });
}

}  // namespace iron::kernels
