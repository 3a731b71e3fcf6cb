// Object files on disk, named by what they were made from; anything that is not exactly what was written is rebuilt.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpu/lower.h"

namespace iron::cpu {

struct CacheEntry {
  Lowered info;
  std::vector<char> object;
};

/// The folder of the disk cache, from $IRON_CACHE, $XDG_CACHE_HOME or ~/.cache.
std::string default_cache_folder();
/// The name of a kernel's entry: a hash of its identity, the threadgroup, the target, LLVM and this lowering.
std::string cache_key(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target, std::string_view llvm,
                      bool stream = false);
/// Nothing if there is no entry, or one that is cut, changed, or of another key.
std::optional<CacheEntry> read_entry(const std::string& folder, const std::string& key);
/// Publishes an entry at once: readers see all of it or nothing. Failure to write is no error: the cache is optional.
bool write_entry(const std::string& folder, const std::string& key, const Lowered& info, std::span<const char> object);

}  // namespace iron::cpu
