// Opening shared libraries at run time: drivers are never linked.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace iron {

/// A shared library opened by the first candidate name that loads. Closed on destruction.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  DynamicLibrary(DynamicLibrary&& other) noexcept;
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  ~DynamicLibrary();

  /// Tries `candidates` in order. `why` receives the loader's reason for each that failed.
  static DynamicLibrary open(std::span<const std::string> candidates, std::string* why = nullptr);

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }
  void* symbol(const char* name) const;  ///< nullptr when absent

 private:
  void* handle_ = nullptr;
  std::string path_;
};

}  // namespace iron
