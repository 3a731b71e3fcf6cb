// The launch contract accepts what fits, exactly, and refuses what does not, for many shapes of kernels.
#include "analysis/contract.h"

#include <gtest/gtest.h>

#include <chrono>

#include "analysis/launches.h"

namespace iron::analysis {
namespace {
using namespace ir;

Kernel kernel(std::string_view params, std::string_view body, std::string_view mode = "threadgroup") {
  return parse("kernel @k(" + std::string(params) + ") " + std::string(mode) + " exact {\n  file 0 \"k.cpp\"\n" +
               std::string(body) + "}\n");
}
std::string verdict(const Kernel& k, Dim3 groups, Dim3 threads,
                    std::initializer_list<std::pair<std::string_view, u64>> values, u64 items = 0) {
  const auto l = launch(k, groups, threads, values, items);
  return codes(check(derive(k), l.geometry, l.args));
}

constexpr std::string_view rows_body = R"(
    %g = group_id<x> : index
    %m = cast %n : index
    %base = mul %g, %m : index
    %t = thread_id : index
    %z = group_size : index
    for %i = %t to %m step %z {
      %a = add %base, %i : index
      %v = load %x[%a] : f32
      store %y[%a], %v
    }
)";

TEST(Contract, RowKernels) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", rows_body);
  EXPECT_EQ(verdict(k, {8}, {256}, {{"x", 8000}, {"y", 8000}, {"n", 1000}}), "");
  EXPECT_EQ(verdict(k, {8}, {256}, {{"x", 7999}, {"y", 8000}, {"n", 1000}}), "D25");
  EXPECT_EQ(verdict(k, {8}, {256}, {{"x", 8000}, {"y", 7999}, {"n", 1000}}), "D25");
  EXPECT_EQ(verdict(k, {8}, {256}, {{"x", 0}, {"y", 0}, {"n", 0}}), "");
  EXPECT_EQ(verdict(k, {9}, {256}, {{"x", 8000}, {"y", 9000}, {"n", 1000}}), "D25");
  EXPECT_EQ(verdict(k, {1}, {1024}, {{"x", 1}, {"y", 1}, {"n", 1}}), "");
}

TEST(Contract, ElementwiseTails) {
  const Kernel k = kernel("%x: in f32, %y: out f32", R"(
    %i = grid_thread_id : index
    %n = item_count : index
    %c = lt %i, %n : bool
    if %c {
      %v = load %x[%i] : f32
      store %y[%i], %v
    }
)",
                          "elementwise");
  EXPECT_EQ(verdict(k, {4}, {256}, {{"x", 1000}, {"y", 1000}}, 1000), "");
  EXPECT_EQ(verdict(k, {4}, {256}, {{"x", 999}, {"y", 1000}}, 1000), "D25");
  EXPECT_EQ(verdict(k, {1000}, {256}, {{"x", 1000}, {"y", 1000}}, 1000),
            "D03");  // threads given where groups are meant
  EXPECT_EQ(verdict(k, {3}, {256}, {{"x", 1000}, {"y", 1000}}, 1000), "D03");
  EXPECT_EQ(verdict(k, {1}, {256}, {{"x", 0}, {"y", 0}}, 0), "");
}

TEST(Contract, UnguardedTailIsRefused) {
  const Kernel k =
      kernel("%x: in f32, %y: out f32", "%i = grid_thread_id : index\n %v = load %x[%i] : f32\n store %y[%i], %v\n");
  EXPECT_EQ(verdict(k, {4}, {256}, {{"x", 1024}, {"y", 1024}}), "");
  EXPECT_EQ(verdict(k, {4}, {256}, {{"x", 1000}, {"y", 1024}}), "D25");
}

