// Registration of SwigluRows.
#include "gate/swiglu_rows.h"

#include "registry.h"

namespace iron::kernels {

namespace {
Case gated(Gen& g, u32 tokens, u32 n, f64 deviation) {
  const auto x = g.normal<f32>(deviation, tokens, 2, n);
  const auto y = g.output<f32>(tokens, n);
  std::vector<f64> want;
  for (u64 t = 0; t < tokens; ++t)
    for (u64 i = 0; i < n; ++i) {
      const f64 gate = x.at(2 * t * n + i);
      want.push_back(gate / (1.0 + std::exp(-gate)) * x.at((2 * t + 1) * n + i));
    }
  return Case{SwigluRows{.x = x, .y = y, .n = n}}.expect("y", want);
}
}  // namespace

void register_swiglu_rows(Registry& r) {
  auto k = r.kernel<SwigluRows, f32>("swiglu_rows", "gate");
  k.doc("silu of the first half of each row times the second half.");
  k.shapes("x: [..., 2*n]; y: [..., n]");
  constexpr auto limit = tolerance(2e-6, 0, 0);
  k.test("ragged", limit, []<class T>(Gen& g) { return gated(g, 3, 101, 2.0); });
  k.test("large gates", limit, []<class T>(Gen& g) { return gated(g, 2, 64, 40.0); });
  k.bench("256 x 1536", []<class T>(Gen& g) { return gated(g, 256, 1536, 2.0).computes(20.0 * 256 * 1536); });
}

}  // namespace iron::kernels
