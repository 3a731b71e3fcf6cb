// The choice of a GEMM blocking.
#include <gtest/gtest.h>

#include <set>

#include "gemm/gemm.h"
#include "iron/library.h"

namespace iron::kernels {
namespace {

TEST(SteelGemmFor, NamesRegisteredKernels) {
  std::set<std::string> names;
  for (const auto& e : standard_library().entries()) names.insert(e.name);
  for (const auto& member : steel_gemm_members()) EXPECT_TRUE(names.contains("iron_" + member.name)) << member.name;
}

TEST(SteelGemmFor, LargeShapesGetLargeTiles) {
  const auto choice = steel_gemm_for(4096, 4096, 4096, DType::f16, 132);
  EXPECT_EQ(choice.spec.bm, 64u);
  EXPECT_EQ(choice.spec.bn, 64u);
}

TEST(SteelGemmFor, SmallSidesGetSmallBlocks) {
  EXPECT_EQ(steel_gemm_for(32, 4096, 1024, DType::f32).spec.bm, 32u);
  EXPECT_EQ(steel_gemm_for(4096, 32, 1024, DType::f32).spec.bn, 32u);
  EXPECT_EQ(steel_gemm_for(1, 1, 1, DType::bf16).spec.bm, 32u);
}

TEST(SteelGemmFor, ManyCoresGetMoreThreadgroups) {
  EXPECT_EQ(steel_gemm_for(64, 64, 1024, DType::f32, 4).spec.bm, 32u);
  EXPECT_EQ(steel_gemm_for(64, 64, 1024, DType::f32, 1).spec.bm, 64u);
}

TEST(CpuGemmFor, SharesRowsEvenlyAndFeedsEveryWorker) {
  const auto large = cpu_gemm_for(1024, 1024, 1024, DType::f32);
  EXPECT_EQ(large.bm, 516u);  // two even parts of 512 rows, up to a multiple of 6
  EXPECT_EQ(large.bn, 512u);
  EXPECT_EQ(large.bk, 256u);
  EXPECT_EQ(cpu_gemm_for(1024, 1024, 1024, DType::bf16).bk, 512u);
  const auto shared = cpu_gemm_for(512, 512, 512, DType::f32, 4);
  EXPECT_GE((512 + shared.bm - 1) / shared.bm, 8u);
  EXPECT_EQ(shared.bm % 6, 0u);
  const auto tiny = cpu_gemm_for(1, 3, 2, DType::f32, 8);
  EXPECT_EQ(tiny.bm, 6u);
  EXPECT_EQ(tiny.bn, 16u);
  EXPECT_THROW(cpu_gemm_for(0, 1, 1, DType::f32), Error);
}

TEST(SteelGemmFor, RefusesEmptyProducts) {
  try {
    steel_gemm_for(4, 0, 4, DType::f32);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "LIB03");
  }
}

}  // namespace
}  // namespace iron::kernels
