// The disk cache of compiled kernels.
#include "cpu/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/hash.h"
#include "ir/text.h"

namespace iron::cpu {

namespace fs = std::filesystem;

namespace {
constexpr char magic[8] = {'I', 'R', 'O', 'N', 'C', 'P', 'U', '1'};

/// The first bytes of an entry. The checksum covers everything behind it.
struct Header {
  char magic[8] = {};
  u64 check_high = 0, check_low = 0;
  char key[32] = {};
  u64 scratch_bytes = 0;
  u64 object_bytes = 0;
  u32 words = 0;
  u8 waits = 0, needs_simdgroups = 0, unused[2] = {};
};
static_assert(sizeof(Header) == 80);
constexpr std::size_t covered_from = 24;

Hash128 checksum(std::span<const char> file) { return hash128(std::as_bytes(file.subspan(covered_from))); }
}  // namespace

std::string default_cache_folder() {
  if (const char* set = std::getenv("IRON_CACHE"); set && *set) return (fs::path(set) / "cpu").string();
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && *xdg) return (fs::path(xdg) / "iron" / "cpu").string();
  if (const char* home = std::getenv("HOME"); home && *home)
    return (fs::path(home) / ".cache" / "iron" / "cpu").string();
  return {};
}

std::string cache_key(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target, std::string_view llvm,
                      bool stream) {
  // Texts of checks and prints are told apart by the op's number, so the kernel's own text is what counts.
  return hash128(fmt::format("{}\n{} {} {}\n{}\n{}\n{}\n{}\n{}", ir::print(kernel, {.locations = false}), threads.x,
                             threads.y, threads.z, target.key(), llvm, lowering_version, kernel.op_capacity(),
                             stream ? "stream" : ""))
      .hex();
}

std::optional<CacheEntry> read_entry(const std::string& folder, const std::string& key) {
  if (folder.empty()) return std::nullopt;
  std::ifstream in(fs::path(folder) / (key + ".o"), std::ios::binary);
  if (!in) return std::nullopt;
  const std::vector<char> file((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  Header h;
  if (file.size() < sizeof(Header)) return std::nullopt;
  std::memcpy(&h, file.data(), sizeof h);
  if (std::memcmp(h.magic, magic, sizeof magic) != 0 || file.size() != sizeof(Header) + h.object_bytes ||
      key.size() != sizeof h.key || std::memcmp(h.key, key.data(), sizeof h.key) != 0)
    return std::nullopt;
  if (checksum(file) != Hash128{h.check_high, h.check_low}) return std::nullopt;
  CacheEntry e;
  e.info = {h.scratch_bytes, h.waits != 0, h.needs_simdgroups != 0, h.words};
  e.object.assign(file.begin() + sizeof(Header), file.end());
  return e;
}

bool write_entry(const std::string& folder, const std::string& key, const Lowered& info, std::span<const char> object) {
  if (folder.empty() || key.size() != sizeof(Header::key)) return false;
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return false;
  Header h;
  std::memcpy(h.magic, magic, sizeof magic);
  std::memcpy(h.key, key.data(), sizeof h.key);
  h.scratch_bytes = info.scratch_bytes, h.object_bytes = object.size(), h.words = info.words;
  h.waits = info.waits, h.needs_simdgroups = info.needs_simdgroups;
  std::vector<char> file(sizeof h + object.size());
  std::memcpy(file.data(), &h, sizeof h);
  std::copy(object.begin(), object.end(), file.begin() + sizeof h);
  const Hash128 sum = checksum(file);
  h.check_high = sum.high, h.check_low = sum.low;
  std::memcpy(file.data(), &h, sizeof h);
  // A name of its own, then a rename: no reader sees half an entry.
  static std::atomic<u32> counter{0};
  const fs::path whole = fs::path(folder) / (key + ".o");
  const fs::path part = fs::path(folder) / fmt::format("{}.{}.{}.part", key, getpid(), counter++);
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    if (!out.write(file.data(), static_cast<std::streamsize>(file.size())) || !out.flush()) {
      fs::remove(part, failed);
      return false;
    }
  }
  fs::rename(part, whole, failed);
  if (failed) {
    std::error_code ignored;
    fs::remove(part, ignored);
    return false;
  }
  return true;
}

}  // namespace iron::cpu