TEST(Contract, TwoDimensionalTilesWithGuards) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %rows: scalar u32, %cols: scalar u32", R"(
    %c = grid_pos<x> : index
    %r = grid_pos<y> : index
    %nr = cast %rows : index
    %nc = cast %cols : index
    %in_r = lt %r, %nr : bool
    %in_c = lt %c, %nc : bool
    %in = and %in_r, %in_c : bool
    %rc = mul %r, %nc : index
    %a = add %rc, %c : index
    %ct = mul %c, %nr : index
    %b = add %ct, %r : index
    if %in {
      %v = load %x[%a] : f32
      store %y[%b], %v
    }
)",
                          "grid3d");
  EXPECT_EQ(verdict(k, {4, 3}, {16, 16}, {{"x", 50 * 40}, {"y", 50 * 40}, {"rows", 40}, {"cols", 50}}), "");
  EXPECT_EQ(verdict(k, {4, 3}, {16, 16}, {{"x", 50 * 40 - 1}, {"y", 50 * 40}, {"rows", 40}, {"cols", 50}}), "D25");
  EXPECT_EQ(verdict(k, {4, 3}, {16, 16}, {{"x", 50 * 40}, {"y", 50 * 40 - 1}, {"rows", 40}, {"cols", 50}}), "D25");
}

TEST(Contract, OneLinearGuardOverTwoIds) {  // row * n + column < total, known only as a sum
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %g = group_id<x> : index
    %t = thread_id : index
    %m = cast %n : index
    %gm = mul %g, %m : index
    %i = add %gm, %t : index
    %total = length %x : index
    %c = lt %i, %total : bool
    %j = add %t, %gm : index
    if %c {
      %v = load %x[%j] : f32
      store %y[%i], %v
    }
)");
  EXPECT_EQ(verdict(k, {8}, {128}, {{"x", 333}, {"y", 333}, {"n", 100}}), "");
  EXPECT_EQ(verdict(k, {8}, {128}, {{"x", 333}, {"y", 332}, {"n", 100}}), "D25");
}

TEST(Contract, DivisionAndRemainderComeBackTogether) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32, %w: scalar u32", R"(
    %i = grid_thread_id : index
    %m = cast %n : index
    %k = cast %w : index
    %c = lt %i, %m : bool
    if %c {
      %r = div %i, %k : index
      %q = rem %i, %k : index
      %rk = mul %r, %k : index
      %a = add %rk, %q : index
      %v = load %x[%a] : f32
      store %y[%a], %v
    }
)");
  EXPECT_EQ(verdict(k, {4}, {64}, {{"x", 250}, {"y", 250}, {"n", 250}, {"w", 7}}), "");
  EXPECT_EQ(verdict(k, {4}, {64}, {{"x", 249}, {"y", 250}, {"n", 250}, {"w", 7}}), "D25");
}

TEST(Contract, TransposedByDivisionAndRemainder) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %rows: scalar u32, %cols: scalar u32", R"(
    %i = grid_thread_id : index
    %nr = cast %rows : index
    %nc = cast %cols : index
    %n = mul %nr, %nc : index
    %c = lt %i, %n : bool
    if %c {
      %r = div %i, %nc : index
      %q = rem %i, %nc : index
      %qn = mul %q, %nr : index
      %a = add %qn, %r : index
      %v = load %x[%i] : f32
      store %y[%a], %v
    }
)");
  EXPECT_EQ(verdict(k, {4}, {64}, {{"x", 210}, {"y", 210}, {"rows", 14}, {"cols", 15}}), "");
  EXPECT_EQ(verdict(k, {4}, {64}, {{"x", 210}, {"y", 209}, {"rows", 14}, {"cols", 15}}), "D25");
}

