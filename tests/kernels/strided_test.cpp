// Strided tensors and thread-strided loops: the same results on every device here, and what the launch refuses.
#include "iron/strided.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "iron/runtime/device.h"

namespace iron {
namespace {

template <class Check>
void on_each_device(Check check) {
  for (const char* name : {"interpreter", "cpu"}) {
    SCOPED_TRACE(name);
    check(Device::open(name));
  }
}

// y[c, r] = x[offset + r * row_stride + c * col_stride], 9 outside the shape
struct Turned {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  Scalar<u32> rows, cols, row_stride, col_stride, offset;
  Grid grid() const { return {Threadgroups{1}, Threads{32}}; }
  void operator()() const {
    const Strided from(x, {rows, cols}, {row_stride, col_stride}, offset);
    const Strided to = Strided(y, {cols + 1u, rows}, {rows, 1}).transposed();
    for (auto i : range(thread_id(), rows * (cols + 1u), threads())) {
      const auto r = i / (cols + 1u), c = i % (cols + 1u);
      to[{r, c}] = from.load_or({r, c}, 9.0f);
    }
  }
};
TEST(StridedTensor, ReadsBroadcastsAndTurns) {
  on_each_device([](const Device& d) {
    const auto x = d.buffer(std::vector<f32>{0, 1, 2, 3, 4, 5, 6, 7});
    const auto y = d.buffer<f32>(8);
    d.launch(Turned{.x = x, .y = y, .rows = 2u, .cols = 3u, .row_stride = 4u, .col_stride = 1u, .offset = 1u});
    EXPECT_EQ(y.to_host(), (std::vector<f32>{1, 5, 2, 6, 3, 7, 9, 9}));
    d.launch(Turned{.x = x, .y = y, .rows = 2u, .cols = 3u, .row_stride = 0u, .col_stride = 2u, .offset = 0u});
    EXPECT_EQ(y.to_host(), (std::vector<f32>{0, 0, 2, 2, 4, 4, 9, 9}));
  });
}
TEST(StridedTensor, ALaunchThatWouldLeaveTheBufferNamesTheAuthorsLine) {
  const auto d = Device::open("interpreter");
  const auto x = d.buffer<f32>(8), y = d.buffer<f32>(8);
  try {
    d.launch(Turned{.x = x, .y = y, .rows = 2u, .cols = 3u, .row_stride = 6u, .col_stride = 1u, .offset = 0u});
    FAIL() << "it was launched";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "D25");
    const std::string said = e.what();
    EXPECT_NE(said.find("to[{r, c}] = from.load_or({r, c}, 9.0f);"), std::string::npos) << said;
  }
}

// Facts of one vector, and its running sums.
struct Facts {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  In<i32> k;
  Out<f32> out, sums, doubled;
  Out<i32> ints;
  Out<u32> at;
  Grid grid() const { return {Threadgroups{1}, Threads{64}}; }
  void operator()() const {
    const auto n = x.length();
    const auto largest = strided_max(n, [&](auto i) { return x[i]; });
    const auto smallest = strided_min(n, [&](auto i) { return x[i]; });
    const auto exps = strided_sum(n, [&](auto i) { return exp(x[i] - largest); });
    const auto product = strided_product(n, [&](auto i) { return 1.0f + x[i] * 0.0f; });
    const auto least = strided_min(n, [&](auto i) { return k[i]; });
    const auto most = strided_max(n, [&](auto i) { return k[i]; });
    const auto top = strided_argmax(n, [&](auto i) { return x[i]; });
    const auto low = strided_argmin(n, [&](auto i) { return k[i]; });
    strided_scan(n, [&](auto i) { return cast<f32>(k[i]); }, [&](auto i, auto sum) { sums[i] = sum; });
    strided_each(n, [&](auto i) { doubled[i] = x[i] * 2.0f; });
    if_(thread_id() == 0u) {
      out[0] = largest;
      out[1] = smallest;
      out[2] = exps;
      out[3] = product;
      ints[0] = least;
      ints[1] = most;
      at[0] = top;
      at[1] = low;
    }
  }
};
TEST(StridedLoops, FoldScanAndFind) {
  // Lengths below, at and above whole turns of 64 threads; the largest stands twice, and a NaN is never chosen.
  for (const u32 n : {1u, 5u, 64u, 65u, 200u}) {
    std::vector<f32> x(n), doubled(n), sums(n);
    std::vector<i32> k(n);
    for (u32 i = 0; i < n; ++i) {
      x[i] = static_cast<f32>((i * 37u) % 50u) / 8.0f - 2.0f;
      k[i] = static_cast<i32>((i * 29u) % 41u) - 20;
      doubled[i] = 2 * x[i];
      sums[i] = static_cast<f32>(k[i]) + (i ? sums[i - 1] : 0.0f);
    }
    const auto largest = static_cast<u32>(std::max_element(x.begin(), x.end()) - x.begin());
    f64 exps = 0;
    for (const f32 v : x) exps += std::exp(static_cast<f64>(v) - static_cast<f64>(x[largest]));
    on_each_device([&](const Device& d) {
      const auto out = d.buffer<f32>(4), got_sums = d.buffer<f32>(n), got_doubled = d.buffer<f32>(n);
      const auto ints = d.buffer<i32>(2);
      const auto at = d.buffer<u32>(2);
      d.launch(Facts{.x = d.buffer(x),
                     .k = d.buffer(k),
                     .out = out,
                     .sums = got_sums,
                     .doubled = got_doubled,
                     .ints = ints,
                     .at = at});
      const auto f = out.to_host();
      EXPECT_EQ(f[0], x[largest]);
      EXPECT_EQ(f[1], *std::min_element(x.begin(), x.end()));
      EXPECT_NEAR(f[2], exps, 1e-5 * exps);
      EXPECT_EQ(f[3], 1.0f);
      EXPECT_EQ(ints.to_host(),
                (std::vector<i32>{*std::min_element(k.begin(), k.end()), *std::max_element(k.begin(), k.end())}));
      EXPECT_EQ(at.to_host(),
                (std::vector<u32>{largest, static_cast<u32>(std::min_element(k.begin(), k.end()) - k.begin())}));
      EXPECT_EQ(got_sums.to_host(), sums);  // whole numbers: every order gives the same
      EXPECT_EQ(got_doubled.to_host(), doubled);
    });
  }
}

struct Largest {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<u32> at;
  Grid grid() const { return {Threadgroups{1}, Threads{32}}; }
  void operator()() const {
    const auto top = strided_argmax(x.length(), [&](auto i) { return x[i]; });
    const auto low = strided_argmin(x.length(), [&](auto i) { return x[i]; });
    if_(thread_id() == 0u) {
      at[0] = top;
      at[1] = low;
    }
  }
};
TEST(StridedLoops, NeverChooseNaN) {
  const f32 nan = std::numeric_limits<f32>::quiet_NaN(), inf = std::numeric_limits<f32>::infinity();
  const auto found = [](const Device& d, const std::vector<f32>& x) {
    const auto at = d.buffer<u32>(2);
    d.launch(Largest{.x = d.buffer(x), .at = at});
    return at.to_host();
  };
  on_each_device([&](const Device& d) {
    EXPECT_EQ(found(d, {nan, 1, nan, 3, 3}), (std::vector<u32>{3, 1}));
    EXPECT_EQ(found(d, {nan, -inf, -inf}), (std::vector<u32>{1, 1}));
    EXPECT_EQ(found(d, {nan, inf}), (std::vector<u32>{1, 1}));
    EXPECT_EQ(found(d, {nan, nan}), (std::vector<u32>{0, 0}));
  });
}

}  // namespace
}  // namespace iron
