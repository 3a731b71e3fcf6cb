// Affine-quantised matrix product through tiles: weights are decoded while they are staged.
#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "quant/affine_case.h"
#include "quant/decode.h"
#include "registry.h"

namespace iron::kernels {

// out[m, n] = sum_k T(scales[n, k / G] * q[n, k] + biases[n, k / G]) * x[m, k]
// w: codes [N, K], scales, biases: [N, K / G], x: [M, K], out: [M, N]; any M and N, K a multiple of G. A decoded weight
// is rounded to T where it is staged; sums in f32.
template <class T>
struct AffineQmmTile {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<u32> w;
  In<T> scales, biases, x;
  Out<T> out;
  Scalar<u32> m, n, k;
  AffineFormat format;
  GemmSpec spec{.bm = 32, .bn = 32, .bk = 32};

  Grid grid() const { return spec.grid(m.value(), n.value()); }

  void operator()() const {
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    const Val<Index> depth(k), rows(n);
    GemmTile<T> tile(spec, true);
    tile.sum.zero();
    tile.multiply(0, depth, block_rows(x, m0, m, depth), [&](auto at, auto col, auto inside) {
      const auto row = min(n0 + col, rows - 1), term = min(at, depth - 1);
      const auto code = row * depth + term;
      const auto group = row * (depth / format.group) + term / format.group;
      const auto scale = cast<f32>(scales[group]), bias = cast<f32>(biases[group]);
      const auto v = affine_value(read_code(w, code, format.bits), scale, bias);
      return cast<T>(select(inside && n0 + col < rows, v, constant<f32>(0.0f)));
    });
    tile.sum.store(Block(out, m0 * rows + n0, rows), valid(m, m0, spec.bm), valid(rows, n0, spec.bn));
  }
};

namespace {
template <class T>
Case product(Gen& g, u32 m, u32 n, u32 k, AffineFormat f, GemmSpec spec) {
  const auto w = packed_matrix<T>(g, f.bits, f.group, n, k);
  const auto x = g.values<T>(m, k);
  const auto out = g.output<T>(m, n);
  return Case{AffineQmmTile<T>{.w = w.words,
                               .scales = w.scales,
                               .biases = w.biases,
                               .x = x,
                               .out = out,
                               .m = m,
                               .n = n,
                               .k = k,
                               .format = f,
                               .spec = spec}}
      .expect("out", affine_product(w.values, x, m, n, k))
      .computes(2.0 * m * n * k);
}
void add(Registry& r, const std::string& name, AffineFormat f, GemmSpec spec) {
  auto k = r.kernel<AffineQmmTile>(name, "quant", dtypes<f32, f16, bf16>,
                                   [f, spec](auto& q) { q.format = f, q.spec = spec; });
  k.doc("x [M,K] * W^T of int" + std::to_string(f.bits) + " codes [N,K], groups of " + std::to_string(f.group) +
        ", in tiles of " + std::to_string(spec.bm) + " x " + std::to_string(spec.bn) + " x " + std::to_string(spec.bk) +
        ".");
  k.shapes("x: [m, k]; out: [m, n]");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  k.test("rows and columns ragged", affine_limit,
         [=]<class T>(Gen& g) { return product<T>(g, spec.bm + 1, 35, 2 * f.group, f, spec); });
  k.bench("512 x 2048 x 2048", [=]<class T>(Gen& g) { return product<T>(g, 512, 2048, 2048, f, spec); });
}
}  // namespace

void register_qmm_tile(Registry& r) {
  const GemmSpec full{.bm = 32, .bn = 32, .bk = 32}, low{.bm = 16, .bn = 32, .bk = 32};
  const GemmSpec single{.bm = 16, .bn = 32, .bk = 16, .simdgroups = 1};
  add(r, "qmm_mma", {.bits = 4, .group = 64}, full);
  add(r, "qmm_mma_m16", {.bits = 4, .group = 64}, low);
  add(r, "qmm_mma_int8", {.bits = 8, .group = 64}, full);
  add(r, "qmm_mma_m16_int8", {.bits = 8, .group = 64}, low);
  add(r, "qmm_mma_int2", {.bits = 2, .group = 64}, full);
  for (const u32 bits : {3u, 5u, 6u}) add(r, "qmm_mma_b" + std::to_string(bits), {.bits = bits, .group = 32}, full);
  add(r, "qmm_nax", {.bits = 4, .group = 64}, full);
  add(r, "qmm_nax_int8", {.bits = 8, .group = 64}, full);
  add(r, "qmm_mma_mpp", {.bits = 4, .group = 64}, single);
  add(r, "qmm_mma_mpp_int8", {.bits = 8, .group = 32}, single);
}

}  // namespace iron::kernels
