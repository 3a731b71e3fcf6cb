// Persistent workers that run lists of commands: spin for a while after the last list, then sleep on a futex.
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "cpu/jit.h"
#include "cpu/scratch.h"

namespace iron::runtime {

/// One kernel over a range of threadgroups. All threads share a command; those with no share wait at the next barrier.
struct Command {
  cpu::KernelFn fn = nullptr;
  const u64* args = nullptr;
  u32 groups = 0;
  u32 grain = 1;          ///< fewest threadgroups worth a thread of their own
  bool wait = true;       ///< only after all commands before
  bool in_order = false;  ///< threadgroups are handed out one by one, lowest first: they may wait for lower ones
  u64 scratch_bytes = 0;
  void (*report)(void*, u32, u64, const u64*) = nullptr;
  void* context = nullptr;
};

class Pool {
 public:
  /// That many threads in all, the caller included; 0: $IRON_CPU_THREADS, else one a core.
  explicit Pool(u32 threads = 0);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  u32 threads() const { return threads_; }
  /// Runs the commands in order and returns when all are done. Only one thread may call it at a time.
  void run(std::span<const Command> commands);

 private:
  void work(u32 thread);
  void serve(u32 thread);
  void barrier();
  void run_share(const Command& c, u32 index, u32 thread);

  u32 threads_;
  std::vector<std::unique_ptr<cpu::Scratch>> scratch_;
  std::vector<std::thread> workers_;
  const Command* list_ = nullptr;
  std::size_t length_ = 0;
  std::unique_ptr<std::atomic<u32>[]> next_;  ///< of each command handed out in order
  std::size_t next_size_ = 0;
  u32 joined_ = 1;
  alignas(128) std::atomic<u32> epoch_{0};
  alignas(128) std::atomic<u32> parked_{0};
  alignas(128) std::atomic<u32> arrived_{0};
  alignas(128) std::atomic<u32> phase_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace iron::runtime
