#include "bench/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace iron::bench {

namespace {
f64 median_of_sorted(std::span<const f64> s) {
  const auto n = s.size();
  return n % 2 ? s[n / 2] : 0.5 * (s[n / 2 - 1] + s[n / 2]);
}
f64 nearest_rank(std::span<const f64> s, f64 percent) {
  const auto rank = static_cast<std::size_t>(std::ceil(percent / 100.0 * static_cast<f64>(s.size())));
  return s[std::clamp<std::size_t>(rank, 1, s.size()) - 1];
}
f64 resampled_median(std::span<const f64> s, std::mt19937_64& random, std::vector<f64>& scratch) {
  scratch.resize(s.size());
  std::uniform_int_distribution<std::size_t> pick(0, s.size() - 1);
  for (auto& v : scratch) v = s[pick(random)];
  std::sort(scratch.begin(), scratch.end());
  return median_of_sorted(scratch);
}
}  // namespace

Summary summarise(std::vector<f64> us) {
  Summary s;
  s.samples = us.size();
  if (us.empty()) return s;
  std::sort(us.begin(), us.end());
  s.min = us.front();
  s.mean = std::accumulate(us.begin(), us.end(), 0.0) / static_cast<f64>(us.size());
  s.median = median_of_sorted(us);
  s.p95 = nearest_rank(us, 95);
  s.p99 = nearest_rank(us, 99);
  f64 squares = 0;
  for (const f64 v : us) squares += (v - s.mean) * (v - s.mean);
  if (us.size() > 1 && s.mean > 0) s.cv_percent = 100.0 * std::sqrt(squares / static_cast<f64>(us.size() - 1)) / s.mean;
  return s;
}

Interval speedup_interval(std::span<const f64> baseline, std::span<const f64> candidate, u64 seed) {
  constexpr int rounds = 2000;
  std::mt19937_64 random(seed);
  std::vector<f64> ratios, scratch;
  ratios.reserve(rounds);
  for (int i = 0; i < rounds; ++i) {
    const f64 b = resampled_median(baseline, random, scratch);
    ratios.push_back(b / resampled_median(candidate, random, scratch));
  }
  std::sort(ratios.begin(), ratios.end());
  return {nearest_rank(ratios, 2.5), median_of_sorted(ratios), nearest_rank(ratios, 97.5)};
}

Keep keep_verdict(const Interval& s, f64 bar) {
  if (s.centre >= 1.0 + bar && s.low > 1.0) return Keep::keep;
  if (s.high < 1.0 + bar) return Keep::reject;
  return Keep::inconclusive;
}

std::optional<std::string> flatness_warning(std::span<const Cell> cells) {
  for (std::size_t i = 0; i < cells.size(); ++i)
    for (std::size_t j = 0; j < cells.size(); ++j)
      if (cells[j].work >= 4 * cells[i].work && cells[j].microseconds < 1.1 * cells[i].microseconds)
        return fmt::format(
            "{} takes {:.2f} us and {} takes {:.2f} us, with {:.1f} times the work: the harness may not measure the "
            "kernel",
            cells[i].shape, cells[i].microseconds, cells[j].shape, cells[j].microseconds,
            cells[j].work / cells[i].work);
  return std::nullopt;
}

}  // namespace iron::bench
