// Scatters: rows into a table, elements along an axis, elements chosen by a mask. Targets written twice are undefined.
#include <algorithm>

#include "iron/dsl.h"
#include "registry.h"
#include "specials.h"

namespace iron::kernels {
namespace {

// out[indices[i], c] = updates[i, c]        updates: [n, width], out: [rows, width], indices: [n], all different
// A number that is not below `rows` is skipped.
template <class T>
struct Scatter {
  In<T> updates;
  In<u32> indices;
  InOut<T> out;
  Scalar<u32> rows, width;

  Grid grid() const { return Grid::for_items(updates.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> row = i / width, column = i % width;
    const auto to = cast<Index>(indices[row]);
    if_(to < rows) { out[to * width + column] = updates[i]; }
  }
};

// out[o, indices[o, a, i], i] = updates[o, a, i]
// updates, indices: [outer, axis_updates, inner], out: [outer, axis, inner]; a number not below `axis` is skipped
template <class T>
struct ScatterAxis {
  In<T> updates;
  In<u32> indices;
  InOut<T> out;
  Scalar<u32> outer, axis, axis_updates, inner;

  Grid grid() const { return Grid::for_items(updates.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> column = i % inner, o = i / inner / axis_updates;
    const auto to = cast<Index>(indices[i]);
    if_((to < axis) & (o < outer)) { out[(o * axis + to) * inner + column] = updates[i]; }
  }
};

// out[i] = src[offsets[i]] where mask[i] != 0, else unchanged        mask, offsets, out: [n]; offsets is the exclusive
// scan of the mask as a rule. An offset beyond src leaves out[i] unchanged.
template <class T>
struct MaskedScatter {
  In<u8> mask;
  In<u32> offsets;
  In<T> src;
  InOut<T> out;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto chosen = mask[i] != 0;
    const auto from = cast<Index>(offsets[i]);
    if_(chosen & (from < src.length())) { out[i] = src[from]; }
  }
};

// Different numbers below `range`, the largest first, in an order without pattern, with two out of range.
std::vector<u32> different(Gen& g, u32 range, u32 n) {
  std::vector<u32> all(range);
  for (u32 i = 0; i < range; ++i) all[i] = i;
  for (u32 i = range; i-- > 1;) std::swap(all[i], all[g.next() % (i + 1)]);
  std::iter_swap(all.begin(), std::find(all.begin(), all.end(), range - 1));
  all.resize(n);
  if (n > 2) all[1] = range, all[n - 1] = 0xffffffffu;
  return all;
}

template <class T>
Case rows_case(Gen& g, u32 rows, u32 width, u32 n) {
  const auto updates = g.values<T>(n, width);
  const auto numbers = different(g, rows, n);
  const auto indices = g.from<u32>([&](u64 i) { return numbers[i]; }, n);
  auto out = g.values<T>(rows, width);
  std::vector<T> want(out.data(), out.data() + out.size());
  for (u64 i = 0; i < n; ++i)
    for (u64 c = 0; c < width && numbers[i] < rows; ++c) want[numbers[i] * u64{width} + c] = updates[i * width + c];
  return Case{Scatter<T>{updates, indices, out, rows, width}}
      .expect_exact("out", want)
      .moves(u64{2} * n * width * sizeof(T));
}

template <class T>
Case axis_case(Gen& g, u32 outer, u32 axis, u32 axis_updates, u32 inner) {
  const auto updates = g.values<T>(outer, axis_updates, inner);
  auto indices = g.zeros<u32>(outer, axis_updates, inner);
  auto out = g.values<T>(outer, axis, inner);
  std::vector<T> want(out.data(), out.data() + out.size());
  for (u64 o = 0; o < outer; ++o)
    for (u64 c = 0; c < inner; ++c) {
      const auto numbers = different(g, axis, axis_updates);
      for (u64 a = 0; a < axis_updates; ++a) {
        const u64 at = (o * axis_updates + a) * inner + c;
        indices[at] = numbers[a];
        if (numbers[a] < axis) want[(o * axis + numbers[a]) * inner + c] = updates[at];
      }
    }
  return Case{ScatterAxis<T>{updates, indices, out, outer, axis, axis_updates, inner}}.expect_exact("out", want);
}

// `short_by` takes that many elements away from the source: their places keep what they held.
template <class T>
Case masked(Gen& g, u32 n, u32 short_by) {
  const auto mask = g.integers<u8>(0, 2, n);
  auto offsets = g.zeros<u32>(n);
  u32 count = 0;
  for (u64 i = 0; i < n; ++i) offsets[i] = count, count += mask[i] ? 1 : 0;
  const auto src = g.values<T>(count - short_by);
  auto out = g.values<T>(n);
  std::vector<T> want(out.data(), out.data() + n);
  u64 next = 0;
  for (u64 i = 0; i < n; ++i)
    if (mask[i] && next < src.size()) want[i] = src[next++];
  return Case{MaskedScatter<T>{.mask = mask, .offsets = offsets, .src = src, .out = out}}.expect_exact("out", want);
}

}  // namespace

void register_scatter(Registry& r) {
  constexpr auto types = dtypes<f32, f16, bf16>;
  auto rows = r.kernel<Scatter>("scatter", "index", types);
  rows.doc("Rows written into a [rows, width] table by number; numbers differ, those out of range are skipped.");
  rows.shapes("updates: [..., width]; indices: [...]; out: [rows, width]");
  rows.test("ragged rows", exact_match, []<class T>(Gen& g) { return rows_case<T>(g, 41, 27, 23); });
  rows.test("one column", exact_match, []<class T>(Gen& g) { return rows_case<T>(g, 500, 1, 321); });
  rows.bench("512 of 8192 x 1024", []<class T>(Gen& g) { return rows_case<T>(g, 8192, 1024, 512); });

  auto axis = r.kernel<ScatterAxis>("scatter_axis", "index", types);
  axis.doc(
      "Elements written into [outer, axis, inner] along the axis, an index for each update; those out of range are "
      "skipped.");
  axis.shapes("updates, indices: [outer, axis_updates, inner]; out: [outer, axis, inner]");
  axis.test("middle axis", exact_match, []<class T>(Gen& g) { return axis_case<T>(g, 3, 11, 7, 13); });
  axis.test("last axis", exact_match, []<class T>(Gen& g) { return axis_case<T>(g, 9, 37, 20, 1); });
  axis.bench("64 x 128 x 128", []<class T>(Gen& g) { return axis_case<T>(g, 64, 128, 128, 128); });

  auto mask = r.kernel<MaskedScatter>("masked_scatter", "index", types);
  mask.doc("Elements of a dense source written where a byte mask is set, by their offsets; others are unchanged.");
  mask.test("ragged values", exact_match, []<class T>(Gen& g) { return masked<T>(g, 1003, 0); });
  mask.test("source too short", exact_match, []<class T>(Gen& g) { return masked<T>(g, 515, 9); });
  mask.bench("1M", []<class T>(Gen& g) { return masked<T>(g, 1 << 20, 0); });
}

}  // namespace iron::kernels
