// Layer normalisation of rows: tests and benches of its two forms.
#include "iron/library.h"
#include "norm/norm.h"

namespace iron::kernels {

namespace {

// Welford's running mean and squared deviation in f64: another algorithm than the kernel's.
template <class T>
std::vector<f64> oracle(const Array<T>& x, const Array<T>& w, const Array<T>& b, u64 n, f64 eps) {
  std::vector<f64> y(x.size());
  for (u64 row = 0; row < x.size(); row += n) {
    f64 mean = 0, squares = 0;
    for (u64 i = 0; i < n; ++i) {
      const f64 d = x.at(row + i) - mean;
      mean += d / static_cast<f64>(i + 1);
      squares += d * (x.at(row + i) - mean);
    }
    const f64 deviation = std::sqrt(squares / static_cast<f64>(n) + eps);
    for (u64 i = 0; i < n; ++i) y[row + i] = (x.at(row + i) - mean) / deviation * w.at(i) + b.at(i);
  }
  return y;
}

template <template <class> class K, class T>
Case rows(Gen& g, const Array<T>& x, u32 n, f32 eps) {
  const auto w = g.values<T>(n), b = g.values<T>(n);
  const auto y = g.output<T>(x.size() / n, n);
  return Case{K<T>{.x = x, .weight = w, .bias = b, .y = y, .n = n, .eps = eps}}.expect("y",
                                                                                       oracle(x, w, b, n, f64{eps}));
}

// Deviation 1 about a mean of 1000: E[x^2] - mean^2 would lose most digits of the variance in f32.
template <class T>
Array<T> shifted(Gen& g, u32 count, u32 n) {
  return g.from<T>([&](u64) { return static_cast<f32>(1000 + static_cast<i64>(g.next() % 9) - 4); }, count, n);
}

}  // namespace

void register_layer_norm(Registry& r) {
  auto k = r.kernel<LayerNorm>("layer_norm", "norm", dtypes<f32, f16, bf16>);
  k.doc("Layer norm of rows [rows, n] of any length with weight and bias, variance in a second pass.");
  k.shapes("x, y: [..., n]; weight, bias: [n]");
  constexpr auto limit = tolerance(2e-5, 2e-3, 1.6e-2);
  k.test("ragged rows", limit, []<class T>(Gen& g) { return rows<LayerNorm>(g, g.values<T>(5, 1000), 1000, 1e-5f); });
  k.test("fewer elements than threads", limit,
         []<class T>(Gen& g) { return rows<LayerNorm>(g, g.values<T>(3, 33), 33, 1e-5f); });
  k.test("eps matters", limit, []<class T>(Gen& g) { return rows<LayerNorm>(g, g.normal<T>(0.1, 3, 70), 70, 0.02f); });
  k.test("large mean", tolerance(1e-4, 2e-3, 1.6e-2),
         []<class T>(Gen& g) { return rows<LayerNorm>(g, shifted<T>(g, 3, 517), 517, 1e-5f); });
  k.test("one element is the bias", limit,
         []<class T>(Gen& g) { return rows<LayerNorm>(g, g.values<T>(4, 1), 1, 1e-5f); });
  k.bench("1024 x 1024", []<class T>(Gen& g) {
    return rows<LayerNorm>(g, g.values<T>(1024, 1024), 1024, 1e-5f).computes(8.0 * 1024 * 1024);
  });

  auto held = r.kernel<LayerNormRegisters>("layer_norm_registers", "norm", dtypes<f32, f16, bf16>);
  held.doc("As layer_norm, with the row held in registers, 32 elements a thread; n a multiple of 1024 up to 32768.");
  held.shapes("x, y: [..., n]; weight, bias: [n]");
  held.test("eight simdgroups a row", limit,
            []<class T>(Gen& g) { return rows<LayerNormRegisters>(g, g.values<T>(2, 8192), 8192, 1e-5f); });
  held.test("one simdgroup, eps matters", limit,
            []<class T>(Gen& g) { return rows<LayerNormRegisters>(g, g.normal<T>(0.1, 3, 1024), 1024, 0.02f); });
  held.test("large mean", tolerance(1e-4, 2e-3, 1.6e-2),
            []<class T>(Gen& g) { return rows<LayerNormRegisters>(g, shifted<T>(g, 2, 2048), 2048, 1e-5f); });
  held.bench("128 x 8192", []<class T>(Gen& g) {
    return rows<LayerNormRegisters>(g, g.values<T>(128, 8192), 8192, 1e-5f).computes(8.0 * 1024 * 1024);
  });
}

}  // namespace iron::kernels
