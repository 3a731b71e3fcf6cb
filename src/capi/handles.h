// What stands behind the handles of the C interface, and how exceptions become status codes.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "gemm/select.h"
#include "iron/c.h"
#include "iron/library.h"
#include "iron/runtime/device.h"
#include "iron/runtime/stream.h"

namespace iron::capi {

/// An error whose status is known where it is raised; other errors get theirs by their code.
class Fault : public Error {
 public:
  Fault(iron_status status, std::string_view code, std::string message, std::string fix = {})
      : Error(code, std::move(message), std::move(fix)), status_(status) {}
  iron_status status() const { return status_; }

 private:
  iron_status status_;
};

/// Status of the exception that is being handled, its text kept for iron_last_error().
iron_status caught() noexcept;

template <class F>
iron_status guarded(F&& body) noexcept {
  try {
    body();
    return IRON_OK;
  } catch (...) {
    return caught();
  }
}

/// Refuses a null pointer; `what` names the argument.
void need(const void* pointer, const char* what);

/// A device with the lock that puts its callers in order; shared by every handle that came from it.
struct SharedDevice {
  explicit SharedDevice(std::string_view name) : device(Device::open(name)) {}
  Device device;
  std::mutex mutex;
  std::string features;
};
std::shared_ptr<SharedDevice> shared_device(std::string_view name);

/// The device's work in order: one caller at a time.
template <class F>
iron_status on_device(const std::shared_ptr<SharedDevice>& shared, F&& body) noexcept {
  return guarded([&] {
    const std::lock_guard lock(shared->mutex);
    body();
  });
}

/// Structs that may grow: copies what the caller's version has room for.
template <class T>
void give(T* to, const T& from, const char* what) {
  need(to, what);
  const std::size_t room = to->size;
  if (room < sizeof(std::size_t) || room > 4096)
    throw Fault(IRON_INVALID_ARGUMENT, "C01", std::string(what) + "->size is not set",
                std::string("set it to sizeof(*") + what + ")");
  std::memcpy(static_cast<void*>(to), &from, std::min(room, sizeof from));
  to->size = room;
}

/// A buffer, for its handle and for those whom it was handed to. Freed in order with the device's work.
struct HeldBuffer {
  HeldBuffer(std::shared_ptr<SharedDevice> s, u64 bytes);
  ~HeldBuffer();
  HeldBuffer(const HeldBuffer&) = delete;
  std::shared_ptr<SharedDevice> shared;
  Buffer<std::byte> buffer;
};

}  // namespace iron::capi

struct iron_device {
  std::shared_ptr<iron::capi::SharedDevice> shared;
};

struct iron_buffer {
  std::shared_ptr<iron::capi::HeldBuffer> memory;
};

struct iron_kernel {
  std::shared_ptr<iron::capi::SharedDevice> shared;
  const iron::KernelEntry* entry = nullptr;
  std::unique_ptr<iron::KernelInstance> instance;
  std::vector<iron::detail::NamedField> parameters;
  std::vector<std::string> parameter_names;  ///< zero-terminated
  std::string specialisation;
  /// Compiled forms by threadgroup; seldom more than one.
  std::vector<std::pair<iron::Dim3, iron::PreparedKernel>> prepared;
  /// Of a kernel that stands for its family: who takes its launches, and what that member is compiled as.
  std::unique_ptr<iron::kernels::GemmDispatch> dispatch;
  std::map<std::string, iron::PreparedKernel> members;
  std::string member;  ///< that took the last launch, and why
};

struct iron_stream {
  std::shared_ptr<iron::capi::SharedDevice> shared;
  iron::Stream stream;
};

struct iron_event {
  std::shared_ptr<iron::capi::SharedDevice> shared;
  iron::Event event;
};

struct iron_graph {
  std::shared_ptr<iron::capi::SharedDevice> shared;
  iron::Graph graph;
};
