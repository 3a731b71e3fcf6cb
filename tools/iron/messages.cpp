#include "messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "app.h"
#include "core/hash.h"
#include "iron/error.h"

namespace iron::tool {

std::string build_id() {
  static const std::string id = hash128(read_file("/proc/self/exe")).hex().substr(0, 16);
  return id;
}

void Messages::start(const std::string& command, std::size_t total, const runtime::DeviceInfo* device) {
  if (!wanted_) return;
  Json m{{"type", "start"},
         {"runner_version", IRON_VERSION},
         {"build_id", build_id()},
         {"command", command},
         {"total", total}};
  if (device) m["device"] = to_json(*device);
  send(m);
}

void Messages::send(const Json& message) const {
  if (!wanted_) return;
  fmt::print("{}\n", message.dump(-1, ' ', false, Json::error_handler_t::replace));
  std::fflush(stdout);
}

void Messages::error(const std::string& name, const std::string& dtype, const std::string& text) const {
  send({{"type", "error"}, {"name", name}, {"dtype", dtype}, {"message", text}});
}

void Messages::done(const Json& counts) const {
  if (!wanted_) return;
  Json m{{"type", "done"}};
  m.update(counts);
  send(m);
  if (const char* path = std::getenv("IRON_RESULT_FILE"); path && *path) write_file(path, m.dump() + "\n");
}

Json to_json(const runtime::DeviceInfo& i) {
  Json j{{"backend", i.backend}, {"name", i.name}, {"api", i.api}, {"architecture", i.architecture}};
  j["simd_width"] = i.simd_width;
  j["units"] = i.units;
  j["max_threads_per_group"] = i.max_threads_per_group;
  j["shared_bytes"] = i.shared_bytes;
  j["memory_bytes"] = i.memory_bytes;
  j["cache_bytes"] = i.cache_bytes;
  j["features"] = i.features;
  return j;
}

Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::round(value * 1e3) / 1e3;
}

std::string default_backend() {
  const auto names = runtime::backend_names();
  return std::find(names.begin(), names.end(), "cpu") != names.end() ? "cpu" : "interpreter";
}

std::string backend_help() {
  std::string names;
  for (const auto& n : runtime::backend_names()) names += (names.empty() ? "" : "|") + n;
  return names;
}

runtime::Backend& open_backend(const std::string& name) {
  const auto names = runtime::backend_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw UsageError(fmt::format("--backend: this build has no backend '{}', only {}", name, backend_help()));
  return runtime::backend(name);
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw Error("TOOL01", fmt::format("{} cannot be read: {}", path, std::strerror(errno)), "name a file that exists");
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& text) {
  std::error_code ignored;
  if (const auto folder = std::filesystem::path(path).parent_path(); !folder.empty())
    std::filesystem::create_directories(folder, ignored);
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush())
    throw Error("TOOL02", fmt::format("{} cannot be written: {}", path, std::strerror(errno)),
                "name a place that can be written");
}

}  // namespace iron::tool
