// Registration of SampleGreedy.
#include "sampling/greedy.h"

#include "registry.h"

namespace iron::kernels {

namespace {
Case chosen(Gen& g, u32 rows, u32 n, const std::vector<std::pair<u64, f32>>& placed) {
  auto logits = g.normal<f32>(2.0, rows, n);
  for (const auto& [at, value] : placed) logits[at] = value;
  const auto out = g.output<u32>(rows);
  std::vector<u32> want;
  for (u64 r = 0; r < rows; ++r) {
    u32 best = 0;
    f64 top = -std::numeric_limits<f64>::infinity();
    for (u32 i = 0; i < n; ++i)
      if (logits.at(r * n + i) > top) top = logits.at(r * n + i), best = i;
    want.push_back(best);
  }
  return Case{SampleGreedy{.logits = logits, .out = out, .n = n}}.expect_exact("out", want);
}
}  // namespace

void register_sample_greedy(Registry& r) {
  auto k = r.kernel<SampleGreedy, f32>("sample_greedy", "sampling");
  k.doc("The smallest index of the largest logit of each row; NaN is never chosen.");
  k.shapes("logits: [..., n]; out: [...]");
  constexpr f32 nan = std::numeric_limits<f32>::quiet_NaN(), infinity = std::numeric_limits<f32>::infinity();
  k.test("ragged rows", exact_match, []<class T>(Gen& g) { return chosen(g, 3, 1003, {}); });
  k.test("ties", exact_match,
         []<class T>(Gen& g) { return chosen(g, 2, 700, {{699, 50.0f}, {300, 50.0f}, {556, 50.0f}, {701, 9.0f}}); });
  k.test("not a number, infinities", exact_match, [=]<class T>(Gen& g) {
    return chosen(g, 2, 300, {{0, nan}, {17, -infinity}, {299, nan}, {450, infinity}, {400, nan}});
  });
  k.test("nothing above -inf", exact_match,
         [=]<class T>(Gen& g) { return chosen(g, 1, 3, {{0, -infinity}, {1, nan}, {2, -infinity}}); });
  k.bench("49152", []<class T>(Gen& g) { return chosen(g, 1, 49152, {}); });
}

}  // namespace iron::kernels
