// The host functions that pick a kernel of a family by shape: every choice is one that the kernel accepts.
#include <gtest/gtest.h>

#include "gemv/gemv.h"
#include "norm/norm.h"

namespace iron::kernels {
namespace {

TEST(Selectors, RmsNorm) {
  EXPECT_EQ(rms_norm_for(64), RmsNormForm::small);
  EXPECT_EQ(rms_norm_for(512), RmsNormForm::small);
  EXPECT_EQ(rms_norm_for(576), RmsNormForm::wide);
  EXPECT_EQ(rms_norm_for(640), RmsNormForm::rows);
  EXPECT_EQ(rms_norm_for(4096), RmsNormForm::rows);
  EXPECT_EQ(rms_norm_for(8192), RmsNormForm::wide);
  EXPECT_EQ(rms_norm_for(33), RmsNormForm::wide);
  for (u32 n = 1; n <= 10000; ++n) {
    const auto form = rms_norm_for(n);
    if (form == RmsNormForm::wide) continue;
    const u32 per_thread = form == RmsNormForm::small ? 2 : 4;
    EXPECT_EQ(n % (32 * per_thread), 0u) << n;
    EXPECT_LE(n / per_thread, 1024u) << n;
  }
}

TEST(Selectors, Gemv) {
  EXPECT_EQ(gemv_for(10240, 320), GemvForm::warp_rows);
  EXPECT_EQ(gemv_for(4096, 4096), GemvForm::rows);
  EXPECT_EQ(gemv_for(1, 320), GemvForm::rows);
}

}  // namespace
}  // namespace iron::kernels
