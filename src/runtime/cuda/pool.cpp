// The memory pool of one GPU.
#include <fmt/format.h>

#include "runtime/cuda/backend.h"

namespace iron::runtime::cuda {

namespace {
// CUmemPoolProps of the driver's ABI.
struct PoolProperties {
  int allocation_type = 1;  // pinned
  int handle_types = 0;
  int location_type = 1;  // a device
  int location = 0;
  void* security = nullptr;
  std::size_t most_bytes = 0;
  unsigned short usage = 0;
  unsigned char reserved[54] = {};
};
static_assert(sizeof(PoolProperties) == 88);
constexpr int release_threshold = 4, reserved_now = 5, used_now = 7;
}  // namespace

Pool::Pool(const Driver& driver, CUdevice device) : driver_(driver) {
  PoolProperties properties;
  properties.location = device;
  driver_.check(driver_.MemPoolCreate(&pool_, &properties), "creating a memory pool");
  // Kept until trimmed: giving memory back at every synchronisation costs more than the work between two.
  u64 all = ~u64{0};
  driver_.check(driver_.MemPoolSetAttribute(pool_, release_threshold, &all), "setting up a memory pool");
}
Pool::~Pool() { driver_.MemPoolDestroy(pool_); }

void* Pool::allocate(u64 bytes, CUstream stream) {
  CUdeviceptr data = 0;
  driver_.check(driver_.MemAllocFromPoolAsync(&data, bytes ? bytes : 1, pool_, stream),
                fmt::format("allocating {} bytes", bytes));
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(data));
}
void Pool::release(void* data, CUstream stream) {
  driver_.check(driver_.MemFreeAsync(reinterpret_cast<std::uintptr_t>(data), stream), "releasing memory");
}
PoolUse Pool::use() const {
  u64 reserved = 0, used = 0;
  driver_.check(driver_.MemPoolGetAttribute(pool_, reserved_now, &reserved), "asking a memory pool");
  driver_.check(driver_.MemPoolGetAttribute(pool_, used_now, &used), "asking a memory pool");
  return {used, reserved - used};
}
void Pool::trim() { driver_.check(driver_.MemPoolTrimTo(pool_, 0), "trimming a memory pool"); }

}  // namespace iron::runtime::cuda
