// Softmax of rows: one threadgroup a row, online maximum and sum and then one writing pass, or the row in registers.
#include "iron/dsl.h"
#include "iron/library.h"
#include "rows.h"
#include "softmax/exps.h"
#include "softmax/online.h"
#include "softmax/select.h"

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

// The same for rows that fit the registers of a threadgroup: x is read once, each exponential computed once. A thread
// adds its exponentials in the order of its elements (row_registers.h), then R4.
template <class T>
struct SoftmaxRegisters {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;
  u32 per_thread = softmax_per_thread;

  Grid grid() const { return register_row_groups(y.size(), n.value(), per_thread); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto values = load_part(x, row, per_thread);
    const auto exps = scaled_exps(values, threadgroup_max(largest(values)));
    const auto scale = recip(threadgroup_sum(exps.sum));
    store_part(y, row, per_thread, [&](u32 i) { return exps.values[i] * scale; });
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

template <template <class> class K, class T>
Case softmax_of(const Array<T>& x, const Array<T>& y, u32 n) {
  return Case{K<T>{.x = x, .y = y, .n = n}}.expect("y", oracle(x, n));
}
template <template <class> class K, class T>
Case rows(Gen& g, u32 count, u32 n, f64 deviation) {
  return softmax_of<K>(g.normal<T>(deviation, count, n), g.output<T>(count, n), n);
}

// Rows of n >= 40: ordinary, one -inf, -inf alone, one NaN, one +inf, huge finite values, all equal.
template <template <class> class K, class T>
Case specials(Gen& g, u32 n) {
  constexpr f64 inf = std::numeric_limits<f64>::infinity();
  auto x = g.values<T>(7, n);
  x[n + 3] = T(-inf);
  for (u32 i = 0; i < n; ++i) {
    x[2 * n + i] = T(-inf);
    x[5 * n + i] = T(i % 3 == 0 ? 60000.0 : -60000.0);
    x[6 * n + i] = T(-3.0);
  }
  x[3 * n + 7] = T(std::numeric_limits<f64>::quiet_NaN());
  x[4 * n + 11] = T(inf);
  return softmax_of<K>(x, g.output<T>(7, n), n);
}

}  // namespace

void register_softmax(Registry& r) {
  auto k = r.kernel<Softmax>("softmax", "softmax", dtypes<f32, f16, bf16>);
  k.doc("Softmax of rows [rows, n] of any length. A row with NaN or +inf, or of -inf alone, becomes NaN.");
  k.shapes("x, y: [..., n]");
  constexpr auto limit = tolerance(1e-6, 1e-3, 4e-3);
  k.test("ragged rows", limit, []<class T>(Gen& g) { return rows<Softmax, T>(g, 5, 1003, 4.0); });
  k.test("peaked rows", limit, []<class T>(Gen& g) { return rows<Softmax, T>(g, 3, 300, 50.0); });
  k.test("fewer elements than threads", limit, []<class T>(Gen& g) { return rows<Softmax, T>(g, 4, 33, 1.0); });
  k.test("one element", exact_match, []<class T>(Gen& g) { return rows<Softmax, T>(g, 3, 1, 1.0); });
  k.test("infinities and NaN", limit, []<class T>(Gen& g) { return specials<Softmax, T>(g, 40); });
  k.bench("1024 x 1024",
          []<class T>(Gen& g) { return rows<Softmax, T>(g, 1024, 1024, 1.0).computes(8.0 * 1024 * 1024); });
  k.bench("32 x 32000", []<class T>(Gen& g) { return rows<Softmax, T>(g, 32, 32000, 1.0).computes(8.0 * 32 * 32000); });

  auto held = r.kernel<SoftmaxRegisters>("softmax_registers", "softmax", dtypes<f32, f16, bf16>);
  held.doc(
      "Softmax of rows [rows, n] that are read once and held in registers, 32 elements a thread; n a multiple of 1024 "
      "up to 32768. Special values as in softmax.");
  held.shapes("x, y: [..., n]");
  held.test("eight simdgroups a row", limit,
            []<class T>(Gen& g) { return rows<SoftmaxRegisters, T>(g, 2, 8192, 4.0); });
  held.test("one simdgroup a row", limit, []<class T>(Gen& g) { return rows<SoftmaxRegisters, T>(g, 3, 1024, 4.0); });
  held.test("peaked rows", limit, []<class T>(Gen& g) { return rows<SoftmaxRegisters, T>(g, 2, 2048, 50.0); });
  held.test("longest row", limit, []<class T>(Gen& g) { return rows<SoftmaxRegisters, T>(g, 1, 32768, 2.0); });
  held.test("infinities and NaN", limit, []<class T>(Gen& g) { return specials<SoftmaxRegisters, T>(g, 1024); });
  held.bench("128 x 8192",
             []<class T>(Gen& g) { return rows<SoftmaxRegisters, T>(g, 128, 8192, 1.0).computes(8.0 * 128 * 8192); });
}

}  // namespace iron::kernels
