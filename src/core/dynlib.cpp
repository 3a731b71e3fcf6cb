#include "core/dynlib.h"

#include <dlfcn.h>

#include <utility>

namespace iron {

DynamicLibrary::DynamicLibrary(DynamicLibrary&& other) noexcept
    : handle_(std::exchange(other.handle_, nullptr)), path_(std::move(other.path_)) {}

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(path_, other.path_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_) dlclose(handle_);
}

DynamicLibrary DynamicLibrary::open(std::span<const std::string> candidates, std::string* why) {
  DynamicLibrary lib;
  for (const auto& name : candidates) {
    lib.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (lib.handle_) {
      lib.path_ = name;
      return lib;
    }
    if (why) *why += std::string(why->empty() ? "" : "; ") + dlerror();
  }
  return lib;
}

void* DynamicLibrary::symbol(const char* name) const { return handle_ ? dlsym(handle_, name) : nullptr; }

}  // namespace iron
