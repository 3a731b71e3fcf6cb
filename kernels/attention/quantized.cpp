// Attention over keys and values that are kept as affine codes: one simdgroup a query, decoded where they are read.
#include "attention/oracle.h"
#include "attention/simd_attention.h"
#include "iron/variants.h"
#include "quant/affine_case.h"
#include "quant/decode.h"
#include "registry.h"

namespace iron::kernels {

enum class AttentionMask : u8 { none, flags, scores };
struct FlashQuantizedSpec {
  AffineFormat format;
  AttentionShape shape;
  AttentionMask mask = AttentionMask::none;
};

// out[r] = sum_j softmax_j(scale * q[r] . k[r / repeat, j]) v[r / repeat, j], r = batch * heads + head
// q, out: [batch * heads, D]; keys and values: codes [batch * kv heads, tokens, D] with scales and biases
// [.., tokens, D / G] of T. The keys that count: the last `window` of the tokens, all where window is 0; of these,
// where there are flags: u32 [batch * heads, tokens], those whose flag is not 0; scores: T [batch * heads, tokens] are
// added. sinks: f32 [heads], the score of a key more whose value is zero. A query that sees no key gives zeros.
template <class T>
struct FlashQuantizedSdpa {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> q;
  In<u32> k_codes;
  In<T> k_scales, k_biases;
  In<u32> v_codes;
  In<T> v_scales, v_biases;
  Out<T> out;
  Scalar<u32> tokens, repeat, heads, window;
  Scalar<f32> scale;
  Optional<In<f32>> sinks = {};
  Optional<In<u32>> flags = {};
  Optional<In<T>> scores = {};
  FlashQuantizedSpec spec = {};

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size() / spec.shape.dim)}, Threads{32}}; }

  void operator()() const {
    const u32 dim = spec.shape.dim, keys = spec.shape.keys, group = spec.format.group;
    const auto row = threadgroup_id();
    const Val<Index> base = row / repeat * tokens, all(tokens);
    const auto decoded = [&](const In<u32>& codes, const In<T>& scales, const In<T>& biases) {
      return [&, group, dim](const Val<Index>& key, const Val<Index>& d, u32 i) {
        const auto at = base + key, place = at * (dim / group) + 32 * i / group;  // a group is 32 lanes or more
        return affine_value(read_code(codes, at * dim + d, spec.format.bits), cast<f32>(scales[place]),
                            cast<f32>(biases[place]));
      };
    };
    const Val<Index> reach = select(window == 0u, all, cast<Index>(window)), start = max(all, reach) - reach;
    SimdAttention own(spec.shape, [&](u32, const Val<Index>& d) { return cast<f32>(q[row * dim + d]) * scale; });
    for (auto first : range(start, all, keys))
      own.step([&](u32 slot) { return min(first + slot, all - 1); }, decoded(k_codes, k_scales, k_biases),
               decoded(v_codes, v_scales, v_biases),
               [&](const Val<f32>& dot, const Val<Index>&, const Val<Index>& slot) {
                 const auto key = first + slot;
                 const auto inside = key < all;
                 const auto at = row * all + min(key, all - 1);
                 if (flags) return select(inside && (*flags)[at] != 0u, dot, constant<f32>(no_score));
                 if (scores) return select(inside, dot + cast<f32>((*scores)[at]), constant<f32>(no_score));
                 return select(inside, dot, constant<f32>(no_score));
               });
    const auto softmax = own.softmax(own.softmax(), 0);
    const auto sink = sink_of(sinks, row % heads);
    const Val<f32> top = sink ? Val<f32>(max(softmax.top, *sink)) : Val<f32>(softmax.top);
    const Val<f32> kept = exp(softmax.top - top);
    const Val<f32> total = sink ? Val<f32>(softmax.total * kept + exp(*sink - top)) : Val<f32>(softmax.total);
    const auto factor = attention_quotient(kept, total);
    own.each([&](u32, const Val<Index>& d, const Val<f32>& value) { out[row * dim + d] = cast<T>(value * factor); });
  }
};

