// Dense GEMM: the blockings of steel_gemm, the weight-major form, and the choice between them.
#include "gemm/gemm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "gemm/oracle.h"
#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

std::vector<GemmChoice> steel_gemm_members() {
  const auto member = [](u32 bm, u32 bn, u32 wm, u32 wn) {
    return GemmChoice{fmt::format("steel_gemm_{}x{}x16_{}x{}", bm, bn, wm, wn),
                      {.bm = bm, .bn = bn, .bk = 16, .simdgroups = wm * wn}};
  };
  return {member(64, 64, 4, 2), member(64, 64, 2, 2), member(64, 64, 1, 2), member(64, 32, 1, 2),
          member(32, 64, 1, 2), member(32, 32, 2, 2), member(32, 32, 1, 2)};
}

const std::vector<WideGemm>& wide_gemm_members() {
  static const std::vector<WideGemm> members = [] {
    std::vector<WideGemm> all;
    for (const bool weight_major : {true, false})
      for (const auto& [bm, bn, simdgroups] : {std::array{128u, 256u, 8u}, {128u, 128u, 4u}, {64u, 64u, 4u}})
        all.push_back({fmt::format("{}_wide_{}x{}", weight_major ? "gemm" : "steel_gemm", bm, bn),
                       weight_major,
                       {.bm = bm, .bn = bn, .simdgroups = simdgroups, .wide = true}});
    return all;
  }();
  return members;
}

namespace {
constexpr u32 up(u32 size, u32 block) { return (size + block - 1) / block; }
void check_product(u32 m, u32 n, u32 k) {
  if (m == 0 || n == 0 || k == 0)
    throw Error("LIB03", fmt::format("a product of {} x {} by {} x {} is empty", m, k, k, n),
                "give every dimension at least 1, or skip the launch");
}
// Whatever the elements are stored as, the CPU stages f32.
constexpr GemmSpec cpu_spec() { return {.bm = 516, .bn = 512, .bk = 256, .simdgroups = 1, .pad = 0}; }
}  // namespace

GemmSpec cpu_gemm_for(u32 m, u32 n, u32 k, u32 workers) {
  check_product(m, n, k);
  GemmSpec s = cpu_spec();
  constexpr u32 register_rows = 6, vector = 16;
  const auto even = [](u32 size, u32 parts, u32 multiple) { return up(up(size, parts), multiple) * multiple; };
  s.bn = std::min(s.bn, up(n, vector) * vector);
  u32 parts = up(m, s.bm);
  s.bm = even(m, parts, register_rows);
  while (u64{up(m, s.bm)} * up(n, s.bn) < 2 * u64{workers} && s.bm > register_rows)
    s.bm = even(m, ++parts, register_rows);
  s.bk = std::min(s.bk, up(k, vector) * vector);
  return s;
}

GemmChoice steel_gemm_for(u32 m, u32 n, u32 k, DType dtype, u32 cores) {
  check_product(m, n, k);
  const auto members = steel_gemm_members();
  const GemmChoice* best = nullptr;
  f64 best_cost = 0;
  for (const auto& c : members) {
    const u64 groups = u64{up(m, c.spec.bm)} * up(n, c.spec.bn);
    // Elements that are staged and multiplied, edges included, over the cores that have work; a term for staging
    // traffic, which a larger tile divides by more products.
    const f64 rounds = static_cast<f64>(up(static_cast<u32>(std::min<u64>(groups, 0xffffffffu)), cores));
    const f64 size = static_cast<f64>(c.spec.bm) * c.spec.bn;
    const f64 traffic = static_cast<f64>(c.spec.bm + c.spec.bn) * (dtype == DType::f32 ? 4 : 2);
    const f64 cost = rounds * (size + 4 * traffic);
    if (!best || cost < best_cost) best = &c, best_cost = cost;
  }
  return *best;
}

const WideGemm& wide_gemm_for(u32 m, u32 n, bool weight_major, DType dtype, u32 cores) {
  const WideGemm* best = nullptr;
  for (const auto& w : wide_gemm_members()) {
    if (w.weight_major != weight_major || !w.takes(dtype)) continue;
    best = &w;
    if (u64{up(m, w.spec.bm)} * up(n, w.spec.bn) >= cores) break;
  }
  return *best;
}

