// The CPU as a device: lists, barriers between dependent commands, reports, waits between threadgroups.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "runtime/cpu/cpu_backend.h"

namespace iron::runtime {
namespace {

std::shared_ptr<Executable> prepare(Backend& b, std::string_view text, u32 threads) {
  return b.prepare(ir::parse(text), {threads, 1, 1});
}
template <class T>
LaunchArg argument(std::vector<T>& v) {
  return {v.data(), v.size() * sizeof(T), 0};
}

constexpr std::string_view increment = R"(kernel @increment(%x: inout u32) threadgroup exact {
  %i = grid_thread_id : index
  %v = load %x[%i] : u32
  %r = add %v, 1:u32 : u32
  store %x[%i], %r
}
)";

TEST(CpuBackend, IsListed) {
  const auto names = backend_names();
  EXPECT_NE(std::find(names.begin(), names.end(), "cpu"), names.end());
  EXPECT_EQ(backend("cpu").info().backend, "cpu");
}

TEST(CpuBackend, DependentLaunchesKeepTheirOrder) {
  for (const u32 threads : {1u, 2u, 3u}) {
    CpuBackend b(threads);
    const auto exe = prepare(b, increment, 256);
    std::vector<u32> x(256 * 1000, 0);
    const LaunchArg args[] = {argument(x)};
    for (int i = 0; i < 600; ++i) b.launch(exe, {{1000, 1, 1}, {256, 1, 1}, 0}, args);
    b.synchronize();
    for (const u32 v : x) ASSERT_EQ(v, 600u);
  }
}

TEST(CpuBackend, TicketsLetThreadgroupsWait) {
  // A chain: each threadgroup adds to what the one before has published.
  constexpr std::string_view chain = R"(kernel @chain(%t: inout u32, %f: inout u32, %y: inout u32) threadgroup exact {
  %k = ticket %t[0] : index
  %id = thread_id : index
  %lead = eq %id, 0 : bool
  if %lead {
    %0 = wait_until<ge, grid> %f[0], 4294967295:u32, %n : u32
    %1 = add %0, 1:u32 : u32
    store %y[%k], %1
    atomic.store<exchange, release, grid> %f[0], %1
  }
}
)";
  std::string text(chain);
  text.insert(text.find("  %id ="), "  %n = cast %k : u32\n");
  for (const u32 threads : {1u, 2u, 4u}) {
    CpuBackend b(threads);
    const auto exe = prepare(b, text, 32);
    std::vector<u32> t(1, 0), f(1, 0), y(500, 0);
    const LaunchArg args[] = {argument(t), argument(f), argument(y)};
    b.launch(exe, {{500, 1, 1}, {32, 1, 1}, 0}, args);
    b.synchronize();
    for (u32 i = 0; i < 500; ++i) ASSERT_EQ(y[i], i + 1);
  }
}

std::vector<std::string>& lines() {
  static std::vector<std::string> all;
  return all;
}
TEST(CpuBackend, PrintsAndChecksArriveInThreadOrder) {
  CpuBackend b(2);
  b.on_report = [](const std::string& line) { lines().push_back(line); };
  const auto exe = prepare(b, R"(kernel @p(%y: out u32) threadgroup exact {
  file 0 "p.cpp"
  %i = grid_thread_id : index
  %v = cast %i : u32
  %odd = and %v, 1:u32 : u32
  %even = eq %odd, 0:u32 : bool
  print "thread {} of {}" %v, 6:u32 !3
  check "numbers are even" %even !4
  store %y[%i], %v
}
)",
                           3);
  std::vector<u32> y(6);
  const LaunchArg args[] = {argument(y)};
  lines().clear();
  b.launch(exe, {{2, 1, 1}, {3, 1, 1}, 0}, args);
  b.synchronize();
  ASSERT_EQ(lines().size(), 9u);
  EXPECT_EQ(lines()[0], "thread 0 of 6");
  EXPECT_EQ(lines()[1], "thread 1 of 6");
  EXPECT_EQ(lines()[2], "p.cpp:4: a check fails in thread 1 of threadgroup 0: numbers are even");
  EXPECT_EQ(lines()[8], "p.cpp:4: a check fails in thread 2 of threadgroup 1: numbers are even");
}

TEST(CpuBackend, RefusesAnotherThreadgroup) {
  CpuBackend b(1);
  const auto exe = prepare(b, increment, 256);
  std::vector<u32> x(256);
  const LaunchArg args[] = {argument(x)};
  EXPECT_THROW(b.launch(exe, {{1, 1, 1}, {128, 1, 1}, 0}, args), Error);
}

TEST(CpuBackend, LeavesTheCallersRoundingAlone) {
  CpuBackend b(1);
  const auto exe = prepare(b, increment, 32);
  std::vector<u32> x(32);
  const LaunchArg args[] = {argument(x)};
  const u32 before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | 0x6000u);  // towards zero
  b.launch(exe, {{1, 1, 1}, {32, 1, 1}, 0}, args);
  b.synchronize();
  EXPECT_EQ(__builtin_ia32_stmxcsr() & 0x6000u, 0x6000u);
  __builtin_ia32_ldmxcsr(before);
}

}  // namespace
}  // namespace iron::runtime
