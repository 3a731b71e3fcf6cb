// Logarithm of the sum of exponentials of rows: one threadgroup a row, one pass.
#include "iron/dsl.h"
#include "iron/library.h"
#include "rows.h"
#include "softmax/online.h"

namespace iron::kernels {

namespace {

// y[r] = m + log(sum_i exp(x[r, i] - m)), m = max_i x[r, i]        x: [rows, n], y: [rows]
// A row with NaN gives NaN; else one with +inf gives +inf; a row of -inf alone gives -inf.
template <class T>
struct LogSumExp {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{static_cast<u32>(y.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    OnlineSum online;
    Var<bool> saw_nan{false};
    for (auto i : range(thread_id(), n, threads())) {
      const auto v = cast<f32>(x[row + i]);
      online.add(v);
      saw_nan |= is_nan(v);
    }
    const auto [top, sum] = online.join();
    const auto nan = threadgroup_any(saw_nan);
    const auto value = select<f32>(!nan && top == std::numeric_limits<f32>::infinity(), top, top + log(sum));
    if_(thread_id() == 0u) { y[threadgroup_id()] = cast<T>(value); }
  }
};

template <class T>
std::vector<f64> oracle(const Array<T>& x, u64 n) {
  std::vector<f64> y(x.size() / n);
  for (u64 r = 0; r < y.size(); ++r) {
    f64 top = -std::numeric_limits<f64>::infinity(), sum = 0;
    bool nan = false;
    for (u64 i = 0; i < n; ++i) {
      top = std::fmax(top, x.at(r * n + i));
      nan = nan || std::isnan(x.at(r * n + i));
    }
    for (u64 i = 0; i < n; ++i) sum += std::exp(x.at(r * n + i) - top);
    y[r] = nan ? std::numeric_limits<f64>::quiet_NaN() : std::isinf(top) ? top : top + std::log(sum);
  }
  return y;
}

template <class T>
Case logsumexp_of(Gen& g, const Array<T>& x, u32 n) {
  const auto y = g.output<T>(x.size() / n);
  return Case{LogSumExp<T>{.x = x, .y = y, .n = n}}.expect("y", oracle(x, n));
}
template <class T>
Case rows(Gen& g, u32 count, u32 n, f64 deviation) {
  return logsumexp_of(g, g.normal<T>(deviation, count, n), n);
}

// Rows of 40: ordinary, one -inf, -inf alone, one NaN, two +inf, NaN and +inf, large values.
template <class T>
Case specials(Gen& g) {
  constexpr f64 inf = std::numeric_limits<f64>::infinity(), nan = std::numeric_limits<f64>::quiet_NaN();
  constexpr u32 n = 40;
  auto x = g.values<T>(7, n);
  x[n + 3] = T(-inf);
  for (u32 i = 0; i < n; ++i) {
    x[2 * n + i] = T(-inf);
    x[6 * n + i] = T(i % 3 == 0 ? 30000.0 : -30000.0);
  }
  x[3 * n + 7] = T(nan);
  x[4 * n + 11] = T(inf);
  x[4 * n + 30] = T(inf);
  x[5 * n + 2] = T(inf);
  x[5 * n + 38] = T(nan);
  return logsumexp_of(g, x, n);
}

}  // namespace

void register_logsumexp(Registry& r) {
  auto k = r.kernel<LogSumExp>("logsumexp", "softmax", dtypes<f32, f16, bf16>);
  k.doc(
      "Logarithm of the sum of exponentials of each row, [rows, n] to [rows]. NaN wins over +inf; -inf alone gives "
      "-inf.");
  k.shapes("x: [..., n]; y: [...]");
  constexpr auto limit = tolerance(1e-5, 2e-3, 1.6e-2);
  k.test("ragged rows", limit, []<class T>(Gen& g) { return rows<T>(g, 5, 1003, 4.0); });
  k.test("many equal terms", limit, []<class T>(Gen& g) { return rows<T>(g, 3, 700, 0.25); });
  k.test("fewer elements than threads", limit, []<class T>(Gen& g) { return rows<T>(g, 4, 33, 1.0); });
  k.test("one element", exact_match, []<class T>(Gen& g) { return rows<T>(g, 3, 1, 1.0); });
  k.test("infinities and NaN", limit, []<class T>(Gen& g) { return specials<T>(g); });
  k.bench("1024 x 1024", []<class T>(Gen& g) { return rows<T>(g, 1024, 1024, 1.0).computes(6.0 * 1024 * 1024); });
}

}  // namespace iron::kernels
