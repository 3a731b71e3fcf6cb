// What the effect verifier and the advice must not report, determinism classes, and the manifest.
#include "analysis/verify.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "analysis/determinism.h"
#include "analysis/launches.h"
#include "analysis/manifest.h"

namespace iron::analysis {
namespace {
using namespace ir;

Kernel kernel(std::string_view body, std::string_view policy = "exact") {
  return parse(
      "kernel @k(%x: in f32, %u: in u32, %y: out f32, %z: inout f32, %h: inout u32, %n: scalar u32) threadgroup " +
      std::string(policy) + " {\n  file 0 \"k.cpp\"\n" + std::string(body) + "}\n");
}
std::string errors(std::string_view body) { return codes(verify(kernel(body))); }
std::string advice(std::string_view body) { return codes(advise(kernel(body))); }

constexpr std::string_view broadcast_loop = R"(
    %t = thread_id : index
    %s = shared.new<2> : shared f32
    %m = cast %n : index
    %c = eq %t, 0 : bool
    for %i = 0 to %m step 1 {
      SLOT
      if %c {
        %v = load %x[%i] : f32
        store %s[%k], %v
      }
      barrier
      %w = load %s[%k] : f32
      store %y[%t], %w
      END
    }
)";
std::string with(std::string_view slot, std::string_view end) {
  std::string s(broadcast_loop);
  s.replace(s.find("SLOT"), 4, slot);
  s.replace(s.find("END"), 3, end);
  return s;
}

TEST(Effects, BroadcastSlots) {
  EXPECT_EQ(errors(with("%k = add 0, 0 : index", "")), "D10");
  EXPECT_EQ(errors(with("%k = add 0, 0 : index", "barrier")), "");  // a second barrier
  EXPECT_EQ(errors(with("%k = rem %i, 2 : index", "")), "");        // two slots in turn
  EXPECT_EQ(errors(with("%k = rem %t, 2 : index", "")), "");        // not one slot: the executor's race check decides
}

TEST(Effects, OutputsAndReads) {
  EXPECT_EQ(errors("%v = load %z[0] : f32\n store %y[0], %v\n"), "");
  EXPECT_EQ(errors("%v = load %y[0] : f32\n store %z[0], %v\n"), "D24");
  EXPECT_EQ(errors("%v = load %x[0] : f32\n"), "D04");
  EXPECT_EQ(errors("%o = atomic.rmw<add, relaxed, grid> %h[0], 1:u32 : u32\n"), "");
  EXPECT_EQ(errors("print \"n = {}\" %n\n"), "");
  EXPECT_EQ(errors("for %i = 4 to 4 step 1 {\n store %y[0], 1.0:f32\n }\n"), "D04");
}

TEST(Advice, SharedMemoryWrittenFirst) {
  EXPECT_EQ(advice("%s = shared.new<4> : shared f32\n store %s[0], 1.0:f32\n barrier\n %v = load %s[1] : f32\n store "
                   "%y[0], %v\n"),
            "");
  EXPECT_EQ(advice("%s = shared.new<4> : shared f32\n %v = load %s[1] : f32\n store %y[0], %v\n"), "D32");
  // Written through another view, and written later in a loop than read.
  EXPECT_EQ(advice("%s = shared.new<4> : shared f32\n %a = shared.alias<0> %s : shared u32\n store %a[0], 1:u32\n %v = "
                   "load %s[1] : f32\n store %y[0], %v\n"),
            "");
  EXPECT_EQ(advice("%s = shared.new<4> : shared f32\n for %i = 0 to 4 step 1 {\n %v = load %s[1] : f32\n store %y[0], "
                   "%v\n barrier\n store %s[1], %v\n barrier\n }\n"),
            "");
}

TEST(Advice, Shifts) {
  const auto shift = [](std::string_view amount) {
    return advice("%d = load %u[0] : u32\n " + std::string(amount) +
                  "\n %r = shl 1:u32, %a : u32\n %f = bitcast %r : f32\n store %y[0], %f\n");
  };
  EXPECT_EQ(shift("%a = and %d, 31:u32 : u32"), "");
  EXPECT_EQ(shift("%a = rem %d, 32:u32 : u32"), "");
  EXPECT_EQ(shift("%a = min %d, 31:u32 : u32"), "");
  EXPECT_EQ(shift("%l = lane_id : index\n %a = cast %l : u32"), "");
  EXPECT_EQ(shift("%a = min %d, 32:u32 : u32"), "D23");
  EXPECT_EQ(shift("%e = and %d, 31:u32 : u32\n %a = sub %e, 1:u32 : u32"), "D23");  // exp - 1 with exp 0
}

TEST(Advice, SelectsAroundLoads) {
  const auto select = [](std::string_view use) {
    return advice(
        "%t = thread_id : index\n %m = cast %n : index\n %c = lt %t, %m : bool\n %d = lt %m, 5 : bool\n %v = load "
        "%x[%t] : f32\n " +
        std::string(use) + "\n store %y[%t], %r\n");
  };
  EXPECT_EQ(select("%r = select %c, %v, 0.0:f32 : f32"), "D08");
  EXPECT_EQ(select("%r = select %d, %v, 0.0:f32 : f32"), "");  // the condition does not speak of the subscript
  EXPECT_EQ(select("%q = select %c, %v, 0.0:f32 : f32\n %r = add %q, %v : f32"), "");
}

TEST(Determinism, Classes) {
  const auto of = [](std::string_view body, std::string_view policy = "exact") {
    return to_string(infer_determinism(kernel(body, policy)));
  };
  EXPECT_EQ(of("%s = simd.reduce<sum> 1.0:f32 : f32\n store %y[0], %s\n"), "bitwise");
  EXPECT_EQ(of("%s = simd.reduce<sum> 1.0:f32 : f32\n store %y[0], %s\n", "exact width_generic"), "ordered(width)");
  EXPECT_EQ(of("%s = simd.reduce<max> 1.0:f32 : f32\n store %y[0], %s\n", "exact width_generic"), "bitwise");
  EXPECT_EQ(of("%s = simd.reduce<sum> 1:u32 : u32\n store %h[0], %s\n", "exact width_generic"), "bitwise");
  EXPECT_EQ(of("%s = fast_exp 1.0:f32 : f32\n store %y[0], %s\n"), "ordered(device)");
  EXPECT_EQ(of("%o = atomic.rmw<add, relaxed, grid> %h[0], 1:u32 : u32\n"), "bitwise");
  EXPECT_EQ(of("%o = atomic.rmw<add, relaxed, grid> %z[0], 1.0:f32 : f32\n"), "unordered");
  EXPECT_EQ(
      of("%o = atomic.rmw<add, relaxed, grid> %h[0], 1:u32 : u32\n %i = cast %o : index\n store %y[%i], 1.0:f32\n"),
      "unordered");
}

TEST(Manifest, SaysWhatALaunchNeeds) {
  const auto m = manifest(kernel(R"(
    %t = thread_id : index
    %s = shared.new<40> : shared f32
    %m = cast %n : index
    %c = lt %t, %m : bool
    assume "rows are padded" %c !7
    %v = load<align 16> %x[0] : f32x4
    %e = vec.extract<0> %v : f32
    %r = simd.reduce<sum> %e : f32
    store %s[0], %r
    store %y[%t], %r
)"));
  EXPECT_EQ(m["kernel"], "k");
  EXPECT_EQ(m["identity"].get<std::string>().size(), 32u);
  EXPECT_EQ(m["parameters"].size(), 6u);
  EXPECT_EQ(m["parameters"][0]["alignment"], 16);
  EXPECT_EQ(m["parameters"][5]["kind"], "scalar");
  EXPECT_EQ(m["requirements"]["threads_multiple"], 32);
  EXPECT_EQ(m["requirements"]["shared_bytes"], 160);
  EXPECT_EQ(m["assumptions"][0]["reason"], "rows are padded");
  EXPECT_EQ(m["assumptions"][0]["line"], 7);
  EXPECT_EQ(m["determinism"]["class"], "bitwise");
  EXPECT_TRUE(m["capabilities"].empty());
}

// --- copies that threads start
constexpr std::string_view copied = R"(
    %t = thread_id : index
    %k = mul %t, 4 : index
    %s = shared.new<256> : shared f32
    %o = vec.make 0.0:f32, 0.0:f32, 0.0:f32, 0.0:f32 : f32x4
    %p = lt %t, 7 : bool
    %v = load.or<align 16> %x[%k], %p, %o : f32x4
    copy.async<align 16> %s[%k], %v
    copy.commit
    copy.wait<0>
    barrier
    %r = load %s[%t] : f32
    store %y[%t], %r
)";
std::string copy_with(std::string_view from, std::string_view to) {
  std::string s(copied);
  EXPECT_NE(s.find(from), std::string::npos) << from;
  return errors(s.replace(s.find(from), from.size(), to));
}

TEST(Copies, WhatADeviceCopies) {
  EXPECT_EQ(errors(copied), "");
  EXPECT_EQ(copy_with("load.or<align 16> %x[%k], %p, %o", "load<align 16> %x[%k]"), "");
  EXPECT_EQ(copy_with("copy.async<align 16> %s[%k], %v", "copy.async<align 16> %s[%k], %o"),
            "");  // what folding leaves
  EXPECT_EQ(copy_with("copy.async<align 16> %s[%k], %v", "copy.async<align 4> %s[%k], %v"), "COPY01");
  EXPECT_EQ(copy_with("load.or<align 16>", "load.or<align 4>"), "COPY01");
  EXPECT_EQ(copy_with("vec.make 0.0:f32", "vec.make 1.0:f32"), "COPY01");
  EXPECT_EQ(copy_with("load.or<align 16> %x[%k]", "load.or<align 16> %z[%k]"), "COPY01");  // somebody may write it
  EXPECT_EQ(copy_with("vec.make 0.0:f32", "vec.make -0.0:f32"), "COPY01");
  EXPECT_EQ(copy_with("copy.async<align 16> %s[%k], %v", "%w = add %v, %v : f32x4\n copy.async<align 16> %s[%k], %w"),
            "COPY01");
  EXPECT_EQ(copy_with("copy.async<align 16> %s[%k], %v",
                      "%h2 = load<align 16> %x[%k] : f32x4\n %q = array.new<256> : thread f32\n copy.async<align 16> "
                      "%q[%k], %h2\n copy.async<align 16> %s[%k], %v"),
            "COPY01");
}

TEST(Copies, SomebodyWaits) {
  EXPECT_EQ(copy_with("copy.wait<0>", ""), "COPY02");
  EXPECT_EQ(copy_with("copy.commit", ""), "COPY02");
  EXPECT_EQ(copy_with("copy.commit\n    copy.wait<0>", "copy.wait<0>\n    copy.commit"), "COPY02");
  EXPECT_EQ(copy_with("copy.wait<0>", "copy.wait<1>"), "");  // which groups: the interpreter's to judge
  EXPECT_EQ(copy_with("copy.wait<0>\n    barrier\n    %r = load %s[%t]", "barrier\n    %r = load %s[%t]"), "COPY02");
  EXPECT_EQ(copy_with("%r = load %s[%t] : f32", "%r = load %x[%t] : f32"), "");
}

}  // namespace
}  // namespace iron::analysis
