// Memory of the CPU device from the system, on large pages where the system gives them: a walk over many small pages
// costs a table look-up a page.
#pragma once

#include <map>

#include "iron/types.h"

namespace iron::runtime {

/// Blocks below a large page are cut from slabs of several; larger ones are their own. Not thread-safe.
class Pages {
 public:
  Pages() = default;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// 256-byte aligned; null if there is no memory.
  void* allocate(u64 bytes);
  /// A slab goes back to the system with its last block.
  void release(void* data);

 private:
  struct Slab {
    u64 bytes = 0, used = 0;
    u64 blocks = 0;  ///< not released
  };
  std::map<u8*, Slab> slabs_;
  u8* open_ = nullptr;  ///< the slab that new blocks are cut from
};

}  // namespace iron::runtime
