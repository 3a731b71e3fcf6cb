// Filters of logits before a draw: temperature, repetition penalty, top-k, top-p, min-p.
#include <algorithm>

#include "registry.h"
#include "sampling/sampling.h"
#include "specials.h"

namespace iron::kernels {
namespace {

template <class T>
Case temperature(Gen& g, u64 n, f32 t) {
  auto x = g.normal<T>(3.0, n);
  if (n > 3) x[2] = T(-infinity), x[3] = T(-0.0);
  const auto out = g.output<T>(n);
  std::vector<f64> want;
  for (u64 i = 0; i < n; ++i) want.push_back(x.at(i) / f64{t});
  return Case{LogitsTemperature<T>{.logits = x, .out = out, .temperature = t}}.expect("out", want);
}

// Ids repeat often, the same id lies in several simdgroups, some are beyond the vocabulary.
template <class T>
Case penalty(Gen& g, u32 vocabulary, u32 n, f32 p) {
  auto x = g.normal<T>(3.0, vocabulary);
  auto tokens = g.integers<u32>(0, vocabulary - 1, n);
  for (u64 i = 0; i < n; i += 3) tokens[i] = static_cast<u32>(i % 6);
  if (n > 5) tokens[4] = vocabulary, tokens[5] = 0xffffffffu;
  std::vector<bool> seen(vocabulary);
  for (u64 i = 0; i < n; ++i)
    if (tokens[i] < vocabulary) seen[tokens[i]] = true;
  std::vector<f64> want;
  for (u64 i = 0; i < vocabulary; ++i) {
    const f64 v = x.at(i);
    want.push_back(!seen[i] ? v : v > 0 ? v / f64{p} : v * f64{p});
  }
  return Case{LogitsRepetitionPenalty<T>{.logits = x, .tokens = tokens, .penalty = p}}.expect("logits", want);
}

template <class T>
Case top_k(Gen& g, u64 n, u64 k) {
  auto x = g.normal<T>(3.0, n);
  if (n > 40) x[17] = T(not_a_number), x[23] = T(-infinity);
  std::vector<f64> sorted;
  for (u64 i = 0; i < n; ++i)
    if (!std::isnan(x.at(i))) sorted.push_back(x.at(i));
  std::sort(sorted.rbegin(), sorted.rend());
  const f64 threshold = sorted[k - 1];
  std::vector<T> want;
  for (u64 i = 0; i < n; ++i) want.push_back(x.at(i) >= threshold ? x[i] : T(-infinity));
  const auto out = g.output<T>(n);
  return Case{LogitsTopkMask<T>{.logits = x, .out = out, .threshold = static_cast<f32>(threshold)}}.expect_exact("out",
                                                                                                                 want);
}

// Few different values, so that the k-th has equals; zeros of both signs, NaN, -inf. By sorting, another way.
template <class T>
Case top_k_rows(Gen& g, u32 rows, u32 n, u32 k) {
  auto x = g.from<T>([&](u64) { return 0.25 * static_cast<f64>(static_cast<i64>(g.next() % 41) - 20); }, rows, n);
  for (u64 i = 3; i < x.size(); i += 17) x[i] = T(i % 2 ? 0.0f : -0.0f);
  if (n > 40) x[5] = T(not_a_number), x[n + 1] = T(-infinity);
  std::vector<T> want;
  for (u64 r = 0; r < rows; ++r) {
    std::vector<f64> sorted;
    for (u64 i = 0; i < n; ++i)
      if (!std::isnan(x.at(r * n + i))) sorted.push_back(x.at(r * n + i));
    std::sort(sorted.rbegin(), sorted.rend());
    const f64 least = sorted[std::min<u64>(k, sorted.size()) - 1];
    for (u64 i = 0; i < n; ++i) want.push_back(x.at(r * n + i) >= least ? x[r * n + i] : T(-infinity));
  }
  const auto out = g.output<T>(rows, n);
  return Case{LogitsTopK<T>{.logits = x, .out = out, .n = n, .k = k}}.expect_exact("out", want);
}

// Logits in steps of 1/8 in an order without pattern: the cut falls between two distinct probabilities, by the sorted
// sum.
template <class T>
Case top_p(Gen& g, u32 rows, u32 n, f64 p) {
  auto x = g.from<T>([](u64) { return 0.0; }, rows, n);
  std::vector<T> want;
  f64 share = p;
  for (u64 r = 0; r < rows; ++r) {
    std::vector<f64> row(n);
    for (u64 i = 0; i < n; ++i) row[i] = -0.125 * static_cast<f64>((i * 7 + r) % n % 96);
    for (u64 i = 0; i < n; ++i) x[r * n + i] = T(row[i] + 2.0);
  }
  // All rows hold the same values: one probability mass serves them, moved to the middle of a token's share.
  std::vector<f64> sorted;
  for (u64 i = 0; i < n; ++i) sorted.push_back(x.at(i));
  std::sort(sorted.rbegin(), sorted.rend());
  f64 total = 0, sum = 0, cut = 0;
  for (const f64 v : sorted) total += std::exp(v);
  for (u64 i = 0; i < n;) {
    f64 step = 0;
    const f64 value = sorted[i];
    for (; i < n && sorted[i] == value; ++i) step += std::exp(value);
    cut = value;
    if (sum + step >= p * total) {
      share = (sum + 0.5 * step) / total;
      break;
    }
    sum += step;
  }
  for (u64 i = 0; i < x.size(); ++i) want.push_back(x.at(i) >= cut ? x[i] : T(-infinity));
  const auto out = g.output<T>(rows, n);
  return Case{LogitsTopPMask<T>{.logits = x, .out = out, .n = n, .top_p = static_cast<f32>(share)}}
      .expect_exact("out", want)
      .moves(u64{rows} * n * sizeof(T) * 2);
}

template <class T>
Case min_p(Gen& g, u32 rows, u32 n, f64 p) {
  auto x = g.from<T>([](u64 i) { return -0.125 * static_cast<f64>((i * 29 + i / 7) % 64) + 1.0; }, rows, n);
  if (n > 40) x[5] = T(not_a_number), x[n + 1] = T(-infinity);
  std::vector<T> want;
  for (u64 r = 0; r < rows; ++r) {
    f64 top = -infinity;
    for (u64 i = 0; i < n; ++i) top = std::fmax(top, x.at(r * n + i));
    for (u64 i = 0; i < n; ++i) {
      const f64 v = x.at(r * n + i);
      want.push_back(std::exp(v - top) >= p ? x[r * n + i] : T(-infinity));
    }
  }
  const auto out = g.output<T>(rows, n);
  return Case{LogitsMinPMask<T>{.logits = x, .out = out, .n = n, .min_p = static_cast<f32>(p)}}.expect_exact("out",
                                                                                                             want);
}

}  // namespace

void register_logits(Registry& r) {
  constexpr auto types = dtypes<f32, f16, bf16>;
  auto heat = r.kernel<LogitsTemperature>("logits_temperature", "sampling", types);
  heat.doc("Logits divided by a temperature above 0, elementwise.");
  heat.test("ragged values", one_rounding, []<class T>(Gen& g) { return temperature<T>(g, 1003, 0.7f); });
  heat.bench("1M", []<class T>(Gen& g) { return temperature<T>(g, 1 << 20, 0.7f); });

  auto repeat = r.kernel<LogitsRepetitionPenalty>("logits_repetition_penalty", "sampling", types);
  repeat.doc("Logits of tokens already seen made less likely in place, once a token however often it was seen.");
  repeat.test("repeated tokens", one_rounding, []<class T>(Gen& g) { return penalty<T>(g, 97, 300, 1.3f); });
  repeat.test("one token", one_rounding, []<class T>(Gen& g) { return penalty<T>(g, 33, 1, 1.7f); });
  repeat.bench("512 tokens of 128256", []<class T>(Gen& g) { return penalty<T>(g, 128256, 512, 1.1f); });

  auto k = r.kernel<LogitsTopkMask>("logits_topk_mask", "sampling", types);
  k.doc("Logits below a threshold become -inf, elementwise; the threshold is the k-th largest.");
  k.test("ragged values", exact_match, []<class T>(Gen& g) { return top_k<T>(g, 1003, 40); });
  k.bench("128256", []<class T>(Gen& g) { return top_k<T>(g, 128256, 40); });

  auto select = r.kernel<LogitsTopK>("logits_top_k", "sampling", types);
  select.doc("All but the k largest logits of each row, and those equal to the k-th, become -inf.");
  select.test("equals of the k-th", exact_match, []<class T>(Gen& g) { return top_k_rows<T>(g, 3, 517, 40); });
  select.test("the largest alone", exact_match, []<class T>(Gen& g) { return top_k_rows<T>(g, 2, 33, 1); });
  select.test("more than there are", exact_match, []<class T>(Gen& g) { return top_k_rows<T>(g, 2, 50, 64); });
  select.bench("1 x 128256, 50", []<class T>(Gen& g) { return top_k_rows<T>(g, 2, 64128, 50); });

  auto p = r.kernel<LogitsTopPMask>("logits_top_p_mask", "sampling", types);
  p.doc("The most probable logits of each row that reach a probability together; the others become -inf.");
  p.shapes("logits, out: [..., n]");
  p.test("ragged rows", exact_match, []<class T>(Gen& g) { return top_p<T>(g, 2, 401, 0.8); });
  p.test("only the largest", exact_match, []<class T>(Gen& g) { return top_p<T>(g, 1, 65, 0.01); });
  p.test("nearly all", exact_match, []<class T>(Gen& g) { return top_p<T>(g, 1, 95, 0.9995); });
  p.bench("1 x 128256", []<class T>(Gen& g) { return top_p<T>(g, 1, 128256, 0.9); });

  auto m = r.kernel<LogitsMinPMask>("logits_min_p_mask", "sampling", types);
  m.doc("Logits of each row less probable than a part of the largest become -inf.");
  m.shapes("logits, out: [..., n]");
  m.test("ragged rows", exact_match, []<class T>(Gen& g) { return min_p<T>(g, 3, 517, 0.05); });
  m.test("none filtered but NaN and -inf", exact_match, []<class T>(Gen& g) { return min_p<T>(g, 2, 45, 1e-6); });
  m.bench("1 x 128256", []<class T>(Gen& g) { return min_p<T>(g, 2, 64128, 0.05); });
}

}  // namespace iron::kernels
