// Reductions with one thread for each result: over the rows of a matrix, and over consecutive segments.
#include "iron/dsl.h"
#include "iron/library.h"
#include "reduce/fold.h"

namespace iron::kernels {

namespace {

// y[c] = fold_r x[r, c]        x: [rows, cols], y: [cols]; rows in ascending order, in f32
template <class T>
struct ColReduce {
  struct Spec {
    Fold fold = Fold::sum;
  } spec;

  In<T> x;
  Out<T> y;
  Scalar<u32> rows, cols;

  void operator()() const {
    const auto col = grid_thread_id();
    Var<f32> all{identity(spec.fold)};
    for (auto r : range(rows)) all = combine(spec.fold, all, cast<f32>(x[r * cols + col]));
    y[col] = cast<T>(all);
  }
};

// y[s] = fold_i x[s, i]        x: [n_segments, seg_len], y: [n_segments]; in ascending order, in f32
template <class T>
struct SegReduce {
  struct Spec {
    Fold fold = Fold::sum;
  } spec;

  In<T> x;
  Out<T> y;
  Scalar<u32> seg_len;

  void operator()() const {
    const auto segment = grid_thread_id();
    Var<f32> all{identity(spec.fold)};
    for (auto i : range(seg_len)) all = combine(spec.fold, all, cast<f32>(x[segment * seg_len + i]));
    y[segment] = cast<T>(all);
  }
};

template <class T>
Case columns(Gen& g, Fold fold, u32 rows, u32 cols) {
  const auto x = fold_data<T>(g, fold, u64{rows} * cols);
  const auto y = g.output<T>(cols);
  std::vector<f64> want(cols, f64{identity(fold)});
  for (u64 i = 0; i < x.size(); ++i) want[i % cols] = combine(fold, want[i % cols], x.at(i));
  return Case{ColReduce<T>{.spec = {fold}, .x = x, .y = y, .rows = rows, .cols = cols}}.expect("y", std::move(want));
}
template <class T>
Case segments(Gen& g, Fold fold, const Array<T>& x, u32 length) {
  const auto y = g.output<T>(x.size() / length);
  std::vector<f64> want(y.size(), f64{identity(fold)});
  for (u64 i = 0; i < x.size(); ++i) want[i / length] = combine(fold, want[i / length], x.at(i));
  return Case{SegReduce<T>{.spec = {fold}, .x = x, .y = y, .seg_len = length}}.expect("y", std::move(want));
}
template <class T>
Case segments(Gen& g, Fold fold, u32 count, u32 length) {
  return segments(g, fold, fold_data<T>(g, fold, u64{count} * length), length);
}
template <class T>
Case nan_in_segment(Gen& g, Fold fold) {
  auto x = fold_data<T>(g, fold, 3 * 9);
  x[4] = T(std::numeric_limits<f64>::quiet_NaN());
  return segments(g, fold, x, 9);
}

constexpr Tolerance limit_of(Fold f) {
  return f == Fold::max || f == Fold::min ? exact_match : tolerance(2e-5, 1e-3, 8e-3);
}

}  // namespace

void register_col_reduce(Registry& r) {
  const struct {
    Fold fold;
    const char *suffix, *what;
  } names[] = {{Fold::sum, "", "Sum"},
               {Fold::product, "_prod", "Product"},
               {Fold::max, "_max", "Maximum"},
               {Fold::min, "_min", "Minimum"}};
  for (const auto& name : names) {
    const auto fold = name.fold;
    const auto set = [fold](auto& k) { k.spec.fold = fold; };
    const auto limit = limit_of(fold);
    const std::string what = name.what, nan = limit.f32_error == 0 ? " NaN is skipped." : " NaN carries on.";
    auto col = r.kernel<ColReduce>(std::string("col_reduce") + name.suffix, "reduce", dtypes<f32, f16, bf16>, set);
    col.doc(what + " of each column, [rows, cols] to [cols], one thread a column." + nan);
    col.shapes("x: [rows, cols]; y: [cols]");
    col.test("ragged columns", limit, [fold]<class T>(Gen& g) { return columns<T>(g, fold, 37, 301); });
    col.test("one column", limit, [fold]<class T>(Gen& g) { return columns<T>(g, fold, 130, 1); });
    col.test("one row", exact_match, [fold]<class T>(Gen& g) { return columns<T>(g, fold, 1, 70); });
    col.bench("1024 x 4096",
              [fold]<class T>(Gen& g) { return columns<T>(g, fold, 1024, 4096).computes(4.0 * 1024 * 1024); });

    auto seg = r.kernel<SegReduce>(std::string("seg_reduce") + name.suffix, "reduce", dtypes<f32, f16, bf16>, set);
    seg.doc(what + " of each segment, [n_segments, seg_len] to [n_segments], one thread a segment." + nan);
    seg.shapes("x: [..., seg_len]; y: [...]");
    seg.test("ragged segments", limit, [fold]<class T>(Gen& g) { return segments<T>(g, fold, 301, 37); });
    seg.test("one segment", limit, [fold]<class T>(Gen& g) { return segments<T>(g, fold, 1, 130); });
    seg.test("NaN", limit, [fold]<class T>(Gen& g) { return nan_in_segment<T>(g, fold); });
    seg.bench("65536 x 16",
              [fold]<class T>(Gen& g) { return segments<T>(g, fold, 65536, 16).computes(1024.0 * 1024); });
  }
}

}  // namespace iron::kernels
