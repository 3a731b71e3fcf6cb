#include "iron/runtime/device.h"

#include "iron/instance.h"
#include "runtime/device_state.h"

namespace iron {

namespace detail {

RawBuffer::RawBuffer(std::shared_ptr<DeviceState> d, u64 n) : device(std::move(d)), bytes(n) {
  data = device->backend->allocate(std::max<u64>(n, 16));
}
RawBuffer::RawBuffer(RawBuffer&& other) noexcept
    : device(std::move(other.device)), data(std::exchange(other.data, nullptr)), bytes(std::exchange(other.bytes, 0)) {}
RawBuffer& RawBuffer::operator=(RawBuffer&& other) noexcept {
  std::swap(device, other.device);
  std::swap(data, other.data);
  std::swap(bytes, other.bytes);
  return *this;
}
RawBuffer::~RawBuffer() {
  if (data) device->backend->release(data);
}

namespace {
void check_range(u64 offset, u64 n, u64 bytes) {
  if (offset > bytes || n > bytes - offset)
    throw Error("RT02", "a copy of " + std::to_string(n) + " bytes at " + std::to_string(offset) +
                            " leaves a buffer of " + std::to_string(bytes) + " bytes");
}
}  // namespace

void RawBuffer::upload(const void* from, u64 offset, u64 n) {
  check_range(offset, n, bytes);
  if (n) device->backend->upload(static_cast<std::byte*>(data) + offset, from, n);
}
void RawBuffer::download(void* to, u64 offset, u64 n) const {
  check_range(offset, n, bytes);
  if (!n) return;
  device->backend->synchronize();
  device->backend->download(to, static_cast<const std::byte*>(data) + offset, n);
}
void RawBuffer::fill(u8 byte) {
  if (bytes) device->backend->fill(data, byte, bytes);
}

}  // namespace detail

void PreparedKernel::launch(std::span<const LaunchArg> args, const LaunchGeometry& geometry) const {
  state().check(args, geometry);
  state_->backend->launch(state_->exe, geometry, args);
}

const PreparedKernel::State& PreparedKernel::state() const {
  if (!state_) throw Error("RT12", "a kernel that was never prepared", "make it with Device::prepare");
  return *state_;
}

Device Device::open(std::string_view name) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<detail::DeviceState>, std::less<>> open_devices;
  const std::lock_guard lock(mutex);
  auto& state = open_devices[std::string(name)];
  if (!state) {
    auto fresh = std::make_shared<detail::DeviceState>();
    fresh->backend = &runtime::backend(name);
    state = std::move(fresh);
  }
  return Device(state);
}

std::string Device::name() const { return state_->backend->info().name; }
void Device::synchronize() const { state_->backend->synchronize(); }
DeviceMemory Device::memory() const {
  const auto use = state_->backend->pool_use();
  return {use.used_bytes, use.kept_bytes};
}
void Device::trim() const { state_->backend->trim_pool(); }
runtime::Backend& Device::backend() const { return *state_->backend; }

PreparedKernel Device::prepare(const KernelInstance& kernel, const std::string& kernel_name, Threads threads) const {
  return prepare_step(kernel.key(), threads, [&] { return kernel.record(kernel_name); });
}

PreparedKernel Device::prepare_step(const std::string& key, Threads threads,
                                    const std::function<std::shared_ptr<ir::Kernel>()>& record) const {
  const std::string full =
      key + "/" + std::to_string(threads.x) + "," + std::to_string(threads.y) + "," + std::to_string(threads.z);
  const std::lock_guard lock(state_->mutex);
  auto& entry = state_->prepared[full];
  if (!entry) {
    auto s = std::make_shared<PreparedKernel::State>();
    s->backend = state_->backend;
    s->compiled = runtime::compile_for(state_->backend->info().backend, record());
    s->exe = state_->backend->prepare(*s->compiled->optimised, {threads.x, threads.y, threads.z});
    const auto& info = state_->backend->info();
    s->limits.max_threads_per_group = info.max_threads_per_group;
    if (info.shared_bytes) s->limits.shared_bytes = info.shared_bytes;
    entry = std::move(s);
  }
  return PreparedKernel(entry);
}

}  // namespace iron
