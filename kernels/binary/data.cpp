// Selection, copies of contiguous and strided data, and generators.
#include "binary/binary.h"
#include "registry.h"
#include "specials.h"

namespace iron::kernels {
namespace {

// out[i] = condition[i] != 0 ? a[i] : b[i]        all n elements; the bits of the chosen element are kept
template <class T>
struct Select {
  In<u8> condition;
  In<T> a, b;
  Out<T> out;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto chosen = condition[i] != 0;
    out[i] = select(chosen, a[i], b[i]);
  }
};

// out[r, c] = src[r * row_stride + c * column_stride]        out: [rows, columns], strides in elements, 0 repeats
template <class T>
struct StridedCopy {
  static constexpr Mode mode = Mode::Grid3D;
  In<T> src;
  Out<T> out;
  Scalar<u32> rows, columns, row_stride, column_stride;

  Grid grid() const { return {Threadgroups{(columns.value() + 31) / 32, (rows.value() + 7) / 8}, Threads{32, 8}}; }

  void operator()() const {
    const auto c = grid_position(Axis::x), r = grid_position(Axis::y);
    if_((c < columns) & (r < rows)) { out[r * columns + c] = src[r * row_stride + c * column_stride]; }
  }
};

// out[i] = src[sum_k coordinate_k * strides[k]], i unravelled over shape with the last axis fastest
// shape, strides: [rank], in elements; stride 0 repeats. Offsets are taken modulo 2^32; one outside src is clamped
// into it, and reported where launches are checked.
template <class T>
struct StridedCopyNd {
  In<T> src;
  In<u32> shape, strides;
  Out<T> out;
  u32 rank = 3;

  void operator()() const {
    const auto i = grid_thread_id();
    Var<u32> rest{cast<u32>(i)}, offset{0u};
    for (u32 axis = rank; axis-- > 0;) {
      const Val<u32> extent = shape[axis], position = rest;
      offset += position % extent * strides[axis];
      rest = position / extent;
    }
    const Val<Index> from = cast<Index>(offset);
    out[i] = src[bounded(from, 0, src.length() - 1)];
  }
};

// out[i] = start[0] + i * step[0] in f32, rounded once; i is exact up to 2^24
template <class T>
struct Arange {
  In<T> start, step;
  Out<T> out;

  void operator()() const {
    const auto i = grid_thread_id();
    out[i] = cast<T>(cast<f32>(start[0]) + cast<f32>(cast<u32>(i)) * cast<f32>(step[0]));
  }
};

// out[i] = xorshift32(i + 1) with shifts 13, 17, 5 (Marsaglia 2003): never 0, the same on every device
struct RandomHash {
  Out<u32> out;

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<u32> a = cast<u32>(i) + 1u;
    const Val<u32> b = a ^ (a << 13u);
    const Val<u32> c = b ^ (b >> 17u);
    out[i] = c ^ (c << 5u);
  }
};

template <class T>
Case select_case(Gen& g, u64 n) {
  const auto condition = g.integers<u8>(0, 3, n);
  const auto a = g.values<T>(n), b = g.values<T>(n);
  const auto out = g.output<T>(n);
  std::vector<T> want(n);
  for (u64 i = 0; i < n; ++i) want[i] = condition[i] ? a[i] : b[i];
  return Case{Select<T>{.condition = condition, .a = a, .b = b, .out = out}}.expect_exact("out", want);
}

// Every bit pattern of a 16-bit type, a sample of those of f32: NaN payloads and denormals are moved as they are.
template <class T>
Case copy_case(Gen& g, u64 n) {
  auto a = g.zeros<T>(n);
  for (u64 i = 0; i < n; ++i) {
    const u64 bits = sizeof(T) == 2 ? i * 7 : i * 0x9e3779b97f4a7c15ull >> 32;
    std::memcpy(static_cast<void*>(&a[i]), &bits, sizeof(T));
  }
  const auto out = g.output<T>(n);
  return Case{Copy<T>{.a = a, .out = out}}.expect_exact("out", std::vector<T>(a.data(), a.data() + n));
}

template <class T>
Case strided(Gen& g, u32 rows, u32 columns, u32 row_stride, u32 column_stride) {
  const auto src = g.values<T>((rows - 1) * row_stride + (columns - 1) * column_stride + 1);
  const auto out = g.output<T>(rows, columns);
  std::vector<T> want;
  for (u32 i = 0; i < rows; ++i)
    for (u32 j = 0; j < columns; ++j) want.push_back(src[i * row_stride + j * column_stride]);
  return Case{StridedCopy<T>{src, out, rows, columns, row_stride, column_stride}}.expect_exact("out", want);
}

