// CUDA C++ text of an optimised kernel. The text needs no header and has the kernel's meaning under `exact` options.
#pragma once

#include "emit/c_like/emitter.h"
#include "target/profile.h"

namespace iron::emit {

struct CudaOptions {
  bool index_is_32 = false;  ///< subscripts as i32, for launches whose extents allow it
  /// Where the profile has `dependent_launch`: the kernel lets its successor be set up and waits for its predecessor.
  bool dependent_launch = false;
  u32 leave_out = 0;  ///< LeaveOut bits, for tests of the compile gate
  MatrixUse matrix = MatrixUse::automatic;
};

/// Throws iron::Error: D20 for what the profile lacks, D27 for too much threadgroup memory, EMIT01 for an op that is
/// refused.
Source emit_cuda(const ir::Kernel& optimised, Dim3 threads, const target::Profile& profile,
                 const CudaOptions& options = {});

const Dialect& cuda_dialect();

/// Changes whenever the text for the same kernel may change; part of cache keys.
inline constexpr int cuda_emitter_version = 4;

}  // namespace iron::emit