TEST(Contract, Gathers) {
  constexpr std::string_view params = "%x: in f32, %idx: in u32, %y: out f32, %n: scalar u32";
  constexpr std::string_view head =
      "%t = thread_id : index\n %u = load %idx[%t] : u32\n %i = cast %u : index\n %m = cast %n : index\n";
  const auto with = [&](std::string_view rest) { return kernel(params, std::string(head) + std::string(rest)); };
  const std::initializer_list<std::pair<std::string_view, u64>> fit{{"x", 100}, {"idx", 64}, {"y", 64}, {"n", 100}};
  const std::initializer_list<std::pair<std::string_view, u64>> small{{"x", 99}, {"idx", 64}, {"y", 64}, {"n", 100}};
  const Kernel bare = with("%v = load %x[%i] : f32\n store %y[%t], %v\n");
  EXPECT_EQ(verdict(bare, {1}, {64}, fit), "LAUNCH01");
  const Kernel guarded = with("%c = lt %i, %m : bool\n if %c {\n %v = load %x[%i] : f32\n store %y[%t], %v\n }\n");
  EXPECT_EQ(verdict(guarded, {1}, {64}, fit), "");
  EXPECT_EQ(verdict(guarded, {1}, {64}, small), "D25");
  const Kernel load_or = with("%c = lt %u, %n : bool\n %v = load.or %x[%i], %c, 0.0:f32 : f32\n store %y[%t], %v\n");
  EXPECT_EQ(verdict(load_or, {1}, {64}, fit), "");
  EXPECT_EQ(verdict(load_or, {1}, {64}, small), "D25");
  const Kernel bounded =
      with("%e = sub %m, 1 : index\n %b = bounded %i, 0, %e : index\n %v = load %x[%b] : f32\n store %y[%t], %v\n");
  EXPECT_EQ(verdict(bounded, {1}, {64}, fit), "");
  EXPECT_EQ(verdict(bounded, {1}, {64}, small), "D25");
  const Kernel selected =
      with("%c = lt %i, %m : bool\n %s = select %c, %i, 0 : index\n %v = load %x[%s] : f32\n store %y[%t], %v\n");
  EXPECT_EQ(verdict(selected, {1}, {64}, fit), "");
  EXPECT_EQ(verdict(selected, {1}, {64}, small), "D25");
  const Kernel assumed = with(
      "%c = lt %i, %m : bool\n assume \"indices come from argsort\" %c\n %v = load %x[%i] : f32\n store %y[%t], %v\n");
  EXPECT_EQ(verdict(assumed, {1}, {64}, fit), "");
  const Kernel otherwise = with(
      "%c = ge %i, %m : bool\n if %c {\n store %y[%t], 0.0:f32\n } else {\n %v = load %x[%i] : f32\n store %y[%t], "
      "%v\n }\n");
  EXPECT_EQ(verdict(otherwise, {1}, {64}, fit), "");
  EXPECT_EQ(verdict(otherwise, {1}, {64}, small), "D25");
}

TEST(Contract, SignedIndicesNeedBothGuards) {
  const auto with = [](std::string_view condition) {
    return kernel("%x: in f32, %idx: in i32, %y: out f32",
                  "%t = thread_id : index\n %u = load %idx[%t] : i32\n %i = cast %u : index\n %n = length %x : index\n"
                  "%h = lt %i, %n : bool\n %l = ge %i, 0 : bool\n %b = and %h, %l : bool\n if " +
                      std::string(condition) + " {\n %v = load %x[%i] : f32\n store %y[%t], %v\n }\n");
  };
  EXPECT_EQ(verdict(with("%h"), {1}, {64}, {{"x", 10}, {"idx", 64}, {"y", 64}}), "LAUNCH01");
  EXPECT_EQ(verdict(with("%l"), {1}, {64}, {{"x", 10}, {"idx", 64}, {"y", 64}}), "LAUNCH01");
  EXPECT_EQ(verdict(with("%b"), {1}, {64}, {{"x", 10}, {"idx", 64}, {"y", 64}}), "");
}

TEST(Contract, ByteTablesNeedNoGuard) {
  const Kernel k = kernel("%table: in f32, %q: in u8, %y: out f32",
                          "%t = thread_id : index\n %b = load %q[%t] : u8\n %i = cast %b : index\n %v = load "
                          "%table[%i] : f32\n store %y[%t], %v\n");
  EXPECT_EQ(verdict(k, {1}, {32}, {{"table", 256}, {"q", 32}, {"y", 32}}), "");
  EXPECT_EQ(verdict(k, {1}, {32}, {{"table", 255}, {"q", 32}, {"y", 32}}), "LAUNCH01");
}

