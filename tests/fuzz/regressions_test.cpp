// What generated kernels found, each as the smallest kernel that showed it.
#include <gtest/gtest.h>

#include "analysis/contract.h"
#include "exec/exec.h"
#include "ir/text.h"
#include "judges.h"
#include "passes/pipeline.h"

namespace iron {
namespace {
using namespace ir;

TEST(Regression, SplatsOfBoolsRoundTrip) {
  const std::string text = R"(kernel @k(%y: out bool) threadgroup exact {
  %0 = thread_id : index
  %1 = simd.shuffle_xor<1> true:boolx4 : boolx4
  %2 = vec.extract<1> %1 : bool
  store %y[%0], %2
}
)";
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_THROW(parse("kernel @k(%y: out f32) threadgroup exact {\n  store %y[0], true:f32\n}\n"), Error);
}

// What a nested region needs is placed in the order of its canonical form, not of its text.
TEST(Regression, CanonicalIsStable) {
  const Kernel k = parse(R"(kernel @k(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {
  %t = thread_id : index
  %a = add %t, 1 : index
  %b = mul %t, 2 : index
  %c = lt %t, 8 : bool
  if %c {
    %p = mul %b, 3 : index
    %q = add %a, 3 : index
    %u = load %x[%q] : f32
    %v = load %x[%p] : f32
    %w = sub %v, %u : f32
    store %y[%t], %w
  }
}
)");
  const Kernel once = canonical(k);
  EXPECT_EQ(print(canonical(once)), print(once));
}

// A constant that folding finds may lie beyond the width: it is taken modulo the width, not refused (R3).
TEST(Regression, FoldedShiftAmountsAreReduced) {
  Kernel k = parse(R"(kernel @k(%x: in u32, %y: out u32) threadgroup exact {
  %t = thread_id : index
  %a = load %x[%t] : u32
  %n = add 20:u32, 20:u32 : u32
  %s = shl %a, %n : u32
  store %y[%t], %s
}
)");
  passes::PassOptions options;
  options.verify = true;
  EXPECT_NO_THROW(passes::run_pipeline(k, options));
  EXPECT_NE(print(k).find("8:u32"), std::string::npos) << print(k);
}

// A loop whose body folds away goes with it.
TEST(Regression, EmptiedLoopsGo) {
  Kernel k = parse(R"(kernel @k(%y: out f32, %n: scalar u32) threadgroup exact {
  %t = thread_id : index
  for %i = 0:u32 to %n step 1:u32 {
    if false {
      store %y[%t], 1.0:f32
    }
  }
  store %y[%t], 2.0:f32
}
)");
  passes::PassOptions options;
  options.verify = true;
  const std::string only[] = {"const_fold"};
  EXPECT_NO_THROW(passes::run_passes(k, only, options));
  EXPECT_EQ(print(k).find("for"), std::string::npos) << print(k);
}

std::vector<Diagnostic> checked(const Kernel& k, std::vector<u16>& x, std::vector<u16>& y, u64 scalar) {
  const LaunchArg args[] = {exec::buffer(x), exec::buffer(y), {nullptr, 0, scalar}};
  return analysis::check(analysis::derive(k), exec::geometry(1, 1), args);
}

// A shift by the width or more is a shift by less: its quotient form would be wrong.
TEST(Regression, TheContractTakesShiftsModuloTheWidth) {
  const Kernel k = parse(R"(kernel @k(%x: in u16, %y: out u16, %n: scalar u16) threadgroup exact {
  %s = shr %n, %n : u16
  %i = cast %s : index
  %v = load %x[%i] : u16
  store %y[0], %v
}
)");
  std::vector<u16> x(10), y(1);
  EXPECT_FALSE(checked(k, x, y, 16).empty());  // 16 >> 16 is 16
  x.resize(17);
  EXPECT_TRUE(checked(k, x, y, 16).empty());
}

// `and` with a multiple of 4 is a multiple of 4, which vectorize uses and the contract must see.
TEST(Regression, MasksShowAlignment) {
  const Kernel k = parse(R"(kernel @k(%x: in u16, %y: out u16, %n: scalar u16) threadgroup exact {
  %t = thread_id : index
  %w = load %x[%t] : u16
  %c = cast %w : index
  %i = and %c, 12 : index
  %v = load<align 8> %x[%i] : u16x4
  %e = vec.extract<0> %v : u16
  store %y[%t], %e
}
)");
  alignas(64) static u16 data[16];
  std::vector<u16> y(1);
  const LaunchArg args[] = {{data, sizeof data, 0}, exec::buffer(y), {nullptr, 0, 0}};
  EXPECT_TRUE(analysis::check(analysis::derive(k), exec::geometry(1, 1), args).empty());
}

