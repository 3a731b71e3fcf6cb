#include "tier_kernels.h"

#include "gemm/split_k_tma.h"

namespace iron::exec::tier {

namespace {
// a: [m, k], b: [n, k]; the product a * b^T, summed in f64.
std::vector<f32> product(const std::vector<bf16>& a, const std::vector<bf16>& b, u32 m, u32 n, u32 k) {
  std::vector<f32> c;
  for (u32 i = 0; i < m; ++i)
    for (u32 j = 0; j < n; ++j) {
      f64 sum = 0;
      for (u32 x = 0; x < k; ++x) sum += static_cast<f64>(a[u64{i} * k + x]) * static_cast<f64>(b[u64{j} * k + x]);
      c.push_back(static_cast<f32>(sum));
    }
  return c;
}
}  // namespace

Case copy_case(u32 rows, u32 cols, u32 groups) {
  struct Memory {
    std::vector<f16> in, out;
  };
  auto memory = std::make_shared<Memory>();
  memory->in = numbers<f16>(u64{rows} * cols, 1), memory->out.resize(memory->in.size());
  const CopyTiles k{{memory->in, {cols, rows}}, {memory->out, {cols, rows}}, rows, cols};
  Case c;
  c.kernel = record(k, "copy_tiles");
  c.geometry = exec::geometry(groups, 256);
  for (const f16 x : memory->in) c.expected.push_back(static_cast<f32>(f16(static_cast<f32>(x) + 1.0f)));
  c.run = keeping(memory, runner<f16>(k, c.expected, c.geometry, 1));
  return c;
}

Case staged_case(u32 blocks) {
  struct Memory {
    std::vector<f32> x, y;
  };
  auto memory = std::make_shared<Memory>();
  memory->x = numbers<f32>(u64{blocks} * 256, 11), memory->y.resize(64);
  const StagedSum k{memory->x, memory->y, blocks};
  Case c;
  c.kernel = record(k, "staged_sum");
  c.geometry = exec::geometry(1, 64);
  for (u32 t = 0; t < 64; ++t) {
    f32 sum = 0;
    for (u32 i = 0; i < blocks; ++i) sum += memory->x[u64{i} * 256 + 255 - t];
    c.expected.push_back(sum);
  }
  c.run = keeping(memory, runner<f32>(k, c.expected, c.geometry, 1));
  return c;
}

Case gemm_case(u32 m, u32 n, u32 k, u32 cluster, u32 groups) {
  struct Memory {
    std::vector<bf16> a, b, c;
  };
  auto memory = std::make_shared<Memory>();
  memory->a = numbers<bf16>(u64{m} * k, 2), memory->b = numbers<bf16>(u64{n} * k, 3), memory->c.resize(u64{m} * n);
  const Gemm kernel{{memory->a, {k, m}}, {memory->b, {k, n}}, {memory->c, {n, m}}, m, n, k, cluster};
  Case c;
  c.kernel = record(kernel, "gemm");
  c.geometry = exec::geometry(groups, 384);
  c.tolerance = 0x1p-8f;
  c.expected = product(memory->a, memory->b, m, n, k);
  c.run = keeping(memory, runner<bf16>(kernel, c.expected, c.geometry, 2));
  return c;
}

Case attention_case(u32 queries, u32 keys, u32 groups) {
  struct Memory {
    std::vector<f16> q, k, v, o;
  };
  constexpr u32 hd = 64;
  auto memory = std::make_shared<Memory>();
  memory->q = numbers<f16>(u64{queries} * hd, 4), memory->k = numbers<f16>(u64{keys} * hd, 5);
  memory->v = numbers<f16>(u64{keys} * hd, 6), memory->o.resize(u64{queries} * hd);
  const Attention kernel{{memory->q, {hd, queries}},
                         {memory->k, {hd, keys}},
                         {memory->v, {hd, keys}},
                         {memory->o, {hd, queries}},
                         queries,
                         keys};
  Case c;
  c.kernel = record(kernel, "attention");
  c.geometry = exec::geometry(groups, 384);
  c.tolerance = 0.002f;
  for (u32 i = 0; i < queries; ++i) {
    std::vector<f64> weight(keys), out(hd);
    f64 sum = 0;
    for (u32 j = 0; j < keys; ++j) {
      f64 s = 0;
      for (u32 x = 0; x < hd; ++x)
        s += static_cast<f64>(memory->q[u64{i} * hd + x]) * static_cast<f64>(memory->k[u64{j} * hd + x]);
      sum += weight[j] = std::exp2(s);
    }
    for (u32 x = 0; x < hd; ++x) {
      f64 value = 0;
      for (u32 j = 0; j < keys; ++j) value += weight[j] / sum * static_cast<f64>(memory->v[u64{j} * hd + x]);
      c.expected.push_back(static_cast<f32>(value));
    }
  }
  c.run = keeping(memory, runner<f16>(kernel, c.expected, c.geometry, 3));
  return c;
}

Case exchange_case(u32 tiles) {
  struct Memory {
    std::vector<f16> in;
    std::vector<f32> out;
  };
  auto memory = std::make_shared<Memory>();
  memory->in = numbers<f16>(u64{tiles} * 256, 8), memory->out.resize(memory->in.size());
  const Exchange k{{memory->in, {64, tiles * 4}}, memory->out, tiles};
  Case c;
  c.kernel = record(k, "exchange");
  c.geometry = exec::geometry(1, 384);
  for (u32 i = 0; i < memory->in.size(); ++i)
    c.expected.push_back(static_cast<f32>(memory->in[i / 256 * 256 + 255 - i % 256]));
  c.run = keeping(memory, runner<f32>(k, c.expected, c.geometry, 1));
  return c;
}

Case split_case(u32 m, u32 n, u32 k, u32 cluster) {
  struct Memory {
    std::vector<bf16> a, b, c;
  };
  auto memory = std::make_shared<Memory>();
  memory->a = numbers<bf16>(u64{m} * k, 2), memory->b = numbers<bf16>(u64{n} * k, 3), memory->c.resize(u64{m} * n);
  const kernels::GemmSplitKCluster<bf16> kernel{.a = {memory->a, {k, m}},
                                                .b = {memory->b, {k, n}},
                                                .c = memory->c,
                                                .m = m,
                                                .n = n,
                                                .k = k,
                                                .spec = {.bn = 16, .stages = 2, .cluster = cluster}};
  const Grid grid = kernel.grid();
  Case c;
  c.kernel = record(kernel, "split");
  c.geometry = exec::geometry(grid.groups.x, grid.threads.x);
  c.tolerance = 0x1p-8f;
  c.expected = product(memory->a, memory->b, m, n, k);
  c.run = keeping(memory, runner<bf16>(kernel, c.expected, c.geometry, 2));
  return c;
}

Case cluster_case() {
  struct Memory {
    std::vector<f32> x, y;
  };
  constexpr u32 groups = 8, threads = 64;
  auto memory = std::make_shared<Memory>();
  memory->x = numbers<f32>(groups * threads, 7), memory->y.resize(groups);
  const ClusterSum kernel{memory->x, memory->y};
  Case c;
  c.kernel = record(kernel, "cluster_sum");
  c.geometry = exec::geometry(groups, threads);
  c.tolerance = 1e-4f;
  for (u32 g = 0; g < groups; ++g) {
    f64 sum = 0;
    for (u32 i = 0; i < 4 * threads; ++i) sum += static_cast<f64>(memory->x[g / 4 * 4 * threads + i]);
    c.expected.push_back(static_cast<f32>(sum));
  }
  c.run = keeping(memory, runner<f32>(kernel, c.expected, c.geometry, 1));
  return c;
}

}  // namespace iron::exec::tier
