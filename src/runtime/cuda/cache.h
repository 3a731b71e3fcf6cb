// The disk cache of compiled kernels: one file a key, checked on reading, published by a rename.
#pragma once

#include <filesystem>
#include <optional>

#include "core/hash.h"
#include "runtime/cuda/nvrtc.h"

namespace iron::runtime::cuda {

class DiskCache {
 public:
  /// $IRON_CACHE/cuda, or $XDG_CACHE_HOME/iron/cuda, or ~/.cache/iron/cuda.
  DiskCache();
  explicit DiskCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Nothing if the entry is absent, cut short or damaged; a damaged one is then rebuilt by the caller.
  std::optional<Compiled> read(const Hash128& key) const;
  /// Never throws: a cache that cannot be written only costs time.
  void write(const Hash128& key, const Compiled& entry) const;
  std::filesystem::path path(const Hash128& key) const { return folder_ / (key.hex() + ".kernel"); }

 private:
  std::filesystem::path folder_;
};

}  // namespace iron::runtime::cuda