namespace {
struct Shape {
  u32 batch, heads, kv_heads, tokens;
  u32 window = 0;
  bool sinks = false;
};
FlashQuantizedSpec spec_of(u32 bits, u32 dim, AttentionMask mask) {
  return {{.bits = bits, .group = 32}, {.dim = dim, .queries = 1, .keys = dim >= 256 ? 2u : 4u}, mask};
}

template <class T>
Case attended(Gen& g, const Shape& s, const FlashQuantizedSpec& spec) {
  const u32 dim = spec.shape.dim;
  const u64 rows = u64{s.batch} * s.heads, kv_rows = u64{s.batch} * s.kv_heads;
  const auto q = with_steep_rows(g.normal<T>(4.0, rows, dim), dim);
  // The fixture's weights have deviation 1/4; that suits values, and keys against larger queries.
  const auto k = packed_matrix<T>(g, spec.format.bits, spec.format.group, kv_rows * s.tokens, dim);
  const auto v = packed_matrix<T>(g, spec.format.bits, spec.format.group, kv_rows * s.tokens, dim);
  const auto out = g.output<T>(rows, dim);
  const auto sinks = g.normal<f32>(1.0, s.heads);
  const auto flags =
      g.from<u32>([&](u64) { return g.next() % 3 == 0 ? 0.0 : 1.0 + static_cast<f64>(g.next() % 5); }, rows, s.tokens);
  auto scores = g.values<T>(rows, s.tokens);
  for (u64 i = 1; i < scores.size(); i += 7) scores[i] = T(-std::numeric_limits<f32>::infinity());
  const f32 scale = 1.0f / std::sqrt(static_cast<f32>(dim));
  std::vector<f64> want;
  for (u64 r = 0; r < rows; ++r) {
    const u64 base = r / (s.heads / s.kv_heads) * s.tokens;
    AttentionRow row{.dim = dim,
                     .keys = s.tokens,
                     .q = [&](u64 d) { return q.at(r * dim + d); },
                     .k = [&](u64 j, u64 d) { return k.values[(base + j) * dim + d]; },
                     .v = [&](u64 j, u64 d) { return v.values[(base + j) * dim + d]; },
                     .score =
                         [&](u64 j, f64 dot) {
                           const u64 at = r * s.tokens + j;
                           const bool seen = (s.window == 0 || j + s.window >= s.tokens) &&
                                             (spec.mask != AttentionMask::flags || flags[at] != 0);
                           if (!seen) return -std::numeric_limits<f64>::infinity();
                           return f64{scale} * dot + (spec.mask == AttentionMask::scores ? scores.at(at) : 0.0);
                         },
                     .sink = {}};
    if (s.sinks) row.sink = sinks.at(r % s.heads);
    append_attention(want, row);
  }
  FlashQuantizedSdpa<T> kernel{.q = q,
                               .k_codes = k.words,
                               .k_scales = k.scales,
                               .k_biases = k.biases,
                               .v_codes = v.words,
                               .v_scales = v.scales,
                               .v_biases = v.biases,
                               .out = out,
                               .tokens = s.tokens,
                               .repeat = s.heads / s.kv_heads,
                               .heads = s.heads,
                               .window = s.window,
                               .scale = scale,
                               .spec = spec};
  if (s.sinks) kernel.sinks = In<f32>(sinks);
  if (spec.mask == AttentionMask::flags) kernel.flags = In<u32>(flags);
  if (spec.mask == AttentionMask::scores) kernel.scores = In<T>(scores);
  const f64 seen = s.window == 0 ? s.tokens : std::min(s.window, s.tokens);
  return Case{kernel}.expect("out", std::move(want)).computes(4.0 * static_cast<f64>(rows) * dim * seen);
}

void add(Registry& r, const Variant& v, const std::string& name, AttentionMask mask, const std::string& what) {
  const auto spec = spec_of(v["BITS"], v["DIM"], mask);
  auto k = r.kernel<FlashQuantizedSdpa>(v.text(name), "attention", dtypes<f32, f16, bf16>, [spec](auto& x) {
    x.spec = spec;
    if (spec.mask == AttentionMask::flags) x.flags = In<u32>(BufferRef{});
    if (spec.mask == AttentionMask::scores) x.scores = std::remove_cvref_t<decltype(*x.scores)>(BufferRef{});
  });
  k.doc(v.text("Attention of one query a head of {DIM} over int{BITS} keys and values, groups of 32; window, sinks") +
        what + ".");
  const auto make = [spec](Shape s) { return [=]<class T>(Gen& g) { return attended<T>(g, s, spec); }; };
  k.test("batches, grouped heads, ragged steps", attention_limit, make({2, 4, 2, 29}));
  k.test("window and sinks", attention_limit, make({2, 4, 2, 45, 13, true}));
  k.test("a window", attention_limit, make({1, 2, 1, 9, 4}));
  k.test("one token, a wider window", attention_limit, make({1, 2, 2, 1, 3}));
  k.test("one token, sinks", attention_limit, make({2, 2, 1, 1, 0, true}));
  k.bench("8 heads, 2 of keys, 1024 keys", make({1, 8, 2, 1024}));
}
}  // namespace

void register_flash_quantized(Registry& r) {
  for (const auto& v : variants({{"BITS", {4u, 4u, 4u, 4u, 4u, 8u, 8u, 8u, 8u, 8u}},
                                 {"DIM", {64u, 96u, 128u, 256u, 512u, 64u, 96u, 128u, 256u, 512u}}}))
    add(r, v, "flash_quantized_sdpa_b{BITS}_d{DIM}", AttentionMask::none, "");
  for (const auto& v : variants({{"BITS", {4u, 4u, 4u, 8u, 8u, 8u}}, {"DIM", {64u, 128u, 256u, 64u, 128u, 256u}}})) {
    add(r, v, "flash_quantized_sdpa_bool_mask_b{BITS}_d{DIM}", AttentionMask::flags, ", a flag a key");
    add(r, v, "flash_quantized_sdpa_float_mask_b{BITS}_d{DIM}", AttentionMask::scores, ", an added score a key");
  }
}

}  // namespace iron::kernels
