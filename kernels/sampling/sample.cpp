// A draw from the softmax of logits.
#include "registry.h"
#include "sampling/sampling.h"
#include "specials.h"

namespace iron::kernels {
namespace {

// The weights of a row in f64, as the kernel defines them.
template <class T>
std::vector<f64> weights(const Array<T>& x, u64 row, u64 n, f64 temperature) {
  f64 top = -infinity;
  for (u64 i = 0; i < n; ++i) top = std::fmax(top, x.at(row * n + i));
  std::vector<f64> w;
  for (u64 i = 0; i < n; ++i) {
    const f64 v = x.at(row * n + i);
    w.push_back(v == top ? 1.0 : temperature == 0.0 || std::isnan(v) ? 0.0 : std::exp((v - top) / temperature));
  }
  return w;
}

// Each row draws a chosen token: its uniform number lies in the middle of the token's share, far from rounding.
template <class T>
Case draws(Gen& g, u32 rows, u32 n, f32 temperature) {
  auto x = g.normal<T>(1.5, rows, n);
  for (u64 r = 0; r < rows; ++r)
    for (u64 i = r % 3; i < n; i += 5) x[r * n + i] = T(-infinity);
  auto uniform = g.zeros<f32>(rows);
  std::vector<u32> want(rows);
  for (u64 r = 0; r < rows; ++r) {
    const auto w = weights(x, r, n, temperature);
    f64 total = 0, before = 0, best = 0;
    for (const f64 v : w) total += v;
    // Of a stretch of the row that differs from row to row, the likeliest token.
    const u64 low = r * n / rows, high = std::max(low + 1, (r + 1) * n / rows);
    for (u64 i = 0; i < n; ++i) {
      if (i >= low && i < high && w[i] > best)
        best = w[i], want[r] = static_cast<u32>(i), uniform[r] = static_cast<f32>((before + 0.5 * w[i]) / total);
      before += w[i];
    }
  }
  const auto out = g.output<u32>(rows);
  const auto heat = listed<f32>(g, {temperature});
  return Case{SoftmaxCategoricalSample<T>{.logits = x, .out = out, .temperature = heat, .uniform = uniform, .n = n}}
      .expect_exact("out", want)
      .moves(u64{rows} * n * sizeof(T));
}

// Ends of the distribution, rows with nothing to draw, temperature 0: each answer follows from the definition.
template <class T>
Case ends(Gen& g) {
  constexpr u32 n = 300, rows = 7;
  auto x = g.from<T>([](u64) { return -infinity; }, rows, n);
  const auto put = [&](u64 row, u64 i, f64 v) { x[row * n + i] = T(v); };
  const auto uniform = listed<f32>(g, {0.0, 1.0, 0.0, 0.999, 0.5, 1.0, 0.6});
  std::vector<u32> want(rows);
  put(0, 3, -2.0), put(0, 120, 5.0), want[0] = 3;   // 0 skips what cannot be drawn
  put(1, 3, 5.0), put(1, 257, 4.5), want[1] = 257;  // 1 stops at the last that can
  put(2, 299, 1.0), want[2] = 299;                  // only the last
  put(3, 0, 1.0), want[3] = 0;                      // only the first
  for (u64 i = 0; i < n; ++i) put(4, i, not_a_number);
  want[4] = 0;  // nothing at all
  put(5, 7, not_a_number), put(5, 9, 0.0), put(5, 298, not_a_number), want[5] = 9;
  put(6, 20, infinity), put(6, 21, 3.0), want[6] = 20;  // an infinite logit wins
  const auto out = g.output<u32>(rows);
  const auto heat = listed<f32>(g, {1.0});
  return Case{SoftmaxCategoricalSample<T>{.logits = x, .out = out, .temperature = heat, .uniform = uniform, .n = n}}
      .expect_exact("out", want);
}

}  // namespace

void register_sampling(Registry& r) {
  auto k = r.kernel<SoftmaxCategoricalSample>("softmax_categorical_sample", "sampling", dtypes<f32, f16, bf16>);
  k.doc("One draw a row from softmax(logits / temperature) by a uniform number; [rows, n] to [rows].");
  k.shapes("logits: [..., n]; uniform, out: [...]; temperature: [1]");
  k.test("ragged runs", exact_match, []<class T>(Gen& g) { return draws<T>(g, 9, 701, 0.7f); });
  k.test("fewer logits than threads", exact_match, []<class T>(Gen& g) { return draws<T>(g, 5, 37, 1.3f); });
  k.test("temperature 0", exact_match, []<class T>(Gen& g) { return draws<T>(g, 1, 130, 0.0f); });
  k.test("ends and nothing to draw", exact_match, []<class T>(Gen& g) { return ends<T>(g); });
  k.bench("1 x 128256", []<class T>(Gen& g) { return draws<T>(g, 1, 128256, 0.8f); });
}

}  // namespace iron::kernels
