// What the disk cache keeps of a compiled kernel: cubin, PTX and the compiler's log.
#pragma once

#include <optional>

#include "core/disk_cache.h"
#include "runtime/cuda/nvrtc.h"

namespace iron::runtime::cuda {

/// The entries of this device, in the default folder.
inline DiskCache cubin_cache() { return DiskCache("cuda"); }
std::optional<Compiled> read_compiled(const DiskCache& cache, const Hash128& key);
bool write_compiled(const DiskCache& cache, const Hash128& key, const Compiled& compiled);

}  // namespace iron::runtime::cuda
