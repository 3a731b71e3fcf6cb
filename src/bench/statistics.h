// Statistics of timing samples, as the measurement rules name them (P5, P7, P8, P12, P13).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "iron/types.h"

namespace iron::bench {

/// Summary of samples in microseconds. Percentiles are nearest rank; the median of an even count is the mean of the two
/// middle samples; cv is the standard deviation (n - 1) over the mean, in percent.
struct Summary {
  std::size_t samples = 0;
  f64 min = 0, mean = 0, median = 0, p95 = 0, p99 = 0, cv_percent = 0;
};
Summary summarise(std::vector<f64> microseconds);

/// Two-sided 95 % bootstrap interval of the ratio of medians, baseline / candidate: above 1 the candidate is faster.
struct Interval {
  f64 low = 0, centre = 0, high = 0;
};
Interval speedup_interval(std::span<const f64> baseline, std::span<const f64> candidate, u64 seed = 1);

enum class Keep { keep, reject, inconclusive };
/// P12: keep if the median gains at least `bar` (0.03) and the interval lies above 1; reject if it lies below 1 + bar.
Keep keep_verdict(const Interval& speedup, f64 bar = 0.03);

/// P13: over cells of growing work, latency must grow where work grows at least fourfold. The first pair that does not.
struct Cell {
  std::string shape;
  f64 work;
  f64 microseconds;
};
std::optional<std::string> flatness_warning(std::span<const Cell> cells);

}  // namespace iron::bench
