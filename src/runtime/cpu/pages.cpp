#include "runtime/cpu/pages.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

namespace iron::runtime {

namespace {
constexpr u64 large_page = u64{2} << 20, slab_bytes = 8 * large_page;
#if defined(__SANITIZE_ADDRESS__)
constexpr u64 smallest_in_slab = ~u64{0};  // the sanitizer guards the ends of blocks that are the system's own
#elif defined(__has_feature)
constexpr u64 smallest_in_slab = __has_feature(address_sanitizer) ? ~u64{0} : u64{16} << 10;
#else
constexpr u64 smallest_in_slab = u64{16} << 10;
#endif

u64 round_up(u64 bytes, u64 to) { return (std::max<u64>(bytes, 1) + to - 1) / to * to; }

void* from_system(u64 bytes, u64 alignment) {
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes) != 0) return nullptr;
  // Advice only: without it the pages are small.
  if (const u64 whole = alignment == large_page ? bytes / large_page * large_page : 0)
    (void)madvise(data, whole, MADV_HUGEPAGE);
  return data;
}
}  // namespace

Pages::~Pages() {
  for (const auto& [base, slab] : slabs_) std::free(base);
}

void* Pages::allocate(u64 bytes) {
  bytes = round_up(bytes, 256);
  if (bytes >= large_page) return from_system(bytes, large_page);
  if (bytes < smallest_in_slab) return from_system(bytes, 256);
  if (!open_ || slabs_.at(open_).used + bytes > slab_bytes) {
    auto* fresh = static_cast<u8*>(from_system(slab_bytes, large_page));
    if (!fresh) return nullptr;
    if (open_ && slabs_.at(open_).blocks == 0) slabs_.erase(open_), std::free(open_);
    open_ = fresh, slabs_[open_] = {slab_bytes, 0, 0};
  }
  Slab& slab = slabs_.at(open_);
  u8* at = open_ + slab.used;
  slab.used += bytes, ++slab.blocks;
  return at;
}

void Pages::release(void* data) {
  auto it = slabs_.upper_bound(static_cast<u8*>(data));
  if (it == slabs_.begin()) return std::free(data);
  --it;
  if (static_cast<u8*>(data) >= it->first + it->second.bytes) return std::free(data);
  if (--it->second.blocks) return;
  if (it->first == open_) {
    it->second.used = 0;
    return;
  }
  std::free(it->first);
  slabs_.erase(it);
}

}  // namespace iron::runtime
