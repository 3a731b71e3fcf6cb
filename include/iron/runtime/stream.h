// Streams, events and graphs: work beside other work, its times, and launches replayed as one.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "iron/runtime/device.h"

namespace iron {

namespace runtime {
class Event;
class Graph;
class Stream;
struct Launch;
}  // namespace runtime

/// A place in a stream's work, made by Stream::record. Copies are the same place.
class Event {
 public:
  Event() = default;
  explicit Event(std::shared_ptr<runtime::Event> impl) : impl_(std::move(impl)) {}
  bool done() const;
  void synchronize() const;
  /// Seconds on the device's clock from `earlier` to this one; waits for both.
  double seconds_since(const Event& earlier) const;

 private:
  friend class Stream;
  const runtime::Event& get() const;
  std::shared_ptr<runtime::Event> impl_;
};

struct LaunchOptions {
  /// The device may set this kernel up while the one before it on the stream ends; it reads and writes nothing before
  /// that. Saves the gap between short kernels on devices with `dependent_launch`, elsewhere it changes nothing.
  bool overlap = false;
};

/// Launches captured once and replayed in order by one call, without checks or look-ups. The buffers of the arguments
/// must outlive the last replay.
class Graph {
 public:
  Graph() = default;
  std::size_t size() const;  ///< launches
  explicit operator bool() const { return graph_ != nullptr; }
  /// Arguments of one launch, numbered as captured, for the replays that start later. Same kernel, same grid. Throws
  /// what the launch contract finds.
  void set_args(std::size_t launch, std::span<const LaunchArg> args);
  template <class K>
  void update(std::size_t launch, const K& kernel) {
    std::vector<LaunchArg> args;
    Device::bind(kernel, args);
    set_args(launch, args);
  }

 private:
  friend class Stream;
  std::shared_ptr<detail::DeviceState> device_;
  std::shared_ptr<runtime::Graph> graph_;
  std::vector<PreparedKernel> kernels_;
};

/// Work that runs in order, beside that of other streams and of the device. Made by Device::stream; used by one thread
/// at a time. A new stream sees everything that was enqueued on the device before its first work; after that, order
/// between streams is made by events. Errors: RT10 what cannot be captured, RT11 objects of another device.
class Stream {
 public:
  explicit Stream(const Device& device);
  /// A stream of another library by its native handle (CUDA: a CUstream; null is the default stream), which outlives
  /// this object and the work put on it here; so does the memory that this work uses. RT14: the device has no such
  /// streams.
  Stream(const Device& device, void* native);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();  ///< waits for nothing: the work goes on

  template <class K>
  void launch(const K& kernel, LaunchOptions options = {}) {
    launch(kernel, grid_of(kernel), options);
  }
  template <class K>
  void launch(const K& kernel, Grid grid, LaunchOptions options = {}) {
    std::vector<LaunchArg> args;
    Device::bind(kernel, args);
    launch(device_.prepare(kernel, grid.threads), args, Device::geometry_of(grid), options);
  }
  /// Checks the launch contract, then enqueues.
  void launch(const PreparedKernel& kernel, std::span<const LaunchArg> args, const LaunchGeometry& geometry,
              LaunchOptions options = {});

  /// Copies n elements; `from` must stay as it is until the copy is done.
  template <class T>
  void upload(Buffer<T>& to, std::span<const T> from, u64 at = 0) {
    copy_in(to.data() + check(to.size(), at, from.size()), from.data(), from.size_bytes());
  }
  /// `to` holds the elements after synchronize() or a later event.
  template <class T>
  void download(const Buffer<T>& from, std::span<T> to, u64 at = 0) {
    copy_out(to.data(), from.data() + check(from.size(), at, to.size()), to.size_bytes());
  }
  template <class T>
  void fill_bytes(Buffer<T>& buffer, u8 byte) {
    fill(buffer.data(), byte, buffer.size() * sizeof(T));
  }

  Event record();                 ///< a place after everything enqueued so far
  void wait(const Event& event);  ///< later work starts after the event
  bool idle() const;              ///< nothing is left to do
  void synchronize() const;       ///< waits for what was enqueued

  /// The launches that `body` makes on this stream, kept instead of run. Copies, events and waits cannot be captured.
  template <class F>
  Graph capture(F&& body) {
    begin_capture();
    try {
      body();
    } catch (...) {
      drop_capture();
      throw;
    }
    return end_capture();
  }
  void replay(const Graph& graph);

 private:
  struct Capture;
  static u64 check(u64 size, u64 at, u64 n);
  void not_while_capturing(const char* what) const;
  void copy_in(void* to, const void* from, u64 bytes);
  void copy_out(void* to, const void* from, u64 bytes);
  void fill(void* to, u8 byte, u64 bytes);
  void begin_capture();
  void drop_capture();
  Graph end_capture();

  Device device_;
  std::unique_ptr<runtime::Stream> stream_;
  std::unique_ptr<Capture> captured_;
};

}  // namespace iron
