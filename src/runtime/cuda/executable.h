// A kernel loaded on an NVIDIA GPU, and the form in which its arguments reach the driver.
#pragma once

#include <span>

#include "runtime/backend.h"
#include "runtime/cuda/compile.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/tensor_map.h"

namespace iron::runtime::cuda {

class CudaExecutable final : public Executable {
 public:
  /// Loads the cubin and opts in to the threadgroup memory that it asks for. Throws CUDA20.
  CudaExecutable(const Driver& driver, const ir::Kernel& kernel, Dim3 threads, CompiledKernel compiled);
  ~CudaExecutable() override { driver_.ModuleUnload(module_); }
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;

  const ir::Kernel& kernel() const override { return kernel_; }
  std::string stage(std::string_view name) const override;  ///< "cuda", "ptx", "sass", "log"
  std::vector<std::pair<std::string, double>> resources() const override;

  CUfunction function() const { return function_; }
  Dim3 threads() const { return threads_; }
  const emit::Source& source() const { return compiled_.source; }
  /// The grid to launch for the one that the caller's kernel has.
  Dim3 grid(const Dim3& groups) const;
  bool from_cache() const { return compiled_.from_cache; }
  EncodedMap tensor_map(const ir::TensorBox& box, const LaunchArg& arg) const {
    return maps_.get(box, arg, kernel_.params[box.param].name);
  }

 private:
  const Driver& driver_;
  ir::Kernel kernel_;
  Dim3 threads_;
  CompiledKernel compiled_;
  mutable TensorMaps maps_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

/// Values of a kernel's parameters and the addresses that the driver wants.
class Arguments {
 public:
  /// Throws D25 for a wrong count.
  Arguments(const CudaExecutable& exe, const LaunchGeometry& geometry, std::span<const LaunchArg> args);
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;
  void** data() { return pointers_.data(); }

 private:
  static void check_tier(const CudaExecutable& exe, const LaunchGeometry& geometry, std::span<const LaunchArg> args);
  std::vector<u64> values_;
  std::vector<EncodedMap> maps_;
  std::vector<void*> pointers_;
};

}  // namespace iron::runtime::cuda
