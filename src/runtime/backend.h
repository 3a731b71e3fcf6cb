// What every device offers to the layers above: memory, compiled kernels, launches, time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/launch.h"

namespace iron::runtime {

struct DeviceInfo {
  std::string backend;       ///< "cpu", "cuda", ...
  std::string name;          ///< the device's own name
  std::string api;           ///< driver or API version
  std::string architecture;  ///< "sm_90a", "x86-64 avx2", ...
  u32 simd_width = 32;       ///< hardware lanes (the contract is 32 everywhere)
  u32 units = 1;             ///< SMs or cores
  u32 max_threads_per_group = 1024;
  bool host_memory = false;  ///< launches take host memory as it is
  u32 ordinal = 0;           ///< among the devices of this backend
  u64 shared_bytes = 0;      ///< threadgroup memory per threadgroup, opt-in included
  u64 memory_bytes = 0;
  u64 cache_bytes = 0;                ///< last-level cache
  std::vector<std::string> features;  ///< capability atoms
};

struct Launch;
class Stream;
class Graph;

/// What a device's pool holds: memory given out, and memory kept for the next allocation besides.
struct PoolUse {
  u64 used_bytes = 0, kept_bytes = 0;
};

/// A kernel compiled for one device. Kept alive by work that uses it.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual const ir::Kernel& kernel() const = 0;  ///< the optimised IR that runs
  /// Text stages for `iron inspect`: "llvm", "asm", "cuda", "ptx", "sass"; empty if there is none of that name.
  virtual std::string stage(std::string_view name) const = 0;
  /// Numbers for verdicts: "registers", "spill_bytes", "shared_bytes", "occupancy", ...
  virtual std::vector<std::pair<std::string, double>> resources() const { return {}; }
};

/// A device. Calls are ordered as on one stream, the device's own; launch() returns before the work is done where the
/// device allows it.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual const DeviceInfo& info() const = 0;

  /// From the device's pool, 256-byte aligned; throws iron::Error on failure.
  virtual void* allocate(u64 bytes) = 0;
  /// Back to the pool. Work in flight on any stream may still use it: nobody is given it before that is done.
  virtual void release(void* data) = 0;
  virtual PoolUse pool_use() = 0;
  virtual void trim_pool() = 0;  ///< gives what is kept back to the system
  virtual void upload(void* to, const void* from, u64 bytes) = 0;
  virtual void download(void* to, const void* from, u64 bytes) = 0;
  virtual void fill(void* to, u8 byte, u64 bytes) = 0;

  /// Compiles an already optimised kernel for threadgroups of `threads`; cached in memory and on disk.
  virtual std::shared_ptr<Executable> prepare(const ir::Kernel& optimised, Dim3 threads) = 0;
  /// The launch contract was checked by the caller.
  virtual void launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                      std::span<const LaunchArg> args) = 0;
  virtual void synchronize() = 0;  ///< all streams
  /// Another stream beside the device's own, which sees what was done on that one so far.
  virtual std::unique_ptr<Stream> make_stream() = 0;
  /// A stream of another library by its native handle (CUDA: a CUstream), which outlives the result. Its order beside
  /// other streams is its owner's, the release of memory that its work uses too. Throws RT14 where there is none.
  virtual std::unique_ptr<Stream> wrap_stream(void* native);
  virtual std::unique_ptr<Graph> build_graph(std::vector<Launch> launches) = 0;
  /// Seconds that `count` back-to-back launches take on the device's own clock, without transfers.
  virtual double time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                               std::span<const std::vector<LaunchArg>> rotating_args, u32 count) = 0;
};

/// The backend of that name ("cpu", "cuda", the second GPU as "cuda:1"), opened on first use; throws iron::Error with
/// the reason if it cannot be had.
Backend& backend(std::string_view name);
/// Names of the backends built in, whether or not they can start here.
std::vector<std::string> backend_names();

}  // namespace iron::runtime
