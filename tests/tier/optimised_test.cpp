// Tier kernels of the library, and the small ones, as the compiler leaves them: without findings in every schedule, and
// right.
#include <gtest/gtest.h>

#include "gemm/gemm_tma.h"
#include "runtime/compile.h"
#include "tier_kernels.h"

namespace iron::exec::tier {
namespace {

void runs_optimised(const Case& c) {
  const auto compiled = runtime::compile_for("interpreter", c.kernel);
  for (const Schedule schedule : all_schedules) {
    f32 error = 0;
    const Result r = c.run(*compiled->optimised, {.schedule = schedule, .seed = 11}, error);
    EXPECT_TRUE(r.clean()) << r.render();
    EXPECT_LE(error, c.tolerance);
  }
}

TEST(TierOptimised, Copy) { runs_optimised(copy_case(37, 104, 1)); }
TEST(TierOptimised, Gemm) { runs_optimised(gemm_case(256, 128, 320, 1, 2)); }
TEST(TierOptimised, GemmOfACluster) { runs_optimised(gemm_case(512, 72, 200, 2, 2)); }
TEST(TierOptimised, Attention) { runs_optimised(attention_case(256, 192, 1)); }
TEST(TierOptimised, Exchange) { runs_optimised(exchange_case(4)); }
TEST(TierOptimised, Cluster) { runs_optimised(cluster_case()); }

/// The library's GEMM with inputs of T and results of Out.
template <class T, class Out, class Make>
Case library_gemm(u32 m, u32 n, u32 k, f32 scale, const kernels::GemmTmaSpec& spec, Make&& make) {
  struct Memory {
    std::vector<T> a, b;
    std::vector<Out> c;
  };
  auto memory = std::make_shared<Memory>();
  memory->a = numbers<T>(u64{m} * k, 21), memory->b = numbers<T>(u64{n} * k, 22), memory->c.resize(u64{m} * n);
  const auto kernel = make(*memory);
  Case c;
  c.kernel = record(kernel, "gemm_tma");
  const auto groups = spec.grid(m, n).groups;
  c.geometry = exec::geometry(groups.x, kernels::GemmTmaSpec::threads);
  c.tolerance = 0x1p-8f;
  for (u32 i = 0; i < m; ++i)
    for (u32 j = 0; j < n; ++j) {
      f64 sum = 0;
      for (u32 x = 0; x < k; ++x)
        sum += static_cast<f64>(memory->a[u64{i} * k + x]) * static_cast<f64>(memory->b[u64{j} * k + x]);
      c.expected.push_back(static_cast<f32>(sum * static_cast<f64>(scale)));
    }
  c.run = keeping(memory, runner<Out>(kernel, c.expected, c.geometry, 2));
  return c;
}
kernels::GemmTmaSpec small(u32 cluster) {
  return {.bm = 128, .bn = 128, .stages = 3, .cluster = cluster, .group = 2, .units = 2};
}
TEST(TierOptimised, LibraryGemm) {
  for (const u32 cluster : {1u, 2u}) {
    const u32 m = 264, n = 136, k = 200;
    runs_optimised(library_gemm<bf16, bf16>(m, n, k, 1.0f, small(cluster), [&](auto& x) {
      return kernels::GemmTma<bf16>{{x.a, {k, m}}, {x.b, {k, n}}, {x.c, {n, m}}, m, n, k, small(cluster)};
    }));
  }
}
TEST(TierOptimised, LibraryGemmOfE4M3) {
  const u32 m = 128, n = 128, k = 400;
  runs_optimised(library_gemm<e4m3, bf16>(m, n, k, 0.25f, small(1), [&](auto& x) {
    return kernels::GemmTmaE4M3<bf16>{{x.a, {k, m}}, {x.b, {k, n}}, {x.c, {n, m}}, m, n, k, 0.25f, small(1)};
  }));
}

}  // namespace
}  // namespace iron::exec::tier
