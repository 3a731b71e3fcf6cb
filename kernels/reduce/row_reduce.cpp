// Reductions of rows and of whole arrays: one threadgroup for each result.
#include "iron/dsl.h"
#include "iron/library.h"
#include "reduce/fold.h"
#include "rows.h"

namespace iron::kernels {

namespace {

// y[r] = fold_i x[r, i]        x: [rows, n], y: [rows]; all_reduce is the one row of a whole array
// Folded in f32: each thread strides over the row, then the threadgroup's tree (R4); one rounding at the store.
template <class T>
struct RowReduce {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    Fold fold = Fold::sum;
  } spec;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{static_cast<u32>(y.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    Var<f32> own{identity(spec.fold)};
    for (auto i : range(thread_id(), n, threads())) own = combine(spec.fold, own, cast<f32>(x[row + i]));
    const auto result = threadgroup_fold(spec.fold, own);
    if_(thread_id() == 0u) { y[threadgroup_id()] = cast<T>(result); }
  }
};

template <class T>
Case reduce(Gen& g, Fold fold, const Array<T>& x, u32 n) {
  const auto y = g.output<T>(x.size() / n);
  std::vector<f64> want(y.size(), f64{identity(fold)});
  for (u64 i = 0; i < x.size(); ++i) want[i / n] = combine(fold, want[i / n], x.at(i));
  return Case{RowReduce<T>{.spec = {fold}, .x = x, .y = y, .n = n}}.expect("y", std::move(want));
}
template <class T>
Case rows(Gen& g, Fold fold, u32 count, u32 n) {
  return reduce(g, fold, fold_data<T>(g, fold, u64{count} * n), n);
}
// A row with a NaN, a row of NaN alone, a row of the identity's opposite infinity.
template <class T>
Case specials(Gen& g, Fold fold) {
  constexpr f64 nan = std::numeric_limits<f64>::quiet_NaN();
  constexpr u32 n = 70;
  auto x = fold_data<T>(g, fold, 4 * n);
  x[33] = T(nan);
  for (u32 i = 0; i < n; ++i) x[n + i] = T(nan), x[2 * n + i] = T(f64{identity(fold)});
  x[3 * n + 69] = T(fold == Fold::min ? -std::numeric_limits<f64>::infinity() : std::numeric_limits<f64>::infinity());
  return reduce(g, fold, x, n);
}

struct Name {
  Fold fold;
  const char *suffix, *what;
};
constexpr Name names[] = {{Fold::sum, "", "Sum"},
                          {Fold::product, "_prod", "Product"},
                          {Fold::max, "_max", "Maximum"},
                          {Fold::min, "_min", "Minimum"}};
// Extrema are exact; a sum or product rounds a few times in f32 and once to T.
constexpr Tolerance limit_of(Fold f) {
  return f == Fold::max || f == Fold::min ? exact_match : tolerance(2e-5, 1e-3, 8e-3);
}
const char* nan_policy(Fold f) {
  return f == Fold::max || f == Fold::min ? " NaN is skipped; NaN alone gives the identity." : " NaN carries on.";
}

}  // namespace

void register_row_reduce(Registry& r) {
  for (const auto& [f, suffix, what] : names) {
    const auto fold = f;
    const auto set = [fold](auto& k) { k.spec.fold = fold; };
    const auto limit = limit_of(fold);
    auto row = r.kernel<RowReduce>(std::string("row_reduce") + suffix, "reduce", dtypes<f32, f16, bf16>, set);
    row.doc(std::string(what) + " of each row, [rows, n] to [rows]." + nan_policy(fold));
    row.shapes("x: [..., n]; y: [...]");
    row.test("ragged rows", limit, [fold]<class T>(Gen& g) { return rows<T>(g, fold, 5, 777); });
    row.test("fewer elements than threads", limit, [fold]<class T>(Gen& g) { return rows<T>(g, fold, 7, 45); });
    row.test("NaN and infinities", limit, [fold]<class T>(Gen& g) { return specials<T>(g, fold); });
    row.bench("1024 x 1024", [fold]<class T>(Gen& g) { return rows<T>(g, fold, 1024, 1024).computes(1024.0 * 1024); });

    auto all = r.kernel<RowReduce>(std::string("all_reduce") + suffix, "reduce", dtypes<f32, f16, bf16>, set);
    all.doc(std::string(what) + " of all n elements, by one threadgroup: [n] to [1]." + nan_policy(fold));
    all.shapes("x: [n]; y: [1]");
    all.test("a prime number", limit, [fold]<class T>(Gen& g) { return rows<T>(g, fold, 1, 1531); });
    all.test("one element", exact_match, [fold]<class T>(Gen& g) { return rows<T>(g, fold, 1, 1); });
    all.bench("1 Mi", [fold]<class T>(Gen& g) { return rows<T>(g, fold, 1, 1 << 20).computes(1024.0 * 1024); });
  }
}

}  // namespace iron::kernels
