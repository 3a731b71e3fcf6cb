// Every finding: a kernel that has it, with its line and words, and a clean twin.
#include "helpers.h"

namespace iron::exec {
namespace {

struct Case {
  std::string_view name, code, words;
  std::string_view body;  ///< `@` stands for what differs
  std::string_view wrong, right;
  u32 groups = 1, threads = 64;
  u64 max_trips = 1000;
  bool index32 = false;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Result run_case(const Case& c, std::string_view part, Schedule schedule) {
  std::string body(c.body);
  for (auto at = body.find('@'); at != std::string::npos; at = body.find('@')) body.replace(at, 1, part);
  const auto k = kernel("%x: in f32, %y: out f32, %z: inout u32, %n: scalar u32", body);
  const std::vector<f32> x(64, 1.0f);
  std::vector<f32> y(256);
  std::vector<u32> z(256);
  return launch(k, geometry(c.groups, c.threads), {buffer(x), buffer(y), buffer(z), scalar(64u)},
                {.schedule = schedule, .max_trips = c.max_trips, .index32 = c.index32});
}

class Findings : public ::testing::TestWithParam<Case> {};
TEST_P(Findings, WrongIsFoundAndRightIsClean) {
  const Case& c = GetParam();
  for (const Schedule schedule : all_schedules) {
    const auto wrong = run_case(c, c.wrong, schedule);
    EXPECT_TRUE(wrong.has(c.code)) << wrong.render();
    EXPECT_NE(wrong.render().find(c.words), std::string::npos) << wrong.render();
    EXPECT_NE(wrong.render().find("k.cpp:7"), std::string::npos) << wrong.render();
    const auto right = run_case(c, c.right, schedule);
    EXPECT_TRUE(right.clean()) << right.render();
  }
}

#define T "%t = thread_id : index\n"
#define COPY "%s = shared.new<64> : shared f32\n" T "%v = load<align 4> %x[%t] : f32\ncopy.async<align 4> %s[%t], %v "
#define OTHER "%o = sub 63, %t : index\n%r = load %s[%o] : f32 !7\nstore %y[%t], %r\n"
INSTANTIATE_TEST_SUITE_P(
    All, Findings,
    ::testing::Values(
        Case{"buffer", code::out_of_bounds, "element 64 of x, which has 64 elements, in thread 63",
             T "%i = add %t, @ : index\n%v = load %x[%i] : f32 !7\nstore %y[%t], %v\n", "1", "0"},
        Case{"store", code::out_of_bounds, "write element 256 of y",
             T "%i = add %t, @ : index\nstore %y[%i], 1.0:f32 !7\n", "193", "192"},
        Case{"shared", code::out_of_bounds, "the threadgroup array of 64 f32",
             "%s = shared.new<64> : shared f32\n" T "%i = sub %t, @ : index\nstore %s[%i], 1.0:f32 !7\n", "1", "0"},
        Case{"array", code::out_of_bounds, "the thread's own array of 4 f32",
             "%a = array.new<4> : thread f32\nstore %a[@], 1.0:f32 !7\n", "4", "3"},
        Case{"vector", code::out_of_bounds, "read element 61 to 64 of x",
             "%v = load %x[@] : f32x4 !7\n%e = vec.extract<0> %v : f32\n" T
             "%i = add %t, 0 : index\nstore %y[%i], %e\n",
             "61", "60"},
        Case{"atomic", code::out_of_bounds, "atomic access to element 256 of z",
             "%o = atomic.rmw<add, relaxed, grid> %z[@], 1:u32 : u32 !7\n", "256", "255"},
        Case{"guarded", code::out_of_bounds, "element 64 of x",
             T "%i = add %t, 1 : index\n%c = lt %i, @ : bool\n%v = load.or %x[%i], %c, 0.0:f32 : f32 !7\nstore %y[%t], "
               "%v\n",
             "65", "64"},
        Case{"sharedread", code::uninitialised,
             "element 59 of the threadgroup array of 64 f32 is read before anything is written",
             "%s = shared.new<64> : shared f32\n" T
             "%c = lt %t, @ : bool\nif %c {\nstore %s[%t], 1.0:f32\n}\nbarrier\n%d = lt %t, 60 : bool\nif %d {\n%v = "
             "load %s[%t] : f32 !7\nstore %y[%t], %v\n}\n",
             "59", "60"},
        Case{"arrayread", code::uninitialised, "the thread's own array of 4 f32",
             "%a = array.new<4> : thread f32\nstore %a[1], 1.0:f32\n%v = load %a[@] : f32 !7\n" T "store %y[%t], %v\n",
             "2", "1"},
        Case{"outread", code::uninitialised, "of y is read before anything is written",
             T "%w = add %t, 100 : index\nstore %y[%t], 1.0:f32\n%v = load %y[@] : f32 !7\nstore %y[%w], %v\n", "%w",
             "%t"},
        Case{"race", code::race, "without a barrier between them",
             "%s = shared.new<64> : shared f32\n" T
             "store %s[%t], 1.0:f32 !6\n@\n%o = sub 63, %t : index\n%v = load %s[%o] : f32 !7\nstore %y[%t], %v\n",
             "", "barrier"},
        Case{"lanerace", code::race, "is written by thread",
             "%s = shared.new<64> : shared f32\n" T
             "%o = xor %t, 1 : index\nstore %s[%t], 1.0:f32 !6\n@\n%v = load %s[%o] : f32 !7\nstore %y[%t], %v\n",
             "", "simd.barrier"},
        Case{"writewrite", code::race, "written",
             "%s = shared.new<64> : shared f32\n" T
             "%i = @ %t, 2 : index\n%j = rem %i, 64 : index\nstore %s[%j], 1.0:f32 !7\n",
             "div", "add"},
        Case{"readwrite", code::race, "without a barrier between them",
             "%s = shared.new<64> : shared u32\n" T "store %s[%t], 1:u32\nbarrier\n%o = sub 63, %t : index\n%v = load "
             "%s[%o] : u32 !6\n@\nstore %s[%t], %v !7\n",
             "", "barrier"},
        Case{"atomicrace", code::race, "ly by thread",
             "%s = shared.new<1> : shared u32\n" T "%f = eq %t, 0 : bool\nif %f {\nstore %s[0], 0:u32 !6\n}\n@\n%v = "
             "atomic.rmw<add, relaxed, threadgroup> %s[0], 1:u32 : u32 !7\n",
             "", "barrier"},
        Case{"grouprace", code::race, "without an acquire that orders them",
             T "%g = group_id<x> : index\n%m = mul %g, @ : index\n%i = add %m, %t : index\nstore %y[%i], 1.0:f32 !7\n",
             "32", "64", 2},
        Case{"alias", code::race, "without a barrier",
             "%s = shared.new<64> : shared f32\n%q = shared.alias<0> %s : shared u32\n" T
             "%o = sub 63, %t : index\nstore %s[%t], 1.0:f32 !6\n@\n%v = load %q[%o] : u32 !7\n%f = bitcast %v : "
             "f32\nstore %y[%t], %f\n",
             "", "barrier"},
        Case{"copyread", code::in_flight, "is read by thread", COPY "!6\ncopy.commit\n@\nbarrier\n" OTHER, "",
             "copy.wait<0>"},
        Case{"copynewest", code::in_flight, "while a copy that thread",
             COPY "!6\ncopy.commit\ncopy.wait<@>\nbarrier\n" OTHER "copy.wait<0>\n", "1", "0"},
        Case{"copyopen", code::in_flight, "commit_copies() after the copies",
             COPY "!6\n@\ncopy.wait<0>\nbarrier\n" OTHER, "", "copy.commit"},
        Case{"copybarrier", code::race, "without a barrier between them",
             COPY "!6\ncopy.commit\ncopy.wait<0>\n@\n" OTHER, "", "barrier"},
        Case{"copyoverwrite", code::in_flight, "is written by thread",
             COPY "!6\ncopy.commit\n@\nstore %s[%t], 1.0:f32 !7\ncopy.wait<0>\n", "", "copy.wait<0>"},
        Case{"copyearly", code::race, "without a barrier between them",
             "%s = shared.new<64> : shared f32\n" T
             "store %s[%t], 1.0:f32\nbarrier\n%o = sub 63, %t : index\n%r = load "
             "%s[%o] : f32 !6\n@\n%v = load<align 4> %x[%t] : f32\ncopy.async<align 4> %s[%t], %v "
             "!7\ncopy.commit\ncopy.wait<0>\nstore %y[%t], %r\n",
             "", "barrier"},
        Case{"copyend", code::in_flight, "is never waited for", COPY "!7\ncopy.commit\n@\n", "", "copy.wait<0>"},
        Case{"divergent", code::divergent, "barrier is reached by 7 of the 32 threads",
             T "%c = lt %t, @ : bool\nif %c {\nbarrier !7\n}\n", "7", "64"},
        Case{"divergentsimd", code::divergent, "simd.reduce is reached by 9 of the 32",
             T "%c = lt %t, @ : bool\nif %c {\n%r = simd.reduce<sum> 1.0:f32 : f32 !7\nstore %y[%t], %r\n}\n", "9",
             "32"},
        Case{"missing", code::barrier_mismatch, "never reaches: it has ended",
             T "%c = lt %t, @ : bool\nif %c {\nbarrier !7\n}\n", "32", "64"},
        Case{"mismatch", code::barrier_mismatch, "while simdgroup 1 is at",
             T "%c = lt %t, @ : bool\nif %c {\nbarrier !7\n} else {\nbarrier !8\n}\n", "32", "64"},
        Case{"misaligned", code::misaligned, "multiple of 16 bytes",
             "%i = add 0, @ : index\n%v = load<align 16> %x[%i] : f32x4 !7\n%e = vec.extract<1> %v : f32\n" T
             "store %y[%t], %e\n",
             "2", "4"},
        Case{"runaway", code::runaway, "more than 1000 trips",
             "%r = for %i = 0 to @ step 1 carry(%a = 0.0:f32) : f32 { !7\n%b = add %a, 1.0:f32 : f32\nyield %b\n}\n" T
             "store %y[%t], %r\n",
             "1001", "1000"},
        Case{"step", code::bad_step, "steps by 0",
             T "%n1 = cast %n : index\n%s = sub %n1, @ : index\n%r = for %i = 0 to 8 step %s carry(%a = 0.0:f32) : f32 "
               "{ !7\n%b = add %a, 1.0:f32 : f32\nyield %b\n}\nstore %y[%t], %r\n",
             "64", "63"},
        Case{"index", code::index_overflow, "an index is 2147483648",
             T "%b = add %t, @ : index\n%c = add %b, 1 : index !7\n%d = rem %c, 64 : index\nstore %z[%d], 1:u32\n",
             "2147483584", "2147483583", 1, 64, 1000, true},
        Case{"bounded", code::clamped, "clamps 63 to 62 (from 0 to 62) in thread 63",
             T "%i = bounded %t, 0, @ : index !7\n%v = load %x[%i] : f32\nstore %y[%t], %v\n", "62", "63"},
        Case{"assume", code::assumption, "n fits",
             T "%c = lt %t, @ : bool\nassume \"n fits\" %c !7\nstore %y[%t], 1.0:f32\n", "63", "64"},
        Case{"check", code::check, "in range",
             T "%c = lt %t, @ : bool\ncheck \"in range\" %c !7\nstore %y[%t], 1.0:f32\n", "63", "64"},
        Case{"uniform", code::not_uniform, "promised uniform over the simdgroup",
             T "%d = div %t, @ : index\n%u = assume_uniform<simdgroup> %d : index !7\n%v = load %x[%u] : f32\nstore "
               "%y[%t], %v\n",
             "16", "32"},
        Case{"uniformgroup", code::not_uniform, "promised uniform over the threadgroup",
             T "%d = div %t, @ : index\n%u = assume_uniform<threadgroup> %d : index !7\n%v = load %x[%u] : f32\nstore "
               "%y[%t], %v\n",
             "32", "64"},
        Case{"lane", code::not_uniform, "the lane of simd_broadcast is 1",
             T "%l = rem %t, @ : index\n%f = simd.broadcast 1.0:f32, %l : f32 !7\nstore %y[%t], %f\n", "2", "1"},
        Case{"nan", code::nan_bits, "bits of a NaN",
             T "%v = load %x[%t] : f32\n%w = sub %v, @:f32 : f32\n%s = sqrt %w : f32\n%b = bitcast %s : u32 !7\nstore "
               "%z[%t], %b\n",
             "2.0", "0.5"},
        Case{"shuffle", code::missing_lane, "which is not a thread",
             T "%f = simd.shuffle_xor<@> 1.0:f32 : f32 !7\nstore %y[%t], %f\n", "16", "8", 1, 48},
        Case{"deadlock", code::deadlock, "waits at wait_until and no thread can make it go on",
             T "%v = wait_until<ge, grid> %z[0], 255:u32, @:u32 : u32 !7\nstore %z[1], %v\n", "1", "0", 1, 1}),
    [](const auto& c) { return std::string(c.param.name); });
#undef OTHER
#undef COPY
#undef T

TEST(Findings, RacesNameBothLinesAndAreReportedOnce) {
  const auto k = kernel("%y: out f32", R"(
    %s = shared.new<64> : shared f32 !3
    %t = thread_id : index
    %o = sub 63, %t : index
    store %s[%t], 1.0:f32 !10
    %v = load %s[%o] : f32 !12
    store %y[%t], %v
  )");
  std::vector<f32> y(64);
  const auto r = launch(k, geometry(1, 64), {buffer(y)});
  ASSERT_EQ(r.findings.size(), 2u) << r.render();  // the race, and the read that saw nothing yet
  bool seen = false;
  for (const auto& d : r.findings) {
    if (d.code != code::race) continue;
    seen = true;
    EXPECT_NE(d.message.find("(line 3)"), std::string::npos);
    const std::string text = d.render();
    EXPECT_NE(text.find("k.cpp:10"), std::string::npos) << text;
    EXPECT_NE(text.find("k.cpp:12"), std::string::npos) << text;
    EXPECT_NE(text.find("= fix: put a barrier()"), std::string::npos) << text;
  }
  EXPECT_TRUE(seen);
}

TEST(Findings, ALaunchThatRunsTooLongIsARunaway) {
  const auto k = kernel("%y: out u32, %n: scalar u32", R"(
    %t = thread_id : index
    %m = cast %n : index
    %r = for %i = 0 to %m step 1 carry(%a = 0:u32) : u32 {
      %b = add %a, 1:u32 : u32
      yield %b
    }
    store %y[%t], %r
)");
  std::vector<u32> y(32);
  Options o;
  o.max_instructions = 2000;
  EXPECT_TRUE(launch(k, geometry(1, 32), {buffer(y), scalar(u32{100})}, o).clean());
  const auto r = launch(k, geometry(1, 32), {buffer(y), scalar(u32{100'000})}, o);
  EXPECT_TRUE(r.has(code::runaway));
  EXPECT_LT(r.statistics.instructions, 2100u);
}

TEST(Findings, WhatAnEndedThreadgroupWroteIsShownOnce) {
  const auto k = kernel("%y: out u32, %c: inout u32", R"(
    %t = grid_thread_id : index
    %v = cast %t : u32
    store %y[%t], %v
    store %y[%t], 7:u32
    %o = atomic.rmw<add, relaxed, grid> %c[0], 1:u32 : u32
)");
  std::vector<u32> y(8 * 32), c(1);
  std::vector<u32> seen(y.size());
  Options o;
  o.accepts = [&](u32 param, u64 byte, u32 bytes) {
    EXPECT_EQ(param, 0u) << "atomic writes are not final";
    EXPECT_EQ(bytes, 4u);
    EXPECT_EQ(y[byte / 4], 7u) << "a group is shown when it has ended";
    ++seen[byte / 4];
    return byte / 4 < 3 * 32;
  };
  const auto r = launch(k, geometry(8, 32), {buffer(y), buffer(c)}, o);
  EXPECT_TRUE(r.rejected);
  EXPECT_TRUE(r.clean());
  for (u32 i = 0; i < y.size(); ++i) EXPECT_EQ(seen[i], i < 3 * 32 ? 2u : i == 3 * 32 ? 1u : 0u) << i;
  EXPECT_EQ(c[0], 4u * 32) << "no group starts after the answer";
  // Groups that order each other may write an element one after the other: nothing is asked.
  const auto ordered = kernel("%y: out u32, %c: inout u32", R"(
    %t = grid_thread_id : index
    %o = atomic.rmw<add, acq_rel, grid> %c[0], 1:u32 : u32
    store %y[%t], 1:u32
)");
  o.accepts = [](u32, u64, u32) { return false; };
  EXPECT_FALSE(launch(ordered, geometry(2, 32), {buffer(y), buffer(c)}, o).rejected);
}

TEST(Findings, OverlappingBuffersAreRefused) {
  const auto k =
      kernel("%x: in f32, %y: out f32", "%t = thread_id : index\n%v = load %x[%t] : f32\nstore %y[%t], %v\n");
  std::vector<f32> x(100);
  const LaunchArg whole{x.data(), 400, 0}, tail{x.data() + 50, 200, 0}, head{x.data(), 200, 0};
  EXPECT_TRUE(launch(k, geometry(1, 32), {whole, tail}).has(code::overlap));
  EXPECT_TRUE(launch(k, geometry(1, 32), {head, tail}).clean());
}

TEST(Findings, LaunchesThatCannotRunAreErrors) {
  const auto k = kernel("%y: out f32", "%t = thread_id : index\nstore %y[%t], 1.0:f32\n");
  std::vector<f32> y(64);
  EXPECT_THROW(launch(k, geometry(1, 64), {}), Error);
  EXPECT_THROW(launch(k, geometry(1, 1025), {buffer(y)}), Error);
  EXPECT_THROW(launch(k, geometry(1, 64), {buffer(y)}, {.width = 16}), Error);
  EXPECT_THROW(launch(k, geometry(1, 64), {buffer(y)}, {.width = 12}), Error);
}

}  // namespace
}  // namespace iron::exec
