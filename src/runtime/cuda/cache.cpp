// Entries of compiled kernels.
#include "runtime/cuda/cache.h"

#include <cstring>

namespace iron::runtime::cuda {

namespace {
/// Bytes of the parts, which follow in this order.
struct Sizes {
  u64 cubin = 0, ptx = 0, log = 0;
};
}  // namespace

std::optional<Compiled> read_compiled(const DiskCache& cache, const Hash128& key) {
  const auto payload = cache.read(key);
  Sizes n;
  if (!payload || payload->size() < sizeof n) return std::nullopt;
  std::memcpy(&n, payload->data(), sizeof n);
  std::string_view parts(payload->data() + sizeof n, payload->size() - sizeof n);
  if (n.cubin + n.ptx + n.log != parts.size()) return std::nullopt;
  Compiled out;
  out.cubin.assign(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(n.cubin));
  out.ptx = parts.substr(n.cubin, n.ptx);
  out.log = parts.substr(n.cubin + n.ptx);
  return out;
}

bool write_compiled(const DiskCache& cache, const Hash128& key, const Compiled& compiled) {
  const Sizes n{compiled.cubin.size(), compiled.ptx.size(), compiled.log.size()};
  std::vector<char> payload(sizeof n);
  std::memcpy(payload.data(), &n, sizeof n);
  payload.insert(payload.end(), compiled.cubin.begin(), compiled.cubin.end());
  payload.insert(payload.end(), compiled.ptx.begin(), compiled.ptx.end());
  payload.insert(payload.end(), compiled.log.begin(), compiled.log.end());
  return cache.write(key, payload);
}

}  // namespace iron::runtime::cuda
