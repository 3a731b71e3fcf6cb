// From a lowered module to callable code: LLVM's short pipeline, one JIT for the process, objects kept on disk.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cpu/lower.h"

namespace iron::cpu {

using KernelFn = void (*)(const u64* args, u32 first, u32 last, void* scratch);

/// Code of one kernel for one threadgroup size, unloaded with its last owner.
struct Compiled {
  KernelFn fn = nullptr;
  Lowered info;
  std::string key;                                                 ///< hash that names it in the cache
  bool from_cache = false;                                         ///< read from disk rather than compiled
  f64 lower_ms = 0, optimise_ms = 0, codegen_ms = 0, link_ms = 0;  ///< of this thread's processor time
  u64 lowered_instructions = 0, instructions = 0;                  ///< of LLVM, before and after its passes
  u64 code_bytes = 0;                                              ///< of the object file
  std::shared_ptr<void> library;
};

struct CompileOptions {
  bool use_disk = true;
  std::string cache_folder = {};  ///< empty: cpu in cache_root()
  bool stream = false;            ///< the version whose stores go past the caches
};

/// Compiles, or loads from the disk cache. The target must be one that this machine runs.
std::shared_ptr<Compiled> compile(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target,
                                  const CompileOptions& options = {});

/// An object file for any target, for tests and inspection; empty cache.
std::vector<char> compile_object(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target);
/// "llvm-lowered", "llvm" (after the passes) or "asm".
std::string text_stage(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target, std::string_view stage);

/// The name of LLVM and its version, as it enters cache keys.
std::string llvm_version();

}  // namespace iron::cpu
