// Persistent workers that run lists of commands: spin for a while after the last list, then sleep on a futex.
//
// A command is cut into shares, one a thread. Each thread takes its own share; where a command must wait for earlier
// ones, a thread that gets there first also takes the shares that nobody has begun. So only a share in progress is
// ever waited for, never a thread: one that the system has put aside (more threads than cores, other programs) holds
// nobody up between its shares.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "cpu/jit.h"
#include "cpu/scratch.h"

namespace iron::runtime {

/// One kernel over a range of threadgroups.
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
  class Board;
  struct Turn;
  void work(Turn turn);
  void serve(u32 thread);
  bool take(Turn& turn, u32 index, u32 share);
  bool settle(Turn& turn, u32 index);
  bool in_order(Turn& turn, u32 index);
  void run_groups(const Command& c, u32 first, u32 last, u32 thread);
  Board& board_for(std::size_t commands);

  u32 threads_;
  std::vector<std::unique_ptr<cpu::Scratch>> scratch_;
  std::vector<std::thread> workers_;
  const Command* list_ = nullptr;               ///< read only by who holds a share of it
  std::vector<std::unique_ptr<Board>> boards_;  ///< all that ever were: a late thread may still look at an old one
  std::atomic<Board*> board_{nullptr};
  std::atomic<u32> length_{0};
  alignas(128) std::atomic<u32> epoch_{0};
  alignas(128) std::atomic<u32> parked_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace iron::runtime
