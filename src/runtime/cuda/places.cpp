// The search for libraries of a CUDA toolkit.
#include "runtime/cuda/places.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace iron::runtime::cuda {

std::vector<std::string> library_places(const char* variable, std::span<const char* const> files,
                                        std::span<const char* const> packages) {
  namespace fs = std::filesystem;
  if (const char* chosen = std::getenv(variable); chosen && *chosen) return {chosen};
  std::vector<std::string> out(files.begin(), files.end());
  const auto add_folder = [&](const fs::path& folder) {
    std::error_code ignored;
    for (const char* file : files)
      if (fs::exists(folder / file, ignored)) out.push_back((folder / file).string());
  };
  for (const char* home_variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(home_variable); home && *home) add_folder(fs::path(home) / "lib64");
  add_folder("/usr/local/cuda/lib64");
  // pip's packages: .../python3.X/{site,dist}-packages/nvidia/<package>/lib
  std::vector<fs::path> roots;
  for (const char* home_variable : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const char* env = std::getenv(home_variable); env && *env) roots.push_back(fs::path(env) / "lib");
  if (const char* home = std::getenv("HOME"); home && *home) roots.push_back(fs::path(home) / ".local/lib");
  for (const char* fixed : {"/usr/local/lib", "/usr/lib", "/opt/conda/lib"}) roots.emplace_back(fixed);
  for (const auto& root : roots) {
    std::error_code ignored;
    std::vector<fs::path> pythons;
    for (fs::directory_iterator it(root, ignored), end; !ignored && it != end; it.increment(ignored))
      if (it->path().filename().string().starts_with("python3")) pythons.push_back(it->path());
    std::sort(pythons.begin(), pythons.end());
    for (const auto& python : pythons)
      for (const char* installed : {"site-packages", "dist-packages"})
        for (const char* package : packages) add_folder(python / installed / "nvidia" / package / "lib");
  }
  return out;
}

}  // namespace iron::runtime::cuda
