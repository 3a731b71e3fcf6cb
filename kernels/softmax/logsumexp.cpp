// Logarithm of the sum of exponentials of rows: one threadgroup a row, one pass, or the row in registers.
#include "iron/dsl.h"
#include "iron/library.h"
#include "rows.h"
#include "softmax/exps.h"
#include "softmax/online.h"
#include "softmax/select.h"

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

// The same for rows that fit the registers of a threadgroup. A thread adds its exponentials in the order of its
// elements (row_registers.h), then R4.
template <class T>
struct LogSumExpRegisters {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;
  u32 per_thread = softmax_per_thread;

  Grid grid() const { return register_row_groups(x.size(), n.value(), per_thread); }

  void operator()() const {
    const auto values = load_part(x, threadgroup_id() * n, per_thread);
    const auto top = threadgroup_max(largest(values));
    const auto exps = scaled_exps(values, top);
    const auto sum = threadgroup_sum(exps.sum) * (1.0f / scaled_exp_unit);
    std::vector<Val<bool>> nan{is_nan(values[0])};
    for (u32 i = 1; i < per_thread; ++i) nan.push_back(nan.back() || is_nan(values[i]));
    const auto saw_nan = threadgroup_any(nan.back());
    // A sum of NaN without a NaN among the values: the top is infinite, and the result.
    const auto value = select<f32>(is_nan(sum) && !saw_nan, top, top + log(sum));
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

template <template <class> class K, class T>
Case logsumexp_of(Gen& g, const Array<T>& x, u32 n) {
  const auto y = g.output<T>(x.size() / n);
  return Case{K<T>{.x = x, .y = y, .n = n}}.expect("y", oracle(x, n));
}
template <template <class> class K, class T>
Case rows(Gen& g, u32 count, u32 n, f64 deviation) {
  return logsumexp_of<K>(g, g.normal<T>(deviation, count, n), n);
}

// Rows of n >= 40: ordinary, one -inf, -inf alone, one NaN, two +inf, NaN and +inf, large values.
template <template <class> class K, class T>
Case specials(Gen& g, u32 n) {
  constexpr f64 inf = std::numeric_limits<f64>::infinity(), nan = std::numeric_limits<f64>::quiet_NaN();
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
  return logsumexp_of<K>(g, x, n);
}

}  // namespace

void register_logsumexp(Registry& r) {
  auto k = r.kernel<LogSumExp>("logsumexp", "softmax", dtypes<f32, f16, bf16>);
  k.doc(
      "Logarithm of the sum of exponentials of each row, [rows, n] to [rows]. NaN wins over +inf; -inf alone gives "
      "-inf.");
  k.shapes("x: [..., n]; y: [...]");
  constexpr auto limit = tolerance(1e-5, 2e-3, 1.6e-2);
  k.test("ragged rows", limit, []<class T>(Gen& g) { return rows<LogSumExp, T>(g, 5, 1003, 4.0); });
  k.test("many equal terms", limit, []<class T>(Gen& g) { return rows<LogSumExp, T>(g, 3, 700, 0.25); });
  k.test("fewer elements than threads", limit, []<class T>(Gen& g) { return rows<LogSumExp, T>(g, 4, 33, 1.0); });
  k.test("one element", exact_match, []<class T>(Gen& g) { return rows<LogSumExp, T>(g, 3, 1, 1.0); });
  k.test("infinities and NaN", limit, []<class T>(Gen& g) { return specials<LogSumExp, T>(g, 40); });
  k.bench("1024 x 1024",
          []<class T>(Gen& g) { return rows<LogSumExp, T>(g, 1024, 1024, 1.0).computes(6.0 * 1024 * 1024); });

  auto held = r.kernel<LogSumExpRegisters>("logsumexp_registers", "softmax", dtypes<f32, f16, bf16>);
  held.doc("As logsumexp, with the row held in registers, 32 elements a thread; n a multiple of 1024 up to 32768.");
  held.shapes("x: [..., n]; y: [...]");
  held.test("eight simdgroups a row", limit,
            []<class T>(Gen& g) { return rows<LogSumExpRegisters, T>(g, 2, 8192, 0.25); });
  held.test("one simdgroup a row", limit, []<class T>(Gen& g) { return rows<LogSumExpRegisters, T>(g, 3, 1024, 4.0); });
  held.test("infinities and NaN", limit, []<class T>(Gen& g) { return specials<LogSumExpRegisters, T>(g, 1024); });
  held.bench("128 x 8192",
             []<class T>(Gen& g) { return rows<LogSumExpRegisters, T>(g, 128, 8192, 1.0).computes(6.0 * 128 * 8192); });
}

}  // namespace iron::kernels
