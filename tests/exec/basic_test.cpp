// The interpreter computes what the rules say: control flow, reductions, tiles, atomics, waiting, in every schedule.
#include <cmath>
#include <random>

#include "helpers.h"
#include "ir/builder.h"
#include "ir/eval.h"
#include "ir/tile_map.h"

namespace iron::exec {
namespace {

class Schedules : public ::testing::TestWithParam<Schedule> {
 protected:
  Options options() const { return {.schedule = GetParam(), .seed = 7}; }
};
INSTANTIATE_TEST_SUITE_P(All, Schedules, ::testing::ValuesIn(all_schedules));

TEST_P(Schedules, LoopsCarryAndBranchesYield) {
  const auto k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %t = thread_id : index
    %m = cast %n : index
    %end = rem %t, 5 : index
    %s, %c = for %i = 0 to %end step 2 carry(%a = 0.0:f32, %b = 1.0:f32) : f32, f32 {
      %v = load %x[%i] : f32
      %w = add %a, %v : f32
      %odd = eq %i, 2 : bool
      %z = if %odd : f32 {
        yield %w
      } else {
        %u = mul %w, 3.0:f32 : f32
        yield %u
      }
      yield %b, %z
    }
    %g = group_id<x> : index
    %q = group_size : index
    %base = mul %g, %q : index
    %at = add %base, %t : index
    %r = sub %s, %c : f32
    store %y[%at], %r
  )");
  const auto x = iota_f32(8);
  std::vector<f32> y(3 * 70, -1);
  const auto r = launch(k, geometry(3, 70), {buffer(x), buffer(y), scalar(8u)}, options());
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 i = 0; i < y.size(); ++i) {
    f32 a = 0, b = 1;
    for (u32 j = 0; j < i % 70 % 5; j += 2) {
      const f32 w = a + x[j], z = j == 2 ? w : w * 3;
      a = b, b = z;
    }
    EXPECT_EQ(y[i], a - b) << i;
  }
  EXPECT_GT(r.statistics.lane_ops, 0u);
}

TEST_P(Schedules, SharedMemoryWithBarriersAndGroupSum) {
  const auto k = kernel("%x: in f32, %y: out f32", R"(
    %s = shared.new<64> : shared f32
    %t = thread_id : index
    %v = load %x[%t] : f32
    store %s[%t], %v
    barrier
    %o = sub 63, %t : index
    %w = load %s[%o] : f32
    %sum = group.reduce<sum> %w : f32
    %scan = group.scan<sum> %v : f32
    %ex = group.scan<sum, exclusive> %v : f32
    %a = add %sum, %w : f32
    %b = mul %scan, 1000.0:f32 : f32
    %c = add %a, %b : f32
    %d = sub %c, %ex : f32
    store %y[%t], %d
  )");
  const auto x = iota_f32(64);
  std::vector<f32> y(64);
  const auto r = launch(k, geometry(1, 64), {buffer(x), buffer(y)}, options());
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 t = 0; t < 64; ++t) {
    const f32 before = static_cast<f32>(t * (t - 1) / 2 * (t > 0)), up_to = static_cast<f32>(t * (t + 1) / 2);
    EXPECT_EQ(y[t], 2016.0f + static_cast<f32>(63 - t) + 1000.0f * up_to - before) << t;
  }
  EXPECT_EQ(r.statistics.barriers, 1u);
}

TEST_P(Schedules, UntilLeavesAtTheHead) {
  const auto k = kernel("%y: out f32", R"(
    %t = thread_id : index
    %n, %d = for %i = 0 to 100 step 1 carry(%a = 0.0:f32, %done = false) until(1) : f32, bool {
      %b = add %a, 1.0:f32 : f32
      %e = ge %i, %t : bool
      yield %b, %e
    }
    store %y[%t], %n
  )");
  std::vector<f32> y(40);
  const auto r = launch(k, geometry(1, 40), {buffer(y)}, options());
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 t = 0; t < 40; ++t) EXPECT_EQ(y[t], static_cast<f32>(t + 1));
}

