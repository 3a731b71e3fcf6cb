// Softmax of rows that fit threadgroup memory: three sweeps with one exponential an element. The member for processors,
// where the arithmetic of a second exponential costs more than the row's way through the first cache.
#include "iron/dsl.h"
#include "iron/library.h"
#include "registry.h"
#include "rows.h"
#include "softmax/exps.h"

namespace iron::kernels {

namespace {

// y[r, i] = exp(x[r, i] - max_i x[r, i]) / sum_i exp(x[r, i] - max_i x[r, i])        x, y: [rows, n], n <= capacity
// Arithmetic in f32, one rounding at the store. A row that holds NaN or +inf, and a row of -inf alone, is NaN.
template <class T>
struct SoftmaxStaged {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;
  u32 capacity = 8192;

  Grid grid() const {
    if (n.value() > capacity)
      throw Error(
          "LIB03",
          "rows of " + std::to_string(n.value()) + " elements, where softmax_staged holds " + std::to_string(capacity),
          "use softmax, or a larger capacity");
    return row_groups(y.size(), n.value());
  }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    Shared<f32> exps(capacity);
    Var<f32> top{-std::numeric_limits<f32>::infinity()};
    for (auto i : range(thread_id(), n, threads())) {
      const Val<f32> before = top, value = cast<f32>(x[row + i]);
      top = select(value > before, value, before);  // as max, but for the signs of zeros, which do not matter here
    }
    const Val<f32> own = top;
    const auto largest = threadgroup_max(own);
    // inf - inf is NaN, and no sum of numbers below 0 makes one.
    Var<f32> sum{0.0f}, differences{0.0f};
    for (auto i : range(thread_id(), n, threads())) {
      const Val<f32> d = cast<f32>(x[row + i]) - largest;
      const Val<f32> e = scaled_exp(d);
      exps[i] = e;
      sum += e;
      differences += d;
    }
    const Val<f32> s = sum, special = differences;
    const auto scale = recip(threadgroup_sum(select(is_nan(special), special, s)));
    for (auto i : range(thread_id(), n, threads())) y[row + i] = cast<T>(exps[i] * scale);
  }
};

template <class T>
Case staged(const Array<T>& x, const Array<T>& y, u32 n) {
  std::vector<f64> want(x.size());
  for (u64 row = 0; row < x.size(); row += n) {
    f64 top = -std::numeric_limits<f64>::infinity(), sum = 0;
    for (u64 i = 0; i < n; ++i) top = std::fmax(top, x.at(row + i));
    for (u64 i = 0; i < n; ++i) sum += std::exp(x.at(row + i) - top);
    for (u64 i = 0; i < n; ++i) want[row + i] = std::exp(x.at(row + i) - top) / sum;
  }
  return Case{SoftmaxStaged<T>{.x = x, .y = y, .n = n}}.expect("y", std::move(want));
}
template <class T>
Case rows(Gen& g, u32 count, u32 n, f64 deviation) {
  return staged(g.normal<T>(deviation, count, n), g.output<T>(count, n), n);
}

// Rows of 300: ordinary, one -inf, -inf alone, one NaN, one +inf, huge finite values, all equal.
template <class T>
Case specials(Gen& g) {
  constexpr f64 inf = std::numeric_limits<f64>::infinity();
  constexpr u32 n = 300;
  auto x = g.values<T>(7, n);
  x[n + 3] = T(-inf);
  for (u32 i = 0; i < n; ++i) {
    x[2 * n + i] = T(-inf);
    x[5 * n + i] = T(i % 2 ? 6e4 : -6e4);
    x[6 * n + i] = T(-2.5);
  }
  x[3 * n + 7] = T(std::numeric_limits<f64>::quiet_NaN());
  x[4 * n + 11] = T(inf);
  return staged(x, g.output<T>(7, n), n);
}

}  // namespace

void register_softmax_staged(Registry& r) {
  auto k = r.kernel<SoftmaxStaged>("softmax_staged", "softmax", dtypes<f32, f16, bf16>);
  k.doc(
      "Softmax of rows [rows, n], n at most 8192, whose exponentials stay in threadgroup memory: the member for CPUs. "
      "Special values as in softmax.");
  k.shapes("x, y: [..., n]");
  constexpr auto limit = tolerance(1e-6, 1e-3, 4e-3);
  k.test("ragged rows", limit, []<class T>(Gen& g) { return rows<T>(g, 5, 1003, 4.0); });
  k.test("peaked rows", limit, []<class T>(Gen& g) { return rows<T>(g, 3, 300, 50.0); });
  k.test("fewer elements than threads", limit, []<class T>(Gen& g) { return rows<T>(g, 4, 33, 1.0); });
  k.test("one element", exact_match, []<class T>(Gen& g) { return rows<T>(g, 3, 1, 1.0); });
  k.test("the longest row", limit, []<class T>(Gen& g) { return rows<T>(g, 1, 8192, 2.0); });
  k.test("infinities and NaN", limit, []<class T>(Gen& g) { return specials<T>(g); });
  k.bench("1024 x 1024", []<class T>(Gen& g) { return rows<T>(g, 1024, 1024, 1.0).computes(5.0 * 1024 * 1024); });
}

}  // namespace iron::kernels
