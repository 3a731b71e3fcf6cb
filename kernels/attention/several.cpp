// Attention of several queries at once: tests and benches.
#include "attention/several.h"

#include "attention/oracle.h"
#include "registry.h"

namespace iron::kernels {
namespace {

constexpr f64 unseen = -std::numeric_limits<f64>::infinity();

struct Shape {
  u32 heads, kv_heads, dim, queries, base, stride;
  bool causal = true;
  u32 keys() const { return base + queries; }
};

// score(head, query, key, scaled dot)
template <class T, class QRow, class Score>
std::vector<f64> oracle(const Shape& s, const Array<T>& q, const Array<T>& k, const Array<T>& v, f32 scale, u64 rows,
                        QRow row_of, Score score) {
  std::vector<f64> want(q.size());
  for (u64 h = 0; h < s.heads; ++h)
    for (u64 i = 0; i < rows; ++i) {
      const u64 first = h / (s.heads / s.kv_heads) * s.stride, at = row_of(h, i) * s.dim;
      std::vector<f64> out;
      append_attention(out, {.dim = s.dim,
                             .keys = s.keys(),
                             .q = [&](u64 d) { return q.at(at + d); },
                             .k = [&](u64 j, u64 d) { return k.at((first + j) * s.dim + d); },
                             .v = [&](u64 j, u64 d) { return v.at((first + j) * s.dim + d); },
                             .score = [&](u64 j, f64 dot) { return score(h, i, j, f64{scale} * dot); },
                             .sink = {}});
      for (u64 d = 0; d < s.dim; ++d) want[at + d] = out[d];
    }
  return want;
}
f64 work(const Shape& s) {
  const f64 seen = s.causal ? s.base + 0.5 * (s.queries + 1) : s.keys();
  return 4.0 * s.heads * s.dim * s.queries * seen;
}
u64 traffic(const Shape& s, u64 element) {
  return element * s.dim * (2 * u64{s.kv_heads} * s.keys() + 2 * u64{s.heads} * s.queries);
}
/// The score of a query and a key: unseen where the key comes after the query.
auto masked(const Shape& s) {
  return [s](u64, u64 i, u64 j, f64 x) { return s.causal && j > s.base + i ? unseen : x; };
}
f32 scale_of(u32 dim) { return 1.0f / std::sqrt(static_cast<f32>(dim)); }

DecodeSpec batched_spec(u32 queries) {
  return {.shape = {.dim = 128, .queries = queries, .keys = attention_keys(128, queries)}, .simdgroups = 64 / queries};
}
template <class T>
Case batched(Gen& g, const Shape& s) {
  const auto q = with_steep_rows(g.normal<T>(2.0, s.heads, s.queries, s.dim), s.dim);
  const auto k = g.values<T>(s.kv_heads, s.stride, s.dim), v = g.values<T>(s.kv_heads, s.stride, s.dim);
  const auto out = g.output<T>(s.heads, s.queries, s.dim);
  const f32 scale = scale_of(s.dim);
  auto want = oracle(s, q, k, v, scale, s.queries, [&](u64 h, u64 i) { return h * s.queries + i; }, masked(s));
  return Case{SdpaDecodeBatched<T>{.q = q,
                                   .k = k,
                                   .v = v,
                                   .out = out,
                                   .n_kv = s.keys(),
                                   .kv_stride = s.stride,
                                   .heads_per_kv = s.heads / s.kv_heads,
                                   .causal = s.causal ? 1u : 0u,
                                   .scale = scale,
                                   .spec = batched_spec(s.queries)}}
      .expect("out", std::move(want))
      .computes(work(s))
      .moves(traffic(s, sizeof(T)));
}

template <class T>
Case multi(Gen& g, const Shape& s) {
  const auto q = with_steep_rows(g.normal<T>(2.0, s.queries, s.heads, s.dim), s.dim);
  const auto k = g.values<T>(s.kv_heads, s.stride, s.dim), v = g.values<T>(s.kv_heads, s.stride, s.dim);
  const auto out = g.output<T>(s.queries, s.heads, s.dim);
  const f32 scale = scale_of(s.dim);
  auto want = oracle(s, q, k, v, scale, s.queries, [&](u64 h, u64 i) { return i * s.heads + h; }, masked(s));
  return Case{SdpaMulti<T>{.q = q,
                           .k = k,
                           .v = v,
                           .out = out,
                           .heads = s.heads,
                           .base_kv = s.base,
                           .n_query = s.queries,
                           .kv_stride = s.stride,
                           .heads_per_kv = s.heads / s.kv_heads,
                           .causal = s.causal ? 1u : 0u,
                           .scale = scale,
                           .spec = decode_spec(s.dim)}}
      .expect("out", std::move(want))
      .computes(work(s))
      .moves(traffic(s, sizeof(T)));
}

// A tree of drafts: the parent of token i is (i - 1) / 2. Ancestors get a bias that is not zero, the others -inf.
template <class T>
Case tree(Gen& g, Shape s) {
  s.causal = true;
  const auto q = with_steep_rows(g.normal<T>(2.0, s.queries, s.heads, s.dim), s.dim);
  const auto k = g.values<T>(s.kv_heads, s.stride, s.dim), v = g.values<T>(s.kv_heads, s.stride, s.dim);
  auto mask = g.uniform<T>(-0.5, 0.5, s.queries, s.queries);
  for (u64 i = 0; i < s.queries; ++i)
    for (u64 j = 0; j < s.queries; ++j) {
      u64 a = i;
      while (a > j) a = (a - 1) / 2;
      if (a != j) mask[i * s.queries + j] = T(static_cast<f32>(unseen));
    }
  const auto out = g.output<T>(s.queries, s.heads, s.dim);
  const f32 scale = scale_of(s.dim);
  auto want = oracle(
      s, q, k, v, scale, s.queries, [&](u64 h, u64 i) { return i * s.heads + h; },
      [&](u64, u64 i, u64 j, f64 x) { return j < s.base ? x : x + mask.at(i * s.queries + j - s.base); });
  return Case{SdpaMultiTreeMask<T>{.q = q,
                                   .k = k,
                                   .v = v,
                                   .mask = mask,
                                   .out = out,
                                   .heads = s.heads,
                                   .base_kv = s.base,
                                   .n_query = s.queries,
                                   .kv_stride = s.stride,
                                   .heads_per_kv = s.heads / s.kv_heads,
                                   .scale = scale,
                                   .spec = decode_spec(s.dim)}}
      .expect("out", std::move(want))
      .computes(work(s))
      .moves(traffic(s, sizeof(T)));
}

DecodeSpec encoder_spec(u32 dim) { return {.shape = {.dim = dim, .queries = 4, .keys = 8}, .simdgroups = 8}; }
// `reach` places of the bias table lie on each side of its zero; keys further away get no bias.
template <class T>
Case bidirectional(Gen& g, u32 heads, u32 kv_heads, u32 dim, u32 n_query, u32 n_kv, u32 reach) {
  const Shape s{heads, kv_heads, dim, n_query, n_kv - n_query, n_kv, false};
  const auto q = with_steep_rows(g.normal<T>(2.0, n_query, heads, dim), dim);
  const auto k = g.values<T>(kv_heads, n_kv, dim), v = g.values<T>(kv_heads, n_kv, dim);
  const auto out = g.output<T>(n_query, heads, dim);
  const u32 rel_len = reach == 0 ? 1 : 2 * reach + 1;
  const auto bias = g.values<f32>(heads, rel_len);
  const f32 scale = scale_of(dim);
  auto want = oracle(
      s, q, k, v, scale, n_query, [&](u64 h, u64 i) { return i * heads + h; },
      [&](u64 h, u64 i, u64 j, f64 x) {
        const i64 place = static_cast<i64>(j) - static_cast<i64>(i) + reach;
        return reach != 0 && place >= 0 && place < rel_len ? x + bias.at(h * rel_len + static_cast<u64>(place)) : x;
      });
  SdpaBidirectional<T> kernel{.q = q,
                              .k = k,
                              .v = v,
                              .out = out,
                              .heads = heads,
                              .n_query = n_query,
                              .n_kv = n_kv,
                              .heads_per_kv = heads / kv_heads,
                              .rel_zero = reach,
                              .rel_len = rel_len,
                              .scale = scale,
                              .spec = encoder_spec(dim)};
  if (reach != 0) kernel.bias = In<f32>(bias);
  return Case{kernel}.expect("out", std::move(want)).computes(work(s));
}

constexpr auto types = dtypes<f32, f16, bf16>;
}  // namespace

void register_sdpa_several(Registry& r) {
  for (const u32 n : {2u, 4u, 8u}) {
    auto k = r.kernel<SdpaDecodeBatched>("sdpa_decode_batched_q" + std::to_string(n), "attention", types,
                                         [n](auto& x) { x.spec = batched_spec(n); });
    k.doc(std::to_string(n) + " queries a head [heads, " + std::to_string(n) +
          ", 128] over a cache, read once for all of them; causal or not.");
    const auto make = [](Shape s) { return [s]<class T>(Gen& g) { return batched<T>(g, s); }; };
    k.test("causal, part of a cache", attention_limit, make({4, 2, 128, n, 91, 110}));
    k.test("only the new keys", attention_limit, make({2, 2, 128, n, 0, n}));
    k.test("not causal", attention_limit, make({2, 1, 128, n, 33 - n, 33, false}));
    k.bench("32 heads, 8 of keys, 2048 keys", make({32, 8, 128, n, 2048 - n, 2048}));
  }
  for (const u32 dim : {128u, 256u}) {
    auto k = r.kernel<SdpaMulti>(dim == 128 ? "sdpa_multi" : "sdpa_multi_d256", "attention", types,
                                 [dim](auto& x) { x.spec = decode_spec(dim); });
    k.doc("Queries [n, heads, " + std::to_string(dim) + "] after a cached prefix, causal or not.");
    const auto make = [](Shape s) { return [s]<class T>(Gen& g) { return multi<T>(g, s); }; };
    k.test("causal after a prefix", attention_limit, make({4, 2, dim, 5, 61, 80}));
    k.test("no prefix", attention_limit, make({2, 1, dim, 9, 0, 9}));
    k.test("not causal", attention_limit, make({2, 2, dim, 3, 270, 273, false}));
    k.bench("8 queries, 32 heads, 8 of keys, 1024 keys", make({32, 8, dim, 8, 1016, 1024}));
  }
  auto t = r.kernel<SdpaMultiTreeMask>("sdpa_multi_tree_mask", "attention", types);
  t.doc("Queries [n, heads, 128] of a tree of drafts: an additive mask [n, n] on their own keys.");
  t.test("binary tree after a prefix", attention_limit,
         []<class T>(Gen& g) { return tree<T>(g, {4, 2, 128, 11, 50, 64}); });
  t.test("no prefix", attention_limit, []<class T>(Gen& g) { return tree<T>(g, {2, 1, 128, 6, 0, 6}); });
  t.bench("16 queries, 32 heads, 8 of keys, 1024 keys",
          []<class T>(Gen& g) { return tree<T>(g, {32, 8, 128, 16, 1008, 1024}); });

  for (const u32 dim : {32u, 64u, 72u, 80u, 96u}) {
    auto k = r.kernel<SdpaBidirectional>("sdpa_bidirectional_d" + std::to_string(dim), "attention", types,
                                         [dim](auto& x) { x.spec = encoder_spec(dim); });
    k.doc("Every query [n, heads, " + std::to_string(dim) + "] sees every key; 4 queries a threadgroup.");
    k.test("ragged queries and keys", attention_limit,
           [dim]<class T>(Gen& g) { return bidirectional<T>(g, 4, 2, dim, 7, 81, 0); });
    k.test("one query", attention_limit, [dim]<class T>(Gen& g) { return bidirectional<T>(g, 2, 2, dim, 1, 12, 0); });
    for (const u32 n : {2u, 4u})
      k.test(std::to_string(n) + " queries", attention_limit,
             [=]<class T>(Gen& g) { return bidirectional<T>(g, 2, 1, dim, n, 9, 0); });
    k.bench("256 queries, 8 heads", [dim]<class T>(Gen& g) { return bidirectional<T>(g, 8, 8, dim, 256, 256, 0); });
  }
  auto rel = r.kernel<SdpaBidirectional>("sdpa_bidirectional_d128_relpos", "attention", types, [](auto& x) {
    x.spec = encoder_spec(128);
    x.bias = In<f32>(BufferRef{});
  });
  rel.doc("Every query [n, heads, 128] sees every key, with a bias [heads, places] by relative position.");
  rel.test("table as long as the sequence", attention_limit,
           []<class T>(Gen& g) { return bidirectional<T>(g, 2, 1, 128, 21, 21, 20); });
  rel.test("keys beyond the table", attention_limit,
           []<class T>(Gen& g) { return bidirectional<T>(g, 2, 2, 128, 30, 45, 9); });
  rel.bench("256 queries, 8 heads", []<class T>(Gen& g) { return bidirectional<T>(g, 8, 8, 128, 256, 256, 255); });
}

}  // namespace iron::kernels
