// The table of backends.
#include "runtime/backend.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "runtime/cuda/device.h"
#include "runtime/interpreter.h"
#ifdef IRON_HAS_CPU
#include "runtime/cpu/cpu_backend.h"
#endif

namespace iron::runtime {

namespace {
struct Entry {
  std::string_view name;
  std::unique_ptr<Backend> (*open)();
};
// The order in which devices are listed.
constexpr Entry table[] = {
#ifdef IRON_HAS_CPU
    {"cpu", []() -> std::unique_ptr<Backend> { return std::make_unique<CpuBackend>(); }},
#endif
    {"cuda", [] { return cuda::open_device(); }},
    {"interpreter", []() -> std::unique_ptr<Backend> { return std::make_unique<InterpreterBackend>(); }},
};
}  // namespace

Backend& backend(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Backend>, std::less<>> opened;
  const std::lock_guard lock(mutex);
  if (const auto it = opened.find(name); it != opened.end()) return *it->second;
  for (const auto& entry : table)
    if (entry.name == name) return *opened.emplace(name, entry.open()).first->second;
  std::string known;
  for (const auto& entry : table) known += (known.empty() ? "" : ", ") + std::string(entry.name);
  throw Error("DEV01", fmt::format("there is no backend '{}'", name), "one of: " + known);
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const auto& entry : table) names.emplace_back(entry.name);
  return names;
}

}  // namespace iron::runtime
