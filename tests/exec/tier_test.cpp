// Kernels of the Hopper tier give their oracle's results, without findings, in every schedule.
#include <gtest/gtest.h>

#include "tier_kernels.h"

namespace iron::exec::tier {
namespace {

class TierSchedules : public ::testing::TestWithParam<Schedule> {
 protected:
  void runs(const Case& c, u32 seeds = 1) {
    for (u64 seed = 1; seed <= seeds; ++seed) {
      f32 error = 0;
      const Result r = c.run(*c.kernel, {.schedule = GetParam(), .seed = seed}, error);
      EXPECT_TRUE(r.clean()) << r.render();
      EXPECT_LE(error, c.tolerance);
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, TierSchedules, ::testing::ValuesIn(all_schedules));

TEST_P(TierSchedules, CopyThroughARing) { runs(copy_case(80, 192, 2), 3); }
TEST_P(TierSchedules, CopyWithEdgesOutsideTheTensor) { runs(copy_case(37, 104, 1)); }
TEST_P(TierSchedules, Gemm) { runs(gemm_case(256, 128, 320, 1, 2), 2); }
TEST_P(TierSchedules, GemmOfAClusterSharesB) { runs(gemm_case(512, 128, 320, 2, 2), 2); }
TEST_P(TierSchedules, GemmWithEdges) { runs(gemm_case(200, 72, 200, 2, 4)); }
TEST_P(TierSchedules, Attention) { runs(attention_case(384, 256, 2)); }
TEST_P(TierSchedules, RoleBarriersOrderPlainMemory) { runs(exchange_case(5), 3); }
TEST_P(TierSchedules, ClusterReadsItsPeers) { runs(cluster_case()); }
TEST_P(TierSchedules, ClusterSharesTheDepth) { runs(split_case(70, 20, 392, 2), 2); }

}  // namespace
}  // namespace iron::exec::tier
