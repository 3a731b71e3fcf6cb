// Merging pairs of sorted runs: each output element finds its place by co-rank.
#include <algorithm>
#include <cmath>

#include "iron/dsl.h"
#include "iron/library.h"
#include "sort/order.h"

namespace iron::kernels {

namespace {

// y = x with runs 2k and 2k + 1 of `run` elements merged, ascending in totalOrder, the earlier run first on ties x, y:
// [n] The last run may be short, and a last run without partner stays. Odeh, Green, Mwassi, Shmueli and Birk 2012: the
// number of elements that the first d outputs take from run A is found by bisection.
template <class T>
struct Merge {
  In<T> x;
  Out<T> y;
  Scalar<u32> n, run;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto length = cast<Index>(run), end = cast<Index>(n);
    const auto start = i / (length * 2u) * (length * 2u);
    const auto a_length = min(length, end - start), b_length = min(length, end - start - a_length);
    const auto d = i - start;
    const auto b_start = start + a_length;
    // A position outside its run is replaced by the output's own, which exists.
    const auto a_key = [&](const Val<Index>& at, const Val<bool>& exists) {
      return order_key(x[bounded(select<Index>(exists, start + at, i), 0u, end - 1u)]);
    };
    const auto b_key = [&](const Val<Index>& at, const Val<bool>& exists) {
      return order_key(x[bounded(select<Index>(exists, b_start + at, i), 0u, end - 1u)]);
    };

    Var<Index> low{max(d, b_length) - b_length}, high{min(d, a_length)};
    for (auto step : range(cast<Index>(32u - clz(run)))) {  // bits of run: enough to bisect run + 1 places
      static_cast<void>(step);
      const Val<Index> from = low, to = high;
      const auto open = from < to;
      const auto middle = (from + to) / 2u;
      const auto a_first = open && a_key(middle, open) <= b_key(select<Index>(open, d - middle, 1u) - 1u, open);
      low = select<Index>(a_first, middle + 1u, from);
      high = select<Index>(open && !a_first, middle, to);
    }
    const Val<Index> a = low;
    const auto b = d - a;
    const auto a_left = a < a_length, b_left = b < b_length;
    const auto take_a = a_left && (!b_left || a_key(a, a_left) <= b_key(b, b_left));
    const auto at = select<Index>(take_a, start + a, select<Index>(b_left, b_start + b, i));
    y[i] = x[bounded(at, 0u, end - 1u)];
  }
};

template <class T>
Case merged(Gen& g, Array<T> x, u32 run) {
  const auto n = static_cast<u32>(x.size());
  const auto y = g.output<T>(n);
  const auto at = [&](u32 i) { return x.data() + std::min(i, n); };
  for (u32 s = 0; s < n; s += run) std::sort(at(s), at(s + run), ordered_before<T>);
  std::vector<T> want(x.data(), x.data() + n);
  for (u32 s = 0; s < n; s += 2 * run)
    std::merge(at(s), at(s + run), at(s + run), at(s + 2 * run), want.data() + s, ordered_before<T>);
  return Case{Merge<T>{.x = x, .y = y, .n = n, .run = run}}.expect_exact("y", want);
}
// Few distinct values, both zeros among them.
template <class T>
Array<T> tied(Gen& g, u32 n) {
  auto x = g.from<T>([&](u64) { return static_cast<f32>(g.next() % 4) - 2.0f; }, n);
  for (u32 i = 0; i < n; i += 7) x[i] = T(-0.0);
  return x;
}

}  // namespace

void register_merge(Registry& r) {
  auto k = r.kernel<Merge>("merge", "sort", dtypes<f32, f16, bf16>);
  k.doc(
      "Merges neighbouring sorted runs of `run` elements of an array [n] in pairs, stable, ascending in IEEE "
      "totalOrder.");
  k.shapes("x, y: [n]");
  k.test("whole pairs", exact_match, []<class T>(Gen& g) { return merged(g, g.values<T>(1200), 100); });
  k.test("a short last run", exact_match, []<class T>(Gen& g) { return merged(g, g.values<T>(777), 150); });
  k.test("a last run without partner", exact_match,
         []<class T>(Gen& g) { return merged(g, g.values<T>(5 * 64 - 9), 64); });
  k.test("runs of one", exact_match, []<class T>(Gen& g) { return merged(g, g.values<T>(33), 1); });
  k.test("one run", exact_match, []<class T>(Gen& g) { return merged(g, g.values<T>(100), 4096); });
  k.test("ties", exact_match, []<class T>(Gen& g) { return merged(g, tied<T>(g, 600), 75); });
  k.bench("1 Mi, runs of 1024", []<class T>(Gen& g) { return merged(g, g.values<T>(1 << 20), 1024); });
}

}  // namespace iron::kernels
