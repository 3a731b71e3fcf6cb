// Prefix sums, products and extrema along rows: one threadgroup a row, tiles with a running carry.
#include "iron/dsl.h"
#include "iron/library.h"
#include "reduce/fold.h"

namespace iron::kernels {

namespace {

// inclusive: y[r, i] = fold of x[r, 0..i]; exclusive: of x[r, 0..i-1], the identity at i = 0        x, y: [rows, n]
// A thread folds 4 consecutive elements, the threadgroup scans the threads' results (R4), a carry joins the tiles; all
// in f32, each element rounded once to T.
template <class T>
struct Scan {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    Fold fold = Fold::sum;
    bool exclusive = false;
    u32 per_thread = 4, threads = 256;
  } spec;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;

  Grid grid() const {
    const u64 rows = n.value() == 0 ? 0 : y.size() / n.value();
    return {Threadgroups{1, static_cast<u32>(rows)}, Threads{spec.threads}};
  }

  void operator()() const {
    const auto row = threadgroup_id(Axis::y) * n;
    Var<f32> carry{identity(spec.fold)};
    for (auto tile : range(0, n, spec.threads * spec.per_thread)) {
      const auto first = tile + thread_id() * spec.per_thread;
      std::vector<Val<f32>> run;  // folds of this thread's elements up to each
      for (u32 k = 0; k < spec.per_thread; ++k) {
        const auto v = cast<f32>(x.load_or(first + k < n, row + first + k, T(identity(spec.fold))));
        run.push_back(k == 0 ? v : combine(spec.fold, run.back(), v));
      }
      const auto before = threadgroup_fold_before(spec.fold, run.back());
      const Val<f32> earlier = carry;
      const auto start = combine(spec.fold, earlier, before);
      for (u32 k = 0; k < spec.per_thread; ++k) {
        const auto result = !spec.exclusive ? combine(spec.fold, start, run[k])
                            : k == 0        ? start
                                            : combine(spec.fold, start, run[k - 1]);
        if_(first + k < n) { y[row + first + k] = cast<T>(result); }
      }
      const auto total = threadgroup_broadcast(combine(spec.fold, before, run.back()), spec.threads - 1);
      carry = combine(spec.fold, earlier, total);
    }
  }
};

template <class T>
Case scan(Gen& g, Fold fold, bool exclusive, const Array<T>& x, u32 n) {
  const auto y = g.output<T>(x.size());
  std::vector<f64> want(x.size());
  f64 all = 0;
  for (u64 i = 0; i < x.size(); ++i) {
    if (i % n == 0) all = f64{identity(fold)};
    if (exclusive) want[i] = all;
    all = combine(fold, all, x.at(i));
    if (!exclusive) want[i] = all;
  }
  return Case{Scan<T>{.spec = {fold, exclusive}, .x = x, .y = y, .n = n}}.expect("y", std::move(want));
}
// Rows whose running fold changes often: extrema of slowly growing noise.
template <class T>
Case rows(Gen& g, Fold fold, bool exclusive, u32 count, u32 n) {
  auto x = fold_data<T>(g, fold, u64{count} * n);
  if (fold == Fold::max || fold == Fold::min) {
    const f64 slope = fold == Fold::max ? 1.0 : -1.0;
    for (u64 i = 0; i < x.size(); ++i) x[i] = T(x.at(i) + slope * static_cast<f64>(i % n) / 40.0);
  }
  return scan(g, fold, exclusive, x, n);
}
template <class T>
Case nan_in_row(Gen& g, Fold fold, bool exclusive) {
  auto x = fold_data<T>(g, fold, 2 * 600);
  x[130] = T(std::numeric_limits<f64>::quiet_NaN());
  return scan(g, fold, exclusive, x, 600);
}

struct Name {
  Fold fold;
  const char *suffix, *what;
};
constexpr Name names[] = {{Fold::sum, "", "sums"},
                          {Fold::product, "_prod", "products"},
                          {Fold::max, "_max", "maxima"},
                          {Fold::min, "_min", "minima"}};

}  // namespace

void register_scan(Registry& r) {
  for (const auto& name : names)
    for (const bool exclusive : {false, true}) {
      const auto fold = name.fold;
      const bool extremum = fold == Fold::max || fold == Fold::min;
      const auto limit = extremum ? exact_match : tolerance(5e-5, 1e-3, 8e-3);
      auto k = r.kernel<Scan>(std::string("scan") + name.suffix + (exclusive ? "_exclusive" : ""), "scan",
                              dtypes<f32, f16, bf16>,
                              [=](auto& kernel) { kernel.spec.fold = fold, kernel.spec.exclusive = exclusive; });
      k.doc(std::string(exclusive ? "Exclusive" : "Inclusive") + " running " + name.what + " along rows [rows, n]." +
            (extremum ? " NaN is skipped." : " NaN carries on."));
      k.shapes("x, y: [..., n]");
      k.test("several tiles", limit, [=]<class T>(Gen& g) { return rows<T>(g, fold, exclusive, 2, 2 * 1024 + 77); });
      k.test("short rows", limit, [=]<class T>(Gen& g) { return rows<T>(g, fold, exclusive, 5, 131); });
      k.test("one element", exact_match, [=]<class T>(Gen& g) { return rows<T>(g, fold, exclusive, 3, 1); });
      k.test("NaN", limit, [=]<class T>(Gen& g) { return nan_in_row<T>(g, fold, exclusive); });
      k.bench("256 x 4096",
              [=]<class T>(Gen& g) { return rows<T>(g, fold, exclusive, 256, 4096).computes(1024.0 * 1024); });
    }
}

}  // namespace iron::kernels
