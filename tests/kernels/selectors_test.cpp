// The host functions that pick a kernel of a family by shape: every choice is one that the kernel accepts.
#include <gtest/gtest.h>

#include "attention/cached.h"
#include "attention/decode.h"
#include "attention/decode_tma.h"
#include "attention/prefill.h"
#include "gemm/split_k_tma.h"
#include "gemv/gemv.h"
#include "norm/norm.h"
#include "softmax/select.h"

namespace iron::kernels {
namespace {

TEST(Selectors, RmsNorm) {
  EXPECT_EQ(rms_norm_for(64), RmsNormForm::small);
  EXPECT_EQ(rms_norm_for(512), RmsNormForm::small);
  EXPECT_EQ(rms_norm_for(576), RmsNormForm::wide);
  EXPECT_EQ(rms_norm_for(640), RmsNormForm::rows);
  EXPECT_EQ(rms_norm_for(4096), RmsNormForm::rows);
  EXPECT_EQ(rms_norm_for(8192), RmsNormForm::registers);
  EXPECT_EQ(rms_norm_for(33 * 1024), RmsNormForm::wide);
  EXPECT_EQ(rms_norm_for(8200), RmsNormForm::wide);
  EXPECT_EQ(rms_norm_for(33), RmsNormForm::wide);
  for (u32 n = 1; n <= 10000; ++n) {
    const auto form = rms_norm_for(n);
    if (form == RmsNormForm::wide) continue;
    const u32 per_thread = form == RmsNormForm::small ? 2 : form == RmsNormForm::rows ? 4 : 32;
    EXPECT_EQ(n % (32 * per_thread), 0u) << n;
    EXPECT_LE(n / per_thread, 1024u) << n;
  }
}

TEST(Selectors, Gemv) {
  EXPECT_EQ(gemv_for(10240, 320, 4, 132), GemvForm::warp_rows);
  EXPECT_EQ(gemv_for(4096, 4096, 2, 132), GemvForm::stream);
  EXPECT_EQ(gemv_for(4096, 4100, 4, 132), GemvForm::stream);
  EXPECT_EQ(gemv_for(4096, 4100, 2, 132), GemvForm::rows);
  EXPECT_EQ(gemv_for(1, 320, 4, 132), GemvForm::rows);
  EXPECT_EQ(gemv_for(4096, 4096, 2, 1), GemvForm::rows);
}

TEST(Selectors, RowsInRegisters) {
  EXPECT_EQ(softmax_for(8192), SoftmaxForm::registers);
  EXPECT_EQ(softmax_for(1024), SoftmaxForm::any);
  EXPECT_EQ(softmax_for(8000), SoftmaxForm::any);
  EXPECT_EQ(softmax_for(65536), SoftmaxForm::any);
  EXPECT_EQ(layer_norm_for(32768), LayerNormForm::registers);
  EXPECT_EQ(layer_norm_for(0), LayerNormForm::any);
  EXPECT_EQ(register_row_groups(4 * 8192, 8192, 32).threads.x, 256u);
  EXPECT_EQ(register_row_groups(0, 0, 32).groups.x, 0u);
  EXPECT_THROW(register_row_groups(4 * 8200, 8200, 32), Error);  // would leave elements of each row to nobody
  EXPECT_THROW(register_row_groups(65536, 65536, 32), Error);
}

TEST(Selectors, CachedAttentionHeads) {
  EXPECT_EQ(cached_attention_heads(9, 3, 1), 3u);
  EXPECT_EQ(cached_attention_heads(9, 3, 2), 3u);
  EXPECT_EQ(cached_attention_heads(9, 3, 4), 1u);  // three threadgroups would leave a core idle
  EXPECT_EQ(cached_attention_heads(9, 3, 132), 1u);
  EXPECT_EQ(cached_attention_heads(32, 8, 1), 4u);
  EXPECT_EQ(cached_attention_heads(32, 8, 16), 2u);
  EXPECT_EQ(cached_attention_heads(8, 8, 1), 4u);
  EXPECT_EQ(cached_attention_heads(7, 1, 1), 1u);
  EXPECT_EQ(cached_attention_heads(10, 5, 1), 1u);  // five have sums too many for registers
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

TEST(Selectors, SplitK) {
  EXPECT_EQ(split_k_parts(96, 512, 2048, 132), 8u);  // 8 tiles ask for 33, a part has four of the 32 blocks
  EXPECT_EQ(split_k_parts(64, 64, 16384, 132), 64u);
  EXPECT_EQ(split_k_parts(16, 8192, 8192, 132), 5u);
  EXPECT_EQ(split_k_parts(4096, 4096, 4096, 132), 1u);
  EXPECT_EQ(split_k_parts(1, 1, 1, 132), 1u);
  for (const u32 k : {1u, 64u, 65u, 4096u, 5120u, 16384u})
    for (u32 tiles = 1; tiles < 300; ++tiles) {
      const u32 parts = split_k_parts(64, 128 * tiles, k, 132), blocks = (k + 63) / 64;
      EXPECT_GE(parts, 1u);
      EXPECT_LE(parts, blocks);
      EXPECT_LT((parts - 1) * ((blocks + parts - 1) / parts), blocks) << "an empty part: " << k << ", " << tiles;
    }
  EXPECT_EQ(split_k_tma_for(256, 96, 5120, 132).cluster, 8u);
  EXPECT_EQ(split_k_tma_for(64, 64, 16384, 132).cluster, 8u);
  EXPECT_EQ(split_k_tma_for(96, 512, 2048, 132).cluster, 4u);  // clusters of 8 would run in two waves
  EXPECT_EQ(split_k_tma_for(128, 4096, 4096, 132).cluster, 2u);
  const auto many = split_k_tma_for(64, 128 * 100, 4096, 132);
  EXPECT_EQ(many.cluster, 1u);
  EXPECT_EQ(many.splits, 3u);
  EXPECT_THROW(split_k_tma_for(0, 64, 64, 132), Error);
}

TEST(Selectors, AttentionDecodeOfTheTier) {
  EXPECT_EQ(attention_decode_for(256, 4096, 132).splits, 1u);
  EXPECT_EQ(attention_decode_for(32, 8192, 132).cluster, 2u);  // 64 threadgroups draw what the memory gives
  EXPECT_EQ(attention_decode_for(8, 8192, 132).cluster, 8u);
  const auto one = attention_decode_for(1, 8192, 132);
  EXPECT_EQ(one.cluster, 1u);
  EXPECT_EQ(one.splits, 64u);
  EXPECT_EQ(attention_decode_for(8, 100, 132).splits, 1u);  // one block of keys
  for (const u32 pairs : {1u, 3u, 8u, 100u, 131u, 133u, 500u})
    for (const u32 length : {1u, 127u, 129u, 1000u, 40000u}) {
      const auto c = attention_decode_for(pairs, length, 132);
      EXPECT_LE(c.splits, (length + 127) / 128) << pairs << ", " << length;
      EXPECT_TRUE(c.cluster == 1 || (c.cluster == c.splits && c.cluster <= 8));
    }
  EXPECT_THROW(attention_decode_for(0, 1, 132), Error);
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
