// Recording: what the language records, and what it refuses.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "iron/dsl.h"
#include "iron/hopper.h"

namespace iron {
namespace {

template <class K>
std::string text(K k) {
  return ir::print(*record(std::move(k), "k"), {.locations = false});
}
// The ops of the body alone.
template <class K>
std::string body(K k) {
  const auto all = text(std::move(k));
  const auto start = all.find("{\n") + 2;
  return all.substr(start, all.rfind("}\n") - start);
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

template <class T>
struct RmsNorm {
  static constexpr Mode mode = Mode::Threadgroup;
  In<T> x, weight;
  Out<T> y;
  Scalar<u32> n;
  Scalar<f32> eps;
  void operator()() const {
    const auto row = threadgroup_id() * n;
    Var<f32> sum{0.0f};
    for (auto i : range(thread_id(), n, threads())) {
      const auto v = cast<f32>(x[row + i]);
      sum += v * v;
    }
    const auto scale = rsqrt(threadgroup_sum(sum) / cast<f32>(n) + eps);
    for (auto i : range(thread_id(), n, threads()))
      y[row + i] = cast<T>(cast<f32>(x[row + i]) * scale * cast<f32>(weight[i]));
  }
};

TEST(Record, RmsNorm) {
  EXPECT_EQ(text(unbound<RmsNorm<f16>>()),
            R"(kernel @k(%x: in f16, %weight: in f16, %y: out f16, %n: scalar u32, %eps: scalar f32) threadgroup exact {
  %0 = thread_id : index
  %1 = cast %n : index
  %2 = group_size : index
  %3 = group_id<x> : index
  %4 = cast %n : index
  %5 = mul %3, %4 : index
  %6 = for %7 = %0 to %1 step %2 carry(%8 = 0.0:f32) : f32 {
    %9 = add %5, %7 : index
    %10 = load %x[%9] : f16
    %11 = cast %10 : f32
    %12 = mul %11, %11 : f32
    %13 = add %8, %12 : f32
    yield %13
  }
  %14 = thread_id : index
  %15 = cast %n : index
  %16 = group_size : index
  %17 = group.reduce<sum> %6 : f32
  %18 = cast %n : f32
  %19 = div %17, %18 : f32
  %20 = add %19, %eps : f32
  %21 = rsqrt %20 : f32
  for %22 = %14 to %15 step %16 {
    %23 = add %5, %22 : index
    %24 = add %5, %22 : index
    %25 = load %x[%24] : f16
    %26 = cast %25 : f32
    %27 = mul %26, %21 : f32
    %28 = load %weight[%22] : f16
    %29 = cast %28 : f32
    %30 = mul %27, %29 : f32
    %31 = cast %30 : f16
    store %y[%23], %31
  }
}
)");
}

struct Clamp {
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto i = grid_thread_id();
    const auto v = x[i];
    Var<f32> r{0.0f};
    if_(v > 1.0f) { r = 1.0f; }
    else if_(v < -1.0f) {
      r = -1.0f;
    }
    else {
      r = v;
    }
    y[i] = r;
  }
};
TEST(Record, ElementwiseBodiesGuardThemselvesAndElseIfChains) {
  EXPECT_EQ(body(unbound<Clamp>()), R"(  %0 = grid_thread_id : index
  %1 = item_count : index
  %2 = lt %0, %1 : bool
  if %2 {
    %3 = grid_thread_id : index
    %4 = load %x[%3] : f32
    %5 = gt %4, 1.0:f32 : bool
    %6 = if %5 : f32 {
      yield 1.0:f32
    } else {
      %7 = lt %4, -1.0:f32 : bool
      %8 = if %7 : f32 {
        yield -1.0:f32
      } else {
        yield %4
      }
      yield %8
    }
    store %y[%3], %6
  }
)");
}

struct Logic {
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto v = x[grid_thread_id()];
    Var<bool> seen{false};
    seen = (!(v > 1.0f) && v == v) || seen;
    const auto c = !seen && true;
    y[grid_thread_id()] = select<f32>(c, 1.0f, 0.0f);
  }
};
TEST(Record, LogicOfBooleans) {
  const auto text = body(unbound<Logic>());
  EXPECT_NE(text.find("not %"), std::string::npos) << text;
  EXPECT_NE(text.find("= and %"), std::string::npos) << text;
  EXPECT_NE(text.find("= or %"), std::string::npos) << text;
}

struct CastOfNamed {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto v = threadgroup_sum(x[thread_id()]);
    y[threadgroup_sum(cast<u32>(thread_id()))] = cast<f32>(v);  // still a named value
  }
};
TEST(Record, ACastToTheSameTypeKeepsTheName) { EXPECT_EQ(refusal(unbound<CastOfNamed>()), "accepted"); }

