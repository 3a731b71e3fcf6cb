// Reading and writing of cache entries.
#include "runtime/cuda/cache.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace iron::runtime::cuda {

namespace {
constexpr u64 magic = 0x31'4e524b'4e4f5249ull;  // "IRONKRN1", little-endian

struct Header {
  u64 tag = magic;
  u64 cubin = 0, ptx = 0, log = 0;  ///< bytes of the three parts, in this order behind the header
  Hash128 checksum;                 ///< of the parts
};

std::filesystem::path default_folder() {
  if (const char* chosen = std::getenv("IRON_CACHE"); chosen && *chosen) return std::filesystem::path(chosen) / "cuda";
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return std::filesystem::path(xdg) / "iron/cuda";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache/iron/cuda";
  return {};
}
}  // namespace

DiskCache::DiskCache() : folder_(default_folder()) {}

std::optional<Compiled> DiskCache::read(const Hash128& key) const {
  if (folder_.empty()) return {};
  std::ifstream in(path(key), std::ios::binary);
  if (!in) return {};
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  Header h;
  if (bytes.size() < sizeof h) return {};
  std::memcpy(&h, bytes.data(), sizeof h);
  const u64 room = bytes.size() - sizeof h;
  if (h.tag != magic || h.cubin > room || h.ptx > room || h.log > room || h.cubin + h.ptx + h.log != room) return {};
  const auto parts = std::string_view(bytes).substr(sizeof h);
  if (hash128(parts) != h.checksum) return {};
  Compiled out;
  out.cubin.assign(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(h.cubin));
  out.ptx = parts.substr(h.cubin, h.ptx);
  out.log = parts.substr(h.cubin + h.ptx);
  return out;
}

void DiskCache::write(const Hash128& key, const Compiled& entry) const {
  if (folder_.empty()) return;
  std::error_code ec;
  std::filesystem::create_directories(folder_, ec);
  if (ec) return;
  std::string parts(entry.cubin.begin(), entry.cubin.end());
  parts += entry.ptx;
  parts += entry.log;
  const Header h{magic, entry.cubin.size(), entry.ptx.size(), entry.log.size(), hash128(std::string_view(parts))};
  // Another process may write the same entry: each has its own draft, and the rename is atomic.
  const auto draft = folder_ / fmt::format("{}.{}.draft", key.hex(), getpid());
  {
    std::ofstream out(draft, std::ios::binary | std::ios::trunc);
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(parts.data(), static_cast<std::streamsize>(parts.size()));
    out.close();
    if (!out) {
      std::filesystem::remove(draft, ec);
      return;
    }
  }
  std::filesystem::rename(draft, path(key), ec);
  if (ec) std::filesystem::remove(draft, ec);
}

}  // namespace iron::runtime::cuda
