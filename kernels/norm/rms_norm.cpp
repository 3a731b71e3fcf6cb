// Oracle, tests and benches of RmsNorm.
#include "norm/rms_norm.h"

#include "registry.h"

namespace iron::kernels {

namespace {
template <class T>
std::vector<f64> oracle(const Array<T>& x, const Array<T>& w, u64 rows, u64 n, f64 eps) {
  std::vector<f64> y(rows * n);
  for (u64 r = 0; r < rows; ++r) {
    f64 sum = 0;
    for (u64 i = 0; i < n; ++i) sum += x.at(r * n + i) * x.at(r * n + i);
    const f64 scale = 1.0 / std::sqrt(sum / static_cast<f64>(n) + eps);
    for (u64 i = 0; i < n; ++i) y[r * n + i] = x.at(r * n + i) * scale * w.at(i);
  }
  return y;
}
template <class T>
Case rows(Gen& g, u32 count, u32 n) {
  const auto x = g.values<T>(count, n), w = g.values<T>(n);
  const auto y = g.output<T>(count, n);
  const f32 eps = 1e-5f;
  return Case{RmsNorm<T>{.x = x, .weight = w, .y = y, .n = n, .eps = eps}}.expect("y",
                                                                                  oracle(x, w, count, n, f64{eps}));
}
}  // namespace

void register_rms_norm(Registry& r) {
  auto k = r.kernel<RmsNorm>("rms_norm_wide", "norm", dtypes<f32, f16, bf16>);
  k.doc("Rows of any length, one threadgroup of 256 threads a row.");
  k.shapes("x, y: [..., n]; weight: [n]");
  constexpr auto limit = tolerance(1e-5, 2e-3, 1.6e-2);
  k.test("one element", limit, []<class T>(Gen& g) { return rows<T>(g, 3, 1); });
  k.test("ragged rows", limit, []<class T>(Gen& g) { return rows<T>(g, 7, 1000); });
  k.test("more threads than elements", limit, []<class T>(Gen& g) { return rows<T>(g, 2, 33); });
  k.bench("1024 x 1024", []<class T>(Gen& g) { return rows<T>(g, 1024, 1024).computes(4.0 * 1024 * 1024); });
}

}  // namespace iron::kernels
