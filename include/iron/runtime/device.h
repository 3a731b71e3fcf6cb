// Devices, buffers and launches, for programs that use kernels.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "iron/dsl/kernel.h"

namespace iron {

class KernelInstance;
namespace runtime {
class Backend;
}
namespace detail {
struct DeviceState;
/// Typeless halves of the templates below.
struct RawBuffer {
  std::shared_ptr<DeviceState> device;
  void* data = nullptr;
  u64 bytes = 0;
  RawBuffer() = default;
  RawBuffer(std::shared_ptr<DeviceState> d, u64 n);
  RawBuffer(RawBuffer&& other) noexcept;
  RawBuffer& operator=(RawBuffer&& other) noexcept;
  ~RawBuffer();
  void upload(const void* from, u64 offset, u64 n);
  void download(void* to, u64 offset, u64 n) const;
  void fill(u8 byte);
};
}  // namespace detail

/// Memory of a device: n elements of T from its pool, given back with the object, which waits for nothing: work in
/// flight keeps it. Contents are undefined until set.
template <class T>
class Buffer {
 public:
  using value_type = T;
  Buffer() = default;
  Buffer(std::shared_ptr<detail::DeviceState> device, u64 n) : raw_(std::move(device), n * sizeof(T)) {}
  u64 size() const { return raw_.bytes / sizeof(T); }
  T* data() const { return static_cast<T*>(raw_.data); }  ///< a device address
  static constexpr bool on_device() { return true; }
  void upload(std::span<const T> from, u64 at = 0) { raw_.upload(from.data(), at * sizeof(T), from.size_bytes()); }
  void download(std::span<T> to, u64 at = 0) const { raw_.download(to.data(), at * sizeof(T), to.size_bytes()); }
  std::vector<T> to_host() const {
    std::vector<T> v(size());
    download(v);
    return v;
  }
  void fill_bytes(u8 byte) { raw_.fill(byte); }

 private:
  detail::RawBuffer raw_;
};

/// A kernel recorded, optimised, compiled and bound to its specialisation: launches without looking anything up.
class PreparedKernel {
 public:
  struct State;
  PreparedKernel() = default;
  explicit PreparedKernel(std::shared_ptr<State> state) : state_(std::move(state)) {}
  /// Checks the launch contract, then launches. Throws iron::Error naming what the launch lacks.
  void launch(std::span<const LaunchArg> args, const LaunchGeometry& geometry) const;
  explicit operator bool() const { return state_ != nullptr; }
  const State& state() const;

 private:
  std::shared_ptr<State> state_;
};

/// Bytes that buffers hold, and bytes that the device keeps besides for those to come.
struct DeviceMemory {
  u64 used_bytes = 0, kept_bytes = 0;
};

/// One device. Launches run in order; they return before the work is done where the device allows it.
class Device {
 public:
  /// "cpu" (the default), "cuda", "interpreter". Throws iron::Error with the reason if it cannot be had.
  static Device open(std::string_view name = "cpu");

  std::string name() const;
  template <class T>
  Buffer<T> buffer(u64 n) const {
    return Buffer<T>(state_, n);
  }
  template <class T>
  Buffer<T> buffer(std::span<const T> values) const {
    Buffer<T> b(state_, values.size());
    b.upload(values);
    return b;
  }
  template <class T>
  Buffer<T> buffer(const std::vector<T>& values) const {
    return buffer(std::span<const T>(values));
  }

  /// Launches on the kernel's own grid. All buffers must live on this device.
  template <class K>
  void launch(const K& kernel) const {
    launch(kernel, grid_of(kernel));
  }
  template <class K>
  void launch(const K& kernel, Grid grid) const {
    std::vector<LaunchArg> args;
    bind(kernel, args);
    prepare(kernel, grid.threads).launch(args, geometry_of(grid));
  }
  /// The kernel compiled for threadgroups of that size; kept by type and specialisation.
  template <class K>
  PreparedKernel prepare(const K& kernel, Threads threads) const {
    return prepare_step(std::string(detail::type_name<K>()) + "{" + specialisation(kernel) + "}", threads,
                        [&] { return iron::record(kernel, std::string(kernel_name<K>())); });
  }
  /// The same for a kernel whose type is known only at run time, by that name in what is emitted.
  PreparedKernel prepare(const KernelInstance& kernel, const std::string& kernel_name, Threads threads) const;
  void synchronize() const;  ///< waits for all work, that of streams included
  DeviceMemory memory() const;
  void trim() const;  ///< gives the kept memory back to the system
  runtime::Backend& backend() const;

  template <class K>
  static void bind(const K& kernel, std::vector<LaunchArg>& args) {
    for (const auto& a : arguments(kernel)) {
      if (!a.scalar && !a.buffer.on_device && a.buffer.bytes)
        throw Error("D25", "buffer " + a.name + " holds host memory", "upload it: device.buffer(values)");
      args.push_back(a.launch_arg(a.buffer.data));
    }
  }
  static LaunchGeometry geometry_of(const Grid& g) {
    return {{g.groups.x, g.groups.y, g.groups.z}, {g.threads.x, g.threads.y, g.threads.z}, g.items};
  }

 private:
  friend class Stream;
  explicit Device(std::shared_ptr<detail::DeviceState> state) : state_(std::move(state)) {}
  template <class K>
  static constexpr std::string_view kernel_name() {
    if constexpr (requires { K::name; })
      return K::name;
    else
      return "kernel";
  }
  PreparedKernel prepare_step(const std::string& key, Threads threads,
                              const std::function<std::shared_ptr<ir::Kernel>()>& record) const;
  std::shared_ptr<detail::DeviceState> state_;
};

}  // namespace iron
