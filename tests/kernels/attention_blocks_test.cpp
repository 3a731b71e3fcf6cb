// What a head gets from attention over the cache does not depend on the queries and heads that share a threadgroup.
#include <gtest/gtest.h>

#include <random>

#include "attention/cached.h"
#include "iron/runtime/device.h"

namespace iron::kernels {
namespace {

template <class T>
std::vector<T> normal(u64 n, u32 seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<f32> values(0.0f, 1.5f);
  std::vector<T> out;
  for (u64 i = 0; i < n; ++i) out.push_back(static_cast<T>(values(engine)));
  return out;
}

template <class T>
void blocks_agree(const Device& device) {
  constexpr u32 tokens = 5, heads = 6, heads_per_kv = 3, dim = 64, capacity = 192, first = 120;
  const auto q = device.buffer(normal<f32>(tokens * heads * dim, 1));
  const u64 cells = u64{heads / heads_per_kv} * capacity * dim;
  const auto keys = device.buffer(normal<T>(cells, 2)), values = device.buffer(normal<T>(cells, 3));
  const auto run = [&](u32 queries, u32 block_heads) {
    auto out = device.buffer<f32>(tokens * heads * dim);
    out.fill_bytes(0xff);
    device.launch(CachedAttention<T>{.q = q,
                                     .keys = keys,
                                     .values = values,
                                     .out = out,
                                     .tokens = tokens,
                                     .heads = heads,
                                     .heads_per_kv = heads_per_kv,
                                     .capacity = capacity,
                                     .first = first,
                                     .scale = 0.125f,
                                     .head_dim = dim,
                                     .block_queries = queries,
                                     .block_heads = block_heads});
    device.synchronize();
    return out.to_host();
  };
  const auto want = run(1, 1);
  for (const f32 x : want) ASSERT_TRUE(std::isfinite(x));
  for (const auto [queries, block_heads] : {std::pair{1u, 3u}, {4u, 1u}, {2u, 3u}, {5u, 1u}}) {
    const auto got = run(queries, block_heads);
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(f32)), 0)
        << queries << " queries, " << block_heads << " heads";
  }
}

TEST(AttentionBlocks, AgreeOnTheCpu) {
  const Device device = Device::open("cpu");
  blocks_agree<f32>(device);
  blocks_agree<f16>(device);
}

TEST(AttentionBlocks, AgreeInTheInterpreter) { blocks_agree<f32>(Device::open("interpreter")); }

}  // namespace
}  // namespace iron::kernels
