// Compilation of many kernels for many architectures without a GPU, on all cores.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda/compile.h"

namespace iron::runtime::cuda {

/// One kernel for one threadgroup size and one architecture.
struct OfflineJob {
  std::string name;  ///< for messages
  std::shared_ptr<const ir::Kernel> optimised;
  Dim3 threads;
  std::string arch;  ///< a profile's name: "sm_90a"
};

struct OfflineResult {
  CompiledKernel kernel;
  PtxasReport report;
  std::string refused;  ///< why the architecture cannot run it (D20, D27), if so
  std::string error;    ///< what went wrong, if something did
  bool ok() const { return error.empty() && refused.empty(); }
};

/// Compiles one job through the cache; never throws.
OfflineResult compile_offline(const OfflineJob& job, const DiskCache* cache);

/// Compiles all jobs on `threads` host threads (0: one a core). Results stand where their jobs stand; `done` is called
/// after each, from one thread at a time.
std::vector<OfflineResult> compile_offline(const std::vector<OfflineJob>& jobs, const DiskCache* cache, u32 threads = 0,
                                           const std::function<void(std::size_t)>& done = {});

}  // namespace iron::runtime::cuda
