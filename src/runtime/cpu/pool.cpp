// The worker pool of the CPU device.
#include "runtime/cpu/pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdlib>

namespace iron::runtime {

namespace {
constexpr u32 default_mxcsr = 0x1f80;  // round to nearest even, denormals kept, nothing traps
/// Pauses before a waiting thread lets others have its core: some microseconds.
constexpr u32 patience = 256;

u32 thread_count(u32 asked) {
  if (asked) return asked;
  if (const char* set = std::getenv("IRON_CPU_THREADS"); set && *set)
    if (const long n = std::strtol(set, nullptr, 10); n > 0 && n <= 1024) return static_cast<u32>(n);
  const u32 cores = std::thread::hardware_concurrency();
  return cores ? cores : 1;
}
void futex(std::atomic<u32>& word, int op, u32 value) {
  syscall(SYS_futex, reinterpret_cast<u32*>(&word), op, value, nullptr, nullptr, 0);
}

class Waiting {
 public:
  void once() {
    _mm_pause();
    if (++pauses_ % patience == 0) std::this_thread::yield();
  }

 private:
  u32 pauses_ = 0;
};

// A word of the board: the list it belongs to, then what is known. A thread that comes too late finds another list's
// number and touches nothing.
constexpr u64 tagged(u32 epoch, u32 low) { return u64{epoch} << 32 | low; }
constexpr u32 epoch_of(u64 word) { return static_cast<u32>(word >> 32); }
constexpr u32 low_of(u64 word) { return static_cast<u32>(word); }
enum State : u32 { open, taken, done };
constexpr u32 waits_bit = 1u << 31, in_order_bit = 1u << 30, shares_mask = in_order_bit - 1;
}  // namespace

/// What the threads tell each other about a list.
class Pool::Board {
 public:
  Board(std::size_t commands, u32 threads)
      : capacity(commands),
        plans(new Word[commands]),
        next(new Word[commands]),
        left(new Word[commands]),
        states_(new Word[commands * threads]) {}

  using Word = std::atomic<u64>;
  /// The words of one thread lie together, so that taking one's own share stays in one's own cache.
  Word& state(u32 command, u32 share) { return states_[share * capacity + command]; }

  const std::size_t capacity;
  std::unique_ptr<Word[]> plans;  ///< shares, and the two bits
  std::unique_ptr<Word[]> next;   ///< in_order: threadgroups that nobody has
  std::unique_ptr<Word[]> left;   ///< in_order: threadgroups that are not through