struct FirstNegative {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<u32> y;
  Scalar<u32> n;
  void operator()() const {
    Var<u32> at{0u};
    for (auto i : range(n)) {
      break_if(x[i] < 0.0f);
      at += 1u;
    }
    y[threadgroup_id()] = at;
  }
};
TEST(Record, BreakGuardsTheRestAndLeavesAtTheHead) {
  EXPECT_EQ(body(unbound<FirstNegative>()), R"(  %0 = cast %n : index
  %1, %2 = for %3 = 0 to %0 step 1 carry(%4 = 0:u32, %5 = false) until(1) : u32, bool {
    %6 = load %x[%3] : f32
    %7 = lt %6, 0.0:f32 : bool
    %8 = not %7 : bool
    %9 = if %8 : u32 {
      %10 = add %4, 1:u32 : u32
      yield %10
    } else {
      yield %4
    }
    yield %9, %7
  }
  %11 = group_id<x> : index
  store %y[%11], %1
)");
}

struct Ordered {
  In<f32> x;
  InOut<f32> s;
  static constexpr int fault = __LINE__ + 3;
  void operator()() const {
    const auto i = grid_thread_id();
    s[i] = x[i] + helper();
  }
  Val<f32> helper() const {
    s[0] = 1.0f;
    return x[0];
  }
};
struct Escapes {
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const Val<f32>* leaked = nullptr;
    std::optional<Val<f32>> kept;
    for (auto i : range(4)) {
      kept.emplace(x[i]);
      y[i] = *kept;
    }
    leaked = &*kept;
    y[0] = *leaked;
  }
};
struct HostBreak {
  Out<f32> y;
  void operator()() const {
    for (auto i : range(4)) {
      y[i] = 1.0f;
      break;
    }
  }
};
struct EmptyLoop {
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    for (auto i : range(4)) {
      (void)x[i];
    }
    y[0] = 1.0f;
  }
};
struct ZeroStep {
  Out<f32> y;
  void operator()() const {
    for (auto i : range(0, 4, 0)) y[i] = 1.0f;
  }
};
struct TooLarge {
  Out<u8> y;
  void operator()() const { y[0] = 256; }
};
// Which of the two fragments is made first is the C++ compiler's choice.
struct UnorderedFragments {
  Out<f32> y;
  static constexpr int fault = __LINE__ + 3;
  void operator()() const {
    const Acc<f32> sums{64, 64};
    const auto above = sums.col() > sums.row();
    (void)above;
    y[0] = 1.0f;
  }
};
struct OrderedFragments {
  Out<f32> y;
  void operator()() const {
    const Acc<f32> sums{64, 64};
    const auto column = sums.col(), row = sums.row();
    const auto above = column > row + 1u;
    (void)above;
    y[0] = 1.0f;
  }
};
TEST(Record, FragmentsOfOneExpressionHaveNames) {
  EXPECT_EQ(refusal(unbound<UnorderedFragments>()), "DSL02 line " + std::to_string(UnorderedFragments::fault));
  EXPECT_EQ(refusal(unbound<OrderedFragments>()), "accepted");
}
TEST(Record, RefusalsNameTheAuthorsLine) {
  EXPECT_EQ(refusal(unbound<Ordered>()), "DSL02 line " + std::to_string(Ordered::fault));
  EXPECT_EQ(refusal(unbound<Escapes>()).substr(0, 5), "DSL01");
  EXPECT_EQ(refusal(unbound<HostBreak>()).substr(0, 3), "D28");
  EXPECT_EQ(refusal(unbound<EmptyLoop>()).substr(0, 3), "D06");
  EXPECT_EQ(refusal(unbound<ZeroStep>()).substr(0, 3), "D02");
  EXPECT_EQ(refusal(unbound<TooLarge>()).substr(0, 3), "D29");
}

struct HostState {
  Out<f32> y;
  void operator()() const {
    int k = 1;
    for (auto i : range(4)) {
      y[i] = static_cast<f32>(k);
      k += 2;
    }
  }
};
TEST(Record, ProbingShowsChangedHostState) {
  const auto once = ir::identity(*record(unbound<HostState>(), "k"));
  EXPECT_NE(once, ir::identity(*record(unbound<HostState>(), "k", {.probe = true})));
  EXPECT_EQ(ir::identity(*record(unbound<RmsNorm<f32>>(), "k")),
            ir::identity(*record(unbound<RmsNorm<f32>>(), "k", {.probe = true})));
  EXPECT_EQ(ir::identity(*record(unbound<Clamp>(), "k")),
            ir::identity(*record(unbound<Clamp>(), "k", {.probe = true})));
}

