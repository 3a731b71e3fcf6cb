// Devices and buffers of the C interface.
#include <algorithm>
#include <map>

#include "capi/handles.h"
#include "runtime/backend.h"

namespace iron::capi {

std::shared_ptr<SharedDevice> shared_device(std::string_view name) {
  if (name.size() > 2 && name.substr(name.size() - 2) == ":0") name.remove_suffix(2);  // the first is named either way
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<SharedDevice>, std::less<>> opened;
  const std::lock_guard lock(mutex);
  const auto known = opened.find(name);
  if (known != opened.end()) return known->second;
  auto fresh = std::make_shared<SharedDevice>(name);
  for (const auto& f : fresh->device.backend().info().features)
    fresh->features += (fresh->features.empty() ? "" : " ") + f;
  return opened.emplace(name, std::move(fresh)).first->second;
}

HeldBuffer::HeldBuffer(std::shared_ptr<SharedDevice> s, u64 bytes)
    : shared(std::move(s)), buffer(shared->device.buffer<std::byte>(bytes)) {}
HeldBuffer::~HeldBuffer() {
  const std::lock_guard lock(shared->mutex);
  buffer = {};
}

namespace {
const std::vector<std::string>& backend_names() {
  static const std::vector<std::string> names = runtime::backend_names();
  return names;
}

iron_status null_handle(const char* what) noexcept {
  return guarded([&] { need(nullptr, what); });
}
}  // namespace

}  // namespace iron::capi

using namespace iron::capi;

size_t iron_backend_count(void) { return backend_names().size(); }
const char* iron_backend_name(size_t index) {
  return index < backend_names().size() ? backend_names()[index].c_str() : nullptr;
}

iron_status iron_device_open(const char* name, iron_device** device) {
  return guarded([&] {
    need(name, "name"), need(device, "device");
    *device = nullptr;
    *device = new iron_device{shared_device(name)};
  });
}
void iron_device_close(iron_device* device) { delete device; }

iron_status iron_device_describe(const iron_device* device, iron_device_info* info) {
  return guarded([&] {
    need(device, "device");
    const auto& i = device->shared->device.backend().info();
    iron_device_info out{};
    out.backend = i.backend.c_str(), out.name = i.name.c_str(), out.api = i.api.c_str();
    out.architecture = i.architecture.c_str(), out.features = device->shared->features.c_str();
    out.simd_width = i.simd_width, out.units = i.units, out.max_threads_per_group = i.max_threads_per_group;
    out.host_memory = i.host_memory;
    out.shared_bytes = i.shared_bytes, out.memory_bytes = i.memory_bytes, out.cache_bytes = i.cache_bytes;
    give(info, out, "info");
  });
}

iron_status iron_device_synchronize(iron_device* device) {
  if (!device) return null_handle("device");
  return on_device(device->shared, [&] { device->shared->device.synchronize(); });
}

iron_status iron_buffer_create(iron_device* device, uint64_t bytes, iron_buffer** buffer) {
  if (!device) return null_handle("device");
  return on_device(device->shared, [&] {
    need(buffer, "buffer");
    *buffer = nullptr;
    *buffer = new iron_buffer{std::make_shared<HeldBuffer>(device->shared, bytes)};
  });
}
void iron_buffer_destroy(iron_buffer* buffer) { delete buffer; }
void* iron_buffer_data(const iron_buffer* buffer) { return buffer ? buffer->memory->buffer.data() : nullptr; }
uint64_t iron_buffer_bytes(const iron_buffer* buffer) { return buffer ? buffer->memory->buffer.size() : 0; }

iron_status iron_buffer_upload(iron_buffer* buffer, uint64_t offset, const void* from, uint64_t bytes) {
  if (!buffer) return null_handle("buffer");
  return on_device(buffer->memory->shared, [&] {
    if (bytes) need(from, "from");
    buffer->memory->buffer.upload({static_cast<const std::byte*>(from), bytes}, offset);
  });
}
iron_status iron_buffer_download(const iron_buffer* buffer, uint64_t offset, void* to, uint64_t bytes) {
  if (!buffer) return null_handle("buffer");
  return on_device(buffer->memory->shared, [&] {
    if (bytes) need(to, "to");
    buffer->memory->buffer.download({static_cast<std::byte*>(to), bytes}, offset);
  });
}
iron_status iron_buffer_fill(iron_buffer* buffer, uint8_t byte) {
  if (!buffer) return null_handle("buffer");
  return on_device(buffer->memory->shared, [&] { buffer->memory->buffer.fill_bytes(byte); });
}
