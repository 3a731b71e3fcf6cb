// Which kernels a command works on: every filter given must hold.
#pragma once

#include <string>
#include <vector>

#include "app.h"
#include "iron/library.h"

namespace iron::tool {

struct Filters {
  std::vector<std::string> words;  ///< positional: part of the name, or with a '/' a path glob
  std::vector<std::string> parts, names, no_names, groups, no_groups, paths, no_paths;
  std::string dtypes;  ///< "f32,f16"; empty: all

  void add_to(CLI::App& sub, bool positional = true);
  /// The entries that pass, in registry order. Throws UsageError for a bad regex, glob or dtype.
  std::vector<const KernelEntry*> select(const Registry& registry) const;
};

/// "rms_norm_wide" of "iron_rms_norm_wide": the op group.
std::string group_of(const KernelEntry& e);

/// The one kernel x dtype that a person means: the full name, or the name with `dtype` (empty: the first registered),
/// with or without "iron_". Throws UsageError that lists what comes near.
const KernelEntry& find_kernel(const Registry& registry, const std::string& name, const std::string& dtype);

}  // namespace iron::tool
