// The cache of keys or values: oracles, tests and benches. Rows that are not written keep what they held.
#include "kv/cache.h"

#include "iron/library.h"
#include "iron/variants.h"
#include "quant/affine_case.h"
#include "registry.h"
#include "specials.h"

namespace iron::kernels {
namespace {

constexpr auto types = dtypes<f32, f16, bf16>;
template <class A>
auto elements(const A& a) {
  return std::vector<typename A::value_type>(a.data(), a.data() + a.size());
}

template <class T>
Case update(Gen& g, u32 heads, u32 dim, u32 max_seq, u32 position) {
  const auto src = g.values<T>(heads, dim), cache = g.values<T>(heads, max_seq, dim);
  auto want = elements(cache);
  if (position < max_seq)
    for (u64 h = 0; h < heads; ++h)
      for (u64 d = 0; d < dim; ++d) want[(h * max_seq + position) * dim + d] = src[h * dim + d];
  return Case{KvCacheUpdate<T>{.src = src, .cache = cache, .head_dim = dim, .max_seq = max_seq, .position = position}}
      .expect_exact("cache", want)
      .moves(2 * src.size() * sizeof(T));
}
template <class T>
Case update_many(Gen& g, u32 tokens, u32 heads, u32 dim, u32 max_seq) {
  const auto src = g.values<T>(tokens, heads, dim), cache = g.values<T>(heads, max_seq, dim);
  // All different, in no order; one beyond the cache.
  auto positions = g.from<u32>([&](u64 t) { return static_cast<u32>((t * 7 + 3) % max_seq); }, tokens);
  if (tokens > 2) positions[1] = max_seq, positions[2] = 0xffffffffu;
  auto want = elements(cache);
  for (u64 t = 0; t < tokens; ++t)
    for (u64 h = 0; h < heads; ++h)
      for (u64 d = 0; d < dim; ++d)
        if (positions[t] < max_seq) want[(h * max_seq + positions[t]) * dim + d] = src[(t * heads + h) * dim + d];
  return Case{
      KvCacheUpdateMany<T>{
          .src = src, .positions = positions, .cache = cache, .head_dim = dim, .max_seq = max_seq, .kv_heads = heads}}
      .expect_exact("cache", want)
      .moves(2 * src.size() * sizeof(T));
}

// The host's codec says what the row is.
template <class T>
Case quantised(Gen& g, u32 bits, u32 heads, u32 dim, u32 max_seq, u32 position) {
  const AffineFormat f{.bits = bits, .group = 32};
  auto src = g.values<T>(heads, dim);
  for (u64 i = 0; i < f.group; ++i) src[i] = T(0.75f);  // a group without range
  std::vector<f32> source;
  for (u64 i = 0; i < src.size(); ++i) source.push_back(static_cast<f32>(src.at(i)));
  const auto m = quant::encode_affine({.bits = bits, .group = f.group, .scale_type = dtype_of<T>}, heads, dim, source);
  const u64 row_words = u64{dim} * bits / 32, groups = dim / f.group;
  const auto words = g.integers<u32>(0, 0xffffffffll, heads, max_seq, row_words);
  const auto scales = g.values<T>(heads, max_seq, groups), biases = g.values<T>(heads, max_seq, groups);
  auto want_words = elements(words);
  auto want_scales = elements(scales), want_biases = elements(biases);
  for (u64 h = 0; h < heads; ++h) {
    for (u64 w = 0; w < row_words; ++w)
      want_words[(h * max_seq + position) * row_words + w] = m.words[h * row_words + w];
    const u64 to = (h * max_seq + position) * groups, from = h * groups * sizeof(T), bytes = groups * sizeof(T);
    std::memcpy(static_cast<void*>(&want_scales[to]), &m.scales[from], bytes);
    std::memcpy(static_cast<void*>(&want_biases[to]), &m.biases[from], bytes);
  }
  return Case{QuantizeKv<T>{.src = src,
                            .words = words,
                            .scales = scales,
                            .biases = biases,
                            .head_dim = dim,
                            .max_seq = max_seq,
                            .position = position,
                            .format = f}}
      .expect_exact("words", want_words)
      .expect_exact("scales", want_scales)
      .expect_exact("biases", want_biases)
      .moves(src.size() * sizeof(T) + heads * (row_words * 4 + groups * 2 * sizeof(T)));
}
template <class T>
Case dequantised(Gen& g, u32 bits, u32 heads, u32 dim, u32 max_seq, u32 positions) {
  const auto m = packed_matrix<T>(g, bits, 32, u64{heads} * max_seq, dim);
  const auto out = g.output<T>(heads, positions, dim);
  std::vector<f64> want;
  for (u64 h = 0; h < heads; ++h)
    for (u64 i = 0; i < u64{positions} * dim; ++i) want.push_back(m.values[h * max_seq * dim + i]);
  return Case{BulkDequantKv<T>{.words = m.words,
                               .scales = m.scales,
                               .biases = m.biases,
                               .out = out,
                               .head_dim = dim,
                               .max_seq = max_seq,
                               .positions = positions,
                               .format = {.bits = bits, .group = 32}}}
      .expect("out", std::move(want))
      .moves(out.size() * (sizeof(T) * 8 + bits) / 8);
}

// The codes of four neighbours, the first one lowest.
template <class T>
u32 fp8_word(SmallFloat type, const Array<T>& src, u64 first, f32 scale) {
  u32 word = 0;
  for (u32 j = 0; j < 4; ++j)
    word |= small_float_code(type, f64{static_cast<f32>(src.at(first + j)) / scale}) << (8 * j);
  return word;
}
// Values of one group; the first of a head are zeros, of both signs.
template <class T>
Case quantised_fp8(Gen& g, SmallFloat type, u32 heads, u32 dim, u32 max_seq, u32 position) {
  constexpr u32 group = 32;
  auto src = g.values<T>(heads, dim);
  for (u64 i = 0; i < group; ++i) src[i] = T(i % 2 == 0 ? 0.0f : -0.0f);
  for (u64 i = group; i < src.size(); i += 3)  // many magnitudes in one group: subnormal codes too
    src[i] = T(static_cast<f32>(src.at(i) * std::ldexp(1.0, -static_cast<int>(g.next() % 18))));
  const u64 groups = dim / group, row_words = dim / 4;
  const auto words = g.integers<u32>(0, 0xffffffffll, heads, max_seq, row_words);
  const auto scales = g.values<T>(heads, max_seq, groups);
  auto want_words = elements(words);
  auto want_scales = elements(scales);
  for (u64 h = 0; h < heads && position < max_seq; ++h)
    for (u64 n = 0; n < groups; ++n) {
      const u64 first = h * dim + n * group, at = (h * max_seq + position) * groups + n;
      f64 amax = 0;
      for (u64 i = 0; i < group; ++i) amax = std::max(amax, std::fabs(src.at(first + i)));
      // f32 division, as specified: the code of a quotient near a tie depends on its rounding.
      const T scale(amax == 0 ? 1.0f : static_cast<f32>(amax) / static_cast<f32>(format_of(type).largest));
      want_scales[at] = scale;
      for (u64 w = 0; w < group / 4; ++w) {
        want_words[at * (group / 4) + w] = fp8_word(type, src, first + 4 * w, static_cast<f32>(scale));
      }
    }
  return Case{QuantizeKvFp8<T>{.src = src,
                               .words = words,
                               .scales = scales,
                               .head_dim = dim,
                               .max_seq = max_seq,
                               .position = position,
                               .format = {.type = type, .group = group}}}
      .expect_exact("words", want_words)
      .expect_exact("scales", want_scales)
      .moves(src.size() * sizeof(T) + heads * (row_words * 4 + groups * sizeof(T)));
}
/// What a place of the fixture below holds, in units of the group's scale.
f64 fp8_quotient(SmallFloat type, u64 kind, u64 i) {
  const u32 mantissa = format_of(type).mantissa, step = 1u << mantissa;  // code of the smallest normal number
  const auto between = [&](u32 code) {
    return (small_float_value(type, code) + small_float_value(type, code + 1)) / 2;
  };
  const u32 some = step * static_cast<u32>(1 + i % 12);
  switch (kind) {
    case 0:
      return between(some);  // ties, the lower code even
    case 1:
      return between(some + 1);  // ... odd
    case 2:
      return between(0);  // ... of subnormal codes
    case 3:
      return between(1);
    case 4:
      return small_float_value(type, step + static_cast<u32>(i) % (step / 2)) * 1.015625;
    default:
      return small_float_value(type, 3 * step) * 1.03125;
  }
}
// The scale is a power of two, so that quotients are what they are meant to be: every place of a group has ties of
// both parities, normal and subnormal, of both signs.
template <class T>
Case ties_fp8(Gen& g, SmallFloat type) {
  constexpr u32 group = 32, heads = 2, dim = 14 * group, max_seq = 3, position = 1;
  const f64 largest = format_of(type).largest;
  auto src = g.zeros<T>(heads, dim);
  const u64 groups = heads * dim / group;
  for (u64 n = 0; n < groups; ++n)
    for (u64 j = 0; j < group; ++j) {
      const f64 sign = (n + j / 2) % 2 == 0 ? 1.0 : -1.0, scale = std::ldexp(1.0, static_cast<int>(n % 5) - 4);
      const f64 quotient = j == n % group ? largest : fp8_quotient(type, (n + j) % 6, n / 6);
      src[n * group + j] = T(static_cast<f32>(sign * quotient * scale));
    }
  const auto words = g.integers<u32>(0, 0xffffffffll, heads, max_seq, dim / 4);
  const auto scales = g.values<T>(heads, max_seq, dim / group);
  auto want_words = elements(words);
  auto want_scales = elements(scales);
  for (u64 n = 0; n < groups; ++n) {
    const u64 at = (n / 14 * max_seq + position) * 14 + n % 14;
    want_scales[at] = T(static_cast<f32>(std::ldexp(1.0, static_cast<int>(n % 5) - 4)));
    for (u64 w = 0; w < group / 4; ++w)
      want_words[at * (group / 4) + w] = fp8_word(type, src, n * group + 4 * w, static_cast<f32>(want_scales[at]));
  }
  return Case{QuantizeKvFp8<T>{.src = src,
                               .words = words,
                               .scales = scales,
                               .head_dim = dim,
                               .max_seq = max_seq,
                               .position = position,
                               .format = {.type = type, .group = group}}}
      .expect_exact("words", want_words)
      .expect_exact("scales", want_scales);
}
// Every finite code occurs.
template <class T>
Case dequantised_fp8(Gen& g, SmallFloat type, u32 heads, u32 dim, u32 max_seq, u32 positions) {
  constexpr u32 group = 32;
  const u32 largest = format_of(type).largest_code;
  const u64 rows = u64{heads} * max_seq;
  std::vector<u32> codes;
  for (u64 i = 0; i < rows * dim; ++i)
    codes.push_back(static_cast<u32>((i * 5 + i / dim) % (largest + 1)) | static_cast<u32>(g.next() % 2) << 7);
  const auto words = g.from<u32>(
      [&](u64 i) { return codes[4 * i] | codes[4 * i + 1] << 8 | codes[4 * i + 2] << 16 | codes[4 * i + 3] << 24; },
      rows, dim / 4);
  const f64 one = type == SmallFloat::e4m3 ? 1.0 / 448 : 1.0 / 57344;
  const auto scales = g.uniform<T>(0.5 * one, 2.0 * one, rows, dim / group);
  const auto out = g.output<T>(heads, positions, dim);
  std::vector<f64> want;
  for (u64 h = 0; h < heads; ++h)
    for (u64 i = h * max_seq * dim; i < (h * max_seq + positions) * dim; ++i)
      want.push_back(small_float_value(type, codes[i]) * scales.at(i / group));
  return Case{BulkDequantKvFp8<T>{.words = words,
                                  .scales = scales,
                                  .out = out,
                                  .head_dim = dim,
                                  .max_seq = max_seq,
                                  .positions = positions,
                                  .format = {.type = type, .group = group}}}
      .expect("out", std::move(want))
      .moves(out.size() * (sizeof(T) + 1));
}
}  // namespace

void register_kv_cache(Registry& r) {
  auto one = r.kernel<KvCacheUpdate>("kv_cache_update", "kv", types);
  one.doc("One token's keys or values [kv heads, D] copied to its place in a cache [kv heads, max_seq, D].");
  one.test("inside", exact_match, []<class T>(Gen& g) { return update<T>(g, 3, 40, 17, 11); });
  one.test("the last place", exact_match, []<class T>(Gen& g) { return update<T>(g, 2, 64, 5, 4); });
  one.test("beyond the cache: nothing", exact_match, []<class T>(Gen& g) { return update<T>(g, 2, 33, 6, 6); });
  one.bench("8 heads of 128, 4096 places", []<class T>(Gen& g) { return update<T>(g, 8, 128, 4096, 2000); });

  auto many = r.kernel<KvCacheUpdateMany>("kv_cache_update_many", "kv", types);
  many.doc("Tokens [tokens, kv heads, D] copied to their places in a cache; places beyond it are skipped.");
  many.test("places in no order, two beyond", exact_match,
            []<class T>(Gen& g) { return update_many<T>(g, 9, 3, 40, 23); });
  many.test("one token", exact_match, []<class T>(Gen& g) { return update_many<T>(g, 1, 2, 64, 4); });
  many.bench("512 tokens, 8 heads of 128", []<class T>(Gen& g) { return update_many<T>(g, 512, 8, 128, 4096); });

  for (const auto& v : variants({{"BITS", {4u, 8u}}})) {
    const u32 bits = v["BITS"];
    auto q = r.kernel<QuantizeKv>(v.text("quantize_kv_int{BITS}"), "kv", types,
                                  [bits](auto& k) { k.format = {.bits = bits, .group = 32}; });
    q.doc(v.text("One token's keys or values as int{BITS} codes, scales and biases, groups of 32, in a cache."));
    q.test("a place in a cache", exact_match, [bits]<class T>(Gen& g) { return quantised<T>(g, bits, 3, 96, 7, 5); });
    q.bench("8 heads of 128", [bits]<class T>(Gen& g) { return quantised<T>(g, bits, 8, 128, 512, 100); });
    auto d = r.kernel<BulkDequantKv>(v.text("bulk_dequant_kv_int{BITS}"), "kv", types,
                                     [bits](auto& k) { k.format = {.bits = bits, .group = 32}; });
    d.doc(v.text("The first places of a cache of int{BITS} codes decoded to [kv heads, places, D]."));
    d.test("some of the places", one_rounding,
           [bits]<class T>(Gen& g) { return dequantised<T>(g, bits, 3, 96, 9, 6); });
    d.bench("8 heads of 128, 2048 places",
            [bits]<class T>(Gen& g) { return dequantised<T>(g, bits, 8, 128, 2048, 2048); });
  }
  for (const SmallFloat type : {SmallFloat::e4m3, SmallFloat::e5m2}) {
    const std::string name = type == SmallFloat::e4m3 ? "e4m3" : "e5m2";
    auto q = r.kernel<QuantizeKvFp8>("quantize_kv_fp8_" + name, "kv", types, [type](auto& k) { k.format.type = type; });
    q.doc("One token's keys or values as " + name + " codes with a scale for each 32, in a cache.");
    q.test("magnitudes down to subnormal codes, zeros", exact_match,
           [type]<class T>(Gen& g) { return quantised_fp8<T>(g, type, 3, 96, 7, 5); });
    q.test("ties in every place of a group", exact_match, [type]<class T>(Gen& g) { return ties_fp8<T>(g, type); });
    q.test("the last place", exact_match, [type]<class T>(Gen& g) { return quantised_fp8<T>(g, type, 1, 32, 7, 6); });
    q.test("beyond the cache: nothing", exact_match,
           [type]<class T>(Gen& g) { return quantised_fp8<T>(g, type, 2, 64, 7, 7); });
    q.bench("8 heads of 128", [type]<class T>(Gen& g) { return quantised_fp8<T>(g, type, 8, 128, 512, 100); });
    auto d = r.kernel<BulkDequantKvFp8>("bulk_dequant_kv_fp8_" + name, "kv", types,
                                        [type](auto& k) { k.format.type = type; });
    d.doc("The first places of a cache of " + name + " codes decoded to [kv heads, places, D].");
    d.test("every finite code", one_rounding,
           [type]<class T>(Gen& g) { return dequantised_fp8<T>(g, type, 3, 96, 9, 6); });
    d.bench("8 heads of 128, 2048 places",
            [type]<class T>(Gen& g) { return dequantised_fp8<T>(g, type, 8, 128, 2048, 2048); });
  }
}

}  // namespace iron::kernels
