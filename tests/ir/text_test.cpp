// IR text: round trip, canonical order, promotion, errors that point into the text.
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/promote.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace iron::ir {
namespace {

constexpr std::string_view softmax_like =
    R"(kernel @demo(%x: in f16, %y: out f16, %n: scalar u32, %eps: scalar f32) threadgroup exact spec "bm=4" {
  file 0 "kernels/demo.cpp"
  %0 = group_id<x> : index !12
  %1 = cast %n : index !12
  %2 = mul %0, %1 : index !12
  %3 = thread_id : index !14
  %4 = group_size : index !14
  %5 = for %6 = %3 to %1 step %4 carry(%7 = 0.0:f32) : f32 { !14
    %8 = add %2, %6 : index !15
    %9 = load %x[%8] : f16 !15
    %10 = cast %9 : f32 !15
    %11 = fma %10, %10, %7 : f32 !16
    yield %11 !14
  }
  %12 = group.reduce<sum> %5 : f32 !18
  %13 = add %12, %eps : f32 !18
  %14 = rsqrt %13 : f32 !18
  %15 = lt %3, %1 : bool !19
  %16 = if %15 : f32 { !19
    yield %14 !19
  } else {
    yield nan(0x7fc00001):f32 !19
  }
  if %15 { !20
    %17 = cast %16 : f16 !21
    store<align 4, stream> %y[%3], %17 !21
  }
}
)";

TEST(IrText, RoundTripsByteForByte) {
  const Kernel k = parse(softmax_like);
  EXPECT_EQ(print(k), softmax_like);
  const auto text = print(canonical(k));
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_EQ(print(canonical(parse(text))), text);
}

TEST(IrText, ListsOnlyFilesThatItNames) {  // constants are printed inline, without their place
  Kernel k =
      parse("kernel @k(%y: out f32) elementwise exact {\n  file 0 \"op.h\"\n  %0 = grid_thread_id : index !3\n}\n");
  Builder b(k);
  b.set_location(k.intern_location("constant.h", 7));
  b.const_float(DType::f32, 1.5);
  const auto text = print(k);
  EXPECT_EQ(text.find("constant.h"), std::string::npos);
  EXPECT_EQ(print(parse(text)), text);
}

TEST(IrText, CanonicalOrderIgnoresTheOrderOfPureOps) {
  const auto text = [](std::string_view body) {
    return "kernel @k(%x: in f32, %y: out f32) elementwise exact {\n" + std::string(body) + "}\n";
  };
  const Kernel a =
      parse(text("  %0 = grid_thread_id : index\n  %1 = load %x[%0] : f32\n  %2 = load %x[0] : f32\n  %3 = sub %1, %2 "
                 ": f32\n  store %y[%0], %3\n"));
  const Kernel b =
      parse(text("  %2 = load %x[0] : f32\n  %9 = neg %2 : f32\n  %0 = grid_thread_id : index\n  %1 = load %x[%0] : "
                 "f32\n  %3 = sub %1, %2 : f32\n  store %y[%0], %3\n"));
  EXPECT_EQ(identity(a), identity(b));
}

struct Bad {
  std::string_view body, code, word;
};
class IrErrors : public ::testing::TestWithParam<Bad> {};
TEST_P(IrErrors, NameTheFault) {
  const auto text = "kernel @k(%x: in f32, %y: out f32, %i: scalar index) elementwise exact {\n" +
                    std::string(GetParam().body) + "\n}\n";
  try {
    parse(text);
    FAIL() << "accepted: " << GetParam().body;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), GetParam().code) << e.what();
    EXPECT_NE(std::string(e.what()).find(GetParam().word), std::string::npos) << e.what();
  }
}
INSTANTIATE_TEST_SUITE_P(
    Text, IrErrors,
    ::testing::Values(Bad{"  %0 = lod %x[%i] : f32", "IR0010", "lod"}, Bad{"  %0 = load %z[%i] : f32", "IR0006", "%z"},
                      Bad{"  %0 = load %x[%i] : f16", "IR0101", "f16"}, Bad{"  store %x[%i], 1.0:f32", "D24", "x"},
                      Bad{"  %0 = add 1.0:f32, 1 : f32", "IR0101", "one type"},
                      Bad{"  %0 = load %x[%i] : f32\n  %0 = load %x[%i] : f32", "IR0004", "twice"},
                      Bad{"  %0 = shl 1:u32, 32:u32 : u32", "D23", "32"}, Bad{"  if 3 { }", "IR0214", "bool"},
                      Bad{"  for %1 = 0 to 4 step 0 {\n store %y[%i], 1.0:f32 }", "D02", "step"},
                      Bad{"  for %1 = 0 to 4 step 1 { }", "D06", "empty"},
                      Bad{"  %0 = load %x[%i : f32", "IR0002", "]"},
                      Bad{"  store %y[%i], 1:u32", "IR0101", "explicit cast"}));

TEST(IrPromote, LoopsAndBranchesCarryVariables) {
  Kernel k = parse(R"(kernel @p(%y: out f32, %c: scalar bool) elementwise exact {
  %0 = slot.new : f32
  slot.store %0, 0.0:f32
  for %1 = 0 to 8 step 1 {
    %2 = slot.load %0 : f32
    %3 = add %2, 1.0:f32 : f32
    if %c {
      slot.store %0, %3
    }
  }
  %4 = slot.load %0 : f32
  store %y[0], %4
}
)");
  promote_slots(k);
  EXPECT_TRUE(verify_structure(k).empty());
  EXPECT_EQ(print(canonical(k)), R"(kernel @p(%y: out f32, %c: scalar bool) elementwise exact {
  %0 = for %1 = 0 to 8 step 1 carry(%2 = 0.0:f32) : f32 {
    %3 = add %2, 1.0:f32 : f32
    %4 = if %c : f32 {
      yield %3
    } else {
      yield %2
    }
    yield %4
  }
  store %y[0], %0
}
)");
}

TEST(IrPromote, ReadBeforeAssignmentIsRefused) {
  Kernel k = parse(
      "kernel @p(%y: out f32) elementwise exact {\n  %0 = slot.new : f32\n  %1 = slot.load %0 : f32\n  store %y[0], "
      "%1\n}\n");
  try {
    promote_slots(k);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "D32");
  }
}

}  // namespace
}  // namespace iron::ir
