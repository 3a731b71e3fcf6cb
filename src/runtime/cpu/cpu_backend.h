// The CPU as a device: kernels through the JIT, launches collected into lists for the worker pool.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <mutex>

#include "runtime/cpu/block_pool.h"
#include "runtime/cpu/pool.h"
#include "runtime/stream.h"

namespace iron::runtime {

class CpuExecutable final : public Executable {
 public:
  CpuExecutable(ir::Kernel kernel, Dim3 threads, const cpu::CpuTarget& target);
  const ir::Kernel& kernel() const override { return kernel_; }
  std::string stage(std::string_view name) const override;  ///< "llvm", "llvm-lowered", "asm"
  std::vector<std::pair<std::string, double>> resources() const override;
  const cpu::Compiled& code() const { return *code_; }
  /// The version for launches that write far more than the caches hold; compiled when first asked for.
  const cpu::Compiled& streaming();
  Dim3 threads() const { return threads_; }
  u32 grain() const { return grain_; }

  /// Called by compiled code for a print or a failed check.
  static void report(void* self, u32 op, u64 thread, const u64* values);
  /// Lines reported since the last call, by thread and in order within each.
  std::vector<std::string> take_reports();

 private:
  struct Line {
    u64 thread;
    std::size_t order;
    std::string text;
  };
  ir::Kernel kernel_;
  Dim3 threads_;
  cpu::CpuTarget target_;
  std::shared_ptr<cpu::Compiled> code_, streaming_;
  u32 grain_ = 1;
  std::mutex mutex_;
  std::atomic<bool> reported_ = false;  ///< lines_ may hold something
  std::vector<Line> lines_;
};

/// Commands for the workers with what they need, and where one waits for those before it.
class CommandList {
 public:
  void append(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry, std::span<const LaunchArg> args);
  /// Other arguments for a command. Their bytes may overlap differently: waits are found anew.
  void set_args(std::size_t launch, std::span<const LaunchArg> args);
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const Launch& launch(std::size_t i) const { return launches_.at(i); }
  const std::vector<Command>& commands() const { return commands_; }
  void clear();

 private:
  struct Range {
    const u8* begin;
    const u8* end;
    bool writes;
  };
  void encode(std::size_t launch);
  // A list that was cleared keeps its memory: what is appended next allocates nothing.
  std::size_t size_ = 0;
  std::vector<Launch> launches_;        ///< the first size_ count
  std::deque<std::vector<u64>> words_;  ///< of each launch; the commands point into them
  std::vector<Command> commands_;
  std::vector<Range> ranges_, since_barrier_;
};

/// Name "cpu". Calls may come from one thread at a time. Launches run when something needs their results, or when the
/// list is long.
class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(u32 threads = 0);
  ~CpuBackend() override;
  const DeviceInfo& info() const override { return info_; }
  void* allocate(u64 bytes) override;
  void release(void* data) override;
  void upload(void* to, const void* from, u64 bytes) override;
  void download(void* to, const void* from, u64 bytes) override;
  void fill(void* to, u8 byte, u64 bytes) override;
  std::shared_ptr<Executable> prepare(const ir::Kernel& optimised, Dim3 threads) override;
  void launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
              std::span<const LaunchArg> args) override;
  void synchronize() override;
  PoolUse pool_use() override { return blocks_.use(); }
  void trim_pool() override;
  std::unique_ptr<Stream> make_stream() override;
  std::unique_ptr<Graph> build_graph(std::vector<Launch> launches) override;
  /// Runs a list that was built before, after what is enqueued.
  void run(const CommandList& list);
  double time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                       std::span<const std::vector<LaunchArg>> rotating_args, u32 count) override;

  /// Where print and check lines go; by default stderr.
  void (*on_report)(const std::string& line) = nullptr;

 private:
  void flush();

  DeviceInfo info_;
  Pool pool_;
  BlockPool blocks_;
  CommandList list_;
  std::mutex prepare_mutex_;
  std::map<std::string, std::weak_ptr<Executable>> prepared_;
};

}  // namespace iron::runtime
