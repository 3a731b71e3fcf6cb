// Mixture of experts through tiles: sorted rows with an expert id each, a tile walks the runs of one expert.
#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "quant/affine_case.h"
#include "quant/decode.h"
#include "registry.h"

namespace iron::kernels {

// out[m, n] = sum_k T(w[indices[m], n, k]) * x[m, k], zeros where indices[m] is no expert
// w: codes [E, N, K], scales, biases: [E, N, K / G], x: [M, K], indices: [M], sorted for speed only, out: [M, N].
// Weights of an id that is no expert are never read.
template <class T>
struct MoeGatherQmmTile {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<u32> w;
  In<T> scales, biases, x;
  In<u32> indices;
  Out<T> out;
  Scalar<u32> m, n, k, experts;
  AffineFormat format;
  GemmSpec spec{.bm = 32, .bn = 32, .bk = 32};

  Grid grid() const { return spec.grid(m.value(), n.value()); }

  void operator()() const {
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    const Val<Index> depth(k), columns(n), rows(m);
    GemmTile<T> tile(spec, true);
    for (auto i : range(valid(rows, m0, spec.bm))) {
      // A run starts where the id differs from the row before, and is worked on as a whole.
      const auto id = indices[m0 + i];
      const auto before = indices.load_or(i > 0, m0 + i - 1, 0u);
      if_(i == 0 || id != before) {
        tile.sum.zero();
        if_(id < experts) {
          const auto expert = min(Val<Index>(id), Val<Index>(experts) - 1);
          tile.multiply(0, depth, block_rows(x, m0, rows, depth), [&](auto at, auto col, auto inside) {
            const auto row = expert * columns + min(n0 + col, columns - 1), term = min(at, depth - 1);
            const auto group = row * (depth / format.group) + term / format.group;
            const auto scale = cast<f32>(scales[group]), bias = cast<f32>(biases[group]);
            const auto v = affine_value(read_code(w, row * depth + term, format.bits), scale, bias);
            return cast<T>(select(inside && n0 + col < columns, v, constant<f32>(0.0f)));
          });
        }
        for (auto e : range(tile.sum.elements())) {
          const auto row = m0 + tile.sum.row(e), col = n0 + tile.sum.col(e);
          const auto same = indices.load_or(row < rows, row, 0u) == id;
          if_(row < rows && col < columns && same) { out[row * columns + col] = cast<T>(tile.sum.get(e)); }
        }
      }
    }
  }
};

namespace {
template <class T>
Case experts(Gen& g, std::vector<u32> ids, u32 count, u32 n, u32 k, AffineFormat f, GemmSpec spec) {
  const u32 m = static_cast<u32>(ids.size());
  const auto w = packed_matrix<T>(g, f.bits, f.group, u64{count} * n, k);
  const auto x = g.values<T>(m, k);
  const auto indices = g.from<u32>([&](u64 i) { return ids[i]; }, m);
  const auto out = g.output<T>(m, n);
  std::vector<f64> expected(out.size());
  for (u64 r = 0; r < m; ++r)
    for (u64 o = 0; o < n && ids[r] < count; ++o)
      for (u64 i = 0; i < k; ++i) expected[r * n + o] += w.values[(u64{ids[r]} * n + o) * k + i] * x.at(r * k + i);
  return Case{MoeGatherQmmTile<T>{.w = w.words,
                                  .scales = w.scales,
                                  .biases = w.biases,
                                  .x = x,
                                  .indices = indices,
                                  .out = out,
                                  .m = m,
                                  .n = n,
                                  .k = k,
                                  .experts = count,
                                  .format = f,
                                  .spec = spec}}
      .expect("out", std::move(expected))
      .computes(2.0 * m * n * k);
}
void add(Registry& r, const std::string& name, AffineFormat f, GemmSpec spec) {
  auto k = r.kernel<MoeGatherQmmTile>(name, "moe", dtypes<f32, f16, bf16>,
                                      [f, spec](auto& q) { q.format = f, q.spec = spec; });
  k.doc("x [M,K] times the int" + std::to_string(f.bits) + " weights [E,N,K] of the expert indices[m], in tiles of " +
        std::to_string(spec.bm) + " rows that walk runs of one expert; zeros for an id that is no expert.");
  k.shapes("x: [m, k]; indices: [m]; out: [m, n]");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  k.test("runs inside and across tiles, ids that are no expert", affine_limit, [=]<class T>(Gen& g) {
    std::vector<u32> ids{0, 0, 2, 2, 2};
    ids.resize(spec.bm + 2, 3u);
    ids.insert(ids.end(), {4u, 5u, 0xffffffffu});
    return experts<T>(g, ids, 5, 35, 2 * f.group, f, spec);
  });
  k.test("one row left, of expert 0", affine_limit, [=]<class T>(Gen& g) {
    std::vector<u32> ids(spec.bm, 1u);
    ids.push_back(0u);
    return experts<T>(g, ids, 2, 33, f.group, f, spec);
  });
  k.bench("256 rows, 8 experts of 1024 x 1024", [=]<class T>(Gen& g) {
    std::vector<u32> ids(256);
    for (u32 i = 0; i < 256; ++i) ids[i] = i / 32;
    return experts<T>(g, ids, 8, 1024, 1024, f, spec);
  });
}
}  // namespace

void register_moe_gather_qmm_tile(Registry& r) {
  const auto tile = [](u32 rows, u32 depth, u32 simdgroups) {
    return GemmSpec{.bm = rows, .bn = 32, .bk = depth, .simdgroups = simdgroups};
  };
  add(r, "moe_gather_qmm_mma_int4", {.bits = 4, .group = 64}, tile(32, 32, 4));
  add(r, "moe_gather_qmm_mma_int4_bm16", {.bits = 4, .group = 64}, tile(16, 32, 4));
  add(r, "moe_gather_qmm_mma_int8", {.bits = 8, .group = 64}, tile(32, 32, 4));
  for (const u32 bits : {3u, 5u, 6u, 8u})
    add(r, "moe_gather_qmm_mma_b" + std::to_string(bits), {.bits = bits, .group = 32}, tile(32, 32, 4));
  for (const u32 bits : {4u, 8u}) {
    const auto name = "moe_gather_qmm_mma_int" + std::to_string(bits);
    const AffineFormat f{.bits = bits, .group = 64};
    add(r, name + "_bm8_mpp", f, tile(8, 16, 1));
    add(r, name + "_bm16_mpp", f, tile(16, 16, 1));
    add(r, name + "_bm64_mpp", f, tile(64, 32, 4));
  }
}

}  // namespace iron::kernels
