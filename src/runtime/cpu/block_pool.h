// Memory of the CPU device: released blocks are kept by size for the next allocation, whose pages are there already.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "runtime/backend.h"
#include "runtime/cpu/pages.h"

namespace iron::runtime {

/// Thread-safe. A block may be handed out while commands in the device's list still use it: the list orders commands by
/// the bytes that they touch.
class BlockPool {
 public:
  explicit BlockPool(u64 keep_at_most = u64{256} << 20) : keep_at_most_(keep_at_most) {}
  ~BlockPool() { trim(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// 256-byte aligned; null if the system has no more.
  void* allocate(u64 bytes);
  /// Keeps the block, or returns true: then the caller gives it back once nothing in flight uses it.
  [[nodiscard]] bool release(void* data);
  void give_back(void* data);
  PoolUse use() const;
  void trim();

 private:
  const u64 keep_at_most_;
  mutable std::mutex mutex_;
  Pages pages_;
  std::map<u64, std::vector<void*>> kept_;  ///< by size
  std::map<void*, u64> used_;
  PoolUse use_;
};

}  // namespace iron::runtime