TEST(Contract, ReversedLoops) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %m = cast %n : index
    %last = sub %m, 1 : index
    for %i = 0 to %m step 1 {
      %a = sub %last, %i : index
      %v = load %x[%a] : f32
      store %y[%i], %v
    }
)");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 77}, {"y", 77}, {"n", 77}}), "");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 76}, {"y", 77}, {"n", 77}}), "D25");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 0}, {"y", 0}, {"n", 0}}), "");
}

TEST(Contract, BlockedLoopsWithAMinimum) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %g = group_id<x> : index
    %m = cast %n : index
    %s = mul %g, 100 : index
    %e0 = add %s, 100 : index
    %e = min %e0, %m : index
    for %i = %s to %e step 1 {
      %o = sub %i, %s : index
      %v = load %x[%o] : f32
      store %y[%i], %v
    }
)");
  EXPECT_EQ(verdict(k, {5}, {32}, {{"x", 100}, {"y", 450}, {"n", 450}}), "");
  EXPECT_EQ(verdict(k, {5}, {32}, {{"x", 99}, {"y", 450}, {"n", 450}}), "D25");
  EXPECT_EQ(verdict(k, {5}, {32}, {{"x", 100}, {"y", 449}, {"n", 450}}), "D25");
}

TEST(Contract, CarriedPositionsAdvance) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32, %stride: scalar u32", R"(
    %m = cast %n : index
    %s = cast %stride : index
    %end = for %i = 0 to %m step 1 carry(%p = 5) : index {
      %v = load %x[%p] : f32
      store %y[%i], %v
      %q = add %p, %s : index
      yield %q
    }
    %w = load %x[%end] : f32
    store %y[0], %w
)");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 5 + 10 * 3 + 1}, {"y", 10}, {"n", 10}, {"stride", 3}}), "");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 5 + 10 * 3}, {"y", 10}, {"n", 10}, {"stride", 3}}), "D25");
}

TEST(Contract, CarriedPositionMovesWithTheCounter) {  // p = 3 i exactly, so i * 4 - p stays small
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %m = cast %n : index
    %end = for %i = 0 to %m step 1 carry(%p = 0) : index {
      %f = mul %i, 4 : index
      %d = sub %f, %p : index
      %v = load %x[%d] : f32
      store %y[%i], %v
      %q = add %p, 3 : index
      yield %q
    }
)");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 50}, {"y", 50}, {"n", 50}}), "");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 49}, {"y", 50}, {"n", 50}}), "D25");
}

TEST(Contract, ALoopWithoutTripsKeepsTheFirstValue) {  // which its own bounds do not limit then
  const Kernel k = kernel("%x: in f32, %idx: in u32, %y: out f32", R"(
    %u = load %idx[0] : u32
    %d = cast %u : index
    %r = for %i = %d to 10 step 1 carry(%p = %d) : index {
      store %y[%p], 1.0:f32
      %q = add %p, 1 : index
      yield %q
    }
    %v = load %x[%r] : f32
    store %y[0], %v
)");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 1000}, {"idx", 1}, {"y", 10}}), "LAUNCH01");
}

