// Buffers as DLPack tensors (github.com/dmlc/dlpack, versions 0.x and 1.0): consumers free them by code of ours that
// needs neither an interpreter's lock nor the buffer's handle.
#include <dlfcn.h>

#include "capi/handles.h"
#include "runtime/backend.h"

namespace iron::capi {

namespace {

// The layouts are DLPack's ABI.
struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};
struct DLManagedTensorVersioned {
  struct {
    uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

/// What a consumer holds.
struct Exported {
  DLManagedTensor plain{};
  DLManagedTensorVersioned versioned{};
  std::shared_ptr<HeldBuffer> memory;
  std::vector<int64_t> sizes;  ///< shape, then strides
};

DLDataType data_type(DType type) {
  const auto bits = static_cast<uint8_t>(dtype_size(type) * 8);
  if (type == DType::boolean) return {6, bits, 1};
  if (type == DType::bf16) return {4, bits, 1};
  return {static_cast<uint8_t>(is_float(type) ? 2 : is_unsigned_int(type) ? 1 : 0), bits, 1};
}

template <class Managed>
void release(void* managed) {
  auto* m = static_cast<Managed*>(managed);
  if (m->deleter) m->deleter(m);
}

}  // namespace

}  // namespace iron::capi

using namespace iron;
using namespace iron::capi;

iron_status iron_buffer_dlpack(const iron_buffer* buffer, iron_dtype dtype, const int64_t* shape, size_t dimensions,
                               int versioned, void** managed) {
  return guarded([&] {
    need(buffer, "buffer"), need(managed, "managed");
    if (dimensions) need(shape, "shape");
    *managed = nullptr;
    auto e = std::make_unique<Exported>();
    u64 elements = 1;
    for (size_t i = 0; i < dimensions; ++i) elements *= static_cast<u64>(shape[i]);
    const u64 size = iron_dtype_size(dtype);
    if (size == 0) throw Fault(IRON_WRONG_TYPE, "D25", "a DLPack tensor needs an element type");
    if (elements * size > buffer->memory->buffer.size())
      throw Fault(IRON_INVALID_ARGUMENT, "D25",
                  "the shape takes " + std::to_string(elements * size) + " bytes, the buffer has " +
                      std::to_string(buffer->memory->buffer.size()));
    e->memory = buffer->memory;
    e->sizes.assign(2 * dimensions, 1);
    for (size_t i = dimensions; i-- > 0;) {
      e->sizes[i] = shape[i];
      if (i + 1 < dimensions) e->sizes[dimensions + i] = e->sizes[dimensions + i + 1] * shape[i + 1];
    }
    const auto& info = buffer->memory->shared->device.backend().info();
    DLTensor t{};
    t.data = iron_buffer_data(buffer);
    t.device = {info.host_memory ? 1 : 2, static_cast<int32_t>(info.ordinal)};  // kDLCPU, kDLCUDA
    t.ndim = static_cast<int32_t>(dimensions);
    t.dtype = data_type(static_cast<DType>(dtype));
    t.shape = e->sizes.data(), t.strides = e->sizes.data() + dimensions;
    e->plain = {t, e.get(), [](DLManagedTensor* m) { delete static_cast<Exported*>(m->context); }};
    e->versioned = {
        {1, 0}, e.get(), [](DLManagedTensorVersioned* m) { delete static_cast<Exported*>(m->context); }, 0, t};
    auto* kept = e.release();
    *managed = versioned ? static_cast<void*>(&kept->versioned) : &kept->plain;
  });
}

// Python's functions are looked up where this runs: the library itself must not need an interpreter.
void iron_dlpack_capsule_destructor(void* capsule) {
  using IsValid = int (*)(void*, const char*);
  using Pointer = void* (*)(void*, const char*);
  static const auto is_valid = reinterpret_cast<IsValid>(dlsym(RTLD_DEFAULT, "PyCapsule_IsValid"));
  static const auto pointer = reinterpret_cast<Pointer>(dlsym(RTLD_DEFAULT, "PyCapsule_GetPointer"));
  if (!is_valid || !pointer) return;
  if (is_valid(capsule, "dltensor")) release<DLManagedTensor>(pointer(capsule, "dltensor"));
  if (is_valid(capsule, "dltensor_versioned"))
    release<DLManagedTensorVersioned>(pointer(capsule, "dltensor_versioned"));
}
