// Entries of compiled kernels.
#include "cpu/cache.h"

#include <fmt/format.h>

#include <cstring>

#include "ir/text.h"

namespace iron::cpu {

namespace {
/// Before the object file.
struct Info {
  u64 scratch_bytes = 0;
  u32 words = 0;
  u8 waits = 0, needs_simdgroups = 0, unused[2] = {};
};
static_assert(sizeof(Info) == 16);
}  // namespace

DiskCache object_cache(const std::string& folder) {
  return folder.empty() ? DiskCache("cpu") : DiskCache("cpu", folder);
}

Hash128 cache_key(const ir::Kernel& kernel, Dim3 threads, const CpuTarget& target, std::string_view llvm, bool stream) {
  // Texts of checks and prints are told apart by the op's number, so the kernel's own text is what counts.
  return hash128(fmt::format("{}\n{} {} {}\n{}\n{}\n{}\n{}\n{}", ir::print(kernel, {.locations = false}), threads.x,
                             threads.y, threads.z, target.key(), llvm, lowering_version, kernel.op_capacity(),
                             stream ? "stream" : ""));
}

std::optional<CacheEntry> read_entry(const DiskCache& cache, const Hash128& key) {
  const auto payload = cache.read(key);
  if (!payload || payload->size() < sizeof(Info)) return std::nullopt;
  Info info;
  std::memcpy(&info, payload->data(), sizeof info);
  CacheEntry e;
  e.info = {info.scratch_bytes, info.waits != 0, info.needs_simdgroups != 0, info.words};
  e.object.assign(payload->begin() + sizeof info, payload->end());
  return e;
}

bool write_entry(const DiskCache& cache, const Hash128& key, const Lowered& info, std::span<const char> object) {
  const Info kept{info.scratch_bytes, info.words, info.waits, info.needs_simdgroups, {}};
  std::vector<char> payload(sizeof kept + object.size());
  std::memcpy(payload.data(), &kept, sizeof kept);
  std::copy(object.begin(), object.end(), payload.begin() + sizeof kept);
  return cache.write(key, payload);
}

}  // namespace iron::cpu
