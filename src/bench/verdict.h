// What limits a kernel: roofline figures and the verdict rules.
#pragma once

#include <optional>
#include <string>

#include "iron/types.h"

namespace iron::bench {

/// Peaks of a device; absent where unknown, and then blank in tables, never 0.
struct Peaks {
  std::optional<f64> gbps;        ///< memory, GB/s
  std::optional<f64> cache_gbps;  ///< last-level cache, GB/s: the limit of working sets that fit it
  std::optional<f64> gflops;      ///< of the engine that the dtype uses
  std::string engine;             ///< "fma f32", "tensor bf16"
};

struct Profile {
  std::optional<f64> occupancy_percent;
  std::string raw_limiter;  ///< "registers", "memory", "threads" or empty
};

struct Metrics {
  f64 gbps = 0;
  std::optional<f64> gflops, percent_bandwidth, percent_flops, intensity, ridge;
  std::string bottleneck;  ///< empty where the rules say nothing
  std::string impossible;  ///< P11: why the figure cannot be true; empty if it can
};

/// `bytes` moved and `flops` done in `microseconds`. `fits_cache` states the cache-resident exception of P11.
Metrics metrics(f64 microseconds, u64 bytes, f64 flops, const Peaks& peaks, const Profile& profile, bool fits_cache);

}  // namespace iron::bench
