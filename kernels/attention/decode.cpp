// Decode attention: its choice of passes, tests and benches.
#include "attention/decode.h"

#include <fmt/format.h>

#include "attention/oracle.h"
#include "registry.h"

namespace iron::kernels {

DecodeChoice sdpa_decode_for(u32 heads, u32 kv_heads, u32 n_kv, u32 cores) {
  if (heads == 0 || kv_heads == 0 || heads % kv_heads != 0)
    throw Error("LIB03", fmt::format("attention with {} heads over {} heads of keys", heads, kv_heads),
                "give each head of keys the same number of query heads, at least one");
  const u32 blocks = n_kv <= 1024 ? 64 : n_kv <= 8192 ? 128 : n_kv <= 32768 ? 256 : n_kv <= 65536 ? 512 : 1024;
  const bool idle = 2 * u64{heads} < cores, enough = n_kv >= 512;
  return idle && enough ? DecodeChoice{true, blocks} : DecodeChoice{};
}

namespace {
struct Shape {
  u32 heads, kv_heads, dim, n_kv, kv_stride;
  u32 sink_end = 0, window_start = 0;
  bool sinks = false;
};

template <class T>
struct Data {
  Array<T> q, k, v, out;
  Array<f32> sinks;
  f32 scale;
  std::vector<f64> want;
};
// Rows of the cache beyond n_kv hold NaN: who reads them is seen.
template <class T>
Data<T> data(Gen& g, const Shape& s) {
  auto k = g.values<T>(s.kv_heads, s.kv_stride, s.dim), v = g.values<T>(s.kv_heads, s.kv_stride, s.dim);
  for (u64 h = 0; h < s.kv_heads; ++h)
    for (u64 i = (h * s.kv_stride + s.n_kv) * s.dim; i < (h + 1) * s.kv_stride * s.dim; ++i)
      k[i] = v[i] = T(std::numeric_limits<f32>::quiet_NaN());
  Data<T> d{with_steep_rows(g.normal<T>(2.0, s.heads, s.dim), s.dim),
            k,
            v,
            g.output<T>(s.heads, s.dim),
            g.normal<f32>(1.0, s.heads),
            1.0f / std::sqrt(static_cast<f32>(s.dim)),
            {}};
  for (u64 h = 0; h < s.heads; ++h) {
    const u64 first = h / (s.heads / s.kv_heads) * s.kv_stride;
    AttentionRow row{.dim = s.dim,
                     .keys = s.n_kv,
                     .q = [&](u64 i) { return d.q.at(h * s.dim + i); },
                     .k = [&](u64 j, u64 i) { return k.at((first + j) * s.dim + i); },
                     .v = [&](u64 j, u64 i) { return v.at((first + j) * s.dim + i); },
                     .score =
                         [&](u64 j, f64 dot) {
                           return j < s.sink_end || j >= s.window_start ? f64{d.scale} * dot
                                                                        : -std::numeric_limits<f64>::infinity();
                         },
                     .sink = {}};
    if (s.sinks) row.sink = d.sinks.at(h);
    append_attention(d.want, row);
  }
  return d;
}
f64 work(const Shape& s) {
  return 4.0 * s.heads * s.dim * (s.n_kv - std::max(s.window_start, s.sink_end) + s.sink_end);
}
u64 traffic(const Shape& s, u64 element) {
  const u64 keys = s.n_kv - std::max(s.window_start, s.sink_end) + s.sink_end;
  return element * s.dim * (2 * s.kv_heads * keys + 2 * u64{s.heads});
}

template <class T>
Case vector(Gen& g, const Shape& s, const DecodeSpec& spec) {
  auto d = data<T>(g, s);
  return Case{SdpaVector<T>{.q = d.q,
                            .k = d.k,
                            .v = d.v,
                            .out = d.out,
                            .n_kv = s.n_kv,
                            .heads_per_kv = s.heads / s.kv_heads,
                            .scale = d.scale,
                            .spec = spec}}
      .expect("out", std::move(d.want))
      .computes(work(s));
}
template <class T>
Case decode(Gen& g, const Shape& s) {
  auto d = data<T>(g, s);
  SdpaDecode<T> k{.q = d.q,
                  .k = d.k,
                  .v = d.v,
                  .out = d.out,
                  .n_kv = s.n_kv,
                  .kv_stride = s.kv_stride,
                  .heads_per_kv = s.heads / s.kv_heads,
                  .sink_end = s.sink_end,
                  .window_start = s.window_start,
                  .scale = d.scale,
                  .spec = decode_spec(s.dim)};
  if (s.sinks) k.sinks = In<f32>(d.sinks);
  return Case{k}.expect("out", std::move(d.want)).computes(work(s)).moves(traffic(s, sizeof(T)));
}

template <class T>
Case two_pass(Gen& g, const Shape& s, u32 blocks) {
  auto d = data<T>(g, s);
  const auto part = g.output<f32>(s.heads, blocks, s.dim), top = g.output<f32>(s.heads, blocks),
             total = g.output<f32>(s.heads, blocks);
  Case c{SdpaDecodePass1<T>{.q = d.q,
                            .k = d.k,
                            .v = d.v,
                            .partial_out = part,
                            .partial_top = top,
                            .partial_total = total,
                            .n_kv = s.n_kv,
                            .kv_stride = s.kv_stride,
                            .heads_per_kv = s.heads / s.kv_heads,
                            .sink_end = s.sink_end,
                            .window_start = s.window_start,
                            .blocks = blocks,
                            .scale = d.scale,
                            .shape = decode_spec(s.dim).shape}};
  SdpaDecodePass2<T> join{
      .partial_out = part, .partial_top = top, .partial_total = total, .out = d.out, .blocks = blocks, .dim = s.dim};
  if (s.sinks) join.sinks = In<f32>(d.sinks);
  return c.then(join).expect("out", std::move(d.want)).computes(work(s)).moves(traffic(s, sizeof(T)));
}

// The first pass by itself: one block's largest score, sum and weighted values, from scores in f64. The largest score
// need not be the true one for a softmax, but it is what the second pass joins by.
template <class T>
Case first_pass(Gen& g, const Shape& s, u32 blocks) {
  const auto q = with_steep_rows(g.normal<T>(2.0, s.heads, s.dim), s.dim);
  const auto k = g.values<T>(s.kv_heads, s.kv_stride, s.dim), v = g.values<T>(s.kv_heads, s.kv_stride, s.dim);
  const auto part = g.output<f32>(s.heads, blocks, s.dim), top = g.output<f32>(s.heads, blocks),
             total = g.output<f32>(s.heads, blocks);
  const AttentionShape shape = decode_spec(s.dim).shape;
  const f32 scale = 0.125f;
  std::vector<f64> want_part, want_top, want_total;
  for (u64 h = 0; h < s.heads; ++h)
    for (u64 b = 0; b < blocks; ++b) {
      const u64 base = h / (s.heads / s.kv_heads) * s.kv_stride;
      std::vector<u64> keys;
      std::vector<f64> scores;
      f64 largest = std::numeric_limits<f32>::lowest(), sum = 0;
      for (u64 j = 0, place = 0; j < s.n_kv; ++j) {
        if (j >= s.sink_end && j < s.window_start) continue;
        if (place++ / shape.keys % blocks != b) continue;
        f64 dot = 0;
        for (u64 i = 0; i < s.dim; ++i) dot += f64{scale} * q.at(h * s.dim + i) * k.at((base + j) * s.dim + i);
        keys.push_back(j), scores.push_back(dot), largest = std::max(largest, dot);
      }
      std::vector<f64> row(s.dim);
      for (u64 n = 0; n < keys.size(); ++n) {
        const f64 w = std::exp(scores[n] - largest);
        sum += w;
        for (u64 i = 0; i < s.dim; ++i) row[i] += w * v.at((base + keys[n]) * s.dim + i);
      }
      want_top.push_back(largest), want_total.push_back(sum);
      want_part.insert(want_part.end(), row.begin(), row.end());
    }
  return Case{SdpaDecodePass1<T>{.q = q,
                                 .k = k,
                                 .v = v,
                                 .partial_out = part,
                                 .partial_top = top,
                                 .partial_total = total,
                                 .n_kv = s.n_kv,
                                 .kv_stride = s.kv_stride,
                                 .heads_per_kv = s.heads / s.kv_heads,
                                 .sink_end = s.sink_end,
                                 .window_start = s.window_start,
                                 .blocks = blocks,
                                 .scale = scale,
                                 .shape = shape}}
      .expect("partial_out", want_part)
      .expect("partial_top", want_top)
      .expect("partial_total", want_total)
      .computes(work(s))
      .moves(traffic(s, sizeof(T)));
}
// The second pass by itself, from partial results that no first pass would leave: sizes differ by orders.
template <class T>
Case second_pass(Gen& g, u32 heads, u32 dim, u32 blocks, bool with_sinks) {
  const auto part = g.values<f32>(heads, blocks, dim);
  auto top = g.normal<f32>(4.0, heads, blocks);
  const auto total = g.uniform<f32>(0.5, 30.0, heads, blocks), sinks = g.normal<f32>(4.0, heads);
  top[blocks / 2] = std::numeric_limits<f32>::lowest();  // a block without keys
  const auto out = g.output<T>(heads, dim);
  std::vector<f64> want;
  for (u64 h = 0; h < heads; ++h) {
    const f64 sink = with_sinks ? sinks.at(h) : -1e300;
    f64 largest = sink, weight = 0;
    for (u64 b = 0; b < blocks; ++b) largest = std::max(largest, top.at(h * blocks + b));
    weight = with_sinks ? std::exp(sink - largest) : 0.0;
    for (u64 b = 0; b < blocks; ++b) weight += total.at(h * blocks + b) * std::exp(top.at(h * blocks + b) - largest);
    for (u64 d = 0; d < dim; ++d) {
      f64 sum = 0;
      for (u64 b = 0; b < blocks; ++b)
        sum += part.at((h * blocks + b) * dim + d) * std::exp(top.at(h * blocks + b) - largest);
      want.push_back(sum / weight);
    }
  }
  SdpaDecodePass2<T> k{
      .partial_out = part, .partial_top = top, .partial_total = total, .out = out, .blocks = blocks, .dim = dim};
  if (with_sinks) k.sinks = In<f32>(sinks);
  return Case{k}.expect("out", std::move(want)).computes(4.0 * heads * blocks * dim);
}

constexpr auto types = dtypes<f32, f16, bf16>;
// f32 partial results whatever T is: only the inputs are rounded, and the oracle has them as rounded.
constexpr Tolerance partial_limit = tolerance(3e-5, 3e-5, 3e-5);

void add_vector(Registry& r, const std::string& name, u32 dim, DecodeSpec spec, const std::string& how) {
  auto k = r.kernel<SdpaVector>(name, "attention", types, [spec](auto& x) { x.spec = spec; });
  k.doc("Attention of one query a head over [kv heads, n, " + std::to_string(dim) + "] keys and values; " + how + ".");
  k.test("grouped heads, ragged steps", attention_limit,
         [=]<class T>(Gen& g) { return vector<T>(g, {6, 2, dim, 301, 301}, spec); });
  k.test("one key", attention_limit, [=]<class T>(Gen& g) { return vector<T>(g, {2, 2, dim, 1, 1}, spec); });
  k.bench("32 heads, 8 of keys, 1024 keys",
          [=]<class T>(Gen& g) { return vector<T>(g, {32, 8, dim, 1024, 1024}, spec); });
}
}  // namespace

void register_sdpa_decode(Registry& r) {
  add_vector(r, "sdpa", 128, {.shape = {.dim = 128, .queries = 1, .keys = 1}, .simdgroups = 1},
             "one simdgroup a head, one key a step: the form to compare the others with");
  for (const u32 dim : {64u, 96u, 128u, 192u, 256u})
    add_vector(r, dim == 128 ? "sdpa_vector" : "sdpa_vector_d" + std::to_string(dim), dim, decode_spec(dim),
               std::to_string(decode_spec(dim).simdgroups) + " simdgroups a head");

  for (const u32 dim : {64u, 96u, 128u, 256u, 512u}) {
    auto k = r.kernel<SdpaDecode>(dim == 128 ? "sdpa_decode" : "sdpa_decode_d" + std::to_string(dim), "attention",
                                  types, [dim](auto& x) { x.spec = decode_spec(dim); });
    k.doc("Decode over a cache [kv heads, stride, " + std::to_string(dim) +
          "]: the first keys and a window, optional sinks, grouped heads.");
    const auto make = [](Shape s) { return [s]<class T>(Gen& g) { return decode<T>(g, s); }; };
    k.test("part of a cache", attention_limit, make({4, 2, dim, 73, 96}));
    // More keys than the simdgroups take at once, and one key in the last step.
    k.test("first keys and a window", attention_limit, make({2, 1, dim, 300, 301, 5, 28}));
    k.test("sinks", attention_limit, make({3, 3, dim, 285, 292, 0, 4, true}));
    k.test("one key", attention_limit, make({2, 2, dim, 1, 3}));
    k.test("one key, sinks", attention_limit, make({2, 2, dim, 1, 3, 0, 0, true}));
    k.test("no key: zeros", exact_match, make({2, 1, dim, 40, 40, 0, 40}));
    // The window begins in every place of a step.
    for (u32 first = 1; first <= attention_keys(dim); ++first)
      for (const bool sinks : {false, true})
        k.test(fmt::format("{} first keys{}", first, sinks ? ", sinks" : ""), attention_limit,
               make({1, 1, dim, 20, 21, first, 12, sinks}));
    k.bench("32 heads, 8 of keys, 2048 keys", make({32, 8, dim, 2048, 2048}));
  }

  for (const u32 dim : {64u, 96u, 128u, 256u}) {
    const std::string end = dim == 128 ? "" : "_d" + std::to_string(dim), d = std::to_string(dim);
    auto one = r.kernel<SdpaDecodePass1>("sdpa_decode_2pass_pass1" + end, "attention", types,
                                         [dim](auto& x) { x.shape = decode_spec(dim).shape; });
    one.doc("Decode split over the keys, first pass: partial results [heads, blocks, " + d + "] in f32.");
    one.test("more blocks than steps", partial_limit,
             [dim]<class T>(Gen& g) { return first_pass<T>(g, {4, 2, dim, 37, 40}, 12); });
    one.test("several steps a block", partial_limit,
             [dim]<class T>(Gen& g) { return first_pass<T>(g, {3, 1, dim, 150, 150}, 4); });
    one.test("one key", partial_limit, [dim]<class T>(Gen& g) { return first_pass<T>(g, {2, 2, dim, 1, 3}, 2); });
    for (u32 first = 1; first <= attention_keys(dim); ++first)
      one.test(fmt::format("{} first keys", first), partial_limit,
               [=]<class T>(Gen& g) { return first_pass<T>(g, {1, 1, dim, 20, 20, first, 12}, 2); });
    one.bench("32 heads, 8 of keys, 4096 keys, 64 blocks",
              [dim]<class T>(Gen& g) { return first_pass<T>(g, {32, 8, dim, 4096, 4096}, 64); });

    auto two =
        r.kernel<SdpaDecodePass2>("sdpa_decode_2pass_pass2" + end, "attention", types, [dim](auto& x) { x.dim = dim; });
    two.doc("Decode split over the keys, second pass: the blocks of a head joined in order; optional sinks.");
    two.test("any number of blocks", attention_limit,
             [dim]<class T>(Gen& g) { return second_pass<T>(g, 3, dim, 37, false); });
    two.test("sinks", attention_limit, [dim]<class T>(Gen& g) { return second_pass<T>(g, 2, dim, 5, true); });
    two.test("after the first pass", attention_limit,
             [dim]<class T>(Gen& g) { return two_pass<T>(g, {6, 2, dim, 219, 230, 3, 40, true}, 7); });
    two.test("after the first pass, no key: zeros", exact_match,
             [dim]<class T>(Gen& g) { return two_pass<T>(g, {2, 1, dim, 20, 20, 0, 20}, 3); });
    two.bench("32 heads, 128 blocks", [dim]<class T>(Gen& g) { return second_pass<T>(g, 32, dim, 128, false); });
  }
}

}  // namespace iron::kernels