TEST(Contract, ConditionalAdvanceAndHalving) {
  const Kernel compact = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %m = cast %n : index
    %end = for %i = 0 to %m step 1 carry(%p = 0) : index {
      %v = load %x[%i] : f32
      %c = gt %v, 0.0:f32 : bool
      %q = if %c : index {
        store %y[%p], %v
        %p1 = add %p, 1 : index
        yield %p1
      } else {
        yield %p
      }
      yield %q
    }
)");
  EXPECT_EQ(verdict(compact, {1}, {1}, {{"x", 50}, {"y", 50}, {"n", 50}}), "");
  EXPECT_EQ(verdict(compact, {1}, {1}, {{"x", 50}, {"y", 49}, {"n", 50}}), "D25");
  const Kernel halving = kernel("%y: out f32", R"(
    %t = thread_id : index
    %s = shared.new<128> : shared f32
    %end = for %i = 0 to 7 step 1 carry(%p = 64) : index {
      %a = add %t, %p : index
      %c = lt %t, %p : bool
      if %c {
        store %s[%a], 1.0:f32
      }
      %q = div %p, 2 : index
      yield %q
    }
    store %y[%t], 0.0:f32
)");
  EXPECT_EQ(verdict(halving, {1}, {128}, {{"y", 128}}), "");
}

TEST(Contract, SharedAndThreadArrays) {
  const auto with = [](std::string_view memory) {
    return kernel(
        "%y: out f32, %n: scalar u32",
        "%s = " + std::string(memory) +
            "\n %m = cast %n : index\n for %i = 0 to %m step 1 {\n store %s[%i], 0.0:f32\n }\n store %y[0], 1.0:f32\n");
  };
  EXPECT_EQ(verdict(with("shared.new<64> : shared f32"), {1}, {1}, {{"y", 1}, {"n", 64}}), "");
  EXPECT_EQ(verdict(with("shared.new<64> : shared f32"), {1}, {1}, {{"y", 1}, {"n", 65}}), "LAUNCH02");
  EXPECT_EQ(verdict(with("array.new<8> : thread f32"), {1}, {1}, {{"y", 1}, {"n", 8}}), "");
  EXPECT_EQ(verdict(with("array.new<8> : thread f32"), {1}, {1}, {{"y", 1}, {"n", 9}}), "LAUNCH02");
}

TEST(Contract, VectorsAndTheirAlignment) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %g = group_id<x> : index
    %m = cast %n : index
    %base = mul %g, %m : index
    %t = thread_id : index
    %t4 = mul %t, 4 : index
    %z = group_size : index
    %z4 = mul %z, 4 : index
    for %i = %t4 to %m step %z4 {
      %a = add %base, %i : index
      %v = load<align 16> %x[%a] : f32x4
      store<align 16> %y[%a], %v
    }
)");
  EXPECT_EQ(verdict(k, {3}, {32}, {{"x", 768}, {"y", 768}, {"n", 256}}), "");
  EXPECT_EQ(verdict(k, {3}, {32}, {{"x", 767}, {"y", 768}, {"n", 256}}), "D25");
  EXPECT_NE(verdict(k, {3}, {32}, {{"x", 770}, {"y", 770}, {"n", 254}}).find("LAUNCH04"), std::string::npos);
  auto l = launch(k, {3}, {32}, {{"x", 768}, {"y", 768}, {"n", 256}});
  l.args[0].data = static_cast<char*>(l.args[0].data) + 4;
  EXPECT_EQ(codes(check(derive(k), l.geometry, l.args)), "D25");
}

TEST(Contract, Views) {
  const Kernel k = kernel("%x: in u8, %y: out u32, %n: scalar u32",
                          "%v = view<8> %x : global u32\n %m = cast %n : index\n for %i = 0 to %m step 1 {\n %w = load "
                          "%v[%i] : u32\n store %y[%i], %w\n }\n");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 8 + 40}, {"y", 10}, {"n", 10}}), "");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 8 + 39}, {"y", 10}, {"n", 10}}), "D25");
  EXPECT_EQ(verdict(k, {1}, {1}, {{"x", 3}, {"y", 1}, {"n", 1}}), "D25");
}

