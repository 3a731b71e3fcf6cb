// Vector times affine-quantised matrix: codes run along the output, groups along the depth.
#include "iron/dsl.h"
#include "iron/library.h"
#include "quant/affine_case.h"
#include "quant/decode.h"
#include "registry.h"

namespace iron::kernels {

// out[m, n] = sum_k x[m, k] * (scales[k / G, n] * q[k, n] + biases[k / G, n])
// w: codes [K, N] packed along N, scales, biases: [K / G, N], x: [M, K], out: [M, N]; N a multiple of 32, K of G.
// A threadgroup has `cols` columns, whose codes fill whole words, and splits the depth over its threads.
template <class T>
struct AffineQvm {
  static constexpr Mode mode = Mode::Threadgroup;

  In<u32> w;
  In<T> scales, biases, x;
  Out<T> out;
  Scalar<u32> m, n, k;
  AffineFormat format;
  u32 cols = 8;

  Grid grid() const { return {Threadgroups{n.value() / cols, m.value()}, Threads{128}}; }

  void operator()() const {
    const auto n0 = threadgroup_id(Axis::x) * cols, row = threadgroup_id(Axis::y);
    const Val<Index> depth(k), width(n);
    const auto row_words = width / 32 * format.bits;
    Vars<f32> sums(cols, 0.0f);
    for (auto at : range(thread_id(), depth, threads())) {
      const auto input = cast<f32>(x[row * depth + at]);
      const auto group = at / format.group;
      const auto codes =
          read_codes(w, at * row_words + threadgroup_id(Axis::x) * format.words(cols), cols, format.bits);
      for (u32 c = 0; c < cols; ++c) {
        const auto scale = cast<f32>(scales[group * width + n0 + c]), bias = cast<f32>(biases[group * width + n0 + c]);
        const auto weight = affine_value(codes[c], scale, bias);
        const auto product = input * weight;
        sums[c] += product;
      }
    }
    for (u32 c = 0; c < cols; ++c) {
      const auto total = threadgroup_sum(sums[c]);
      if_(thread_id() == 0) { out[row * width + n0 + c] = cast<T>(total); }
    }
  }
};

namespace {
template <class T>
Case product(Gen& g, u32 m, u32 n, u32 k, AffineFormat f, u32 cols) {
  // Packed along K, then turned: the codes of a row of W lie in `turned` along N.
  const auto p = packed_matrix<T>(g, f.bits, f.group, n, k);
  const std::span<const u32> stream(p.words.data(), p.words.size());
  std::vector<u32> turned(u64{n} * k);
  for (u64 o = 0; o < n; ++o)
    for (u64 i = 0; i < k; ++i) turned[i * n + o] = quant::read_code(stream, o * k + i, f.bits);
  const auto packed = quant::pack_codes(turned, f.bits);
  const u64 groups = k / f.group;
  const auto w = g.from<u32>([&](u64 i) { return packed[i]; }, packed.size());
  const auto scales = g.from<T>([&](u64 i) { return p.scales[i % n * groups + i / n]; }, groups, n);
  const auto biases = g.from<T>([&](u64 i) { return p.biases[i % n * groups + i / n]; }, groups, n);
  const auto x = g.values<T>(m, k);
  const auto out = g.output<T>(m, n);
  return Case{AffineQvm<T>{.w = w,
                           .scales = scales,
                           .biases = biases,
                           .x = x,
                           .out = out,
                           .m = m,
                           .n = n,
                           .k = k,
                           .format = f,
                           .cols = cols}}
      .expect("out", affine_product(p.values, x, m, n, k))
      .computes(2.0 * m * n * k);
}
void add(Registry& r, const std::string& name, AffineFormat f, u32 cols) {
  auto k =
      r.kernel<AffineQvm>(name, "quant", dtypes<f32, f16, bf16>, [f, cols](auto& q) { q.format = f, q.cols = cols; });
  k.doc("x [M,K] * W of int" + std::to_string(f.bits) + " codes [K,N], scales and biases [K/" +
        std::to_string(f.group) + ",N]; " + std::to_string(cols) + " columns a threadgroup.");
  k.shapes("x: [m, k]; out: [m, n]");
  k.test("depth ragged over the threads", affine_limit,
         [=]<class T>(Gen& g) { return product<T>(g, 2, 64, 3 * f.group, f, cols); });
  k.bench("1 x 2048 x 2048", [=]<class T>(Gen& g) { return product<T>(g, 1, 2048, 2048, f, cols); });
}
}  // namespace

void register_qvm(Registry& r) {
  add(r, "qvm_int4_fast", {.bits = 4, .group = 64}, 8);
  for (const u32 bits : {3u, 4u, 5u, 6u, 8u})
    add(r, "qvm_b" + std::to_string(bits), {.bits = bits, .group = 32}, bits == 8 ? 4 : 32 % bits == 0 ? 16 : 32);
}

}  // namespace iron::kernels