template <class T>
Case strided_nd(Gen& g, const std::vector<u32>& shape, const std::vector<u32>& strides) {
  u64 n = 1, last = 0;
  for (std::size_t k = 0; k < shape.size(); ++k) n *= shape[k], last += u64{shape[k] - 1} * strides[k];
  const auto src = g.values<T>(last + 1);
  const auto out = g.output<T>(n);
  const auto list = [&](const std::vector<u32>& v) { return g.from<u32>([&](u64 i) { return v[i]; }, v.size()); };
  // An odometer: no division in common with the kernel.
  std::vector<T> want;
  std::vector<u32> at(shape.size(), 0);
  for (u64 i = 0; i < n; ++i) {
    u64 offset = 0;
    for (std::size_t k = 0; k < shape.size(); ++k) offset += u64{at[k]} * strides[k];
    want.push_back(src[offset]);
    for (std::size_t k = shape.size(); k-- > 0;) {
      if (++at[k] < shape[k]) break;
      at[k] = 0;
    }
  }
  const auto extents = list(shape), steps = list(strides);
  return Case{StridedCopyNd<T>{src, extents, steps, out, static_cast<u32>(shape.size())}}.expect_exact("out", want);
}

template <class T>
Case arange(Gen& g, u64 n, f64 start, f64 step) {
  const auto first = listed<T>(g, {start}), by = listed<T>(g, {step});
  const auto out = g.output<T>(n);
  std::vector<f64> want;
  for (u64 i = 0; i < n; ++i) want.push_back(first.at(0) + static_cast<f64>(i) * by.at(0));
  return Case{Arange<T>{.start = first, .step = by, .out = out}}.expect_exact("out", rounded_all<T>(want));
}

Case hash_case(Gen& g, u64 n) {
  const auto out = g.output<u32>(n);
  std::vector<u32> want;
  for (u64 i = 0; i < n; ++i) {
    u64 x = i + 1;
    x = (x ^ x << 13) & 0xffffffffu;
    x ^= x >> 17;
    x = (x ^ x << 5) & 0xffffffffu;
    want.push_back(static_cast<u32>(x));
  }
  return Case{RandomHash{.out = out}}.expect_exact("out", want);
}

}  // namespace

void register_data_movement(Registry& r) {
  constexpr auto types = dtypes<f32, f16, bf16>;
  auto sel = r.kernel<Select>("select", "binary", types);
  sel.doc("a where the byte is not 0, else b, elementwise; bits are kept.");
  sel.test("ragged values", exact_match, []<class T>(Gen& g) { return select_case<T>(g, 1003); });
  sel.bench("1M", []<class T>(Gen& g) { return select_case<T>(g, 1 << 20); });

  auto copy = r.kernel<Copy>("copy", "binary", types);
  copy.doc("out = a, bit for bit.");
  copy.test("bit patterns", exact_match, []<class T>(Gen& g) { return copy_case<T>(g, 9363); });
  copy.bench("1M", []<class T>(Gen& g) { return copy_case<T>(g, 1 << 20); });

  auto two = r.kernel<StridedCopy>("strided_copy", "binary", types);
  two.doc("A strided [rows, columns] view made contiguous; strides in elements, 0 repeats.");
  two.shapes("out: [rows, columns]");
  two.test("padded rows", exact_match, []<class T>(Gen& g) { return strided<T>(g, 13, 37, 41, 1); });
  two.test("transposed", exact_match, []<class T>(Gen& g) { return strided<T>(g, 37, 13, 1, 37); });
  two.test("rows repeated", exact_match, []<class T>(Gen& g) { return strided<T>(g, 9, 33, 0, 2); });
  two.bench("transposed 1024 x 1024", []<class T>(Gen& g) { return strided<T>(g, 1024, 1024, 1, 1024); });

  auto nd = r.kernel<StridedCopyNd>("strided_copy_nd", "binary", types);
  nd.doc("A strided view of any rank made contiguous; shape and strides in memory, the rank is a specialisation.");
  nd.test("permuted rank 3", exact_match, []<class T>(Gen& g) { return strided_nd<T>(g, {5, 7, 11}, {1, 55, 5}); });
  nd.test("repeated rank 4", exact_match,
          []<class T>(Gen& g) { return strided_nd<T>(g, {3, 4, 5, 6}, {7, 0, 1, 31}); });
  nd.test("rank 1", exact_match, []<class T>(Gen& g) { return strided_nd<T>(g, {300}, {3}); });
  nd.bench("permuted 64 x 128 x 128",
           []<class T>(Gen& g) { return strided_nd<T>(g, {64, 128, 128}, {128, 64 * 128, 1}); });

  auto range = r.kernel<Arange>("arange", "binary", types);
  range.doc("start + i * step with both numbers in memory; computed in f32 and rounded once, not accumulated.");
  range.test("quarters", exact_match, []<class T>(Gen& g) { return arange<T>(g, 1003, 0.5, 0.25); });
  range.test("downwards", exact_match, []<class T>(Gen& g) { return arange<T>(g, 515, 7.0, -3.0); });
  range.bench("1M", []<class T>(Gen& g) { return arange<T>(g, 1 << 20, 0.0, 0.03125); });

  auto hash = r.kernel<RandomHash, u32>("random_hash", "binary");
  hash.doc("xorshift32 of i + 1: deterministic pseudo-random words, the same on every device.");
  hash.test("ragged values", exact_match, []<class>(Gen& g) { return hash_case(g, 3001); });
  hash.bench("1M", []<class>(Gen& g) { return hash_case(g, 1 << 20); });
}

}  // namespace iron::kernels