TEST(Contract, IndexWidth) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", rows_body);
  const Contract c = derive(k);
  const auto width = [&](u32 groups, u64 n) {
    const auto l = launch(k, {groups}, {256}, {{"x", groups * n}, {"y", groups * n}, {"n", n}});
    const auto v = evaluate(c, l.geometry, l.args);
    EXPECT_EQ(codes(v.problems), "") << groups << " " << n;
    EXPECT_EQ(v.needs.extents[0], groups * n * 4);
    return v.needs.index_width;
  };
  EXPECT_EQ(width(1u << 16, 1u << 14), IndexWidth::i32);
  EXPECT_EQ(width(1u << 16, (1u << 15) - 1), IndexWidth::i32);
  EXPECT_EQ(width(1u << 16, 1u << 15), IndexWidth::i32);  // the last index is 2^31 - 1
  EXPECT_EQ(width((1u << 16) + 1, 1u << 15), IndexWidth::u32);
  EXPECT_EQ(width((1u << 17) + 1, 1u << 15), IndexWidth::i64);
  const auto l = launch(k, {1u << 17}, {256}, {{"x", (1ull << 33) - 1}, {"y", 1ull << 33}, {"n", 1u << 16}});
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D25");
}

TEST(Contract, OverflowedProductsAreRefused) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %a: scalar i64, %b: scalar i64", R"(
    %t = thread_id : index
    %i = cast %a : index
    %j = cast %b : index
    %s = mul %t, %i : index
    %p = mul %s, %j : index
    %v = load %x[%p] : f32
    store %y[%t], %v
)");
  EXPECT_EQ(verdict(k, {1}, {64}, {{"x", 1000}, {"y", 64}, {"a", 1}, {"b", 2}}), "");
  EXPECT_EQ(verdict(k, {1}, {64}, {{"x", 1000}, {"y", 64}, {"a", 1ll << 40}, {"b", 1ll << 40}}), "LAUNCH01");
  // In 32 bits the product wraps: the contract sees the wrapped value, as the device does.
  const Kernel wraps =
      kernel("%x: in f32, %y: out f32, %a: scalar u32",
             "%p = mul %a, %a : u32\n %i = cast %p : index\n %v = load %x[%i] : f32\n store %y[0], %v\n");
  EXPECT_EQ(verdict(wraps, {1}, {1}, {{"x", 1}, {"y", 1}, {"a", 65536}}), "");
}

TEST(Contract, AWrappedComparisonProvesNothing) {  // 2^20 * u may wrap in u32, so u32 arithmetic below a limit bounds
                                                   // only the wrapped value
  const Kernel k = kernel("%x: in f32, %idx: in u32, %y: out f32", R"(
    %t = thread_id : index
    %u = load %idx[%t] : u32
    %w = mul %u, 1048576:u32 : u32
    %c = lt %w, 100:u32 : bool
    if %c {
      %i = cast %u : index
      %v = load %x[%i] : f32
      store %y[%t], %v
    }
)");
  EXPECT_EQ(verdict(k, {1}, {32}, {{"x", 1000}, {"idx", 32}, {"y", 32}}), "LAUNCH01");
}

TEST(Contract, TripCountsAndSteps) {
  const Kernel data = kernel("%x: in u32, %y: out f32",
                             "%e = load %x[0] : u32\n %r = for %i = 0:u32 to %e step 1:u32 carry(%a = 0.0:f32) : f32 "
                             "{\n %b = add %a, 1.0:f32 : f32\n yield %b\n }\n store %y[0], %r\n");
  EXPECT_EQ(verdict(data, {1}, {1}, {{"x", 1}, {"y", 1}}), "LAUNCH03");
  const Kernel bounded =
      kernel("%x: in u32, %y: out f32",
             "%e0 = load %x[0] : u32\n %e = min %e0, 1000:u32 : u32\n %r = for %i = 0:u32 to %e step 1:u32 carry(%a = "
             "0.0:f32) : f32 {\n %b = add %a, 1.0:f32 : f32\n yield %b\n }\n store %y[0], %r\n");
  EXPECT_EQ(verdict(bounded, {1}, {1}, {{"x", 1}, {"y", 1}}), "");
  const Kernel step =
      kernel("%y: out f32, %n: scalar u32, %s: scalar u32",
             "%m = cast %n : index\n %k = cast %s : index\n for %i = 0 to %m step %k {\n store %y[%i], 1.0:f32\n }\n");
  EXPECT_EQ(verdict(step, {1}, {1}, {{"y", 10}, {"n", 10}, {"s", 0}}), "D02");
  EXPECT_EQ(verdict(step, {1}, {1}, {{"y", 10}, {"n", 10}, {"s", 3}}), "");
  EXPECT_EQ(verdict(step, {1}, {1}, {{"y", 10}, {"n", 12}, {"s", 3}}), "");  // 0, 3, 6, 9
  const auto l = launch(step, {1}, {1}, {{"y", 100}, {"n", 100}, {"s", 3}});
  EXPECT_EQ(evaluate(derive(step), l.geometry, l.args).needs.max_trips, 34u);
  DeviceLimits watchdog;
  watchdog.max_trips = 33;
  EXPECT_EQ(codes(check(derive(step), l.geometry, l.args, watchdog)), "LAUNCH03");
}

