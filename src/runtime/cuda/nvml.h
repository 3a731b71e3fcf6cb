// Clock and power of a GPU while something is timed: NVML, opened at run time with our own minimal declarations.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/dynlib.h"
#include "iron/types.h"

namespace iron::runtime::cuda {

/// Samples of one GPU from a thread of its own, every 10 ms while it lives. Where NVML is absent or says nothing there
/// are no samples, and absent() says why: never an error.
class GpuSampler {
 public:
  using Clock = std::chrono::steady_clock;
  /// `pci` as the driver names the device: "0000:18:00.0".
  explicit GpuSampler(const std::string& pci);
  ~GpuSampler();
  GpuSampler(const GpuSampler&) = delete;
  GpuSampler& operator=(const GpuSampler&) = delete;

  /// Empty if there are samples.
  const std::string& absent() const { return absent_; }

  /// Means over a span of time; absent where there is no sample in it.
  struct Mean {
    std::optional<f64> mhz, watts;
  };
  Mean between(Clock::time_point from, Clock::time_point to) const;

 private:
  struct Api;
  struct Sample {
    Clock::time_point at;
    std::optional<f64> mhz, watts;
  };
  void open(const std::string& pci);
  void run();

  DynamicLibrary library_;
  std::unique_ptr<Api> api_;
  void* device_ = nullptr;
  std::string absent_;
  std::atomic<bool> stop_{false};
  mutable std::mutex mutex_;
  std::vector<Sample> samples_;
  std::thread thread_;
};

}  // namespace iron::runtime::cuda