TEST_P(Schedules, VectorsArraysViewsAndSlots) {
  const auto k = kernel("%x: in u8, %y: out u32", R"(
    %v = view<4> %x : global u32
    %len = length %v : index
    %t = thread_id : index
    %a = array.new<4> : thread u32
    %s = slot.new : u32
    %i = mul %t, 4 : index
    %q = load<align 16> %v[%i] : u32x4
    %q2 = vec.insert<1> %q, 7:u32 : u32x4
    %b = bitcast %q2 : u16x8
    %h = vec.extract<4> %b : u16
    slot.store %s, 1:u32
    for %j = 0 to 4 step 1 {
      %jj = cast %j : u32
      store %a[%j], %jj
      %c = eq %j, 2 : bool
      if %c {
        slot.store %s, %jj
      }
    }
    %r = rem %t, 4 : index
    %e = load %a[%r] : u32
    %f = slot.load %s : u32
    %hw = cast %h : u32
    %m = mul %f, %hw : u32
    %z0 = add %m, %e : u32
    %ln = cast %len : u32
    %z1 = vec.extract<1> %q2 : u32
    %w = vec.make %z0, %ln, %z1, %e : u32x4
    store<align 16> %y[%i], %w
  )");
  std::vector<u32> words(4 * 33 + 1);
  std::iota(words.begin(), words.end(), 100u);
  // The view starts at byte 4; a slice of the vector's words that lies at 12 modulo 16 makes its elements aligned
  // to 16.
  std::vector<u32> memory(words.size() + 4);
  std::copy(words.begin(), words.end(), memory.begin() + 3);
  std::vector<u32> y(4 * 33);
  const auto r = launch(k, geometry(1, 33), {LaunchArg{memory.data() + 3, words.size() * 4, 0}, buffer(y)}, options());
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 t = 0; t < 33; ++t) {
    EXPECT_EQ(y[4 * t], 2 * (words[1 + 4 * t + 2] & 0xffff) + t % 4) << t;
    EXPECT_EQ(y[4 * t + 1], 132u);
    EXPECT_EQ(y[4 * t + 2], 7u);
    EXPECT_EQ(y[4 * t + 3], t % 4);
  }
}

TEST_P(Schedules, AtomicsCountExactly) {
  const auto k = kernel("%h: inout u32, %m: inout i32, %w: inout u32", R"(
    %t = grid_thread_id : index
    %b = rem %t, 7 : index
    %o = atomic.rmw<add, relaxed, grid> %h[%b], 1:u32 : u32
    %v = cast %t : i32
    %n = neg %v : i32
    %p = atomic.rmw<min, relaxed, grid> %m[0], %n : i32
    %q = atomic.rmw<inc_wrap, relaxed, grid> %w[0], 9:u32 : u32
    %c = atomic.cas<exchange, relaxed, grid> %w[1], 0:u32, 5:u32 : u32
    %l = atomic.load<exchange, relaxed, grid> %w[1] : u32
    atomic.store<exchange, relaxed, grid> %w[2], %l
  )");
  std::vector<u32> h(7), w(3);
  std::vector<i32> m(1);
  const auto r = launch(k, geometry(5, 40), {buffer(h), buffer(m), buffer(w)}, options());
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 b = 0; b < 7; ++b) EXPECT_EQ(h[b], 200u / 7 + (b < 200 % 7));
  EXPECT_EQ(m[0], -199);
  EXPECT_EQ(w, (std::vector<u32>{0, 5, 5}));
}