TEST(Contract, GroupSizes) {
  const Kernel simd =
      kernel("%y: out f32", "%t = thread_id : index\n %r = simd.reduce<sum> 1.0:f32 : f32\n store %y[%t], %r\n");
  EXPECT_EQ(verdict(simd, {1}, {32}, {{"y", 1024}}), "");
  for (const u32 t : {1u, 16u, 33u, 48u}) EXPECT_EQ(verdict(simd, {1}, {t}, {{"y", 1024}}), "D02") << t;
  EXPECT_EQ(verdict(simd, {1}, {2048}, {{"y", 2048}}), "D27");
  EXPECT_EQ(verdict(simd, {1}, {0}, {{"y", 1024}}), "D02");
  EXPECT_EQ(verdict(simd, {0}, {32}, {{"y", 1024}}), "D02");
  const Kernel plain = kernel("%y: out f32", "%t = thread_id : index\n barrier\n store %y[%t], 1.0:f32\n");
  EXPECT_EQ(verdict(plain, {1}, {12}, {{"y", 12}}), "");
  DeviceLimits small;
  small.max_groups = {65535, 65535, 65535};
  const auto l = launch(plain, {65536}, {12}, {{"y", 12}});
  EXPECT_EQ(codes(check(derive(plain), l.geometry, l.args, small)), "D03");
}

TEST(Contract, SimdgroupIdsCoverTheirThreads) {
  const Kernel k = kernel("%y: out f32", R"(
    %g = simdgroup_id : index
    %l = lane_id : index
    %n = simdgroup_count : index
    %s = shared.new<4> : shared f32
    %g32 = mul %g, 32 : index
    %i = add %g32, %l : index
    store %s[%g], 1.0:f32
    store %y[%i], 1.0:f32
)");
  EXPECT_EQ(verdict(k, {1}, {128}, {{"y", 128}}), "");
  EXPECT_EQ(verdict(k, {1}, {128}, {{"y", 127}}), "D25");
  EXPECT_EQ(verdict(k, {1}, {160}, {{"y", 160}}), "LAUNCH02");
}

TEST(Contract, Arguments) {
  const Kernel k = kernel("%x: in f16, %y: out f16, %n: scalar u8", "%v = load %x[0] : f16\n store %y[0], %v\n");
  const Contract c = derive(k);
  auto good = launch(k, {1}, {1}, {{"x", 4}, {"y", 4}, {"n", 3}});
  EXPECT_EQ(codes(check(c, good.geometry, good.args)), "");
  auto l = good;
  l.args.pop_back();
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D25");
  l = good, l.args[2].scalar = 256;
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D25");
  l = good, l.args[0].bytes = 7;
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D25");
  l = good, l.args[0].data = nullptr;
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D25");
  l = good, l.args[0].data = static_cast<char*>(l.args[0].data) + 1;
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D25");
  const DType given[] = {DType::f16, DType::f32, DType::u8};
  EXPECT_EQ(codes(check_dtypes(k, given)), "D25");
}

