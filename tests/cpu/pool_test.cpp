// The worker pool: every threadgroup of every command runs once, after all that its command waits for.
#include "runtime/cpu/pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <random>

namespace iron::runtime {
namespace {

/// What one command of a test does: args of a Command point to it.
struct Task {
  std::vector<std::atomic<u32>> runs;
  const std::vector<const Task*> before;
  std::atomic<u32> finished{0}, early{0};
  u32 pauses = 0;
  std::atomic<u32> ticket{0}, disorder{0};

  Task(u32 groups, std::vector<const Task*> must_be_done) : runs(groups), before(std::move(must_be_done)) {}
  bool done() const { return finished.load(std::memory_order_relaxed) == runs.size(); }

  static void run(const u64* args, u32 first, u32 last, void*) {
    auto& self = *reinterpret_cast<Task*>(args[0]);
    for (const Task* t : self.before)
      if (!t->done()) ++self.early;
    for (u32 g = first; g < last; ++g) {
      for (u32 i = 0; i < self.pauses; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
      self.runs[g].fetch_add(1, std::memory_order_relaxed);
      self.finished.fetch_add(1, std::memory_order_relaxed);
    }
  }
  /// Waits for the threadgroup below, as a scan does.
  static void run_in_order(const u64* args, u32 first, u32 last, void* scratch) {
    auto& self = *reinterpret_cast<Task*>(args[0]);
    for (u32 g = first; g < last; ++g) {
      while (g && self.runs[g - 1].load(std::memory_order_acquire) == 0) std::this_thread::yield();
      if (self.ticket.fetch_add(1) != g) ++self.disorder;
      run(args, g, g + 1, scratch);
    }
  }
};

struct List {
  std::vector<std::unique_ptr<Task>> tasks;
  std::vector<u64> words;
  std::vector<Command> commands;

  void check() const {
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      for (std::size_t g = 0; g < tasks[i]->runs.size(); ++g)
        ASSERT_EQ(tasks[i]->runs[g].load(), 1u) << "threadgroup " << g << " of command " << i;
      ASSERT_EQ(tasks[i]->early.load(), 0u) << "command " << i << " began before what it waits for was done";
      ASSERT_EQ(tasks[i]->disorder.load(), 0u) << "command " << i;
    }
  }
};

List random_list(std::mt19937& random, u32 length, u32 most_groups) {
  List list;
  std::vector<const Task*> all, settled;
  list.words.resize(length);
  for (u32 i = 0; i < length; ++i) {
    const bool in_order = random() % 8 == 0, wait = in_order || random() % 2;
    if (wait) settled = all;
    list.tasks.push_back(std::make_unique<Task>(1 + static_cast<u32>(random()) % most_groups, settled));
    Task& task = *list.tasks.back();
    task.pauses = static_cast<u32>(random()) % 64;
    all.push_back(&task);
    list.words[i] = reinterpret_cast<u64>(&task);
    Command c;
    c.fn = in_order ? &Task::run_in_order : &Task::run;
    c.args = &list.words[i], c.groups = static_cast<u32>(task.runs.size());
    c.grain = in_order ? 1 : 1 + static_cast<u32>(random()) % 4;
    c.wait = wait, c.in_order = in_order;
    list.commands.push_back(c);
  }
  return list;
}

TEST(Pool, RunsEveryThreadgroupOnceAndInOrder) {
  for (const u32 threads : {1u, 2u, 3u, 7u}) {
    Pool pool(threads);
    std::mt19937 random(threads);
    for (u32 round = 0; round < 200; ++round) {
      const List list = random_list(random, 1 + static_cast<u32>(random()) % 40, 24);
      pool.run(list.commands);
      list.check();
    }
  }
}

TEST(Pool, GrowsWithTheList) {
  Pool pool(3);
  std::mt19937 random(5);
  for (const u32 length : {3u, 300u, 2u, 1500u, 1u}) {
    const List list = random_list(random, length, 5);
    pool.run(list.commands);
    list.check();
  }
}

TEST(Pool, WakesWorkersThatSleep) {
  Pool pool(4);
  std::mt19937 random(9);
  for (u32 round = 0; round < 4; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // longer than they spin
    const List list = random_list(random, 10, 64);
    pool.run(list.commands);
    list.check();
  }
}

// More threads than any machine here has cores: a thread that has been put aside must hold up nobody between its
// shares.
TEST(Pool, ManyThreadsOnFewCores) {
  Pool pool(64);
  std::mt19937 random(3);
  for (u32 round = 0; round < 20; ++round) {
    const List list = random_list(random, 50, 100);
    pool.run(list.commands);
    list.check();
  }
}

// Floating-point state of the caller is its own; kernels run with the default one.
TEST(Pool, KernelsRunInTheDefaultFloatingPointState) {
  const u32 before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x8040);  // flush to zero, denormals are zero
  static std::atomic<u32> seen{0};
  for (const u32 threads : {1u, 2u}) {
    Pool pool(threads);
    Command c;
    c.fn = [](const u64*, u32, u32, void*) { seen |= __builtin_ia32_stmxcsr() & 0x8040; };
    c.groups = 2;
    pool.run({&c, 1});
  }
  const u32 after = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before);
  EXPECT_EQ(seen.load(), 0u);
  EXPECT_EQ(after & 0x8040, 0x8040u);
}

}  // namespace
}  // namespace iron::runtime
