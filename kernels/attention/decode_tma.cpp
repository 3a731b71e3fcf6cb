// Registration of the Hopper members of decode attention, and which of them a shape gets.
#include "attention/decode_tma.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/decode.h"
#include "attention/oracle.h"
#include "registry.h"

namespace iron::kernels {

DecodeTmaChoice attention_decode_for(u32 pairs, u32 length, u32 units) {
  if (pairs == 0 || length == 0)
    throw Error("LIB03", "decode over " + std::to_string(length) + " keys of " + std::to_string(pairs) + " heads",
                "give at least one head of keys and one key");
  const u32 blocks = (length + DecodeTmaSpec::keys - 1) / DecodeTmaSpec::keys;
  u32 splits = 1;
  while (2 * splits <= blocks && 20 * u64{pairs} * splits < 9 * u64{units}) splits *= 2;
  return splits <= 8 ? DecodeTmaChoice{splits, splits} : DecodeTmaChoice{1, splits};
}

namespace {
constexpr u32 hd = DecodeTmaSpec::hd;

struct Shape {
  u32 pairs, group, length, stride;  ///< stride: keys between heads, those beyond `length` hold NaN
};
template <class T>
struct Data {
  Array<T> q, k, v, o;
  std::vector<f64> want;
};
template <class T>
Data<T> data(Gen& g, const Shape& s) {
  Data<T> d{g.normal<T>(2.0, s.pairs, s.group, hd),
            g.values<T>(s.pairs, s.stride, hd),
            g.values<T>(s.pairs, s.stride, hd),
            g.output<T>(s.pairs, s.group, hd),
            {}};
  for (u64 p = 0; p < s.pairs; ++p)
    for (u64 i = (p * s.stride + s.length) * hd; i < (p + 1) * s.stride * hd; ++i)
      d.k[i] = d.v[i] = T(std::numeric_limits<f32>::quiet_NaN());
  for (u64 h = 0; h < u64{s.pairs} * s.group; ++h) {
    const u64 first = h / s.group * s.stride;
    append_attention(d.want, {.dim = hd,
                              .keys = s.length,
                              .q = [&](u64 i) { return d.q.at(h * hd + i); },
                              .k = [&](u64 j, u64 i) { return d.k.at((first + j) * hd + i); },
                              .v = [&](u64 j, u64 i) { return d.v.at((first + j) * hd + i); },
                              .score = [&](u64, f64 dot) { return dot / std::sqrt(f64{hd}); },
                              .sink = {}});
  }
  return d;
}
const f32 scale_log2 = 1.4426950408889634f / std::sqrt(static_cast<f32>(hd));
TensorDims queries(const Shape& s) { return {hd, s.group, s.pairs}; }
TensorDims cache(const Shape& s) { return {{hd, s.length, s.pairs}, {hd, u64{s.stride} * hd}}; }
f64 work(const Shape& s) { return 4.0 * s.pairs * s.group * s.length * hd; }
u64 traffic(const Shape& s, u64 size) { return size * hd * s.pairs * (2 * u64{s.length} + 2 * u64{s.group}); }

template <class T>
Case joined(Gen& g, const Shape& s, DecodeTmaSpec spec) {
  auto d = data<T>(g, s);
  return Case{AttentionDecodeCluster<T>{.q = {d.q, queries(s)},
                                        .k = {d.k, cache(s)},
                                        .v = {d.v, cache(s)},
                                        .o = d.o,
                                        .length = s.length,
                                        .group = s.group,
                                        .scale_log2 = scale_log2,
                                        .spec = spec}}
      .expect("o", std::move(d.want))
      .computes(work(s))
      .moves(traffic(s, sizeof(T)));
}
template <class T>
Case two_pass(Gen& g, const Shape& s, u32 splits) {
  auto d = data<T>(g, s);
  const u32 heads = s.pairs * s.group;
  const auto part = g.output<f32>(heads, splits, hd), top = g.output<f32>(heads, splits),
             total = g.output<f32>(heads, splits);
  return Case{AttentionDecodeSplit<T>{.q = {d.q, queries(s)},
                                      .k = {d.k, cache(s)},
                                      .v = {d.v, cache(s)},
                                      .partial_out = part,
                                      .partial_top = top,
                                      .partial_total = total,
                                      .length = s.length,
                                      .group = s.group,
                                      .splits = splits,
                                      .scale_log2 = scale_log2}}
      .then(SdpaDecodePass2<T>{
          .partial_out = part, .partial_top = top, .partial_total = total, .out = d.o, .blocks = splits, .dim = hd})
      .expect("out", std::move(d.want))
      .computes(work(s))
      .moves(traffic(s, sizeof(T)));
}
constexpr auto types = dtypes<f16, bf16>;
}  // namespace

void register_attention_decode_tma(Registry& r) {
  for (const u32 cluster : {1u, 2u, 4u, 8u}) {
    const DecodeTmaSpec spec{.splits = cluster};
    const std::string n = std::to_string(cluster);
    auto k = r.kernel<AttentionDecodeCluster>("attention_decode_tma_cluster" + n, "attention", types,
                                              [spec](auto& a) { a.spec = spec; });
    k.doc(
        "Decode over a cache, head dimension 128, up to 64 query heads a head of keys, by the Hopper tier: keys "
        "split " +
        std::string(cluster == 1 ? "between two warpgroups."
                                 : "over a cluster of " + n + " and joined out of each other's threadgroup memory."));
    k.shapes("q, o: [p, group, 128]; k, v: [p, length, 128]");
    k.determinism("bitwise on one device: ranks are added in order, exp2 is the device's own");
    k.needs("roles");
    k.test("part of a cache, grouped heads", attention_limit, [spec]<class T>(Gen& g) {
      return joined<T>(g, {2, 5, 128 * spec.splits + 67, 128 * spec.splits + 80}, spec);
    });
    k.test("ranks without keys", attention_limit,
           [spec]<class T>(Gen& g) { return joined<T>(g, {1, 8, 130, 130}, spec); });
    k.test("one key", attention_limit, [spec]<class T>(Gen& g) { return joined<T>(g, {1, 3, 1, 8}, spec); });
    k.bench("8 heads of keys, 8 of queries each, 8192 keys",
            [spec]<class T>(Gen& g) { return joined<T>(g, {8, 8, 8192, 8192}, spec); });
  }
  auto k = r.kernel<AttentionDecodeSplit>("attention_decode_tma", "attention", types);
  k.doc(
      "Decode split over the keys, first pass, head dimension 128, up to 64 query heads a head of keys, by the Hopper "
      "tier: partial results [heads, splits, 128] in f32, which sdpa_decode_2pass_pass2 joins.");
  k.shapes(
      "q: [p, group, 128]; k, v: [p, length, 128]; partial_out: [p * group, splits, 128]; partial_top, partial_total: "
      "[p * group, splits]");
  k.determinism("bitwise on one device: parts are joined in order, exp2 is the device's own");
  k.needs("roles");
  k.test("part of a cache, grouped heads", attention_limit,
         []<class T>(Gen& g) { return two_pass<T>(g, {2, 5, 451, 460}, 3); });
  k.test("splits without keys", attention_limit, []<class T>(Gen& g) { return two_pass<T>(g, {1, 8, 130, 130}, 4); });
  k.rejected("slices where a cluster reaches",
             "8 heads of keys, 8192 keys: 15.7 us for 8 slices, 13.2 us for a cluster of 8",
             "docs/benchmarks/h200-hopper-tier.md");
  k.bench("8 heads of keys, 8 of queries each, 8192 keys, 16 splits",
          []<class T>(Gen& g) { return two_pass<T>(g, {8, 8, 8192, 8192}, 16); });
}

}  // namespace iron::kernels