// A chained scan: each threadgroup takes a ticket, waits for its predecessor's flag, reads the sum that it stored
// plainly.
constexpr std::string_view look_back = R"(
    %s = shared.new<1> : shared f32
    %k = ticket %count[0] : index
    %t = thread_id : index
    %g = group_size : index
    %base = mul %k, %g : index
    %at = add %base, %t : index
    %v = load %x[%at] : f32
    %sum = group.reduce<sum> %v : f32
    %scan = group.scan<sum> %v : f32
    %leader = eq %t, 0 : bool
    if %leader {
      %later = gt %k, 0 : bool
      %before = sub %k, 1 : index
      %prefix = if %later : f32 {
        %f = wait_until<eq, grid> %flag[%before], 255:u32, 1:u32 : u32 !20
        %p = load %sums[%before] : f32 !21
        yield %p
      } else {
        yield 0.0:f32
      }
      %up_to = add %prefix, %sum : f32
      store %sums[%k], %up_to !22
      store %s[0], %prefix
      atomic.store<exchange, @, grid> %flag[%k], 1:u32 !23
    }
    barrier
    %q = load %s[0] : f32
    %r = add %q, %scan : f32
    store %y[%at], %r
  )";
std::string with_order(std::string_view order) {
  std::string body(look_back);
  body.replace(body.find('@'), 1, order);
  return body;
}
constexpr std::string_view look_back_params =
    "%x: in f32, %y: out f32, %sums: inout f32, %flag: inout u32, %count: inout u32";

TEST_P(Schedules, LookBackByTickets) {
  const auto k = kernel(look_back_params, with_order("release"));
  const std::vector<f32> x(40 * 64, 1.0f);
  for (const u32 resident : {1u, 3u, 0u}) {
    std::vector<f32> y(x.size()), sums(40);
    std::vector<u32> flag(40), count(1);
    Options o = options();
    o.resident = resident;
    const auto r = launch(k, geometry(40, 64), {buffer(x), buffer(y), buffer(sums), buffer(flag), buffer(count)}, o);
    EXPECT_TRUE(r.clean()) << r.render();
    for (std::size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], static_cast<f32>(i + 1));
  }
}
TEST_P(Schedules, LookBackWithoutReleaseIsARace) {
  const auto k = kernel(look_back_params, with_order("relaxed"));
  const std::vector<f32> x(4 * 64, 1.0f);
  std::vector<f32> y(x.size()), sums(4);
  std::vector<u32> flag(4), count(1);
  const auto r =
      launch(k, geometry(4, 64), {buffer(x), buffer(y), buffer(sums), buffer(flag), buffer(count)}, options());
  ASSERT_TRUE(r.has(code::race)) << r.render();
  EXPECT_NE(r.render().find("k.cpp:21"), std::string::npos) << r.render();
  EXPECT_NE(r.render().find("k.cpp:22"), std::string::npos) << r.render();
}
TEST_P(Schedules, FencesOrderRelaxedAtomics) {
  const auto body = [](bool fences) {
    std::string b = R"(
    %t = thread_id : index
    %g = group_id<x> : index
    %k = ticket %flag[1] : index
    %first = eq %k, 0 : bool
    if %first {
      store %data[%t], 3.0:f32 !5
      barrier
      %lead = eq %t, 0 : bool
      if %lead {
        RELEASE
        atomic.store<exchange, relaxed, grid> %flag[0], 1:u32
      }
    } else {
      %w = wait_until<eq, grid> %flag[0], 255:u32, 1:u32 : u32
      %v = load %data[%t] : f32 !6
      store %y[%t], %v
    }
    )";
    b.replace(b.find("RELEASE"), 7, fences ? "fence<exchange, release, grid>" : "");
    return b;
  };
  for (const bool fences : {true, false}) {
    const auto k = kernel("%data: inout f32, %y: out f32, %flag: inout u32", body(fences));
    std::vector<f32> data(64), y(64);
    std::vector<u32> flag(2);
    const auto r = launch(k, geometry(2, 64), {buffer(data), buffer(y), buffer(flag)}, options());
    EXPECT_EQ(r.has(code::race), !fences) << r.render();
    EXPECT_EQ(r.clean(), fences) << r.render();
    EXPECT_EQ(y, std::vector<f32>(64, 3.0f));
  }
}