 private:
  std::unique_ptr<Word[]> states_;
};

/// One thread's way through one list.
struct Pool::Turn {
  Board& board;
  u32 epoch, length, thread;
  u32 settled = 0;  ///< all commands below are done
};

Pool::Pool(u32 threads) : threads_(thread_count(threads)) {
  for (u32 t = 0; t < threads_; ++t) scratch_.push_back(std::make_unique<cpu::Scratch>());
  for (u32 t = 1; t < threads_; ++t) workers_.emplace_back([this, t] { serve(t); });
}

Pool::~Pool() {
  stop_ = true;
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  futex(epoch_, FUTEX_WAKE_PRIVATE, INT_MAX);
  for (auto& w : workers_) w.join();
}

void Pool::run_groups(const Command& c, u32 first, u32 last, u32 thread) {
  auto& scratch = *scratch_[thread];
  scratch.services().report = c.report ? c.report : [](void*, u32, u64, const u64*) {};
  scratch.services().context = c.context;
  if (first < last) c.fn(c.args, first, last, scratch.data());
}

/// Runs a share that nobody has begun. False if the list is over.
bool Pool::take(Turn& turn, u32 index, u32 share) {
  auto& state = turn.board.state(index, share);
  u64 seen = state.load(std::memory_order_relaxed);
  if (seen == tagged(turn.epoch, open) &&
      state.compare_exchange_strong(seen, tagged(turn.epoch, taken), std::memory_order_acquire)) {
    const Command& c = list_[index];
    const u32 shares = low_of(turn.board.plans[index].load(std::memory_order_relaxed)) & shares_mask;
    run_groups(c, static_cast<u32>(u64{c.groups} * share / shares),
               static_cast<u32>(u64{c.groups} * (share + 1) / shares), turn.thread);
    state.store(tagged(turn.epoch, done), std::memory_order_release);
    return true;
  }
  return epoch_of(seen) == turn.epoch;
}

/// Takes threadgroups until none is left.
bool Pool::in_order(Turn& turn, u32 index) {
  auto& next = turn.board.next[index];
  for (;;) {
    u64 at = next.load(std::memory_order_relaxed);
    do {
      if (epoch_of(at) != turn.epoch) return false;
      if (low_of(at) == 0) return true;
    } while (!next.compare_exchange_weak(at, at - 1, std::memory_order_acquire));
    const Command& c = list_[index];
    const u32 group = c.groups - low_of(at);
    run_groups(c, group, group + 1, turn.thread);
    turn.board.left[index].fetch_sub(1, std::memory_order_release);
  }
}

/// Returns when a command is done, having helped where it could.
bool Pool::settle(Turn& turn, u32 index) {
  const u64 plan = turn.board.plans[index].load(std::memory_order_relaxed);
  if (epoch_of(plan) != turn.epoch) return false;
  const u32 shares = low_of(plan) & shares_mask;
  Waiting waiting;
  if (low_of(plan) & in_order_bit) {
    if (!in_order(turn, index)) return false;
    auto& left = turn.board.left[index];
    for (u64 seen = 0; (seen = left.load(std::memory_order_acquire)) != tagged(turn.epoch, 0); waiting.once())
      if (epoch_of(seen) != turn.epoch) return false;
    return true;
  }
  for (u32 share = 0; share < shares; ++share) {
    if (!take(turn, index, share)) return false;
    auto& state = turn.board.state(index, share);
    for (u64 seen = 0; (seen = state.load(std::memory_order_acquire)) != tagged(turn.epoch, done); waiting.once())
      if (epoch_of(seen) != turn.epoch) return false;
  }
  return true;
}

void Pool::work(Turn turn) {
  const u32 saved = _mm_getcsr();
  _mm_setcsr(default_mxcsr);
  bool ours = true;
  for (u32 i = 0; ours && i < turn.length; ++i) {
    const u64 plan = turn.board.plans[i].load(std::memory_order_relaxed);
    ours = epoch_of(plan) == turn.epoch;
    if (low_of(plan) & waits_bit)
      for (; ours && turn.settled < i; ++turn.settled) ours = settle(turn, turn.settled);
    if (!ours) break;
    if (low_of(plan) & in_order_bit)
      ours = in_order(turn, i);
    else if (turn.thread < (low_of(plan) & shares_mask))
      ours = take(turn, i, turn.thread);
  }
  // The caller alone stays to the end.
  if (turn.thread == 0)
    for (; turn.settled < turn.length; ++turn.settled) settle(turn, turn.settled);
  _mm_setcsr(saved);
}

void Pool::serve(u32 thread) {
  using clock = std::chrono::steady_clock;
  u32 seen = 0;
  for (;;) {
    auto last_work = clock::now();
    for (u32 spins = 0; epoch_.load(std::memory_order_acquire) == seen;) {
      _mm_pause();
      if (++spins % patience) continue;
      if (clock::now() - last_work < std::chrono::milliseconds(2)) {
        std::this_thread::yield();
        continue;
      }
      parked_.fetch_add(1, std::memory_order_seq_cst);
      if (epoch_.load(std::memory_order_seq_cst) == seen) futex(epoch_, FUTEX_WAIT_PRIVATE, seen);
      parked_.fetch_sub(1, std::memory_order_relaxed);
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    // What is read here may already be a later list's; then its board shows another number.
    Board& board = *board_.load(std::memory_order_relaxed);
    const u32 length = std::min(length_.load(std::memory_order_relaxed), static_cast<u32>(board.capacity));
    work({board, seen, length, thread});
  }
}

Pool::Board& Pool::board_for(std::size_t commands) {
  Board* board = board_.load(std::memory_order_relaxed);
  if (board && board->capacity >= commands) return *board;
  const std::size_t capacity = std::max<std::size_t>(commands, board ? 2 * board->capacity : 256);
  boards_.push_back(std::make_unique<Board>(capacity, threads_));
  board_.store(boards_.back().get(), std::memory_order_relaxed);
  return *boards_.back();
}

void Pool::run(std::span<const Command> commands) {
  if (commands.empty()) return;
  u64 bytes = 0;
  bool worth_waking = false;
  for (const auto& c : commands) {
    bytes = std::max(bytes, c.scratch_bytes);
    worth_waking |= c.groups / (c.grain ? c.grain : 1) > 1;
  }
  if (!worth_waking || threads_ == 1) {
    // Below the grain a second thread costs more than it brings.
    scratch_[0]->reserve(bytes);
    const u32 saved = _mm_getcsr();
    _mm_setcsr(default_mxcsr);
    for (const auto& c : commands) run_groups(c, 0, c.groups, 0);
    _mm_setcsr(saved);
    return;
  }
  for (auto& s : scratch_) s->reserve(bytes);
  const u32 length = static_cast<u32>(commands.size()), epoch = epoch_.load(std::memory_order_relaxed) + 1;
  Board& board = board_for(length);
  for (u32 i = 0; i < length; ++i) {
    const Command& c = commands[i];
    const u32 shares = std::min(threads_, std::max(1u, c.groups / (c.grain ? c.grain : 1)));
    const u32 bits = (c.wait && i ? waits_bit : 0) | (c.in_order ? in_order_bit : shares);
    board.plans[i].store(tagged(epoch, bits), std::memory_order_relaxed);
    if (c.in_order) {
      board.next[i].store(tagged(epoch, c.groups), std::memory_order_relaxed);
      board.left[i].store(tagged(epoch, c.groups), std::memory_order_relaxed);
    } else {
      for (u32 s = 0; s < shares; ++s) board.state(i, s).store(tagged(epoch, open), std::memory_order_relaxed);
    }
  }
  list_ = commands.data();
  length_.store(length, std::memory_order_relaxed);
  epoch_.store(epoch, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst)) futex(epoch_, FUTEX_WAKE_PRIVATE, INT_MAX);
  work({board, epoch, length, 0});
}

}  // namespace iron::runtime
