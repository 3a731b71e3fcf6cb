// What stands beside a bench of a matrix product on a GPU: its oracle in f64, and the vendor's product.
#pragma once

#include <optional>
#include <string>

#include "bench/timer.h"
#include "product.h"

namespace iron::tool {

/// A bench case that is one launch of a member of the GEMM family: its operands on the host.
struct ProductCase {
  ProductKind kind;
  ProductShape shape;
  const Case* bench = nullptr;
  const BoundArg *a = nullptr, *b = nullptr, *c = nullptr;
};
std::optional<ProductCase> product_case(const KernelEntry& entry, const Case& c);

/// The member of the family that the selector takes on the device for what the case computes; absent for kernels that
/// are no members. Throws as kernels::select_gemm().
std::optional<kernels::GemmSelection> selection_for(const runtime::Backend& device, const KernelEntry& entry,
                                                    const Case& c);
/// The case with that member in place of its kernel: same operands, same expectations.
Case selected_case(const kernels::GemmSelection& selection, const KernelEntry& entry, const Case& c);

/// Judges the case against product_oracle(), computed once on `device`: for shapes that no host oracle can do.
std::function<runtime::Outcome(const Case&)> oracle_judge(runtime::Backend& device, const ProductCase& p,
                                                          Tolerance tolerance);

/// The vendor's time for the same operands, in the same number of rotating copies.
struct Reference {
  std::string name;  ///< "cuBLASLt 13.0.0, algorithm 3 of 8"
  bench::Summary summary;
  f64 max_error = 0;
};
/// The algorithm that cuBLASLt's heuristic prefers, under IRON_GEMM_ATOMICS and IRON_GEMM_ALGO, judged as the kernel
/// is. `device` is a CUDA device. Throws iron::Error: CUDA05 to CUDA07, BENCH06 for a wrong result.
Reference measure_reference(runtime::Backend& device, const ProductCase& p,
                            const std::function<runtime::Outcome(const Case&)>& judge,
                            const bench::TimerOptions& options, u32 copies, const bench::MeasureLock& lock);

}  // namespace iron::tool
