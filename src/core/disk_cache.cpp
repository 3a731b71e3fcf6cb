// Reading and writing of cache entries.
#include "core/disk_cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>

namespace iron {

namespace fs = std::filesystem;

namespace {
constexpr u64 layout = 2;

struct Header {
  u64 tag = 0;       ///< of the kind and of this layout
  Hash128 key;       ///< under which the entry was written
  Hash128 checksum;  ///< of the payload, which is the rest of the file
};
static_assert(sizeof(Header) == 40);

std::optional<fs::path> variable(const char* name) {
  const char* v = std::getenv(name);
  return v && *v ? std::optional<fs::path>(v) : std::nullopt;
}
}  // namespace

fs::path cache_root() {
  if (const auto chosen = variable("IRON_CACHE")) return *chosen;
  if (const auto xdg = variable("XDG_CACHE_HOME")) return *xdg / "iron";
  if (const auto home = variable("HOME")) return *home / ".cache/iron";
  return {};
}

DiskCache::DiskCache(std::string_view kind)
    : DiskCache(kind, cache_root().empty() ? fs::path() : cache_root() / kind) {}

DiskCache::DiskCache(std::string_view kind, fs::path folder)
    : tag_(hash128(fmt::format("iron cache {} {}", layout, kind)).low), folder_(std::move(folder)) {}

std::optional<std::vector<char>> DiskCache::read(const Hash128& key) const {
  if (folder_.empty()) return std::nullopt;
  std::ifstream in(path(key), std::ios::binary);
  if (!in) return std::nullopt;
  const std::vector<char> file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Header h;
  if (file.size() < sizeof h) return std::nullopt;
  std::memcpy(&h, file.data(), sizeof h);
  const auto payload = std::span<const char>(file).subspan(sizeof h);
  if (h.tag != tag_ || h.key != key || h.checksum != hash128(std::as_bytes(payload))) return std::nullopt;
  return std::vector<char>(payload.begin(), payload.end());
}

bool DiskCache::write(const Hash128& key, std::span<const char> payload) const {
  if (folder_.empty()) return false;
  std::error_code failed, ignored;
  fs::create_directories(folder_, failed);
  if (failed) return false;
  const Header h{tag_, key, hash128(std::as_bytes(payload))};
  // Another thread or process may write the same entry: each has its own draft, and the rename is atomic.
  static std::atomic<u32> counter{0};
  const fs::path draft = folder_ / fmt::format("{}.{}.{}.draft", key.hex(), getpid(), counter++);
  {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(payload.data(), static_cast<std::streamsize>(payload.size()));
    out.close();
    if (!out) {
      fs::remove(draft, ignored);
      return false;
    }
  }
  fs::rename(draft, path(key), failed);
  if (failed) fs::remove(draft, ignored);
  return !failed;
}

}  // namespace iron
