// The table of backends.
#include "runtime/backend.h"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <mutex>

#include "runtime/cuda/device.h"
#include "runtime/interpreter.h"
#include "runtime/stream.h"
#ifdef IRON_HAS_CPU
#include "runtime/cpu/cpu_backend.h"
#endif

namespace iron::runtime {

namespace {
struct Entry {
  std::string_view name;
  std::unique_ptr<Backend> (*open)(int ordinal);
  bool numbered = false;  ///< there may be several: "name:1"
};
// The order in which devices are listed.
constexpr Entry table[] = {
#ifdef IRON_HAS_CPU
    {"cpu", [](int) -> std::unique_ptr<Backend> { return std::make_unique<CpuBackend>(); }},
#endif
    {"cuda", [](int ordinal) { return cuda::open_device(ordinal); }, true},
    {"interpreter", [](int) -> std::unique_ptr<Backend> { return std::make_unique<InterpreterBackend>(); }},
};

/// The number that "name" (0) or "name:number" asks for, or -1: the name means another device.
int ordinal_of(const Entry& entry, std::string_view name) {
  if (name == entry.name) return 0;
  if (!entry.numbered || name.substr(0, entry.name.size()) != entry.name || name[entry.name.size()] != ':') return -1;
  const std::string_view digits = name.substr(entry.name.size() + 1);
  int ordinal = -1;
  const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
  return problem == std::errc{} && end == digits.data() + digits.size() ? ordinal : -1;
}
}  // namespace

std::unique_ptr<Stream> Backend::wrap_stream(void*) {
  throw Error("RT14", fmt::format("the {} device has no streams of other libraries", info().backend),
              "launch on the device itself, or on a stream made for it");
}

Backend& backend(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::pair<std::string_view, int>, std::unique_ptr<Backend>> opened;
  const std::lock_guard lock(mutex);
  for (const auto& entry : table)
    if (const int ordinal = ordinal_of(entry, name); ordinal >= 0) {
      auto& device = opened[{entry.name, ordinal}];
      if (!device) device = entry.open(ordinal);
      return *device;
    }
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
