// The Hopper tier's text, types and flow on a small kernel: one loading and one using role.
#include <gtest/gtest.h>

#include "analysis/tier_flow.h"
#include "analysis/uniformity.h"
#include "analysis/verify.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace iron::analysis {
namespace {

using namespace ir;

constexpr std::string_view product =
    R"(kernel @demo(%a: in tensor bf16, %c: out tensor bf16, %k: scalar u32) threadgroup exact {
  file 0 "kernels/demo.cpp"
  %0 = cast %k : index !10
  %1 = pipe.new<2> : pipe !11
  %2 = shared.new<8192> : shared bf16[64 x 64, b128] !12
  %3 = shared.new<4096> : shared bf16[64 x 64, b128] !13
  roles "load 1 40 one; mma 1 232 all" { !14
    for %4 = 0 to %0 step 1 { !15
      %5 = pipe.acquire %1 : index !16
      pipe.expect<8192> %1, %5 !16
      %6 = shared.view %2[%5], 0, 0 : view bf16[64 x 64, b128] !17
      tma.load %a, %6, %1, %5, %4, 0 !17
    }
  } else {
    %7 = acc.new : acc f32[64 x 64] !20
    for %8 = 0 to %0 step 1 { !21
      %9 = pipe.wait %1 : index !22
      %10 = shared.view %2[%9], 0, 0 : view bf16[64 x 64, b128] !23
      %11 = ne %8, 0 : bool !23
      acc.mma<64, bt> %7, %10, %10, %11 !23
      acc.settle<0> !24
      pipe.release<0> %1 !25
    }
    %12 = acc.value %7 : frag f32[64 x 64] !28
    %13 = cast %12 : frag bf16[64 x 64] !28
    %14 = shared.view %3[0], 0, 0 : view bf16[64 x 64, b128] !27
    frag.put %14, %13 !28
    tma.store %c, %14, 0, 0 !29
  }
}
)";

OpId find(const Kernel& k, Opcode code, int number = 0) {
  OpId found = none;
  k.walk([&](OpId id) {
    if (k.op(id).code == code && number-- == 0) found = id;
  });
  return found;
}
Kernel changed(std::string_view from, std::string_view to) {
  std::string text(product);
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return parse(text.replace(at, from.size(), to));
}

TEST(Tier, TextRoundTrips) {
  const Kernel k = parse(product);
  EXPECT_EQ(print(k), product);
  EXPECT_EQ(print(canonical(k)), product);
  EXPECT_TRUE(k.params[0].tensor);
  EXPECT_FALSE(k.params[2].tensor);
}

TEST(Tier, TypesSayTheirShapes) {
  for (const Type t :
       {Type::frag(DType::bf16, 64, 128), Type::row_values(DType::f32, 64), Type::acc(DType::f32, 64, 256),
        Type::view(DType::u8, 8, 128, Swizzle::b64), Type::object(TypeKind::pipe), Type::object(TypeKind::turn)}) {
    EXPECT_FALSE(to_string(t).empty());
    EXPECT_NE(to_string(t), "none");
  }
  EXPECT_EQ(to_string(Type::frag(DType::bf16, 64, 128)), "frag bf16[64 x 128]");
  EXPECT_EQ(Type::frag(DType::f32, 64, 256).lanes, 128);  // each of 128 threads holds half a row pair
  EXPECT_EQ(Type::row_values(DType::f32, 64).lanes, 2);
}

TEST(Tier, ASoundKernelHasNoFindings) {
  for (const auto& d : verify(parse(product))) ADD_FAILURE() << d.render();
}

