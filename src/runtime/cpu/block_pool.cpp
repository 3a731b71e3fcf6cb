#include "runtime/cpu/block_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

namespace iron::runtime {

namespace {
/// Eight sizes between powers of two: a block wastes an eighth at most, and close sizes share.
u64 size_class(u64 bytes) {
  const u64 step = std::max<u64>(256, std::bit_floor(std::max<u64>(bytes, 1)) / 8);
  return (std::max<u64>(bytes, 1) + step - 1) / step * step;
}
}  // namespace

void* BlockPool::allocate(u64 bytes) {
  const u64 size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  void* data = nullptr;
  if (auto it = kept_.find(size); it != kept_.end() && !it->second.empty()) {
    data = it->second.back();
    it->second.pop_back();
    use_.kept_bytes -= size;
  } else {
    data = pages_.allocate(size);
  }
  if (!data) return nullptr;
  used_[data] = size, use_.used_bytes += size;
  return data;
}

bool BlockPool::release(void* data) {
  const std::lock_guard lock(mutex_);
  const auto it = used_.find(data);
  if (it == used_.end()) throw Error("DEV03", "memory is released that this device did not allocate, or twice");
  const u64 size = it->second;
  used_.erase(it);
  use_.used_bytes -= size;
  if (use_.kept_bytes + size > keep_at_most_) return true;
  kept_[size].push_back(data);
  use_.kept_bytes += size;
  return false;
}

void BlockPool::give_back(void* data) {
  const std::lock_guard lock(mutex_);
  pages_.release(data);
}

PoolUse BlockPool::use() const {
  const std::lock_guard lock(mutex_);
  return use_;
}

void BlockPool::trim() {
  const std::lock_guard lock(mutex_);
  for (auto& [size, blocks] : kept_)
    for (void* b : blocks) pages_.release(b);
  kept_.clear();
  use_.kept_bytes = 0;
}

}  // namespace iron::runtime
