// Rotary embedding with the frequencies of one base: standalone, and queries with keys.
#include "registry.h"
#include "rope/oracle.h"
#include "rope/rope.h"
#include "specials.h"

namespace iron::kernels {
namespace {

// Angles are f32: at position p they carry p * 2^-23 of error or so, whatever the kernel does.
constexpr auto limit = tolerance(1e-3, 8e-3, 4e-2);

template <class T>
Case rope(Gen& g, RopePairs pairs, u32 heads, u32 tokens, u32 dim, bool heads_first, u32 first, f64 base) {
  const auto x = g.values<T>(heads, tokens, dim);
  const auto out = g.output<T>(heads, tokens, dim);
  const u32 head_stride = heads_first ? tokens * dim : dim, token_stride = heads_first ? dim : heads * dim;
  std::vector<f64> want(x.size());
  for (u64 h = 0; h < heads; ++h)
    for (u64 t = 0; t < tokens; ++t) {
      const u64 row = h * head_stride + t * token_stride;
      turn_row(x, want, row, dim, pairs == RopePairs::half,
               [&](u64 i) { return static_cast<f64>(first + t) * std::pow(base, -2.0 * static_cast<f64>(i) / dim); });
    }
  return Case{Rope<T>{.x = x,
                      .out = out,
                      .heads = heads,
                      .tokens = tokens,
                      .head_dim = dim,
                      .head_stride = head_stride,
                      .token_stride = token_stride,
                      .first_position = first,
                      .log2_base = static_cast<f32>(std::log2(base)),
                      .pairs = pairs}}
      .expect("out", want);
}

struct QkShape {
  u32 tokens, q_heads, kv_heads, dim;
  RopePairs pairs;
  bool table;  // frequencies in memory
  u32 far;     // positions up to this
};

// With a table the angle is defined to the bit, position * frequency in f32: far positions are compared closely.
template <class T>
struct QkData {
  QkData(Gen& g, const QkShape& s)
      : q(g.values<T>(s.tokens, s.q_heads, s.dim)),
        k(g.values<T>(s.tokens, s.kv_heads, s.dim)),
        positions(g.from<u32>([&](u64 i) { return (s.far - i * 37) % (s.far + 1); }, s.tokens)),
        frequencies(
            g.from<f32>([&](u64 i) { return std::pow(500000.0, -2.0 * static_cast<f64>(i) / s.dim); }, s.dim / 2)),
        want_q(q.size()),
        want_k(k.size()) {
    const auto rotate_all = [&](const Array<T>& x, std::vector<f64>& want, u32 heads) {
      for (u64 t = 0; t < s.tokens; ++t)
        for (u64 h = 0; h < heads; ++h)
          turn_row(x, want, (t * heads + h) * s.dim, s.dim, s.pairs == RopePairs::half, [&](u64 i) {
            if (s.table) return f64{static_cast<f32>(positions.at(t) * frequencies.at(i))};
            return positions.at(t) * std::pow(10000.0, -2.0 * static_cast<f64>(i) / s.dim);
          });
    };
    rotate_all(q, want_q, s.q_heads);
    rotate_all(k, want_k, s.kv_heads);
  }
  Array<T> q, k;
  Array<u32> positions;
  Array<f32> frequencies;
  std::vector<f64> want_q, want_k;
};
const f32 log2_ten_thousand = 13.287712379549449f;

template <class T>
Case in_place(Gen& g, const QkShape& s) {
  QkData<T> d(g, s);
  RopeQkInPlace<T> kernel{.q = d.q,
                          .k = d.k,
                          .positions = d.positions,
                          .frequencies = {},
                          .tokens = s.tokens,
                          .q_heads = s.q_heads,
                          .kv_heads = s.kv_heads,
                          .head_dim = s.dim,
                          .log2_base = log2_ten_thousand,
                          .pairs = s.pairs};
  if (s.table) kernel.frequencies = Optional<In<f32>>(d.frequencies);
  return Case{kernel}.expect("q", d.want_q).expect("k", d.want_k);
}
template <class T>
Case out_of_place(Gen& g, const QkShape& s) {
  const QkData<T> d(g, s);
  const auto q_out = g.output<T>(d.q.size()), k_out = g.output<T>(d.k.size());
  RopeQk<T> kernel{.q = d.q,
                   .k = d.k,
                   .q_out = q_out,
                   .k_out = k_out,
                   .positions = d.positions,
                   .frequencies = {},
                   .tokens = s.tokens,
                   .q_heads = s.q_heads,
                   .kv_heads = s.kv_heads,
                   .head_dim = s.dim,
                   .log2_base = log2_ten_thousand,
                   .pairs = s.pairs};
  if (s.table) kernel.frequencies = Optional<In<f32>>(d.frequencies);
  return Case{kernel}.expect("q_out", d.want_q).expect("k_out", d.want_k);
}

void register_single(Registry& r, const char* name, const char* doc, RopePairs pairs) {
  auto k = r.kernel<Rope>(name, "rope", dtypes<f32, f16, bf16>, [=](auto& rope) { rope.pairs = pairs; });
  k.doc(doc);
  k.test("heads first, ragged blocks of heads", limit,
         [=]<class T>(Gen& g) { return rope<T>(g, pairs, 6, 5, 24, true, 0, 10000.0); });
  k.test("tokens first, later positions", limit,
         [=]<class T>(Gen& g) { return rope<T>(g, pairs, 3, 4, 80, false, 217, 500000.0); });
  k.bench("32 heads x 256 tokens x 128", [=]<class T>(Gen& g) {
    return rope<T>(g, pairs, 32, 256, 128, false, 0, 10000.0).computes(6.0 * 32 * 256 * 64);
  });
}

template <class M>
void register_qk(Registration<f32, f16, bf16> k, RopePairs pairs, M make) {
  const auto add = [&](const char* name, Tolerance t, QkShape s) {
    k.test(name, t, [=]<class T>(Gen& g) { return make.template operator()<T>(g, s); });
  };
  add("grouped heads", limit, {5, 6, 2, 24, pairs, false, 311});
  add("one token, one key head", limit, {1, 3, 1, 72, pairs, false, 99});
  add("far positions with a table", tolerance(4e-6, 2e-3, 1.6e-2), {3, 2, 1, 64, pairs, true, 131071});
  k.bench("256 tokens x (32 + 8) heads x 128", [=]<class T>(Gen& g) {
    return make.template operator()<T>(g, QkShape{256, 32, 8, 128, pairs, false, 4095}).computes(6.0 * 256 * 40 * 64);
  });
}

}  // namespace

void register_rope(Registry& r) {
  register_single(r, "rope", "Rotary embedding of [heads, tokens, head_dim] or any strides, pairs (i, i + D/2).",
                  RopePairs::half);
  register_single(r, "rope_interleaved",
                  "Rotary embedding of [heads, tokens, head_dim] or any strides, pairs (2i, 2i + 1).",
                  RopePairs::interleaved);
  const auto with = [](RopePairs pairs) { return [pairs](auto& k) { k.pairs = pairs; }; };
  constexpr auto types = dtypes<f32, f16, bf16>;
  const auto in = []<class T>(Gen& g, const QkShape& s) { return in_place<T>(g, s); };
  const auto out = []<class T>(Gen& g, const QkShape& s) { return out_of_place<T>(g, s); };
  register_qk(r.kernel<RopeQkInPlace>("rope_qk_in_place", "rope", types, with(RopePairs::half))
                  .doc("Queries and keys of a batch of tokens rotated in place, pairs (i, i + D/2)."),
              RopePairs::half, in);
  register_qk(r.kernel<RopeQkInPlace>("rope_qk_in_place_interleaved", "rope", types, with(RopePairs::interleaved))
                  .doc("Queries and keys of a batch of tokens rotated in place, pairs (2i, 2i + 1)."),
              RopePairs::interleaved, in);
  register_qk(r.kernel<RopeQk>("rope_qk", "rope", types, with(RopePairs::half))
                  .doc("Queries and keys of a batch of tokens rotated into other buffers, pairs (i, i + D/2)."),
              RopePairs::half, out);
  register_qk(r.kernel<RopeQk>("rope_qk_interleaved", "rope", types, with(RopePairs::interleaved))
                  .doc("Queries and keys of a batch of tokens rotated into other buffers, pairs (2i, 2i + 1)."),
              RopePairs::interleaved, out);
}

}  // namespace iron::kernels
