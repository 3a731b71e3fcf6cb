// Registration of the Hopper member of the attention family.
#include "attention/attention_tma.h"

#include <algorithm>
#include <cmath>

#include "registry.h"

namespace iron::kernels {

namespace {
constexpr u32 hd = 128;
constexpr Tolerance attention_limit = tolerance(1e-3, 4e-3, 2e-2);

struct Shape {
  u32 batch, heads, shared_heads, seq;
};

template <class T>
std::vector<f64> oracle(const Array<T>& q, const Array<T>& k, const Array<T>& v, const Shape& s, bool causal) {
  std::vector<f64> out(u64{s.batch} * s.heads * s.seq * hd);
  std::vector<f64> weight(s.seq);
  for (u64 b = 0; b < s.batch; ++b)
    for (u64 h = 0; h < s.heads; ++h) {
      const u64 kv = (b * s.shared_heads + h * s.shared_heads / s.heads) * s.seq * hd;
      for (u64 i = 0; i < s.seq; ++i) {
        const u64 row = ((b * s.heads + h) * s.seq + i) * hd, keys = causal ? i + 1 : s.seq;
        f64 top = -HUGE_VAL, sum = 0;
        for (u64 j = 0; j < keys; ++j) {
          f64 dot = 0;
          for (u64 d = 0; d < hd; ++d) dot += q.at(row + d) * k.at(kv + j * hd + d);
          weight[j] = dot / std::sqrt(f64{hd});
          top = std::max(top, weight[j]);
        }
        for (u64 j = 0; j < keys; ++j) sum += weight[j] = std::exp(weight[j] - top);
        for (u64 j = 0; j < keys; ++j)
          for (u64 d = 0; d < hd; ++d) out[row + d] += weight[j] / sum * v.at(kv + j * hd + d);
      }
    }
  return out;
}

template <class T>
Case attention(Gen& g, Shape s, AttentionTmaSpec spec, bool judged) {
  const auto q = g.values<T>(s.batch, s.heads, s.seq, hd);
  const auto k = g.values<T>(s.batch, s.shared_heads, s.seq, hd), v = g.values<T>(s.batch, s.shared_heads, s.seq, hd);
  const auto o = g.output<T>(s.batch, s.heads, s.seq, hd);
  const TensorDims whole{hd, s.seq, s.heads, s.batch}, shared{hd, s.seq, s.shared_heads, s.batch};
  Case made{AttentionTma<T>{.q = {q, whole},
                            .k = {k, shared},
                            .v = {v, shared},
                            .o = {o, whole},
                            .seq = s.seq,
                            .heads = s.heads,
                            .group = s.heads / s.shared_heads,
                            .batch = s.batch,
                            .scale_log2 = 1.4426950408889634f / std::sqrt(static_cast<f32>(hd)),
                            .spec = spec}};
  if (judged) made.expect("o", oracle(q, k, v, s, spec.causal));
  return made.computes(4.0 * s.batch * s.heads * s.seq * s.seq * hd * (spec.causal ? 0.5 : 1.0));
}
}  // namespace

void register_attention_tma(Registry& r) {
  for (const bool causal : {true, false}) {
    const AttentionTmaSpec spec{.causal = causal};
    auto k = r.kernel<AttentionTma>(causal ? "attention_tma_causal" : "attention_tma", "attention", dtypes<f16, bf16>,
                                    [spec](auto& a) { a.spec = spec; });
    k.doc(
        "Attention over whole sequences, head dimension 128, grouped heads, by the Hopper tier: two warpgroups in "
        "turns, "
        "softmax hidden by products.");
    k.determinism("bitwise on one device: the matrix unit sums in its own fixed order, exp2 is the device's own");
    k.needs("roles");
    k.test("ragged blocks, grouped heads", attention_limit,
           [spec]<class T>(Gen& g) { return attention<T>(g, {1, 4, 2, 200}, spec, true); });
    k.test("two batches, several tiles a threadgroup", attention_limit, [spec]<class T>(Gen& g) {
      AttentionTmaSpec few = spec;
      few.units = 3;
      return attention<T>(g, {2, 2, 1, 300}, few, true);
    });
    k.test("heads in sections, the last one smaller", attention_limit, [spec]<class T>(Gen& g) {
      AttentionTmaSpec few = spec;
      few.units = 2, few.section_keys = 300;
      return attention<T>(g, {1, 7, 7, 150}, few, true);
    });
    k.bench("4 x 16 heads x 4096", [spec]<class T>(Gen& g) { return attention<T>(g, {4, 16, 16, 4096}, spec, false); });
  }
}

}  // namespace iron::kernels
