// Bodies of the cached-attention kernels, and their registration.
#include "attention/cached.h"

#include <algorithm>
#include <limits>

#include "registry.h"

namespace iron::kernels {

template <class T>
void RopeToCache<T>::operator()() const {
  const u32 dim = head_dim;
  const Val<Index> head = threadgroup_id(), token = threadgroup_id(Axis::y), pair = thread_id();
  const Val<Index> position = first + token;
  const auto turned = [&](const In<f32>& x, const Val<Index>& row) {
    const Val<f32> c = table[position * dim + pair], s = table[position * dim + dim / 2 + pair];
    const Val<f32> a = x[row + 2 * pair], b = x[row + 2 * pair + 1];
    return std::pair<Val<f32>, Val<f32>>(a * c - b * s, fma(a, s, b * c));
  };
  if_(head < heads) {
    const auto [a, b] = turned(q, token * q_stride + head * dim);
    const Val<Index> at = (token * heads + head) * dim + 2 * pair;
    q_out[at] = a;
    q_out[at + 1] = b;
  }
  else {
    const Val<Index> other = head - heads;
    if_(other < kv_heads) {
      const auto [a, b] = turned(k, token * kv_stride + other * dim);
      const Val<Index> chunk = other * (capacity / dim) + position / dim;
      const Val<Index> at = (chunk * dim + 2 * pair) * dim + position % dim;
      keys[at] = cast<T>(a);
      keys[at + dim] = cast<T>(b);
    }
    else {
      const Val<Index> kv = other - kv_heads;
      const Val<Index> from = token * kv_stride + kv * dim + pair, at = (kv * capacity + position) * dim + pair;
      const Val<f32> low = v[from], high = v[from + dim / 2];
      values[at] = cast<T>(low);
      values[at + dim / 2] = cast<T>(high);
    }
  }
}

template <class T>
void CachedAttention<T>::operator()() const {
  const u32 dim = head_dim, queries = block_queries * block_heads;
  constexpr f32 lowest = -std::numeric_limits<f32>::infinity();
  const Val<Index> first_head = threadgroup_id() * block_heads, kv = first_head / heads_per_kv, thread = thread_id();
  const Val<Index> start = threadgroup_id(Axis::y) * block_queries, last_token = cast<Index>(tokens - 1u);
  // A query is a token of a head. Beyond the last token the threadgroup repeats it, and stores nothing.
  std::vector<Val<Index>> token, row;
  for (u32 t = 0; t < block_queries; ++t)
    for (u32 h = 0; h < block_heads; ++h) {
      token.emplace_back(block_queries == 1 ? Val<Index>(start) : Val<Index>(min(start + t, last_token)));
      row.emplace_back((token.back() * heads + first_head + h) * dim);
    }

  const Shared<f32> weight(queries * dim);
  Vars<f32> top(queries, lowest), total(queries, 0.0f), sum(queries, 0.0f);
  for (auto chunk : range((first + token.back()) / dim + 1)) {
    Vars<f32> score(queries, 0.0f);
    const Val<Index> key_base = (kv * (capacity / dim) + chunk) * (dim * dim) + thread;
    constexpr u32 unroll = 8;
    for (auto d : range(0, dim, unroll))
      for (u32 u = 0; u < unroll; ++u) {
        const Val<f32> key = cast<f32>(keys[key_base + (d + u) * dim]);
        for (u32 i = 0; i < queries; ++i) score[i] = fma(q[row[i] + (d + u)], key, score[i]);
      }
    const Val<Index> position = chunk * dim + thread;
    for (u32 i = 0; i < queries; ++i) {
      const Val<f32> s = select(position <= first + token[i], score[i] * scale, lowest);
      const Val<f32> old = top[i];
      const Val<f32> now = max(old, threadgroup_max(s));
      const Val<f32> keep = exp(old - now), w = exp(s - now);
      top[i] = now;
      total[i] = fma(total[i], keep, w);
      sum[i] = sum[i] * keep;
      weight[i * dim + thread] = w;
    }
    barrier();
    const Val<Index> value_base = (kv * capacity + chunk * dim) * dim + thread;
    for (auto j : range(0, dim, unroll))
      for (u32 u = 0; u < unroll; ++u) {
        const Val<f32> value = cast<f32>(values[value_base + (j + u) * dim]);
        for (u32 i = 0; i < queries; ++i) {
          const Val<f32> w = weight[i * dim + (j + u)];
          sum[i] = fma(w, value, sum[i]);
        }
      }
    barrier();
  }
  for (u32 i = 0; i < queries; ++i) {
    const Val<f32> all = threadgroup_sum(total[i]);
    const Val<f32> result = sum[i] / all;
    if_(start + i / block_heads < tokens) {
      out[((start + i / block_heads) * heads + first_head + i % block_heads) * dim + thread] = result;
    }
  }
}

u32 cached_attention_heads(u32 heads, u32 heads_per_kv, u32 units) {
  u32 shared = 4;
  while (shared > 1 && (heads_per_kv % shared != 0 || heads / shared < units)) --shared;
  return shared;
}

template struct RopeToCache<f32>;
template struct RopeToCache<f16>;
template struct CachedAttention<f32>;
template struct CachedAttention<f16>;

namespace {
constexpr u32 dim = 64;

std::vector<f64> frequencies(u32 pairs, f64 base) {
  std::vector<f64> f;
  for (u32 i = 0; i < pairs; ++i) f.push_back(std::pow(base, -static_cast<f64>(i) / pairs));
  return f;
}

Case angles(Gen& g, u32 pairs, u32 positions) {
  const auto f = frequencies(pairs, 1e5);
  const auto high = g.from<f32>([&](u64 i) { return f[i]; }, pairs);
  const auto low = g.from<f32>([&](u64 i) { return f[i] - f64{static_cast<f32>(f[i])}; }, pairs);
  const auto table = g.output<f32>(positions, 2, pairs);
  std::vector<f64> want;
  for (u32 t = 0; t < positions; ++t) {
    for (u32 i = 0; i < pairs; ++i) want.push_back(std::cos(t * f[i]));
    for (u32 i = 0; i < pairs; ++i) want.push_back(std::sin(t * f[i]));
  }
  return Case{RopeTable{.high = high, .low = low, .table = table, .pairs = pairs, .positions = positions}}.expect(
      "table", want);
}

struct CacheShape {
  u32 tokens, heads, kv_heads, capacity, first;
};

// Rotation by angles of an own table, so that a wrong row or sign shows; cache cells not written must keep their value.
template <class T>
Case stored(Gen& g, const CacheShape& s, std::string_view judged) {
  const u32 stride = (s.heads + 2 * s.kv_heads) * dim, q_cells = s.heads * dim, kv_cells = s.kv_heads * dim;
  const auto q = g.values<f32>(s.tokens, stride), k = g.values<f32>(s.tokens, stride),
             v = g.values<f32>(s.tokens, stride);
  const auto table = g.uniform<f32>(-1.0, 1.0, s.capacity, dim);
  const auto q_out = g.output<f32>(s.tokens, q_cells);
  const auto keys = g.values<T>(s.kv_heads, s.capacity, dim), values = g.values<T>(s.kv_heads, s.capacity, dim);
  std::vector<f64> want_q(q_out.size()), want_k(keys.size()), want_v(values.size());
  for (u64 i = 0; i < keys.size(); ++i) want_k[i] = keys.at(i), want_v[i] = values.at(i);
  for (u64 t = 0; t < s.tokens; ++t) {
    const u64 position = s.first + t;
    const auto turn = [&](const Array<f32>& x, u64 row, auto store) {
      for (u64 i = 0; i < dim / 2; ++i) {
        const f64 c = table.at(position * dim + i), z = table.at(position * dim + dim / 2 + i);
        const f64 a = x.at(row + 2 * i), b = x.at(row + 2 * i + 1);
        store(2 * i, a * c - b * z);
        store(2 * i + 1, a * z + b * c);
      }
    };
    for (u64 h = 0; h < s.heads; ++h)
      turn(q, t * stride + h * dim, [&](u64 i, f64 value) { want_q[t * q_cells + h * dim + i] = value; });
    for (u64 h = 0; h < s.kv_heads; ++h) {
      turn(k, t * stride + h * dim, [&](u64 i, f64 value) {
        want_k[((h * (s.capacity / dim) + position / dim) * dim + i) * dim + position % dim] = value;
      });
      for (u64 i = 0; i < dim; ++i) want_v[(h * s.capacity + position) * dim + i] = v.at(t * stride + h * dim + i);
    }
  }
  (void)kv_cells;
  Case c{RopeToCache<T>{.q = q,
                        .k = k,
                        .v = v,
                        .table = table,
                        .q_out = q_out,
                        .keys = keys,
                        .values = values,
                        .tokens = s.tokens,
                        .heads = s.heads,
                        .kv_heads = s.kv_heads,
                        .q_stride = stride,
                        .kv_stride = stride,
                        .capacity = s.capacity,
                        .first = s.first,
                        .head_dim = dim}};
  return c.expect(judged, judged == "q_out" ? want_q : judged == "keys" ? want_k : want_v);
}

struct Block {
  u32 queries, heads;
};

template <class T>
Case attended(Gen& g, const CacheShape& s, Block block) {
  const auto q = g.normal<f32>(2.0, s.tokens, s.heads, dim);
  const auto keys = g.values<T>(s.kv_heads, s.capacity, dim), values = g.values<T>(s.kv_heads, s.capacity, dim);
  const auto out = g.output<f32>(s.tokens, s.heads, dim);
  const u32 group = s.heads / s.kv_heads;
  const f32 scale = 0.125f;
  std::vector<f64> want;
  for (u64 t = 0; t < s.tokens; ++t)
    for (u64 h = 0; h < s.heads; ++h) {
      const u64 kv = h / group, count = s.first + t + 1;
      std::vector<f64> w(count);
      for (u64 j = 0; j < count; ++j)
        for (u64 d = 0; d < dim; ++d)
          w[j] += f64{scale} * q.at((t * s.heads + h) * dim + d) *
                  keys.at(((kv * (s.capacity / dim) + j / dim) * dim + d) * dim + j % dim);
      const f64 top = *std::max_element(w.begin(), w.end());
      f64 total = 0;
      for (f64& x : w) total += x = std::exp(x - top);
      for (u64 d = 0; d < dim; ++d) {
        f64 sum = 0;
        for (u64 j = 0; j < count; ++j) sum += w[j] * values.at((kv * s.capacity + j) * dim + d);
        want.push_back(sum / total);
      }
    }
  Case c{CachedAttention<T>{.q = q,
                            .keys = keys,
                            .values = values,
                            .out = out,
                            .tokens = s.tokens,
                            .heads = s.heads,
                            .heads_per_kv = group,
                            .capacity = s.capacity,
                            .first = s.first,
                            .scale = scale,
                            .head_dim = dim,
                            .block_queries = block.queries,
                            .block_heads = block.heads}};
  return c.expect("out", want).computes(4.0 * dim * s.heads * s.tokens * (s.first + s.tokens / 2.0));
}
}  // namespace

void register_cached_attention(Registry& r) {
  auto table = r.kernel<RopeTable, f32>("rope_table", "attention");
  table.doc("Cosines and sines of position times frequency, frequencies in two parts: [positions, 2, pairs].");
  table.test("near and far positions", tolerance(2e-7, 0, 0), []<class T>(Gen& g) { return angles(g, 32, 700); });
  table.bench("2048 x 32", []<class T>(Gen& g) { return angles(g, 32, 2048); });

  auto cache = r.kernel<RopeToCache>("rope_to_cache", "attention", dtypes<f32, f16>, [](auto& k) { k.head_dim = dim; });
  cache.doc("Rotates queries and keys and stores keys and values to a layer's cache of this dtype.");
  constexpr auto rotated = tolerance(1e-6, 1e-3, 0);
  for (const char* judged : {"q_out", "keys", "values"})
    cache.test(std::string("across a chunk: ") + judged, rotated,
               [=]<class T>(Gen& g) { return stored<T>(g, {5, 3, 2, 192, 62}, judged); });
  cache.bench("64 tokens, 9 + 2 x 3 heads",
              []<class T>(Gen& g) { return stored<T>(g, {64, 9, 3, 256, 100}, "q_out"); });

  const auto attention = [&](const std::string& name, Block block) {
    auto k = r.kernel<CachedAttention>(name, "attention", dtypes<f32, f16>, [=](auto& a) {
      a.head_dim = dim, a.block_queries = block.queries, a.block_heads = block.heads;
    });
    k.doc(
        "Causal attention with grouped queries over a cache of this dtype, softmax online over chunks of head_dim "
        "keys.");
    constexpr auto limit = tolerance(1e-5, 1e-5, 0);
    const u32 kv = 2, heads = kv * std::max(2u, block.heads);
    k.test("one key", limit, [=]<class T>(Gen& g) { return attended<T>(g, {1, heads / kv, 1, 64, 0}, block); });
    k.test("three chunks, grouped heads", limit,
           [=]<class T>(Gen& g) { return attended<T>(g, {1, heads, kv, 192, 133}, block); });
    k.test("several queries", limit,
           [=]<class T>(Gen& g) { return attended<T>(g, {6, 2 * heads, kv, 128, 61}, block); });
    if (block.queries == 1)
      k.bench("9 heads, 1024 keys", [=]<class T>(Gen& g) { return attended<T>(g, {1, 9, 3, 1024, 1023}, block); });
    else
      k.bench("64 queries, 9 heads, 512 keys",
              [=]<class T>(Gen& g) { return attended<T>(g, {64, 9, 3, 512, 448}, block); });
  };
  attention("cached_attention", {1, 1});
  attention("cached_attention_heads3", {1, 3});
  attention("cached_attention_prefill", {4, 1});
}

}  // namespace iron::kernels
