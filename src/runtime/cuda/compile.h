// From an optimised kernel to a cubin: emit, NVRTC, cache. Needs no GPU.
#pragma once

#include "emit/cuda/cuda.h"
#include "runtime/cuda/cache.h"

namespace iron::runtime::cuda {

struct CompiledKernel {
  emit::Source source;
  Compiled binary;
  bool from_cache = false;
  /// Above 1: a thread runs that many items (passes::widen_items). The grid shrinks accordingly, and one scalar follows
  /// the kernel's own: 1 if every buffer starts at 16 bytes.
  u32 items_per_thread = 1;
};

/// What ptxas reports of the entry; -1 where the log says nothing.
struct PtxasReport {
  int registers = -1, spill_store_bytes = -1, spill_load_bytes = -1, stack_bytes = -1;
};
PtxasReport ptxas_report(const std::string& log);

/// What a kernel of the Hopper tier must not have: spills, a stack frame, products that ptxas serialises or role
/// budgets that it ignores (its C75xx messages). One sentence each.
std::vector<std::string> tier_findings(const std::string& log);

/// NVRTC options of a numerics policy. Contraction is off in every policy: fma is an op.
std::vector<std::string> nvrtc_options();

/// What IRON_CUDA_MMA says: "auto" (or unset), "software", "mma_sync" or its older name "required". Throws CUDA04 for
/// another word, and for "wmma", whose fragments have no stated layout.
emit::MatrixUse matrix_use();

/// Emits for an architecture by its profile's name ("sm_90a"): what is compiled, without a binary.
CompiledKernel emit_kernel(const ir::Kernel& optimised, Dim3 threads, std::string_view arch,
                           const emit::CudaOptions& options = {});

/// Emits and compiles. `cache` may be null.
CompiledKernel compile_cubin(const ir::Kernel& optimised, Dim3 threads, std::string_view arch,
                             const DiskCache* cache = nullptr, const emit::CudaOptions& options = {});

}  // namespace iron::runtime::cuda