namespace {
template <class T>
Case product(Gen& g, u32 m, u32 n, u32 k, GemmSpec spec) {
  const auto a = g.values<T>(m, k), b = g.values<T>(k, n);
  const auto c = g.output<T>(m, n);
  return Case{SteelGemm<T>{.a = a, .b = b, .c = c, .m = m, .n = n, .k = k, .spec = spec}}
      .expect("c", gemm_oracle(a, b, m, n, k))
      .computes(2.0 * m * n * k);
}
template <class T>
Case weight_major(Gen& g, u32 rows, u32 n, u32 k, GemmSpec spec) {
  const auto w = g.values<T>(n, k), x = g.values<T>(rows, k);
  const auto y = g.output<T>(rows, n);
  std::vector<f64> expected(u64{rows} * n);
  for (u64 r = 0; r < rows; ++r)
    for (u64 o = 0; o < n; ++o)
      for (u64 i = 0; i < k; ++i) expected[r * n + o] += w.at(o * k + i) * x.at(r * k + i);
  return Case{Gemm<T>{.weight = w, .input = x, .out = y, .n = n, .k = k, .rows = rows, .spec = spec}}
      .expect("out", std::move(expected))
      .computes(2.0 * rows * n * k);
}
template <class T>
Case any_product(Gen& g, const WideGemm& w, u32 m, u32 n, u32 k) {
  const auto spec = w.template spec_for<T>();
  return w.weight_major ? weight_major<T>(g, m, n, k, spec) : product<T>(g, m, n, k, spec);
}

template <template <class> class Kernel, class... E>
void add_wide(Registry& r, const WideGemm& w, DTypes<E...> types) {
  auto k = r.kernel<Kernel>(w.name, "gemm", types, [w]<class T>(Kernel<T>& g) { g.spec = w.spec_for<T>(); });
  k.doc(fmt::format("{}: {} threads a {} x {} block, staged by 16 bytes an access into two stages where rows allow it.",
                    w.weight_major ? "out[R,N] = input[R,K] * weight[N,K]^T" : "C[M,N] = A[M,K] * B[K,N]",
                    w.spec.threads(), w.spec.bm, w.spec.bn));
  k.shapes(w.weight_major ? "weight: [n, k]; input: [rows, k]; out: [rows, n]" : "a: [m, k]; b: [k, n]; c: [m, n]");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  const u32 bm = w.spec.bm, bn = w.spec.bn;
  k.test("ragged, odd steps, by 16 bytes", gemm_limit,
         [w, bm, bn]<class T>(Gen& g) { return any_product<T>(g, w, bm + 5, bn + 16, 72); });
  k.test("ragged on every side", gemm_limit,
         [w, bm, bn]<class T>(Gen& g) { return any_product<T>(g, w, bm - 3, bn + 3, 19); });
  k.bench("1024 x 1024 x 1024", [w]<class T>(Gen& g) { return any_product<T>(g, w, 1024, 1024, 1024); });
}
}  // namespace

void register_steel_gemm(Registry& r) {
  for (const auto& choice : steel_gemm_members()) {
    const GemmSpec spec = choice.spec;
    auto k = r.kernel<SteelGemm>(choice.name, "gemm", dtypes<f32, f16, bf16>, [spec](auto& g) { g.spec = spec; });
    k.doc(fmt::format("C[M,N] = A[M,K] * B[K,N]: a threadgroup of {} threads a {} x {} block of C, 16 terms a step.",
                      spec.threads(), spec.bm, spec.bn));
    k.shapes("a: [m, k]; b: [k, n]; c: [m, n]");
    k.determinism("bitwise in software; a device's matrix unit sums in its own order");
    k.test("ragged on every side", gemm_limit,
           [spec]<class T>(Gen& g) { return product<T>(g, spec.bm + 5, spec.bn + 3, 19, spec); });
    k.test("one row, one term", gemm_limit, [spec]<class T>(Gen& g) { return product<T>(g, 1, 7, 1, spec); });
    k.bench("512 x 512 x 512", [spec]<class T>(Gen& g) { return product<T>(g, 512, 512, 512, spec); });
  }
  auto cpu = r.kernel<SteelGemm>("gemm_cpu", "gemm", dtypes<f32, f16, bf16>,
                                 []<class T>(SteelGemm<T>& g) { g.spec = cpu_spec(); });
  cpu.doc("C[M,N] = A[M,K] * B[K,N] in blocks for a CPU core's second cache level; cpu_gemm_for fits them to a shape.");
  cpu.shapes("a: [m, k]; b: [k, n]; c: [m, n]");
  cpu.determinism("bitwise in software; a device's matrix unit sums in its own order");
  cpu.test("blocks fitted to two workers", gemm_limit,
           []<class T>(Gen& g) { return product<T>(g, 50, 21, 33, cpu_gemm_for(50, 21, 33, 2)); });
  cpu.test("two blocks of columns and of depth", gemm_limit, []<class T>(Gen& g) {
    return product<T>(g, 13, 35, 37, {.bm = 12, .bn = 32, .bk = 16, .simdgroups = 1, .pad = 0});
  });
  cpu.bench("1024 x 1024 x 1024", []<class T>(Gen& g) { return product<T>(g, 1024, 1024, 1024, cpu_spec()); });

  auto k = r.kernel<Gemm>("gemm", "gemm", dtypes<f32, f16, bf16>);
  k.doc("out[R,N] = input[R,K] * weight[N,K]^T: a threadgroup of 1024 threads a 32 x 32 block.");
  k.shapes("weight: [n, k]; input: [rows, k]; out: [rows, n]");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  k.test("ragged on every side", gemm_limit,
         []<class T>(Gen& g) { return weight_major<T>(g, 35, 41, 23, Gemm<T>::usual); });
  k.bench("128 x 1024 x 1024", []<class T>(Gen& g) { return weight_major<T>(g, 128, 1024, 1024, Gemm<T>::usual); });

  for (const auto& w : wide_gemm_members()) {
    const auto add = [&](auto types) {
      w.weight_major ? add_wide<Gemm>(r, w, types) : add_wide<SteelGemm>(r, w, types);
    };
    w.takes(DType::f32) ? add(dtypes<f32, f16, bf16>) : add(dtypes<f16, bf16>);
  }
}

}  // namespace iron::kernels