struct WithSpec {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    u32 bm = 4;
    bool flip = false;
  } spec;
  In<f32> x;
  Optional<In<f32>> bias;
  Out<f32> y;
  void operator()() const {
    Shared<f32> tile{spec.bm, 8};
    const auto t = thread_id();
    tile[t] = x[t];
    barrier();
    Val v = tile(1, 2);
    if (bias)
      y[t] = v + (*bias)[t];
    else
      y[t] = v;
  }
};
TEST(Record, SpecAndPresenceAreTheSpecialisation) {
  auto k = unbound<WithSpec>();
  EXPECT_EQ(specialisation(k), "spec={bm=4,flip=false},bias=absent");
  k.bias = In<f32>{BufferRef{}};
  k.spec.flip = true;
  EXPECT_EQ(specialisation(k), "spec={bm=4,flip=true},bias=present");
  EXPECT_NE(text(k).find("shared.new<32> : shared f32[4 x 8]"), std::string::npos);
  EXPECT_NE(text(k).find("%bias: in f32"), std::string::npos);
  EXPECT_EQ(arguments(k).size(), 3u);
}

struct Both {
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto i = grid_thread_id();
    const auto v = x[i];
    const auto inside = v > 0.0f && v < 1.0f;
    y[i] = select(inside || v == 2.0f, v, 0.0f);
  }
};
TEST(Record, LogicalOperatorsAreRecorded) {
  const auto t = body(unbound<Both>());
  EXPECT_NE(t.find(" = and "), std::string::npos) << t;
  EXPECT_NE(t.find(" = or "), std::string::npos) << t;
}

struct SameType {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto v = x[0];
    const auto total = threadgroup_sum(v);
    if_(thread_id() == 0) { y[0] = cast<f32>(total); }
  }
};
TEST(Record, ConversionsToTheSameTypeKeepTheName) {
  EXPECT_EQ(refusal(unbound<SameType>()), "accepted");
  EXPECT_EQ(body(unbound<SameType>()).find("cast"), std::string::npos);
}

struct Product {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f16> a;
  Out<f16> c;
  Scalar<u32> n;
  TileScope scope = TileScope::threadgroup;
  void operator()() const {
    Shared<f16> left(8 * 20), right(12 * 20);
    for (auto i : range(thread_id(), 8 * 20, threads())) {
      const auto v = a[i];
      left[i] = v;
    }
    for (auto i : range(thread_id(), 12 * 20, threads())) {
      const auto v = a[i];
      right[i] = v;
    }
    barrier();
    Tile<f16, f32> sum(8, 12, scope);
    sum.zero();
    sum.mma(Block(left, 0, 20), Block(right, 0, 20), 16, {.b = true});
    for (auto e : range(sum.elements())) {
      const auto scaled = sum.get(e) * cast<f32>(sum.row(e) * 12 + sum.col(e));
      sum.set(e, scaled);
    }
    sum.store(Block(c, threadgroup_id() * n, n), 8, n);
  }
};
TEST(Record, TileProductsWithAFusedEpilogue) {
  const auto t = body(unbound<Product>());
  const auto from = t.find("tile.new");
  ASSERT_NE(from, std::string::npos) << t;
  EXPECT_EQ(t.substr(t.rfind('\n', from) + 1), R"(  %10 = tile.new<f16, threadgroup> : tile f32[8 x 12]
  tile.zero %10
  tile.mma<16, bt> %10, %2, 0, 20, %7, 0, 20
  %11 = tile.elems %10 : index
  for %12 = 0 to %11 step 1 {
    %13 = tile.get %10, %12 : f32
    %14 = tile.row %10, %12 : index
    %15 = mul %14, 12 : index
    %16 = tile.col %10, %12 : index
    %17 = add %15, %16 : index
    %18 = cast %17 : f32
    %19 = mul %13, %18 : f32
    tile.set %10, %12, %19
  }
  %20 = group_id<x> : index
  %21 = cast %n : index
  %22 = mul %20, %21 : index
  %23 = cast %n : index
  %24 = cast %n : index
  tile.store %10, %c, %22, %23, 8, %24
)");
  auto narrow = unbound<Product>();
  narrow.scope = TileScope::simdgroup;
  EXPECT_NE(body(narrow).find("simdgroup"), std::string::npos);
}

struct StoreToInput {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  void operator()() const {
    Tile<f32, f32> sum(8, 8);
    sum.zero();
    sum.store(Block(x, 0, 8), 8, 8);
  }
};
struct EmptyTile {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<f32> x;
  void operator()() const {
    Tile<f32, f32> sum(0, 8);
    sum.store(Block(x, 0, 8), 8, 8);
  }
};
struct NoTerms {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  void operator()() const {
    Tile<f32, f32> sum(8, 8);
    sum.mma(Block(x, 0, 8), Block(x, 0, 8), 0);
  }
};
TEST(Record, TilesRefuseWhatTheyCannotDo) {
  EXPECT_EQ(refusal(unbound<StoreToInput>()).substr(0, 3), "D24");
  EXPECT_EQ(refusal(unbound<EmptyTile>()).substr(0, 3), "D16");
  EXPECT_EQ(refusal(unbound<NoTerms>()).substr(0, 3), "D16");
  static_assert(!std::is_copy_constructible_v<Tile<f32, f32>> && !std::is_move_constructible_v<Tile<f32, f32>>);
}

}  // namespace
}  // namespace iron
