// Dense matrix times vector: a row a threadgroup, a row a simdgroup, masked.
#include "gemv/gemv.h"

#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

namespace {
template <class T>
std::vector<f64> oracle(const Array<T>& mat, const Array<T>& vec, const Array<T>* mask) {
  const u64 k = vec.size();
  std::vector<f64> out(mat.size() / k);
  for (u64 i = 0; i < mat.size(); ++i) out[i / k] += mat.at(i) * vec.at(i % k) * (mask ? mask->at(i % k) : 1.0);
  return out;
}
template <class T>
Case plain(Gen& g, u32 m, u32 k) {
  const auto mat = g.values<T>(m, k), vec = g.values<T>(k);
  const auto out = g.output<T>(m);
  return Case{Gemv<T>{.mat = mat, .vec = vec, .out = out, .k = k}}.expect("out", oracle<T>(mat, vec, nullptr));
}
template <class T>
Case masked(Gen& g, u32 m, u32 k) {
  const auto mat = g.values<T>(m, k), vec = g.values<T>(k);
  const auto mask = g.from<T>([](u64 i) { return T(i % 3 == 0 ? 0.0f : i % 7 == 1 ? 0.5f : 1.0f); }, k);
  const auto out = g.output<T>(m);
  return Case{GemvMasked<T>{.mat = mat, .vec = vec, .mask = mask, .out = out, .k = k}}.expect(
      "out", oracle<T>(mat, vec, &mask));
}
template <class T>
Case warp_rows(Gen& g, u32 m, u32 k) {
  const auto mat = g.values<T>(m, k), vec = g.values<T>(k);
  const auto out = g.output<T>(m);
  return Case{GemvWarpRows<T>{.mat = mat, .vec = vec, .out = out, .m = m, .k = k}}.expect("out",
                                                                                          oracle<T>(mat, vec, nullptr));
}
constexpr auto limit = tolerance(1e-4, 1e-2, 5e-2);
}  // namespace

void register_gemv(Registry& r) {
  auto k = r.kernel<Gemv>("gemv", "gemv", dtypes<f32, f16, bf16>);
  k.doc("out[M] = mat[M,K] * vec[K], one threadgroup of 256 threads a row.");
  k.test("ragged", limit, []<class T>(Gen& g) { return plain<T>(g, 5, 301); });
  k.test("one column", limit, []<class T>(Gen& g) { return plain<T>(g, 3, 1); });
  k.bench("2048 x 2048", []<class T>(Gen& g) { return plain<T>(g, 2048, 2048).computes(2.0 * 2048 * 2048); });

  auto m = r.kernel<GemvMasked>("gemv_masked", "gemv", dtypes<f32, f16, bf16>);
  m.doc("out[M] = sum over k of mat[M,k] * vec[k] * mask[k], one threadgroup of 256 threads a row.");
  m.test("ragged", limit, []<class T>(Gen& g) { return masked<T>(g, 4, 290); });
  m.bench("2048 x 2048", []<class T>(Gen& g) { return masked<T>(g, 2048, 2048).computes(3.0 * 2048 * 2048); });

  auto w = r.kernel<GemvWarpRows>("gemv_warp_rows", "gemv", dtypes<f32, f16, bf16>);
  w.doc("out[M] = mat[M,K] * vec[K], one simdgroup a row, 8 rows a threadgroup: many rows, few columns.");
  w.test("rows and columns ragged", limit, []<class T>(Gen& g) { return warp_rows<T>(g, 19, 135); });
  w.test("fewer columns than lanes", limit, []<class T>(Gen& g) { return warp_rows<T>(g, 9, 3); });
  w.bench("10240 x 320", []<class T>(Gen& g) { return warp_rows<T>(g, 10240, 320).computes(2.0 * 10240 * 320); });
}

}  // namespace iron::kernels
