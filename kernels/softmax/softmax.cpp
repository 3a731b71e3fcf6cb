// Softmax of rows: one threadgroup a row, online maximum and sum, then one writing pass.
#include "iron/dsl.h"
#include "iron/library.h"
#include "rows.h"
#include "softmax/online.h"

namespace iron::kernels {

namespace {

// y[r, i] = exp(x[r, i] - max_i x[r, i]) / sum_i exp(x[r, i] - max_i x[r, i])        x, y: [rows, n]
// Arithmetic in f32, one rounding at the store. A row that holds NaN or +inf, and a row of -inf alone (0/0), is NaN.
template <class T>
struct Softmax {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;

  Grid grid() const { return row_groups(y.size(), n.value()); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    OnlineSum online;
    for (auto i : range(thread_id(), n, threads())) online.add(cast<f32>(x[row + i]));
    const auto [top, sum] = online.join();
    const auto scale = recip(sum);
    for (auto i : range(thread_id(), n, threads())) y[row + i] = cast<T>(exp(cast<f32>(x[row + i]) - top) * scale);
  }
};

template <class T>
std::vector<f64> oracle(const Array<T>& x, u64 n) {
  std::vector<f64> y(x.size());
  for (u64 row = 0; row < x.size(); row += n) {
    f64 top = -std::numeric_limits<f64>::infinity(), sum = 0;
    for (u64 i = 0; i < n; ++i) top = std::fmax(top, x.at(row + i));
    for (u64 i = 0; i < n; ++i) sum += std::exp(x.at(row + i) - top);
    for (u64 i = 0; i < n; ++i) y[row + i] = std::exp(x.at(row + i) - top) / sum;
  }
  return y;
}

template <class T>
Case softmax_of(const Array<T>& x, const Array<T>& y, u32 n) {
  return Case{Softmax<T>{.x = x, .y = y, .n = n}}.expect("y", oracle(x, n));
}
template <class T>
Case rows(Gen& g, u32 count, u32 n, f64 deviation) {
  return softmax_of(g.normal<T>(deviation, count, n), g.output<T>(count, n), n);
}

// Rows of 40: ordinary, one -inf, -inf alone, one NaN, one +inf, huge finite values, all equal.
template <class T>
Case specials(Gen& g) {
  constexpr f64 inf = std::numeric_limits<f64>::infinity();
  constexpr u32 n = 40;
  auto x = g.values<T>(7, n);
  x[n + 3] = T(-inf);
  for (u32 i = 0; i < n; ++i) {
    x[2 * n + i] = T(-inf);
    x[5 * n + i] = T(i % 3 == 0 ? 60000.0 : -60000.0);
    x[6 * n + i] = T(-3.0);
  }
  x[3 * n + 7] = T(std::numeric_limits<f64>::quiet_NaN());
  x[4 * n + 11] = T(inf);
  return softmax_of(x, g.output<T>(7, n), n);
}

}  // namespace

void register_softmax(Registry& r) {
  auto k = r.kernel<Softmax>("softmax", "softmax", dtypes<f32, f16, bf16>);
  k.doc("Softmax of rows [rows, n] of any length. A row with NaN or +inf, or of -inf alone, becomes NaN.");
  k.shapes("x, y: [..., n]");
  constexpr auto limit = tolerance(1e-6, 1e-3, 4e-3);
  k.test("ragged rows", limit, []<class T>(Gen& g) { return rows<T>(g, 5, 1003, 4.0); });
  k.test("peaked rows", limit, []<class T>(Gen& g) { return rows<T>(g, 3, 300, 50.0); });
  k.test("fewer elements than threads", limit, []<class T>(Gen& g) { return rows<T>(g, 4, 33, 1.0); });
  k.test("one element", exact_match, []<class T>(Gen& g) { return rows<T>(g, 3, 1, 1.0); });
  k.test("infinities and NaN", limit, []<class T>(Gen& g) { return specials<T>(g); });
  k.bench("1024 x 1024", []<class T>(Gen& g) { return rows<T>(g, 1024, 1024, 1.0).computes(8.0 * 1024 * 1024); });
  k.bench("32 x 32000", []<class T>(Gen& g) { return rows<T>(g, 32, 32000, 1.0).computes(8.0 * 32 * 32000); });
}

}  // namespace iron::kernels
