// The reference interpreter as a device: slow, exact, and it refuses what it finds.
#pragma once

#include <map>
#include <mutex>

#include "exec/exec.h"
#include "runtime/backend.h"

namespace iron::runtime {

/// Name "interpreter". A launch throws iron::Error with every finding.
class InterpreterBackend final : public Backend {
 public:
  InterpreterBackend();
  const DeviceInfo& info() const override { return info_; }
  void* allocate(u64 bytes) override;
  void release(void* data) override;
  void upload(void* to, const void* from, u64 bytes) override;
  void download(void* to, const void* from, u64 bytes) override;
  void fill(void* to, u8 byte, u64 bytes) override;
  std::shared_ptr<Executable> prepare(const ir::Kernel& optimised, Dim3 threads) override;
  void launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
              std::span<const LaunchArg> args) override;
  void synchronize() override {}
  PoolUse pool_use() override;
  void trim_pool() override {}
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Graph> build_graph(std::vector<Launch> launches) override;
  double time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                       std::span<const std::vector<LaunchArg>> rotating_args, u32 count) override;

  exec::Options options;  ///< of every launch that follows

 private:
  DeviceInfo info_;
  std::mutex mutex_;
  std::map<void*, u64> blocks_;  ///< bytes of what is allocated
  u64 used_ = 0;
};

}  // namespace iron::runtime