TEST(Tier, BoxesAndBytesFollowFromViews) {
  const Kernel k = parse(product);
  const auto boxes = tensor_boxes(k);
  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[0].param, 0u);
  EXPECT_EQ(boxes[0].rank, 2u);
  EXPECT_EQ(boxes[0].box[0], 64u);
  EXPECT_EQ(boxes[0].box[1], 64u);
  EXPECT_EQ(boxes[0].swizzle, Swizzle::b128);
  EXPECT_EQ(expected_bytes(k, find(k, Opcode::PipeAcquire)), 8192u);
  // A row wider than the swizzle lies in panels.
  EXPECT_EQ(panel_cols(Type::shared2d(DType::bf16, 64, 128, Swizzle::b128)), 64u);
  EXPECT_EQ(panel_bytes(Type::shared2d(DType::bf16, 64, 128, Swizzle::b128)), 8192u);
}

TEST(Tier, RolesAreRead) {
  std::string problem;
  const auto roles = parse_roles("load 1 40 one; mma 2 232 all", &problem);
  ASSERT_EQ(roles.size(), 2u) << problem;
  EXPECT_EQ(roles[0], (RoleSpec{"load", 1, 40, true}));
  EXPECT_EQ(roles[1], (RoleSpec{"mma", 2, 232, false}));
  EXPECT_EQ(roles_text(roles), "load 1 40 one; mma 2 232 all");
  EXPECT_TRUE(parse_roles("load 1 40", &problem).empty());
  EXPECT_NE(problem.find("load 1 40"), std::string::npos);
}

TEST(Tier, ControlOfARoleIsUniformOverItsWarpgroupsOnly) {
  const Kernel k = parse(product);
  const Uniformity u(k);
  EXPECT_EQ(u.control(k.op(find(k, Opcode::PipeAcquire)).region), Scope::lane);
  EXPECT_EQ(u.control(k.op(find(k, Opcode::AccNew)).region), Scope::role);
  EXPECT_EQ(u.control(k.op(find(k, Opcode::PipeWait)).region), Scope::role);
}

TEST(TierFlow, ASettledSlotGoesBackByName) {
  const Kernel k = parse(product);
  const auto flow = tier_flow(k);
  const auto& plan = flow.releases.at(find(k, Opcode::PipeRelease));
  EXPECT_TRUE(plan.exact);
  EXPECT_EQ(plan.waits, std::vector<OpId>{find(k, Opcode::PipeWait)});
  EXPECT_TRUE(flow.counted.empty());
  EXPECT_EQ(flow.settled.at(find(k, Opcode::AccSettle)), std::vector<OpId>{find(k, Opcode::AccMma)});
}

TEST(TierFlow, ABatchInFlightOverTheBackEdgeEndsInTheNextTrip) {
  const Kernel k = changed("      acc.settle<0> !24\n      pipe.release<0> %1 !25\n    }\n",
                           "      acc.settle<1> !24\n      pipe.release<1> %1 !25\n    }\n    acc.settle<0> !26\n    "
                           "pipe.release<0> %1 !26\n");
  for (const auto& d : verify(k)) ADD_FAILURE() << d.render();
  const auto flow = tier_flow(k);
  EXPECT_EQ(flow.settled.at(find(k, Opcode::AccSettle, 0)), std::vector<OpId>{find(k, Opcode::AccMma)});
  const auto &in_loop = flow.releases.at(find(k, Opcode::PipeRelease, 0)),
             &after = flow.releases.at(find(k, Opcode::PipeRelease, 1));
  EXPECT_FALSE(in_loop.exact);  // nothing in the first trip, the slot before in the others
  EXPECT_EQ(in_loop.least, 0u);
  EXPECT_EQ(in_loop.most, 1u);
  EXPECT_FALSE(after.exact);  // nothing if the loop did not run
  EXPECT_EQ(after.most, 1u);
  EXPECT_EQ(flow.counted.size(), 1u);
}

TEST(TierFlow, HoldingEverySlotNeverEnds) {
  const Kernel k = changed("      acc.settle<0> !24\n      pipe.release<0> %1 !25\n", "      acc.settle<0> !24\n");
  const auto flow = tier_flow(k);
  ASSERT_FALSE(flow.problems.empty());
  EXPECT_EQ(flow.problems[0].code, "TIER04");
}

}  // namespace
}  // namespace iron::analysis
