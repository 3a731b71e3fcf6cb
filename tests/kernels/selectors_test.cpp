// The host functions that pick a kernel of a family by shape: every choice is one that the kernel accepts.
#include <gtest/gtest.h>

#include "attention/decode.h"
#include "attention/prefill.h"
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

TEST(Selectors, SdpaDecode) {
  EXPECT_FALSE(sdpa_decode_for(32, 8, 8192).two_pass);        // a CPU core has work enough in one head
  EXPECT_FALSE(sdpa_decode_for(32, 8, 100, 132).two_pass);    // too few keys to share out
  EXPECT_FALSE(sdpa_decode_for(128, 8, 8192, 132).two_pass);  // heads enough for the cores
  EXPECT_TRUE(sdpa_decode_for(32, 8, 8192, 132).two_pass);
  u32 blocks = 0;
  for (const u32 n : {600u, 1024u, 1025u, 8192u, 32768u, 65536u, 131072u}) {
    const auto choice = sdpa_decode_for(8, 8, n, 132);
    EXPECT_TRUE(choice.two_pass) << n;
    EXPECT_GE(choice.blocks, blocks) << n;
    blocks = choice.blocks;
  }
  EXPECT_EQ(blocks, 1024u);
  EXPECT_THROW(sdpa_decode_for(6, 4, 100), Error);
  EXPECT_THROW(sdpa_decode_for(0, 4, 100), Error);
}

TEST(Selectors, SdpaPrefill) {
  EXPECT_EQ(sdpa_prefill_for(512, 128), PrefillForm::tile);
  EXPECT_EQ(sdpa_prefill_for(4, 128), PrefillForm::simd);
  EXPECT_EQ(sdpa_prefill_for(512, 72), PrefillForm::simd);
  for (const u32 dim : {32u, 64u, 96u, 128u, 256u, 512u})
    for (const u32 queries : {1u, 2u, 4u, 8u, 32u}) {
      const AttentionShape shape{.dim = dim, .queries = queries, .keys = attention_keys(dim, queries)};
      EXPECT_EQ(32 % shape.pairs(), 0u) << dim << " x " << queries;
    }
}

}  // namespace
}  // namespace iron::kernels