TEST(Deadlock, NamesTheWaitersAndTheGroupsThatHaveNotStarted) {
  // Waits for the threadgroup with the next id: with two resident, the second waits for one that cannot start.
  const auto k = kernel("%flag: inout u32", R"(
    %g = group_id<x> : index
    %next = add %g, 1 : index
    %n = group_count<x> : index
    %c = lt %next, %n : bool
    if %c {
      %v = wait_until<eq, grid> %flag[%next], 255:u32, 1:u32 : u32 !30
      barrier
    }
    atomic.store<exchange, release, grid> %flag[%g], 1:u32
  )");
  std::vector<u32> flag(8);
  const auto r = launch(k, geometry(8, 32), {buffer(flag)}, {.resident = 2});
  ASSERT_TRUE(r.has(code::deadlock)) << r.render();
  EXPECT_NE(r.render().find("k.cpp:30"), std::string::npos) << r.render();
  EXPECT_NE(r.render().find("6 threadgroups have not started"), std::string::npos) << r.render();
  std::fill(flag.begin(), flag.end(), 0u);
  EXPECT_TRUE(launch(k, geometry(8, 32), {buffer(flag)}, {.resident = 0}).clean());
}

TEST(Debug, PrintsInOrderWithinAThread) {
  const auto k = kernel("%x: in f32", R"(
    %t = thread_id : index
    %c = lt %t, 2 : bool
    if %c {
      %v = load %x[%t] : f32
      print "t={} v={}" %t, %v
      %w = vec.make %v, 2.0:f32 : f32x2
      print "then" %w
    }
  )");
  const std::vector<f32> x{0.5f, 1.5f};
  const auto r = launch(k, geometry(1, 8), {buffer(x)});
  EXPECT_EQ(r.prints, (std::vector<std::string>{"t=0 v=0.5", "t=1 v=1.5", "then (0.5, 2)", "then (1.5, 2)"}));
}

