// cuBLASLt, opened at run time with our own minimal declarations: the vendor's matrix product, to be compared with.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/dynlib.h"
#include "iron/types.h"
#include "runtime/cuda/driver.h"

namespace iron::runtime::cuda {

class CudaBackend;

/// The library of this process: $IRON_CUBLASLT, libcublasLt.so.13 or .12, a CUDA toolkit, or Python's nvidia packages.
class CublasLt {
 public:
  static const CublasLt& get();  ///< throws iron::Error (CUDA05) with every place that was tried
  static bool available(std::string* why = nullptr);

  std::string version() const;  ///< "13.0.0"
  const std::string& path() const { return library_.path(); }

  struct Api;
  const Api& api() const { return *api_; }

 private:
  CublasLt();
  DynamicLibrary library_;
  const Api* api_;
};

/// C[M, N] = scale * A[M, K] * B, packed rows; B is [K, N], or [N, K] if `weight_major`. Sums in f32; e4m3 with fast
/// accumulation, as every Hopper peer has it, and only weight-major.
struct VendorProblem {
  u32 m = 0, n = 0, k = 0;
  DType input = DType::f32, output = DType::f32;
  bool e4m3 = false;  ///< A and B are bytes in E4M3: `input` is u8
  bool weight_major = false;
  f32 scale = 1;
};

/// Which algorithms may be used. By default those that reduce in place, in an order of their own, are left out.
struct VendorOptions {
  bool atomics = false;
  std::optional<u32> algorithm;  ///< only this one of the heuristic's list
};
/// IRON_GEMM_ATOMICS (0 or 1) and IRON_GEMM_ALGO (a number). Throws iron::Error (CUDA06) for anything else.
VendorOptions vendor_options();

/// One product, planned: the algorithms that the library's heuristic proposes, best guess first.
class VendorGemm {
 public:
  static constexpr u64 workspace_bytes = u64{64} << 20;
  static constexpr int most_algorithms = 32;

  /// Throws iron::Error: CUDA05 without the library, CUDA07 for a product that it has no algorithm for or a number in
  /// `options` that its list does not have.
  VendorGemm(CudaBackend& device, const VendorProblem& problem, const VendorOptions& options = vendor_options());
  ~VendorGemm();
  VendorGemm(const VendorGemm&) = delete;
  VendorGemm& operator=(const VendorGemm&) = delete;

  u32 count() const { return static_cast<u32>(results_.size()); }
  /// "cuBLASLt 13.0.0, algorithm 3 of 8, split-k 2 in the workspace".
  std::string describe(u32 which) const;
  /// Enqueues; false if the library refuses this algorithm for these operands.
  bool launch(u32 which, const void* a, const void* b, void* c, CUstream stream) const;

 private:
  /// cublasLtMatmulHeuristicResult_t.
  struct Result {
    std::array<u64, 8> algorithm{};
    std::size_t workspace = 0;
    int state = 0;
    float waves = 0;
    int reserved[4] = {};
  };
  static_assert(sizeof(Result) == 96);
  void check(int status, std::string_view what) const;
  void make_layouts();
  void ask_heuristic(const VendorOptions& options);
  void destroy();

  CudaBackend& device_;
  const CublasLt& library_;
  VendorProblem problem_;
  void *handle_ = nullptr, *operation_ = nullptr, *workspace_ = nullptr;
  std::array<void*, 3> layouts_{};  ///< left, right, target as the column-major library sees them
  std::vector<Result> results_;
  std::vector<u32> numbers_;  ///< of each result in the heuristic's list
  u32 listed_ = 0;
};

}  // namespace iron::runtime::cuda
