// From an optimised kernel to a function of machine code's shape: the door of the CPU lowering.
#pragma once

#include <vector>

#include "cpu/code.h"
#include "ir/kernel.h"
#include "ir/launch.h"

namespace iron::cpu {

/// Raised whenever the code made for some kernel may change: part of every cache key.
inline constexpr u32 lowering_version = 9;

/// What a launch must know beside the code.
struct Lowered {
  u64 scratch_bytes = 0;  ///< of a worker's block, the header included
  bool waits = false;     ///< threadgroups may wait for lower ones
  bool needs_simdgroups = false;
  /// 64-bit words of the argument block: parameters (address or bits), then bytes of each buffer in parameter order,
  /// then the grid x, y, z, then the item count.
  u32 words = 0;
};
inline constexpr u64 scratch_header = 128;  ///< HostServices, then 64 bytes that masked-off lanes may touch

/// Lowers into `code`. Throws iron::Error (CPU02, CPU03) for what the device cannot run.
/// `stream` makes the version for launches that write far more than the caches hold.
Lowered lower(const ir::Kernel& kernel, Dim3 threads, Code& code, bool stream = false);

/// Words of the argument block for a launch; the second form replaces what `words` held.
std::vector<u64> argument_words(const ir::Kernel& kernel, const LaunchGeometry& geometry,
                                std::span<const LaunchArg> args);
void argument_words(const ir::Kernel& kernel, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                    std::vector<u64>& words);

}  // namespace iron::cpu
