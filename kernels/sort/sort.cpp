// Sorting in threadgroup memory: blocks of 1024 elements, and rows of up to 1024.
#include <algorithm>

#include "iron/dsl.h"
#include "iron/library.h"
#include "sort/order.h"

namespace iron::kernels {

namespace {

constexpr u32 block = 1024, sort_threads = 256;
constexpr u32 past_every_key =
    0xffffffffu;  // as large as the largest key, which has the same bits: it cannot displace another

// y = x with each block of 1024 elements (segmented: each row of n <= 1024) ascending in totalOrder        x, y: [n] or
// [rows, n] Batcher's bitonic network over 1024 keys; absent elements sort last. Values move, bits do not change.
template <class T>
struct Sort {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    bool segmented = false;
  } spec;

  In<T> x;
  Out<T> y;
  Scalar<u32> n;

  Grid grid() const {
    const u64 length = spec.segmented ? n.value() : block;
    return {Threadgroups{length == 0 ? 0 : static_cast<u32>((y.size() + length - 1) / length)}, Threads{sort_threads}};
  }

  void operator()() const {
    Shared<u32> keys{block};
    if (spec.segmented) check(n <= block, "sort_segmented: a row is longer than 1024 elements");
    const auto start = spec.segmented ? threadgroup_id() * n : threadgroup_id() * block;
    const auto holds = [&](const Val<Index>& i) { return spec.segmented ? i < n : start + i < n; };

    for (u32 k = 0; k < block / sort_threads; ++k) {
      const auto i = thread_id() + k * sort_threads;
      const auto v = x.load_or(holds(i), start + i, T{});
      keys[i] = select<u32>(holds(i), order_key(v), past_every_key);
    }
    for (u32 size = 2; size <= block; size *= 2) {
      for (u32 stride = size / 2; stride >= 1; stride /= 2) {
        barrier();
        for (u32 half = 0; half < block / 2 / sort_threads; ++half) {
          const auto pair = thread_id() + half * sort_threads;
          // With the longest stride the lower element of a pair is the pair's own number.
          const auto low = 2 * stride == block ? pair : pair / stride * (2 * stride) + pair % stride;
          const Val a = keys[low];
          const Val b = keys[low + stride];
          const auto smaller = min(a, b), larger = max(a, b);
          if (size == block) {  // the last merge goes one way
            keys[low] = smaller;
            keys[low + stride] = larger;
          } else {
            const auto ascending = (low & size) == 0u;
            keys[low] = select<u32>(ascending, smaller, larger);
            keys[low + stride] = select<u32>(ascending, larger, smaller);
          }
        }
      }
    }
    barrier();
    for (u32 k = 0; k < block / sort_threads; ++k) {
      const auto i = thread_id() + k * sort_threads;
      if_(holds(i)) { y[start + i] = from_order_key<T>(keys[i]); }
    }
  }
};

template <class T>
Case sorted(Gen& g, const Array<T>& x, u32 n, bool segmented) {
  const auto y = g.output<T>(x.size());
  std::vector<T> want(x.data(), x.data() + x.size());
  const u64 length = segmented ? n : block;
  for (u64 i = 0; i < want.size(); i += length)
    std::sort(want.begin() + static_cast<std::ptrdiff_t>(i),
              want.begin() + static_cast<std::ptrdiff_t>(std::min<u64>(i + length, want.size())), ordered_before<T>);
  return Case{Sort<T>{.spec = {segmented}, .x = x, .y = y, .n = n}}.expect_exact("y", want);
}
template <class T>
Case blocks(Gen& g, u32 n) {
  return sorted(g, g.values<T>(n), n, false);
}
template <class T>
Case rows(Gen& g, u32 count, u32 n) {
  return sorted(g, g.values<T>(count, n), n, true);
}
// Both NaN signs, infinities, both zeros, denormals, and values that occur twice.
template <class T>
Array<T> specials(Gen& g, u32 count) {
  const f64 inf = std::numeric_limits<f64>::infinity(), nan = std::numeric_limits<f64>::quiet_NaN();
  const f64 odd[] = {0.0, -0.0, inf, -inf, nan, -nan, 1e-7, -1e-7, 1.0, -1.0};
  auto x = g.values<T>(count);
  for (u32 i = 0; i < count; ++i)
    if (g.next() % 3 == 0) x[i] = T(std::copysign(std::abs(odd[i % 10]), odd[i % 10]));
  return x;
}

}  // namespace

void register_sort(Registry& r) {
  auto k = r.kernel<Sort>("sort", "sort", dtypes<f32, f16, bf16>);
  k.doc(
      "Each block of 1024 elements of an array [n], ascending in IEEE totalOrder: -NaN, -inf, ..., -0, +0, ..., +inf, "
      "+NaN.");
  k.shapes("x, y: [n]");
  k.test("a block and a part", exact_match, []<class T>(Gen& g) { return blocks<T>(g, 1024 + 333); });
  k.test("one element", exact_match, []<class T>(Gen& g) { return blocks<T>(g, 1); });
  k.test("NaN, infinities, zeros", exact_match,
         []<class T>(Gen& g) { return sorted(g, specials<T>(g, 1900), 1900, false); });
  k.bench("1024 x 1024", []<class T>(Gen& g) { return blocks<T>(g, 1 << 20).computes(55.0 * 512 * 1024); });

  auto rows_of =
      r.kernel<Sort>("sort_segmented", "sort", dtypes<f32, f16, bf16>, [](auto& s) { s.spec.segmented = true; });
  rows_of.doc("Each row of [rows, n], n <= 1024, ascending in IEEE totalOrder.");
  rows_of.shapes("x, y: [..., n]");
  rows_of.test("ragged rows", exact_match, []<class T>(Gen& g) { return rows<T>(g, 3, 301); });
  rows_of.test("whole rows", exact_match, []<class T>(Gen& g) { return rows<T>(g, 1, 1024); });
  rows_of.test("NaN, infinities, zeros", exact_match,
               []<class T>(Gen& g) { return sorted(g, specials<T>(g, 2 * 65), 65, true); });
  rows_of.test("whole rows of NaN, infinities, zeros", exact_match,
               []<class T>(Gen& g) { return sorted(g, specials<T>(g, 2 * 1024), 1024, true); });
  rows_of.bench("1024 x 1000", []<class T>(Gen& g) { return rows<T>(g, 1024, 1000).computes(55.0 * 512 * 1024); });
}

}  // namespace iron::kernels
