// One NVIDIA GPU as a Backend: its own stream, the pool, and the streams and graphs beside.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "core/hash.h"
#include "runtime/cuda/cache.h"
#include "runtime/cuda/executable.h"
#include "runtime/stream.h"

namespace iron::runtime::cuda {

class CudaStream;

/// Memory of one GPU, allocated and released in the order of streams by the driver. The pool is Iron's own, so that
/// other users of the device keep their settings.
class Pool {
 public:
  Pool(const Driver& driver, CUdevice device);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  void* allocate(u64 bytes, CUstream stream);
  void release(void* data, CUstream stream);
  PoolUse use() const;
  void trim();

 private:
  const Driver& driver_;
  CUmemoryPool pool_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int ordinal);

  const DeviceInfo& info() const override { return info_; }
  void* allocate(u64 bytes) override;
  void release(void* data) override;
  PoolUse pool_use() override;
  void trim_pool() override;
  void upload(void* to, const void* from, u64 bytes) override;
  void download(void* to, const void* from, u64 bytes) override;
  void fill(void* to, u8 byte, u64 bytes) override;
  std::shared_ptr<Executable> prepare(const ir::Kernel& optimised, Dim3 threads) override;
  void launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
              std::span<const LaunchArg> args) override;
  void synchronize() override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Stream> wrap_stream(void* native) override;
  std::unique_ptr<Graph> build_graph(std::vector<Launch> launches) override;
  double time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                       std::span<const std::vector<LaunchArg>> rotating_args, u32 count) override;

  /// From now on prepare() gives this kernel, compiled before for the device's architecture with options(), where it
  /// would compile it.
  void adopt(const ir::Kernel& optimised, Dim3 threads, CompiledKernel compiled);
  /// How kernels are emitted for this device.
  static emit::CudaOptions options() { return {.dependent_launch = true, .matrix = matrix_use()}; }
  /// The device's place on the bus, "0000:18:00.0".
  std::string pci() const;

  const Driver& driver() const { return driver_; }
  CUstream stream() const { return stream_; }
  const Pool& pool() const { return pool_; }
  Pool& pool() { return pool_; }
  void enter() const { driver_.check(driver_.CtxSetCurrent(context_), "entering the device"); }
  /// Enqueues on a stream of the driver.
  void start(const CudaExecutable& e, const LaunchGeometry& g, Arguments& arguments, CUstream stream,
             bool overlap = false) const;
  /// How often the device's own stream has got new memory: what another stream must have waited for.
  u64 allocations() const { return allocations_; }
  /// Makes `to` wait for what is enqueued on `from`.
  void order(CUstream from, CUstream to) const;
  void forget(CudaStream& stream);
  static const CudaExecutable& own_kernel(const std::shared_ptr<Executable>& exe);

 private:
  void describe(CUdevice device);

  const Driver& driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  DeviceInfo info_;
  DiskCache cache_ = cubin_cache();
  Pool pool_;
  u64 allocations_ = 0;
  std::mutex mutex_;
  std::map<Hash128, std::shared_ptr<Executable>> prepared_;
  std::vector<CudaStream*> streams_;
};

class CudaEvent final : public Event {
 public:
  CudaEvent(const CudaBackend& device, CUstream stream);
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  bool done() const override;
  void synchronize() const override;
  double seconds_since(const Event& earlier) const override;
  CUevent get() const { return event_; }

 private:
  const CudaBackend& device_;
  CUevent event_ = nullptr;
};

/// Work of any kind on one stream, captured once to be replayed.
class Recorded {
 public:
  Recorded(CudaBackend& device, const std::function<void(CUstream)>& work);
  ~Recorded();
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;
  void replay() const;  ///< on the device's own stream
  void replay(CUstream stream) const;
  CUgraphExec executable() const { return replay_; }

 private:
  CudaBackend& device_;
  CUgraph graph_ = nullptr;
  CUgraphExec replay_ = nullptr;
};

/// Launches as such work, so that overlapping ones keep their programmatic edges; one node for each.
class CudaGraph final : public Graph {
 public:
  CudaGraph(CudaBackend& device, std::vector<Launch> launches);
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  std::size_t size() const override { return launches_.size(); }
  const Launch& launch(std::size_t index) const override { return launches_.at(index); }
  void set_args(std::size_t index, std::span<const LaunchArg> args) override;
  void replay(CUstream stream) const { recorded_.replay(stream); }

 private:
  void capture(CUstream stream);

  CudaBackend& device_;
  std::vector<Launch> launches_;
  std::vector<CUgraphNode> nodes_;  ///< null for launches of no threadgroup
  Recorded recorded_;               ///< last: its capture fills the nodes
};

class CudaStream final : public Stream {
 public:
  explicit CudaStream(CudaBackend& device);
  /// Of another library: neither ended here nor waited for when memory is released.
  CudaStream(CudaBackend& device, CUstream foreign) : device_(device), stream_(foreign), foreign_(true) {}
  ~CudaStream() override;
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  void launch(const Launch& launch) override;
  void upload(void* to, const void* from, u64 bytes) override;
  void download(void* to, const void* from, u64 bytes) override;
  void fill(void* to, u8 byte, u64 bytes) override;
  void* allocate(u64 bytes) override;
  void release(void* data) override;
  void replay(Graph& graph) override;
  std::unique_ptr<Event> record() override;
  void wait(const Event& event) override;
  bool idle() override;
  void synchronize() override;

  CUstream get() const { return stream_; }
  bool take_used() { return std::exchange(used_, false); }

 private:
  void begin();  ///< before each piece of work: memory of the device's own stream must be there
  CudaBackend& device_;
  CUstream stream_ = nullptr;
  bool foreign_ = false;
  u64 seen_ = 0;       ///< the allocations that this stream has waited for
  bool used_ = false;  ///< has work that no release has waited for
};

}  // namespace iron::runtime::cuda