TEST(Contract, Aliasing) {
  const Kernel k = kernel("%a: in f32, %b: in f32, %y: out f32, %z: inout f32",
                          "%v = load %a[0] : f32\n store %y[0], %v\n store %z[0], %v\n");
  const Contract c = derive(k);
  const auto good = launch(k, {1}, {1}, {{"a", 100}, {"b", 100}, {"y", 100}, {"z", 100}});
  EXPECT_EQ(codes(check(c, good.geometry, good.args)), "");
  auto l = good;
  l.args[1] = l.args[0];  // inputs may overlap
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "");
  l = good, l.args[2] = l.args[0];
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D26");
  l = good, l.args[3].data = static_cast<char*>(l.args[2].data) + 396;
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "D26");
  l = good, l.args[3].data = static_cast<char*>(l.args[2].data) + 400;
  EXPECT_EQ(codes(check(c, l.geometry, l.args)), "");
}

TEST(Contract, TilesAtTheEdge) {
  const Kernel k = kernel("%a: in f32, %y: out f32, %rows: scalar u32, %cols: scalar u32", R"(
    %gy = group_id<y> : index
    %gx = group_id<x> : index
    %m = cast %rows : index
    %n = cast %cols : index
    %r0 = mul %gy, 32 : index
    %c0 = mul %gx, 32 : index
    %rn = mul %r0, %n : index
    %o = add %rn, %c0 : index
    %lr = sub %m, %r0 : index
    %lc = sub %n, %c0 : index
    %vr = min %lr, 32 : index
    %vc = min %lc, 32 : index
    %t = tile.new<f32, threadgroup> : tile f32[32 x 32]
    tile.load %t, %a, %o, %n, %vr, %vc
    tile.store %t, %y, %o, %n, %vr, %vc
)");
  EXPECT_EQ(verdict(k, {3, 2}, {128}, {{"a", 50 * 70}, {"y", 50 * 70}, {"rows", 50}, {"cols", 70}}), "");
  EXPECT_EQ(verdict(k, {3, 2}, {128}, {{"a", 50 * 70 - 1}, {"y", 50 * 70}, {"rows", 50}, {"cols", 70}}), "D25");
  EXPECT_EQ(verdict(k, {3, 2}, {128}, {{"a", 50 * 70}, {"y", 50 * 70 - 1}, {"rows", 50}, {"cols", 70}}), "D25");
}

TEST(Contract, CallsHaveNoContract) {
  const Kernel k = kernel("%x: in f32, %y: out f32", "call \"other\" %x, %y\n");
  EXPECT_THROW(derive(k), Error);
}

TEST(Contract, RepeatedChecksAreCheap) {
  const Kernel k = kernel("%x: in f32, %y: out f32, %n: scalar u32", rows_body);
  const Contract c = derive(k);
  using Clock = std::chrono::steady_clock;
  double first = 1e9, again = 1e9;
  for (u64 n = 1000; n < 1050; ++n) {
    const auto l = launch(k, {8}, {256}, {{"x", 8 * n}, {"y", 8 * n}, {"n", n}});
    const auto t0 = Clock::now();
    ASSERT_TRUE(check(c, l.geometry, l.args).empty());
    const auto t1 = Clock::now();
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(check(c, l.geometry, l.args).empty());
    const auto t2 = Clock::now();
    first = std::min(first, std::chrono::duration<double, std::micro>(t1 - t0).count());
    again = std::min(again, std::chrono::duration<double, std::micro>(t2 - t1).count() / 1000);
  }
  RecordProperty("first_us", std::to_string(first));
  RecordProperty("again_us", std::to_string(again));
  std::printf("first check %.2f us, repeated %.3f us\n", first, again);
#ifdef NDEBUG
  EXPECT_LT(first, 100.0);
  EXPECT_LT(again, 1.0);
#endif
}

}  // namespace
}  // namespace iron::analysis
