// Times of several arms that solve one problem, on one GPU in one process: what may be compared with what.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/session.h"
#include "runtime/cuda/backend.h"
#include "runtime/cuda/nvml.h"

namespace iron::tool {

/// One way to solve the problem. `enqueue` puts one launch on a stream; `copy` counts launches, for what rotates.
struct Arm {
  std::string name;
  std::function<void(runtime::cuda::CUstream stream, u64 copy)> enqueue;
};

/// How long blocks are; the defaults are the project's rules.
struct MeasureOptions {
  f64 settle_seconds = 0.3, block_seconds = 0.3, burst_seconds = 0.01;
  u32 steady_rounds = 3, interleaved_rounds = 16, replay_rounds = 30;
};

struct Range {
  f64 low = 0, median = 0, high = 0;
};
Range range_of(std::vector<f64> values);

/// What one arm took. Ratios are the first arm's time over this one's: above 1 is faster than it.
struct ArmTiming {
  Range us;  ///< steady where it was measured, else interleaved
  Range interleaved_us;
  std::optional<Range> ratio;  ///< steady, of blocks of the same round
  Range interleaved_ratio;     ///< of bursts of the same round
  std::optional<f64> mhz, watts;
};

struct Measurement {
  /// "graph replay, interleaved", "graph replay, steady and interleaved" or "steady and interleaved".
  std::string rule;
  bool steady = false;
  u32 rounds = 0;
  std::vector<ArmTiming> arms;
};

/// Below 0.1 ms a launch replays of graphs of at least 20 launches, above it launches one by one. In bursts of some
/// 10 ms that share one clock, and from 50 us a launch on also in blocks in which each arm settles at a clock of its
/// own: those then decide. Orders alternate. `copies` of the rotating operand are what a graph must pass over.
Measurement measure_arms(runtime::cuda::CudaBackend& device, const std::vector<Arm>& arms, u32 copies,
                         const runtime::cuda::GpuSampler& sampler, const MeasureOptions& options,
                         const bench::MeasureLock& lock);

/// Microseconds of one launch: the quickest of a few short bursts, launched one by one or as replays of one graph.
f64 quick_us(runtime::cuda::CudaBackend& device, const Arm& arm, u32 launches, u32 repeats, bool replay = false);

}  // namespace iron::tool
