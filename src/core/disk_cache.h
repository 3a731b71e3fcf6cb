// Results of compilers on disk: one file a key, checked on reading, published by a rename.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/hash.h"

namespace iron {

/// $IRON_CACHE, or $XDG_CACHE_HOME/iron, or ~/.cache/iron; empty without all three.
std::filesystem::path cache_root();

/// Entries of one kind. An entry that is cut, changed, of another kind or of another key is not believed: the caller
/// builds it again.
class DiskCache {
 public:
  /// `kind` names the folder in cache_root() and marks the entries ("cpu"). Without a root nothing is kept.
  explicit DiskCache(std::string_view kind);
  DiskCache(std::string_view kind, std::filesystem::path folder);

  std::optional<std::vector<char>> read(const Hash128& key) const;
  /// Readers see the whole entry or none. Never throws: a cache that cannot be written only costs time. False then.
  bool write(const Hash128& key, std::span<const char> payload) const;
  std::filesystem::path path(const Hash128& key) const { return folder_ / (key.hex() + ".entry"); }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  u64 tag_;
  std::filesystem::path folder_;
};

}  // namespace iron