// A vector may hold an element that is uniform beside one that varies.
TEST(Regression, BitcastOfMixedVectors) {
  const auto s = fuzz::from_text(R"(// LAUNCH groups=1,1,1 threads=32,1,1 items=0 data=58870098152343 sizes=128,64
kernel @k(%packed: in i32, %y: inout f16) threadgroup exact {
  %1 = thread_id : index
  %2 = load %packed[%1] : i32
  %3 = cast %2 : u16
  %4 = vec.make 7:u16, %3 : u16x2
  %5 = bitcast %4 : i32
  %6 = cast %5 : f16
  store %y[%1], %6
}
)",
                                 "text");
  for (const auto& judge : fuzz::judges()) {
    const auto f = fuzz::apply(judge, s);
    EXPECT_FALSE(f) << judge.name << ": " << f->detail;
  }
}

// A value of the simdgroup that lives across a barrier is kept a value a thread; as what ends a loop it is one number.
TEST(Regression, LoopEndedByAValueFromBeforeABarrier) {
  const auto s = fuzz::from_text(R"(// LAUNCH groups=1,1,1 threads=64,1,1 items=0 data=137975247756126 sizes=128,4096
kernel @k(%x: in f16, %y: out f64) threadgroup exact {
  %0 = grid_thread_id : index
  %1 = simdgroup_id : index
  %2 = load %x[%1] : f16
  %3 = gt %2, 0.0:f16 : bool
  barrier
  %4, %5 = for %6 = 0 to 5 step 1 carry(%7 = 0, %8 = false) until(1) : index, bool {
    %9 = for %10 = 0 to %0 step 1 carry(%11 = %7) : index {
      %12 = add %11, 1 : index
      yield %12
    }
    yield %9, %3
  }
  %13 = cast %4 : f64
  store %y[%0], %13
}
)",
                                 "text");
  for (const auto& judge : fuzz::judges()) {
    const auto f = fuzz::apply(judge, s);
    EXPECT_FALSE(f) << judge.name << ": " << f->detail;
  }
}

// The guard of the subscript itself is found however many other facts share its terms.
TEST(Regression, GuardBesideManyFacts) {
  const Kernel k = parse(R"(kernel @k(%x: in f32, %y: out f32) threadgroup exact {
  %t = thread_id : index
  %g = grid_thread_id : index
  %l = lane_id : index
  %r = rem %t, 25 : index
  %m = min %r, 10 : index
  %d = add %t, %t : index
  %q = max %t, %d : index
  %n = rem %q, 22 : index
  %f = mul %m, 4 : index
  %i = sub %l, %f : index
  %a = lt %i, 31 : bool
  %b = ge %i, 0 : bool
  %c = and %a, %b : bool
  %e = lt %n, %g : bool
  %h = and %c, %e : bool
  %v = load.or %x[%i], %h, 0.0:f32 : f32
  store %y[%g], %v
}
)");
  std::vector<f32> x(32), y(64);
  const LaunchArg args[] = {exec::buffer(x), exec::buffer(y)};
  EXPECT_TRUE(analysis::check(analysis::derive(k), exec::geometry(2, 32), args).empty());
}

// Every select opens two contexts: thirty in one another must not take a power of two.
TEST(Regression, NestedSelectsStayCheap) {
  std::string text = R"(kernel @k(%x: in u16, %y: out u16, %n: scalar u16) threadgroup exact {
  %t = thread_id : index
  %v0 = rem %t, 9 : index
)";
  for (int i = 0; i < 30; ++i)
    text += "  %c" + std::to_string(i) + " = lt %v" + std::to_string(i) + ", " + std::to_string(i % 7) +
            " : bool\n  %v" + std::to_string(i + 1) + " = select %c" + std::to_string(i) + ", %t, %v" +
            std::to_string(i) + " : index\n";
  text += "  %r = rem %v30, 8 : index\n  %u = load %x[%r] : u16\n  store %y[%t], %u\n}\n";
  std::vector<u16> x(8), y(1);
  EXPECT_TRUE(checked(ir::parse(text), x, y, 0).empty());
}

}  // namespace
}  // namespace iron
