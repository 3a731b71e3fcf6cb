// Gathers: rows of a table, rows by threadgroups, elements along an axis.
#include "index/gather.h"

#include "registry.h"
#include "specials.h"

namespace iron::kernels {
namespace {

// out[i, c] = src[indices[i], c], one threadgroup a row: no division, any width
template <class T>
struct GatherFront {
  static constexpr Mode mode = Mode::Threadgroup;
  In<T> src;
  In<u32> indices;
  Out<T> out;
  Scalar<u32> rows, width;

  Grid grid() const { return {Threadgroups{static_cast<u32>(indices.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id();
    const auto from = cast<Index>(indices[row]);
    for (auto c : range(thread_id(), width, threads()))
      out[row * width + c] = src.load_or(from < rows, from * width + c, T{});
  }
};

// out[o, a, i] = src[o, indices[o, a, i], i]
// src: [outer, axis, inner], indices, out: [outer, axis_out, inner]; a number not below `axis` gives 0
template <class T>
struct GatherAxis {
  In<T> src;
  In<u32> indices;
  Out<T> out;
  Scalar<u32> outer, axis, axis_out, inner;

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> column = i % inner, o = i / inner / axis_out;
    const auto from = cast<Index>(indices[i]);
    out[i] = src.load_or((from < axis) & (o < outer), (o * axis + from) * inner + column, T{});
  }
};

// The last index is out of range on purpose: the next ones beyond the end, and the largest number.
Array<u32> row_numbers(Gen& g, u32 rows, u32 n) {
  auto v = g.integers<u32>(0, rows - 1, n);
  v[0] = rows - 1;
  if (n > 3) v[1] = rows, v[2] = 0xffffffffu, v[3] = v[0];
  return v;
}

template <template <class> class K, class T>
Case rows_case(Gen& g, u32 rows, u32 width, u32 n) {
  const auto table = g.values<T>(rows, width);
  const auto indices = row_numbers(g, rows, n);
  const auto out = g.output<T>(n, width);
  std::vector<T> want;
  for (u64 i = 0; i < n; ++i)
    for (u64 c = 0; c < width; ++c) want.push_back(indices[i] < rows ? table[indices[i] * width + c] : T{});
  return Case{K<T>{table, indices, out, rows, width}}.expect_exact("out", want).moves(u64{2} * n * width * sizeof(T));
}

template <class T>
Case axis_case(Gen& g, u32 outer, u32 axis, u32 axis_out, u32 inner) {
  const auto src = g.values<T>(outer, axis, inner);
  auto indices = row_numbers(g, axis, outer * axis_out * inner);
  const auto out = g.output<T>(outer, axis_out, inner);
  std::vector<T> want;
  for (u64 o = 0; o < outer; ++o)
    for (u64 a = 0; a < axis_out; ++a)
      for (u64 c = 0; c < inner; ++c) {
        const u64 from = indices[(o * axis_out + a) * inner + c];
        want.push_back(from < axis ? src[(o * axis + from) * inner + c] : T{});
      }
  return Case{GatherAxis<T>{src, indices, out, outer, axis, axis_out, inner}}.expect_exact("out", want);
}

}  // namespace

void register_gather(Registry& r) {
  constexpr auto types = dtypes<f32, f16, bf16>;
  const auto add = [](auto& k, auto make) {
    k.test("ragged rows", exact_match, [make]<class T>(Gen& g) { return make.template operator()<T>(g, 37, 45, 29); });
    k.test("one column", exact_match, [make]<class T>(Gen& g) { return make.template operator()<T>(g, 7, 1, 300); });
    k.test("wide row", exact_match, [make]<class T>(Gen& g) { return make.template operator()<T>(g, 3, 517, 4); });
    k.bench("512 of 32000 x 1024",
            [make]<class T>(Gen& g) { return make.template operator()<T>(g, 32000, 1024, 512); });
  };
  auto flat = r.kernel<Gather>("gather", "index", types);
  flat.doc("Rows of a [rows, width] table by number (embedding); a number out of range gives zeros.");
  flat.shapes("table: [rows, width]; indices: [...]; out: [..., width]");
  add(flat, []<class T>(Gen& g, u32 rows, u32 width, u32 n) { return rows_case<Gather, T>(g, rows, width, n); });

  auto front = r.kernel<GatherFront>("gather_front", "index", types);
  front.doc("Slices along the first axis by number, one threadgroup each; a number out of range gives zeros.");
  front.shapes("src: [rows, width]; indices: [...]; out: [..., width]");
  add(front, []<class T>(Gen& g, u32 rows, u32 width, u32 n) { return rows_case<GatherFront, T>(g, rows, width, n); });

  auto axis = r.kernel<GatherAxis>("gather_axis", "index", types);
  axis.doc("Elements of [outer, axis, inner] along the axis, an index for each output; out of range gives 0.");
  axis.shapes("src: [outer, axis, inner]; indices, out: [outer, axis_out, inner]");
  axis.test("middle axis", exact_match, []<class T>(Gen& g) { return axis_case<T>(g, 3, 11, 7, 13); });
  axis.test("last axis, longer than the source", exact_match,
            []<class T>(Gen& g) { return axis_case<T>(g, 9, 5, 31, 1); });
  axis.bench("64 x 128 x 128", []<class T>(Gen& g) { return axis_case<T>(g, 64, 128, 128, 128); });
}

}  // namespace iron::kernels
