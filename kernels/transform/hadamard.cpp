// Walsh-Hadamard transform of rows of 64 to 1024 elements, a power of two.
#include <bit>

#include "iron/dsl.h"
#include "iron/library.h"

namespace iron::kernels {

namespace {

// y[r, i] = scale * sum_j (-1)^popcount(i & j) x[r, j]        x, y: [rows, n]: Sylvester's matrix in natural order
// log2(n) butterfly stages in threadgroup memory, a thread a pair; in f32, one rounding at the store.
template <class T>
struct Hadamard {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    u32 n = 64;
  } spec;

  In<T> x;
  Out<T> y;
  Scalar<f32> scale;

  Grid grid() const { return {Threadgroups{static_cast<u32>(y.size() / spec.n)}, Threads{spec.n / 2}}; }

  void operator()() const {
    const auto row = threadgroup_id() * spec.n;
    const u32 half = spec.n / 2;
    Shared<f32> values{spec.n};
    const auto t = thread_id();
    const auto a0 = cast<f32>(x[row + t]), b0 = cast<f32>(x[row + t + half]);
    values[t] = a0 + b0;
    values[t + half] = a0 - b0;
    for (u32 stride = half / 2; stride >= 1; stride /= 2) {
      barrier();
      const auto low = t / stride * (2 * stride) + t % stride;
      const Val a = values[low];
      const Val b = values[low + stride];
      const auto sum = a + b, difference = a - b;
      if (stride > 1) {
        values[low] = sum;
        values[low + stride] = difference;
      } else {
        y[row + low] = cast<T>(sum * scale);
        y[row + low + stride] = cast<T>(difference * scale);
      }
    }
  }
};

template <class T>
Case transform(Gen& g, u32 rows, u32 n) {
  const auto x = g.values<T>(rows, n);
  const auto y = g.output<T>(rows, n);
  const auto scale = static_cast<f32>(1.0 / std::sqrt(static_cast<f64>(n)));
  std::vector<f64> want(x.size());
  for (u64 r = 0; r < rows; ++r)
    for (u64 i = 0; i < n; ++i)
      for (u64 j = 0; j < n; ++j)
        want[r * n + i] += (std::popcount(i & j) % 2 ? -1.0 : 1.0) * x.at(r * n + j) * f64{scale};
  return Case{Hadamard<T>{.spec = {n}, .x = x, .y = y, .scale = scale}}.expect("y", std::move(want));
}
// A bench needs no oracle as dear as n^2 a row: the transform of constant rows is known.
template <class T>
Case constant_rows(Gen& g, u32 rows, u32 n) {
  const auto x = g.from<T>([](u64) { return 0.5f; }, rows, n);
  const auto y = g.output<T>(rows, n);
  std::vector<f64> want(x.size());
  for (u64 r = 0; r < rows; ++r) want[r * n] = 0.5 * n;
  return Case{Hadamard<T>{.spec = {n}, .x = x, .y = y, .scale = 1.0f}}
      .expect("y", std::move(want))
      .computes(static_cast<f64>(rows) * n * std::log2(static_cast<f64>(n)));
}

}  // namespace

void register_hadamard(Registry& r) {
  for (const u32 n : {64u, 128u, 256u, 512u, 1024u}) {
    auto k = r.kernel<Hadamard>("hadamard_n" + std::to_string(n), "transform", dtypes<f32, f16, bf16>,
                                [n](auto& h) { h.spec.n = n; });
    k.doc("Scaled Walsh-Hadamard transform of rows [rows, " + std::to_string(n) + "], natural order.");
    k.test("rows", tolerance(1e-5, 2e-3, 1.6e-2), [n]<class T>(Gen& g) { return transform<T>(g, 3, n); });
    k.bench("1 Mi elements", [n]<class T>(Gen& g) { return constant_rows<T>(g, (1 << 20) / n, n); });
  }
}

}  // namespace iron::kernels
