// One product on the device: operands that rotate, the kernels that solve it and the vendor's, each checked.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/cuda/cublaslt.h"
#include "tune_load.h"
#include "tune_measure.h"

namespace iron::tool {

/// A solver of the problem: one of our kernels or the vendor's product.
struct Solver {
  std::string name;                      ///< "iron_gemm_tma_bf16", "cuBLASLt"
  std::string detail;                    ///< its specialisation, or the algorithm
  const LoadedKernel* kernel = nullptr;  ///< null: the vendor's
  Arm arm;
  ProductVerdict verdict;
};

class ProductProblem {
 public:
  /// Makes the data, uploads A once and B as often as it takes to pass three times the last-level cache, and computes
  /// what C must be.
  ProductProblem(runtime::cuda::CudaBackend& device, const ProductKind& kind, const ProductShape& shape, u64 seed,
                 u32 threads);
  ~ProductProblem();
  ProductProblem(const ProductProblem&) = delete;
  ProductProblem& operator=(const ProductProblem&) = delete;

  /// A kernel that solves it; checked on poisoned output.
  void add(const LoadedKernel& kernel);
  /// cuBLASLt with the fastest of its heuristic's algorithms that passes the check and, unless IRON_GEMM_ATOMICS is 1,
  /// gives the same bits twice. Throws CUDA05, CUDA07.
  void add_vendor();

  const std::vector<Solver>& solvers() const { return solvers_; }
  u32 copies() const { return static_cast<u32>(b_.size()); }
  /// The rotating copies of B pass three times the last-level cache.
  bool cold() const { return copies() * kind_.b_bytes(shape_) >= 3 * device_.info().cache_bytes; }
  const ProductKind& kind() const { return kind_; }
  const ProductShape& shape() const { return shape_; }

 private:
  struct Launch;
  std::vector<std::byte> result_of(const Arm& arm);
  ProductVerdict verdict(const Arm& arm, f64 limit);

  runtime::cuda::CudaBackend& device_;
  ProductKind kind_;
  ProductShape shape_;
  u32 threads_;
  ProductData data_;
  std::vector<f64> expected_;
  void *a_ = nullptr, *c_ = nullptr;
  std::vector<void*> b_;
  std::unique_ptr<runtime::cuda::VendorGemm> vendor_;
  std::vector<Solver> solvers_;
};

/// The largest error, as judge_product() counts it, that a kernel's own tests allow; the vendor is held to the same.
f64 product_limit(const KernelEntry& entry, DType output);

}  // namespace iron::tool
