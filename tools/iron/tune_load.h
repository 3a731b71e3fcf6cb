// Prebuilt kernels as they lie in a folder, and their way onto the device.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "iron/library.h"
#include "messages.h"
#include "product.h"
#include "runtime/cuda/backend.h"

namespace iron::tool {

/// One kernel of a prebuilt plan, loaded: prepare() of the device gives it from now on.
struct LoadedKernel {
  const KernelEntry* entry = nullptr;
  std::string spec;                        ///< as specialise() takes it
  std::unique_ptr<KernelInstance> kernel;  ///< of a product; null for benches
  std::vector<ProductShape> shapes;
  std::vector<std::string> benches;
  Json json;  ///< what the plan says of it
};

struct LoadedPlan {
  u64 seed = 1;
  std::vector<LoadedKernel> kernels;
  std::size_t other_architectures = 0;  ///< kernels left out
};

/// plan.json of a folder. Throws iron::Error (TUNE10).
Json read_prebuilt(const std::string& folder);
/// Loads every kernel for the device's architecture: emits its text again and compares it with the one that was
/// compiled. Throws TUNE11, TUNE12.
LoadedPlan load_prebuilt(const Json& plan, const std::string& folder, runtime::cuda::CudaBackend& device);

}  // namespace iron::tool