// --- simdgroup ops at every width, against the ladders written out
class Widths : public ::testing::TestWithParam<u32> {};
INSTANTIATE_TEST_SUITE_P(All, Widths, ::testing::Values(4, 8, 16, 32, 64));
TEST_P(Widths, ReductionsAndScansFollowTheStatedOrder) {
  const u32 width = GetParam();
  const auto k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %t = thread_id : index
    %v = load %x[%t] : f32
    %a = simd.reduce<sum> %v : f32
    %b = simd.scan<sum> %v : f32
    %c = simd.scan<prod, exclusive> %v : f32
    %d = group.reduce<sum> %v : f32
    %e = group.reduce<max> %v : f32
    %f = simd.shuffle_up<3> %v : f32
    %g = simd.shuffle_down<1> %v : f32
    %h = simd.shuffle_xor<2> %v : f32
    %l = add %t, 5 : index
    %i = simd.shuffle %v, %l : f32
    %p = gt %v, 0.0:f32 : bool
    %any = group.any %p : bool
    %all = simd.all %p : bool
    %j = cast %any : f32
    %m = cast %all : f32
    %o = group.broadcast<37> %v : f32
    %s = mul %t, 12 : index
    %w0 = vec.make %a, %b, %c, %d, %e, %f, %g, %h : f32x8
    %w1 = vec.make %i, %j, %m, %o : f32x4
    %s8 = add %s, 8 : index
    store %y[%s], %w0
    store %y[%s8], %w1
  )",
                        "width_generic");
  std::mt19937 random(3);
  std::vector<f32> x(128);
  for (auto& v : x) v = static_cast<f32>(random() % 20000) / 7000.0f - 1.0f;
  std::vector<f32> y(128 * 12);
  Options o;
  o.width = width;
  const auto r = launch(k, geometry(1, 128), {buffer(x), buffer(y), scalar(128u)}, o);
  EXPECT_TRUE(r.clean()) << r.render();
  const auto ladder = [](std::vector<f32> v) {
    for (std::size_t m = v.size() / 2; m; m /= 2) {
      auto n = v;
      for (std::size_t i = 0; i < v.size(); ++i) n[i] = v[i] + v[i ^ m];
      v = n;
    }
    return v[0];
  };
  std::vector<f32> partials(32, -0.0f);
  f32 largest = x[0];
  for (const f32 v : x) largest = std::max(largest, v);
  for (u32 s = 0; s < 128 / width; ++s) partials[s] = ladder({x.begin() + s * width, x.begin() + (s + 1) * width});
  for (u32 t = 0; t < 128; ++t) {
    const u32 first = t / width * width, lane = t % width;
    const f32* q = &y[t * 12];
    std::vector<f32> sums(x.begin() + first, x.begin() + first + width), products = sums;
    for (u32 d = 1; d < width; d *= 2)
      for (u32 i = width; i-- > d;) sums[i] = sums[i - d] + sums[i], products[i] = products[i - d] * products[i];
    EXPECT_EQ(q[0], partials[t / width]);
    EXPECT_EQ(q[1], sums[lane]);
    EXPECT_EQ(q[2], lane ? products[lane - 1] : 1.0f);
    EXPECT_EQ(q[3], ladder(partials));
    EXPECT_EQ(q[4], largest);
    EXPECT_EQ(q[5], lane >= 3 ? x[t - 3] : x[t]);
    EXPECT_EQ(q[6], lane + 1 < width ? x[t + 1] : x[t]);
    EXPECT_EQ(q[7], x[first + (lane ^ 2)]);
    EXPECT_EQ(q[8], x[first + (t + 5) % width]);
    EXPECT_EQ(q[9], 1.0f);
    EXPECT_EQ(q[10],
              std::all_of(x.begin() + first, x.begin() + first + width, [](f32 v) { return v > 0; }) ? 1.0f : 0.0f);
    EXPECT_EQ(q[11], x[37]);
  }
}
TEST(Simd, BallotBroadcastAndMissingLanes) {
  const auto k = kernel("%y: out u32", R"(
    %t = thread_id : index
    %o = rem %t, 3 : index
    %c = eq %o, 0 : bool
    %b = simd.ballot %c : u32
    %u = cast %t : u32
    %m = simd.reduce<max> %u : u32
    %s = simd.reduce<sum> %u : u32
    %r = simd.broadcast %u, 2 : u32
    %w = vec.make %b, %m, %s, %r : u32x4
    %i = mul %t, 4 : index
    store %y[%i], %w
  )");
  std::vector<u32> y(40 * 4);
  const auto r = launch(k, geometry(1, 40), {buffer(y)});
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 t = 0; t < 40; ++t) {
    u32 ballot = 0;
    const u32 first = t / 32 * 32, last = std::min(40u, first + 32);
    for (u32 l = first; l < last; ++l) ballot |= (l % 3 == 0 ? 1u : 0u) << (l - first);
    EXPECT_EQ(y[4 * t], ballot);
    EXPECT_EQ(y[4 * t + 1], last - 1);
    EXPECT_EQ(y[4 * t + 2], (first + last - 1) * (last - first) / 2);
    EXPECT_EQ(y[4 * t + 3], first + 2);
  }
}

// --- tiles against a loop, for both scopes and both transposes
struct TileCase {
  std::string_view scope;
  u32 threads;
  bool at, bt;
};
class Tiles : public ::testing::TestWithParam<TileCase> {};
INSTANTIATE_TEST_SUITE_P(All, Tiles,
                         ::testing::Values(TileCase{"threadgroup", 96, false, false},
                                           TileCase{"simdgroup", 32, true, false},
                                           TileCase{"threadgroup", 64, false, true},
                                           TileCase{"simdgroup", 32, true, true}));
