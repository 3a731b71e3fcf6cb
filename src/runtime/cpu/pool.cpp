// The worker pool of the CPU device.
#include "runtime/cpu/pool.h"

#include <immintrin.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdlib>

namespace iron::runtime {

namespace {
constexpr u32 default_mxcsr = 0x1f80;  // round to nearest even, denormals kept, nothing traps

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
}  // namespace

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

void Pool::barrier() {
  const u32 phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == joined_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (u32 spins = 0; phase_.load(std::memory_order_acquire) == phase;) {
    _mm_pause();
    if (++spins > 1u << 14) std::this_thread::yield(), spins = 0;  // more threads than cores
  }
}

void Pool::run_share(const Command& c, u32 index, u32 thread) {
  auto& scratch = *scratch_[thread];
  scratch.services().report = c.report ? c.report : [](void*, u32, u64, const u64*) {};
  scratch.services().context = c.context;
  if (c.in_order && joined_ > 1) {
    for (u32 g = next_[index].fetch_add(1); g < c.groups; g = next_[index].fetch_add(1))
      c.fn(c.args, g, g + 1, scratch.data());
    return;
  }
  const u32 grain = c.grain ? c.grain : 1;
  const u32 shares = std::min(joined_, std::max(1u, c.groups / grain));
  if (thread >= shares) return;
  const u32 first = static_cast<u32>(u64{c.groups} * thread / shares),
            last = static_cast<u32>(u64{c.groups} * (thread + 1) / shares);
  if (first < last) c.fn(c.args, first, last, scratch.data());
}

void Pool::work(u32 thread) {
  const u32 saved = _mm_getcsr();
  _mm_setcsr(default_mxcsr);
  for (std::size_t i = 0; i < length_; ++i) {
    if (list_[i].wait && i && joined_ > 1) barrier();
    run_share(list_[i], static_cast<u32>(i), thread);
  }
  if (joined_ > 1) barrier();
  _mm_setcsr(saved);
}

void Pool::serve(u32 thread) {
  using clock = std::chrono::steady_clock;
  u32 seen = 0;
  for (;;) {
    auto last_work = clock::now();
    for (u32 spins = 0; epoch_.load(std::memory_order_acquire) == seen;) {
      _mm_pause();
      if (++spins % 256 || clock::now() - last_work < std::chrono::milliseconds(2)) continue;
      parked_.fetch_add(1, std::memory_order_seq_cst);
      if (epoch_.load(std::memory_order_seq_cst) == seen) futex(epoch_, FUTEX_WAIT_PRIVATE, seen);
      parked_.fetch_sub(1, std::memory_order_relaxed);
    }
    seen = epoch_.load(std::memory_order_acquire);
    if (stop_) return;
    work(thread);
  }
}

void Pool::run(std::span<const Command> commands) {
  if (commands.empty()) return;
  u64 bytes = 0;
  bool worth_waking = false;
  for (const auto& c : commands) {
    bytes = std::max(bytes, c.scratch_bytes);
    worth_waking |= c.groups / (c.grain ? c.grain : 1) > 1;
  }
  for (auto& s : scratch_) s->reserve(bytes);
  list_ = commands.data(), length_ = commands.size();
  if (next_size_ < length_) next_ = std::make_unique<std::atomic<u32>[]>(length_), next_size_ = length_;
  for (std::size_t i = 0; i < length_; ++i) next_[i].store(0, std::memory_order_relaxed);
  // A list of commands below the grain is not worth a wake-up: the caller runs it.
  joined_ = worth_waking ? threads_ : 1;
  if (joined_ > 1) {
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (parked_.load(std::memory_order_seq_cst)) futex(epoch_, FUTEX_WAKE_PRIVATE, INT_MAX);
  }
  work(0);
}

}  // namespace iron::runtime
