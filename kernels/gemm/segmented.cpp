// Segmented GEMM: many products over ranges of one shared depth.
#include "gemm/oracle.h"
#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

// c[s, m, n] = sum_{k0 <= k < k1} a[m, k] * b[k, n], with {k0, k1} = segments[2 s], segments[2 s + 1]
// a: [M, K], b: [K, N], segments: [S, 2], c: [S, M, N]. Segments may overlap and be empty (zeros); a bound beyond K is
// clamped, and the interpreter reports it.
template <class T>
struct SteelGemmSegmented {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<T> a, b;
  In<u32> segments;
  Out<T> c;
  Scalar<u32> m, n, k;
  GemmSpec spec;

  Grid grid() const { return spec.grid(m.value(), n.value(), static_cast<u32>(segments.size() / 2)); }

  void operator()() const {
    const auto segment = threadgroup_id(Axis::z);
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    const auto from = bounded(segments[segment * 2], 0, k), end = bounded(segments[segment * 2 + 1], 0, k);
    GemmTile<T> tile(spec);
    tile.sum.zero();
    tile.multiply(from, end, block_rows(a, m0, m, k), block_columns(b, n0, n));
    tile.sum.store(Block(c, (segment * m + m0) * n + n0, n), valid(m, m0, spec.bm), valid(n, n0, spec.bn));
  }
};

namespace {
template <class T>
Case segments(Gen& g, u32 m, u32 n, u32 k, std::vector<u32> bounds, GemmSpec spec) {
  const auto a = g.values<T>(m, k), b = g.values<T>(k, n);
  const auto s = g.from<u32>([&](u64 i) { return bounds[i]; }, bounds.size());
  const auto c = g.output<T>(bounds.size() / 2, m, n);
  std::vector<f64> expected(c.size());
  for (u64 i = 0; i < bounds.size() / 2; ++i)
    for (u64 t = bounds[2 * i]; t < bounds[2 * i + 1]; ++t)
      for (u64 r = 0; r < m; ++r)
        for (u64 j = 0; j < n; ++j) expected[(i * m + r) * n + j] += a.at(r * k + t) * b.at(t * n + j);
  return Case{SteelGemmSegmented<T>{.a = a, .b = b, .segments = s, .c = c, .m = m, .n = n, .k = k, .spec = spec}}
      .expect("c", std::move(expected));
}
}  // namespace

void register_segmented_gemm(Registry& r) {
  for (const u32 size : {64u, 32u}) {
    const GemmSpec spec{.bm = size, .bn = size};
    const auto name = "steel_gemm_segmented_" + std::to_string(size) + "x" + std::to_string(size);
    auto k = r.kernel<SteelGemmSegmented>(name, "gemm", dtypes<f32, f16, bf16>, [spec](auto& g) { g.spec = spec; });
    k.doc("c[s] = A[:, k0..k1] * B[k0..k1, :] for each segment {k0, k1}: A [M,K], B [K,N], c [S,M,N].");
    k.determinism("bitwise in software; a device's matrix unit sums in its own order");
    k.test("bounds inside blocks, overlap, one term, empty, whole", gemm_limit, [spec]<class T>(Gen& g) {
      return segments<T>(g, spec.bm + 1, 37, 41, {3, 20, 17, 18, 12, 41, 7, 7, 41, 41, 0, 41}, spec);
    });
    k.test("end before start", gemm_limit,
           [spec]<class T>(Gen& g) { return segments<T>(g, 5, 6, 24, {9, 4, 0, 24}, spec); });
    k.bench("8 segments, 512 x 512 x 2048", [spec]<class T>(Gen& g) {
      return segments<T>(g, 512, 512, 2048,
                         {0, 256, 256, 512, 512, 768, 768, 1024, 1024, 1280, 1280, 1536, 1536, 1792, 1792, 2048}, spec)
          .computes(2.0 * 512 * 512 * 2048);
    });
  }
}

}  // namespace iron::kernels