TEST_P(Tiles, OneChainAnElement) {
  const TileCase c = GetParam();
  constexpr u32 m = 10, n = 7, depth = 12;
  std::string layout = std::to_string(depth);
  if (c.at) layout += ", at";
  if (c.bt) layout += ", bt";
  const auto k = kernel("%a: in f16, %b: in f16, %y: out f16, %e: out f32", R"(
    %c = tile.new<f16, )" + std::string(c.scope) + R"(> : tile f32[10 x 7]
    tile.zero %c
    tile.mma<)" + layout + R"(> %c, %a, 1, 20, %b, 2, 24
    %n = tile.elems %c : index
    %t = thread_id : index
    for %i = 0 to %n step 1 {
      %r = tile.row %c, %i : index
      %q = tile.col %c, %i : index
      %v = tile.get %c, %i : f32
      %in = lt %r, 10 : bool
      if %in {
        %w = mul %r, 7 : index
        %at = add %w, %q : index
        store %e[%at], %v
        %d = add %v, 1.0:f32 : f32
        tile.set %c, %i, %d
      }
    }
    tile.store %c, %y, 0, 7, 9, 7
  )");
  std::mt19937 random(5);
  std::vector<u16> a(300), b(300), y(m * n, 0xffff);
  for (auto* v : {&a, &b})
    for (auto& x : *v) x = f32_to_f16_bits(static_cast<f32>(random() % 2000) / 900.0f - 1.0f);
  std::vector<f32> e(m * n);
  const auto r = launch(k, geometry(1, c.threads), {buffer(a), buffer(b), buffer(y), buffer(e)});
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 i = 0; i < m; ++i)
    for (u32 j = 0; j < n; ++j) {
      f32 sum = 0;
      for (u32 kk = 0; kk < depth; ++kk)
        sum = std::fma(f16_bits_to_f32(a[1 + (c.at ? kk * 20 + i : i * 20 + kk)]),
                       f16_bits_to_f32(b[2 + (c.bt ? j * 24 + kk : kk * 24 + j)]), sum);
      EXPECT_EQ(e[i * n + j], sum);
      EXPECT_EQ(y[i * n + j], i < 9 ? f32_to_f16_bits(sum + 1.0f) : 0xffff);
    }
}
TEST(TilesChecked, RacesBoundsAndUnwrittenElements) {
  const auto run_tile = [](std::string_view body) {
    const auto k = kernel("%x: in f32, %y: inout f32",
                          "%s = shared.new<64> : shared f32\n%t = thread_id : index\n%c = tile.new<f32, threadgroup> : "
                          "tile f32[8 x 8]\n" +
                              std::string(body));
    const std::vector<f32> x(64, 1.0f);
    std::vector<f32> y(64);
    return launch(k, geometry(1, 64), {buffer(x), buffer(y)});
  };
  constexpr std::string_view fill = "tile.zero %c\nstore %s[%t], 1.0:f32\n",
                             use = "tile.mma<8> %c, %s, 0, 8, %x, 0, 8\n";
  EXPECT_TRUE(run_tile(std::string(fill) + "barrier\n" + std::string(use)).clean());
  EXPECT_TRUE(run_tile(std::string(fill) + std::string(use)).has(code::race));
  EXPECT_TRUE(run_tile("store %s[%t], 1.0:f32\nbarrier\n" + std::string(use)).has(code::uninitialised));
  EXPECT_TRUE(run_tile("tile.load %c, %x, 1, 8, 8, 8\n").has(code::out_of_bounds));
  EXPECT_TRUE(run_tile("tile.load %c, %x, 1, 8, 7, 8\n").clean());
  EXPECT_TRUE(run_tile("tile.zero %c\n%v = tile.get %c, 1 : f32\nstore %y[%t], %v\n").has(code::out_of_bounds));
}

}  // namespace
}  // namespace iron::exec
