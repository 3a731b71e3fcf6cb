// Opening shared libraries at run time: drivers are never linked.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "iron/error.h"

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

/// Whether Library::get(), which opens a library on its first call, succeeds; else `why` receives its reason.
template <class Library>
bool opens(std::string* why) {
  try {
    Library::get();
    return true;
  } catch (const Error& e) {
    if (why) *why = e.what();
    return false;
  }
}

}  // namespace iron
