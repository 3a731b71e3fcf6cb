#include "bench/verdict.h"

#include <fmt/format.h>

namespace iron::bench {

namespace {
constexpr f64 low_occupancy = 50, saturated_bandwidth = 60, saturated_flops = 50;

std::string starvation(const Profile& p) {
  if (p.raw_limiter == "registers") return "register-limited";
  if (p.occupancy_percent && *p.occupancy_percent < low_occupancy) return "occupancy-limited";
  return {};
}

std::string bottleneck(const Metrics& m, const Profile& p) {
  auto starved = starvation(p);
  if (m.intensity && m.ridge && *m.intensity >= *m.ridge) {
    if (m.percent_flops && *m.percent_flops >= saturated_flops) return "compute-bound";
    return starved.empty() ? "compute-bound" : starved;
  }
  if (m.percent_bandwidth && *m.percent_bandwidth >= saturated_bandwidth) return "memory-bound";
  if (!starved.empty()) return starved;
  if (m.percent_bandwidth) return "latency-bound";
  return {};
}
}  // namespace

Metrics metrics(f64 us, u64 bytes, f64 flops, const Peaks& peaks, const Profile& profile, bool fits_cache) {
  Metrics m;
  m.gbps = static_cast<f64>(bytes) / us * 1e-3;
  const auto bandwidth = fits_cache && peaks.cache_gbps ? peaks.cache_gbps : peaks.gbps;
  if (bandwidth) m.percent_bandwidth = 100.0 * m.gbps / *bandwidth;
  if (flops > 0) {
    m.gflops = flops / us * 1e-3;
    if (bytes) m.intensity = flops / static_cast<f64>(bytes);
    if (peaks.gflops) m.percent_flops = 100.0 * *m.gflops / *peaks.gflops;
    if (peaks.gflops && peaks.gbps) m.ridge = *peaks.gflops / *peaks.gbps;
  }
  // A twentieth of slack: peaks are measured too.
  if (m.percent_bandwidth && *m.percent_bandwidth > 105 && !(fits_cache && !peaks.cache_gbps))
    m.impossible = fmt::format("{:.1f} GB/s is above the peak of {:.1f} GB/s", m.gbps, *bandwidth);
  if (m.percent_flops && *m.percent_flops > 105)
    m.impossible =
        fmt::format("{:.1f} GFLOP/s is above the peak of {:.1f} GFLOP/s ({})", *m.gflops, *peaks.gflops, peaks.engine);
  m.bottleneck = bottleneck(m, profile);
  return m;
}

}  // namespace iron::bench
