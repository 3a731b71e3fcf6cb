// Uniformity and convergence (R5), and affine index polynomials.
#include <gtest/gtest.h>

#include "analysis/affine.h"
#include "analysis/uniformity.h"
#include "ir/text.h"

namespace iron::analysis {
namespace {
using namespace ir;

Kernel kernel(std::string_view body) {
  return parse("kernel @k(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {\n" + std::string(body) + "}\n");
}
std::string first_code(std::string_view body) {
  const auto found = verify_convergence(kernel(body));
  return found.empty() ? "" : found[0].code;
}

TEST(Convergence, AcceptsUniformControl) {
  EXPECT_EQ(first_code(R"(
    %g = group_id<x> : index
    %m = cast %n : index
    %c = lt %g, %m : bool
    if %c {
      barrier
      %r = for %i = 0 to %m step 1 carry(%a = 0.0:f32) : f32 {
        %v = load %x[%i] : f32
        %s = simd.reduce<sum> %v : f32
        %t = add %s, %a : f32
        yield %t
      }
      store %y[%g], %r
    })"),
            "");
}
TEST(Convergence, RefusesABarrierUnderAThreadCondition) {
  EXPECT_EQ(first_code("%t = thread_id : index\n %c = lt %t, 3 : bool\n if %c {\n barrier\n }\n"), "D22");
}
TEST(Convergence, RefusesASimdOpInAThreadStridedLoop) {
  EXPECT_EQ(first_code(R"(
    %t = thread_id : index
    %m = cast %n : index
    %z = group_size : index
    for %i = %t to %m step %z {
      %v = load %x[%i] : f32
      %s = simd.reduce<sum> %v : f32
      store %y[%i], %s
    })"),
            "D30");
}
TEST(Convergence, SimdgroupConditionsAllowSimdOpsButNoBarrier) {
  constexpr std::string_view text =
      "%g = simdgroup_id : index\n %c = eq %g, 0 : bool\n if %c {\n %s = simd.reduce<sum> 1.0:f32 : f32\n store "
      "%y[%g], %s\n ";
  EXPECT_EQ(first_code(std::string(text) + "}\n"), "");
  EXPECT_EQ(first_code(std::string(text) + "barrier\n }\n"), "D22");
}
TEST(Convergence, AVaryingExitMakesTheLoopVarying) {
  constexpr std::string_view loop = R"(
    %b = load %x[{}] : f32
    %d = gt %b, 1.0:f32 : bool
    %r = for %i = 0 to 8 step 1 carry(%done = false) until(0) : bool {
      barrier
      store %y[%i], 1.0:f32
      yield %d
    })";
  const auto with = [&](std::string_view index) {
    std::string s(loop);
    s.replace(s.find("{}"), 2, index);
    return "%t = thread_id : index\n" + s;
  };
  EXPECT_EQ(first_code(with("0")), "");
  EXPECT_EQ(first_code(with("%t")), "D30");
}

TEST(Affine, UnifiesAddressTrees) {
  const Kernel k = kernel(R"(
    %g = group_id<x> : index
    %m = cast %n : index
    %t = thread_id : index
    %base = mul %g, %m : index
    %a0 = add %base, %t : index
    %a1 = add %a0, 1 : index
    %t3 = add %t, 3 : index
    %p = mul %m, %g : index
    %a3 = add %t3, %p : index
    %v = load %x[%a1] : f32
    store %y[%a3], %v
  )");
  OpId load = none, store = none;
  k.walk([&](OpId id) {
    if (k.op(id).code == Opcode::Load) load = id;
    if (k.op(id).code == Opcode::Store) store = id;
  });
  Affine affine(k);
  EXPECT_EQ(affine.distance(k.operand(load, 1), k.operand(store, 1)), 2);
}

}  // namespace
}  // namespace iron::analysis
