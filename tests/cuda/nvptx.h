// CUDA text through clang's own NVPTX back end, for machines without NVRTC: to PTX, so without registers and spills.
#pragma once

#include <string>
#include <vector>

#include "runtime/cuda/offline.h"

namespace iron {

/// Compiles all jobs with the clang at that path, many texts a process, on all cores. Results stand where their jobs
/// stand and hold PTX; an architecture that this clang does not know is a refusal.
std::vector<runtime::cuda::OfflineResult> compile_nvptx(const std::vector<runtime::cuda::OfflineJob>& jobs,
                                                        const std::string& clang);

}  // namespace iron
