// Calls between kernels, vectors and variants: what they record, that they compute it on every device here, and what
// is refused.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "iron/dsl.h"
#include "iron/library.h"
#include "iron/variants.h"
#include "runtime/backend.h"
#include "runtime/run_case.h"

namespace iron {
namespace {

template <class K>
std::string text(K k) {
  return ir::print_module(*record(std::move(k), "k"));
}
template <class K>
std::string refusal(K k) {
  try {
    record(std::move(k), "k");
  } catch (const Error& e) {
    return e.code() + " line " + std::to_string(e.diagnostics().front().line);
  }
  return "accepted";
}
void expect_passes(const std::function<Case(Gen&)>& make, Tolerance t) {
  for (const char* device : {"interpreter", "cpu"}) {
    Gen gen(1);
    const auto outcome = runtime::run_case(runtime::backend(device), make(gen), t);
    EXPECT_TRUE(outcome.passed) << device << ": " << outcome.message;
  }
}

// y[at] = factor * x[at] + shift, nothing where at is no element of y
struct Scaled {
  static constexpr std::string_view name = "scaled";
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  Scalar<u32> at;
  Scalar<f32> factor;
  f32 shift = 0;
  void operator()() const {
    exit_if(cast<Index>(at) >= y.length());
    y[at] = factor * x[at] + shift;
  }
};
// Two specialisations of one callee, one inside a branch, and a callee that calls.
struct Twice {
  static constexpr std::string_view name = "twice";
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  Scalar<u32> at;
  void operator()() const { call(Scaled{.x = x, .y = y, .at = at, .factor = 2.0f, .shift = 0.5f}); }
};
struct Caller {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> a;
  Out<f32> b, c;
  Scalar<f32> f;
  Grid grid() const { return {Threadgroups{2}, Threads{32}}; }
  void operator()() const {
    const auto i = cast<u32>(grid_thread_id());
    const Val<f32> g = f + 1.0f;
    call(Scaled{.x = a, .y = b, .at = i, .factor = g});
    if_(i % 2u == 0u) { call(Twice{.x = a, .y = c, .at = i}); }
    else {
      c[i] = -1.0f;
    }
  }
};

TEST(Call, RecordsAnOpAndCarriesItsCallees) {
  const auto all = text(unbound<Caller>());
  EXPECT_NE(all.find("kernel @scaled_"), std::string::npos) << all;
  EXPECT_NE(all.find("kernel @twice_"), std::string::npos);
  EXPECT_NE(all.find("  call \"scaled_"), std::string::npos);
  EXPECT_LT(all.find("kernel @scaled_"), all.find("kernel @k("));
  const auto again = ir::read_module(all);
  EXPECT_EQ(ir::print_module(again), all);
}

TEST(Call, SpecialisationsOfOneCalleeAreDifferentKernels) {
  const auto k = record(unbound<Caller>(), "k");
  ASSERT_EQ(k->callees.size(), 2u);  // twice brings its own scaled
  std::string own;
  for (const auto& [name, callee] : k->callees)
    if (name.starts_with("scaled_")) own = name;
  const auto& twice = *k->callees.rbegin()->second;
  ASSERT_EQ(twice.callees.size(), 1u);
  EXPECT_NE(twice.callees.begin()->first, own);
}

TEST(Call, Computes) {
  expect_passes(
      [](Gen& g) {
        const auto a = g.values<f32>(64);
        const auto b = g.output<f32>(64), c = g.output<f32>(64);
        std::vector<f64> want_b, want_c;
        for (u64 i = 0; i < 64; ++i) {
          want_b.push_back(2.5 * a.at(i));
          want_c.push_back(i % 2 == 0 ? 2 * a.at(i) + 0.5 : -1.0);
        }
        Case made{Caller{.a = a, .b = b, .c = c, .f = 1.5f}};
        return made.expect("b", want_b).expect("c", want_c);
      },
      tolerance(1e-6, 0, 0));
}

struct Exits {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  Grid grid() const { return {Threadgroups{1}, Threads{32}}; }
  void operator()() const {
    const auto i = cast<u32>(thread_id());
    call(Scaled{.x = x, .y = y, .at = i + 16u, .factor = 3.0f});
    if_(i < 16u) { y[i] = 7.0f; }
  }
};
TEST(Call, ExitOfTheCalleeEndsTheCallee) {
  expect_passes(
      [](Gen& g) {
        const auto x = g.values<f32>(48);
        const auto y = g.output<f32>(32);
        std::vector<f64> want(16, 7.0);
        for (u64 i = 16; i < 32; ++i) want.push_back(3.0 * x.at(i));
        return Case{Exits{.x = x, .y = y}}.expect("y", want);
      },
      tolerance(1e-6, 0, 0));
}

struct Staged {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  Grid grid() const { return {Threadgroups{1}, Threads{32}}; }
  void operator()() const {
    const auto i = cast<u32>(thread_id());
    const Shared<f32> staged(32);
    call(Scaled{.x = x, .y = staged, .at = i, .factor = 4.0f});
    barrier();
    const Val<f32> other = staged[31u - i];
    y[i] = other;
  }
};
// A callee may write threadgroup memory and a thread's own array.
TEST(Call, WritesMemoryOfTheCaller) {
  expect_passes(
      [](Gen& g) {
        const auto x = g.values<f32>(32);
        const auto y = g.output<f32>(32);
        std::vector<f64> want;
        for (u64 i = 0; i < 32; ++i) want.push_back(4.0 * x.at(31 - i));
        return Case{Staged{.x = x, .y = y}}.expect("y", want);
      },
      tolerance(1e-6, 0, 0));
}

struct Endless {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<f32> y;
  void operator()() const { call(Endless{.y = y}); }
};
struct Flat {
  Out<f32> y;
  void operator()() const { y[grid_thread_id()] = 1.0f; }
};
struct OtherMode {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<f32> y;
  void operator()() const { call(Flat{.y = y}); }
};
TEST(Call, RefusesRecursionAndOtherModes) {
  EXPECT_EQ(refusal(unbound<Endless>()).substr(0, 12), "IR0301 line ");
  EXPECT_EQ(refusal(unbound<OtherMode>()).substr(0, 9), "D01 line ");
  EXPECT_EQ(refusal(unbound<Caller>()), "accepted");  // a refused recording leaves none open
}

template <class T, u32 N>
struct VecMath {
  In<T> x;
  Out<T> y;
  Out<f32> z;
  Grid grid() const { return Grid::for_items(x.size() / N); }
  void operator()() const {
    const auto i = grid_thread_id() * N;
    const Vec<T, N> v = load_vec<N>(x, i);
    const Vec<T, N> doubled = v + v, mixed = max(doubled * v - T(0.5f), -v).with(1, v[0]);
    store_vec(y, i, mixed);
    const Vec<f32, N> wide = cast<f32>(v);
    const Vec<f32, N> shifted = fma(wide, Vec<f32, N>::splat(2.0f), 1.0f - wide);
    for (u32 e = 0; e < N; ++e) z[i + e] = sum(shifted) + shifted[e];
  }
};
template <class T, u32 N>
void vectors() {
  expect_passes(
      [](Gen& g) {
        const auto x = g.values<T>(16 * N);
        const auto y = g.output<T>(16 * N);
        const auto z = g.output<f32>(16 * N);
        std::vector<f64> want_y, want_z;
        for (u64 i = 0; i < x.size(); ++i) {
          const f64 v = x.at(i);
          f64 total = 0;
          for (u64 e = i / N * N; e < i / N * N + N; ++e) total += x.at(e) + 1.0;
          want_y.push_back(i % N == 1 ? x.at(i - 1) : std::max(2 * v * v - 0.5, -v));
          want_z.push_back(total + v + 1.0);
        }
        return Case{VecMath<T, N>{.x = x, .y = y, .z = z}}.expect("y", want_y).expect("z", want_z);
      },
      tolerance(1e-5, 4e-3, 3e-2));
}
TEST(Vectors, Compute) {
  vectors<f32, 2>();
  vectors<f32, 4>();
  vectors<f16, 8>();
  vectors<bf16, 4>();
}
TEST(Vectors, MoveInOneAccess) {
  const auto all = text(unbound<VecMath<f16, 8>>());
  EXPECT_NE(all.find("load<align 16> %x["), std::string::npos) << all;
  EXPECT_NE(all.find(": f16x8"), std::string::npos) << all;
  EXPECT_NE(all.find("store<align 16> %y["), std::string::npos) << all;
}
struct OutOfVector {
  In<f32> x;
  Out<f32> y;
  void operator()() const { y[0] = load_vec<4>(x, 0)[4]; }
};
TEST(Vectors, RefuseAnElementThatIsNotThere) { EXPECT_EQ(refusal(unbound<OutOfVector>()).substr(0, 9), "D16 line "); }
TEST(Vectors, NeedTheirAlignmentAtLaunch) {
  struct Offset {
    In<f32> x;
    Out<f32> y;
    Scalar<u32> from;
    Grid grid() const { return Grid::for_items(1); }
    void operator()() const { store_vec(y, 0, load_vec<4>(x, from)); }
  };
  Gen g(1);
  const auto x = g.values<f32>(16);
  const auto y = g.output<f32>(4);
  const auto outcome = runtime::run_case(runtime::backend("interpreter"),
                                         Case{Offset{.x = x, .y = y, .from = 2u}}.expect("y", {0, 0, 0, 0}), {});
  EXPECT_FALSE(outcome.passed);
  EXPECT_NE(outcome.message.find("LAUNCH04"), std::string::npos) << outcome.message;
}

TEST(Variants, AreZippedRowsThatFillTemplates) {
  const auto rows =
      variants({{"BITS", {3u, 4u}}, {"GROUP", {32u, 64u}}, {"FORM", std::vector<std::string>{"b", "fast"}}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].text("qmv_{FORM}{BITS}: groups of {GROUP}"), "qmv_b3: groups of 32");
  EXPECT_EQ(rows[1].text("{BITS}{BITS}"), "44");
  EXPECT_EQ(rows[1]["GROUP"], 64u);
}
TEST(Variants, RefuseWhatDoesNotFit) {
  const auto code = [](auto f) {
    try {
      f();
    } catch (const Error& e) {
      return e.code();
    }
    return std::string("accepted");
  };
  EXPECT_EQ(code([] { variants({{"A", {1u, 2u}}, {"B", {1u}}}); }), "LIB04");
  EXPECT_EQ(code([] { variants({{"A", {1u}}, {"A", {1u}}}); }), "LIB04");
  EXPECT_EQ(code([] { variants({}); }), "LIB04");
  const auto rows = variants({{"A", std::vector<std::string>{"x1"}}});
  EXPECT_EQ(code([&] { rows[0].text("{B}"); }), "LIB04");
  EXPECT_EQ(code([&] { rows[0].text("{A"); }), "LIB04");
  EXPECT_EQ(code([&] { rows[0]["A"]; }), "LIB04");
}

}  // namespace
}  // namespace iron
