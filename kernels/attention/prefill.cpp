// Attention of a prompt: tests and benches.
#include "attention/prefill.h"

#include "attention/oracle.h"
#include "registry.h"

namespace iron::kernels {
namespace {

struct Shape {
  u32 batch, heads, kv_heads, dim, q_len, k_len;
  u32 window = 0;
  bool causal = true, sinks = false;
  bool sees(u64 query, u64 key) const {
    const i64 self = static_cast<i64>(query) + k_len - q_len, other = static_cast<i64>(key);
    return (!causal || other <= self) && (window == 0 || other > self - static_cast<i64>(window));
  }
  f64 pairs() const {
    f64 n = 0;
    for (u64 i = 0; i < q_len; ++i)
      for (u64 j = 0; j < k_len; ++j) n += sees(i, j);
    return n;
  }
};

template <class T>
struct Data {
  Array<T> q, k, v, out;
  Array<f32> sinks;
  f32 scale;
};
template <class T>
Data<T> data(Gen& g, const Shape& s) {
  return {with_steep_rows(g.normal<T>(2.0, s.batch, s.heads, s.q_len, s.dim), s.dim),
          g.values<T>(s.batch, s.kv_heads, s.k_len, s.dim),
          g.values<T>(s.batch, s.kv_heads, s.k_len, s.dim),
          g.output<T>(s.batch, s.heads, s.q_len, s.dim),
          g.normal<f32>(1.0, s.heads),
          1.0f / std::sqrt(static_cast<f32>(s.dim))};
}
template <class T>
std::vector<f64> oracle(const Shape& s, const Data<T>& d) {
  std::vector<f64> want;
  for (u64 b = 0; b < s.batch; ++b)
    for (u64 h = 0; h < s.heads; ++h)
      for (u64 i = 0; i < s.q_len; ++i) {
        const u64 first = (b * s.kv_heads + h / (s.heads / s.kv_heads)) * s.k_len;
        AttentionRow row{
            .dim = s.dim,
            .keys = s.k_len,
            .q = [&](u64 e) { return d.q.at(((b * s.heads + h) * s.q_len + i) * s.dim + e); },
            .k = [&](u64 j, u64 e) { return d.k.at((first + j) * s.dim + e); },
            .v = [&](u64 j, u64 e) { return d.v.at((first + j) * s.dim + e); },
            .score = [&](u64 j,
                         f64 dot) { return s.sees(i, j) ? f64{d.scale} * dot : -std::numeric_limits<f64>::infinity(); },
            .sink = {}};
        if (s.sinks) row.sink = d.sinks.at(h);
        append_attention(want, row);
      }
  return want;
}

AttentionShape simd_shape(u32 dim) {
  const u32 queries = dim >= 256 ? 4 : 8;
  return {.dim = dim, .queries = queries, .keys = 4};
}
template <class T>
Case simd(Gen& g, const Shape& s) {
  const auto d = data<T>(g, s);
  SdpaPrefill<T> k{.q = d.q,
                   .k = d.k,
                   .v = d.v,
                   .out = d.out,
                   .q_len = s.q_len,
                   .k_len = s.k_len,
                   .heads = s.heads,
                   .heads_per_kv = s.heads / s.kv_heads,
                   .window = s.window,
                   .scale = d.scale,
                   .shape = simd_shape(s.dim),
                   .causal = s.causal};
  if (s.sinks) k.sinks = In<f32>(d.sinks);
  return Case{k}.expect("out", oracle(s, d)).computes(4.0 * s.batch * s.heads * s.dim * s.pairs());
}

// Rows of a tile's threads: bk divides 32, and a threadgroup has a whole number of rows of scores.
PrefillTileSpec tile_spec(u32 dim) {
  return dim >= 256 ? PrefillTileSpec{.dim = dim, .bq = 16, .bk = 16, .simdgroups = 4} : PrefillTileSpec{.dim = dim};
}
PrefillTileSpec single_spec(u32 dim) { return {.dim = dim, .bq = 16, .bk = 16, .simdgroups = 1}; }
template <class T>
Case tile(Gen& g, const Shape& s, PrefillTileSpec spec) {
  const auto d = data<T>(g, s);
  spec.causal = s.causal;
  return Case{SdpaPrefillTile<T>{.q = d.q,
                                 .k = d.k,
                                 .v = d.v,
                                 .out = d.out,
                                 .q_len = s.q_len,
                                 .k_len = s.k_len,
                                 .heads = s.heads,
                                 .heads_per_kv = s.heads / s.kv_heads,
                                 .window = s.window,
                                 .scale = d.scale,
                                 .spec = spec}}
      .expect("out", oracle(s, d))
      .computes(4.0 * s.batch * s.heads * s.dim * s.pairs());
}
// One rounding of the weights more than the other attention kernels.
constexpr Tolerance tile_limit = tolerance(3e-5, 3e-3, 2.4e-2);

std::string suffix(u32 dim, u32 plain) { return dim == plain ? "" : "_d" + std::to_string(dim); }

void add_tile(Registry& r, const std::string& name, PrefillTileSpec spec, const std::string& engine) {
  auto k = r.kernel<SdpaPrefillTile>(name, "attention", dtypes<f32, f16, bf16>, [spec](auto& x) { x.spec = spec; });
  k.doc("Causal prefill of heads of " + std::to_string(spec.dim) + " in tiles of " + std::to_string(spec.bq) +
        " queries by " + std::to_string(spec.bk) + " keys; " + engine + ".");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  const u32 dim = spec.dim;
  const auto make = [spec](Shape s) { return [=]<class T>(Gen& g) { return tile<T>(g, s, spec); }; };
  k.test("ragged, grouped heads, a prefix", tile_limit, make({1, 4, 2, dim, 37, 53}));
  k.test("two batches, window", tile_limit, make({2, 2, 1, dim, 19, 19, 7}));
  k.test("not causal, two batches, grouped heads", tile_limit, make({2, 4, 2, dim, 37, 70, 0, false}));
  k.test("not causal, window", tile_limit, make({1, 2, 1, dim, 9, 14, 5, false}));
  k.test("one query", tile_limit, make({1, 2, 2, dim, 1, 1}));
  k.test("one query, not causal", tile_limit, make({1, 2, 2, dim, 1, 1, 0, false}));
  k.bench("512 tokens, 8 heads, 2 of keys", make({1, 8, 2, dim, 512, 512}));
}
}  // namespace

void register_sdpa_prefill(Registry& r) {
  for (const u32 dim : {64u, 96u, 128u, 256u}) {
    auto k = r.kernel<SdpaPrefill>("sdpa_prefill" + suffix(dim, 128), "attention", dtypes<f32, f16, bf16>,
                                   [dim](auto& x) { x.shape = simd_shape(dim); });
    k.doc("Causal prefill of heads of " + std::to_string(dim) +
          " with grouped heads, window and sinks; exact sums in a fixed order.");
    const auto make = [](Shape s) { return [s]<class T>(Gen& g) { return simd<T>(g, s); }; };
    k.test("ragged, grouped heads, a prefix", attention_limit, make({1, 4, 2, dim, 37, 53}));
    k.test("two batches, grouped heads, window", attention_limit, make({2, 4, 2, dim, 45, 45, 7}));
    k.test("two batches, grouped heads, window, sinks", attention_limit, make({2, 4, 2, dim, 45, 51, 7, true, true}));
    k.test("not causal, two batches, grouped heads", attention_limit, make({2, 4, 2, dim, 37, 70, 0, false}));
    k.test("not causal, window", attention_limit, make({1, 2, 1, dim, 9, 14, 5, false}));
    k.test("one query", attention_limit, make({1, 2, 2, dim, 1, 1}));
    k.test("one query, not causal", attention_limit, make({1, 2, 2, dim, 1, 1, 0, false}));
    k.test("one query, sinks", attention_limit, make({1, 2, 2, dim, 1, 1, 0, true, true}));
    k.test("queries before the first key: zeros", attention_limit, make({1, 1, 1, dim, 9, 6}));
    // The last query may be any of a simdgroup's, in each form of the kernel.
    for (const u32 n : {2u, 3u, 4u, 6u, 7u, 8u}) {
      const std::string queries = std::to_string(n) + " queries";
      k.test(queries, attention_limit, make({1, 1, 1, dim, n, n + 2}));
      k.test(queries + ", not causal", attention_limit, make({1, 1, 1, dim, n, n + 1, 0, false}));
      k.test(queries + ", sinks", attention_limit, make({1, 1, 1, dim, n, n, 0, true, true}));
    }
    k.bench("256 tokens, 8 heads, 2 of keys", make({1, 8, 2, dim, 256, 256}));
  }
  for (const u32 dim : {64u, 96u, 128u, 256u})
    add_tile(r, "sdpa_prefill_mma" + suffix(dim, 128), tile_spec(dim), "4 simdgroups a threadgroup");
  for (const u32 dim : {32u, 64u, 128u, 256u})
    add_tile(r, "sdpa_prefill_nax" + suffix(dim, 32), single_spec(dim), "one simdgroup a threadgroup");
}

}  // namespace iron::kernels
