// What the disk cache keeps of a compiled kernel: its object file and what the launch needs to know of it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/disk_cache.h"
#include "cpu/lower.h"

namespace iron::cpu {

struct CacheEntry {
  Lowered info;
  std::vector<char> object;
};

/// The entries of this device; an empty folder stands for the default one.
DiskCache object_cache(const std::string& folder = {});
/// The name of a kernel's entry: a hash of its identity, the threadgroup, the target, LLVM and this lowering.
Hash128 cache_key(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target, std::string_view llvm,
                  bool stream = false);
std::optional<CacheEntry> read_entry(const DiskCache& cache, const Hash128& key);
bool write_entry(const DiskCache& cache, const Hash128& key, const Lowered& info, std::span<const char> object);

}  // namespace iron::cpu
