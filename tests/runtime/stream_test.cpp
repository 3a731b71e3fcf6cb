// Streams, events, graphs and the pool through the public API, on every device that is here.
#include <gtest/gtest.h>

#include <thread>

#include "iron/dsl.h"
#include "iron/runtime/stream.h"
#include "runtime/backend.h"

namespace iron {
namespace {

struct AddTo {
  static constexpr std::string_view name = "add_to";
  InOut<u32> x;
  Scalar<u32> value;
  u64 items() const { return x.size(); }
  void operator()() const { x[grid_thread_id()] = x[grid_thread_id()] + value; }
};
struct Scaled {
  static constexpr std::string_view name = "scaled";
  In<u32> x;
  Out<u32> y;
  Scalar<u32> factor;
  u64 items() const { return y.size(); }
  void operator()() const { y[grid_thread_id()] = x[grid_thread_id()] * factor; }
};
/// More threadgroup memory than a kernel has without opting in.
struct Reversed {
  static constexpr std::string_view name = "reversed";
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 size = 16384;  // 64 KiB
  In<u32> x;
  Out<u32> y;
  Grid grid() const { return {Threadgroups{1}, Threads{256}}; }
  void operator()() const {
    Shared<u32> all{size};
    for (auto i : range(thread_id(), size, threads())) all[i] = x[i];
    barrier();
    for (auto i : range(thread_id(), size, threads())) y[i] = all[size - 1u - i];
  }
};

class Streams : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    try {
      device_.emplace(Device::open(GetParam()));
    } catch (const Error& e) {
      GTEST_SKIP() << "skipped: no " << GetParam() << " device (" << e.what() << ")";
    }
  }
  Device& device() { return *device_; }
  std::optional<Device> device_;
};

template <class F>
std::string code_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.code();
  }
  return "none";
}

TEST_P(Streams, WorkIsInOrder) {
  Stream s(device());
  auto x = device().buffer(std::vector<u32>(1000, 0));
  auto y = device().buffer<u32>(1000);
  for (u32 i = 1; i <= 20; ++i) s.launch(AddTo{.x = x, .value = i});
  s.launch(Scaled{.x = x, .y = y, .factor = 2u});
  std::vector<u32> got(1000);
  s.download(y, std::span(got));
  s.synchronize();
  EXPECT_TRUE(s.idle());
  EXPECT_EQ(got, std::vector<u32>(1000, 420));
}

TEST_P(Streams, CopiesAndFillsAreOrderedWithLaunches) {
  Stream s(device());
  std::vector<u32> from(257);
  for (u32 i = 0; i < 257; ++i) from[i] = i;
  auto x = device().buffer<u32>(300);
  s.fill_bytes(x, 0);
  s.upload(x, std::span<const u32>(from), 40);
  s.launch(AddTo{.x = x, .value = 1u});
  std::vector<u32> got(300);
  s.download(x, std::span(got));
  s.synchronize();
  for (u32 i = 0; i < 300; ++i) ASSERT_EQ(got[i], i >= 40 && i < 297 ? i - 40 + 1 : 1) << i;
  EXPECT_EQ(code_of([&] { s.upload(x, std::span<const u32>(from), 44); }), "RT02");
  EXPECT_EQ(code_of([&] { s.download(x, std::span(got), 1); }), "RT02");
}

TEST_P(Streams, EventsOrderStreams) {
  Stream a(device()), b(device());
  auto x = device().buffer(std::vector<u32>(4096, 1)), y = device().buffer<u32>(4096);
  for (u32 round = 0; round < 10; ++round) {
    for (u32 i = 0; i < 5; ++i) a.launch(AddTo{.x = x, .value = 1u});
    const Event written = a.record();
    b.wait(written);
    b.launch(Scaled{.x = x, .y = y, .factor = 3u});
    const Event read = b.record();
    a.wait(read);
    std::vector<u32> got(4096);
    b.download(y, std::span(got));
    b.synchronize();
    ASSERT_EQ(got, std::vector<u32>(4096, 3 * (1 + 5 * (round + 1))));
  }
}

TEST_P(Streams, EventsTellTimeAndEnd) {
  Stream s(device());
  auto x = device().buffer(std::vector<u32>(1 << 16, 0));
  const Event begin = s.record();
  for (u32 i = 0; i < 10; ++i) s.launch(AddTo{.x = x, .value = 1u});
  const Event end = s.record();
  end.synchronize();
  EXPECT_TRUE(begin.done());
  EXPECT_TRUE(end.done());
  EXPECT_GT(end.seconds_since(begin), 0);
  EXPECT_LT(end.seconds_since(begin), 60);
  EXPECT_LE(begin.seconds_since(end), 0);
  EXPECT_EQ(code_of([] { Event().synchronize(); }), "RT12");
}

TEST_P(Streams, AGraphRepeatsWhatWasCaptured) {
  Stream s(device());
  auto x = device().buffer(std::vector<u32>(777, 0)), y = device().buffer(std::vector<u32>(777, 9));
  const Graph g = s.capture([&] {
    s.launch(AddTo{.x = x, .value = 2u});
    s.launch(AddTo{.x = x, .value = 3u}, {.overlap = true});
    s.launch(Scaled{.x = x, .y = y, .factor = 10u}, {.overlap = true});
  });
  EXPECT_EQ(g.size(), 3u);
  s.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<u32>(777, 0));  // nothing ran
  EXPECT_EQ(y.to_host(), std::vector<u32>(777, 9));
  for (u32 i = 0; i < 50; ++i) s.replay(g);
  s.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<u32>(777, 250));
  EXPECT_EQ(y.to_host(), std::vector<u32>(777, 2500));
}

TEST_P(Streams, AGraphTakesOtherArguments) {
  Stream s(device());
  auto x = device().buffer(std::vector<u32>(100, 0)), y = device().buffer<u32>(100), z = device().buffer<u32>(100);
  Graph g = s.capture([&] {
    s.launch(AddTo{.x = x, .value = 1u});
    s.launch(Scaled{.x = x, .y = y, .factor = 2u});
  });
  s.replay(g);
  g.update(0, AddTo{.x = x, .value = 10u});
  s.replay(g);
  s.synchronize();
  EXPECT_EQ(y.to_host(), std::vector<u32>(100, 22));
  g.update(1, Scaled{.x = x, .y = z, .factor = 3u});  // another buffer
  s.replay(g);
  s.synchronize();
  EXPECT_EQ(z.to_host(), std::vector<u32>(100, 63));
  EXPECT_EQ(y.to_host(), std::vector<u32>(100, 22));
  // The launch contract holds for new arguments too.
  auto small = device().buffer<u32>(50);
  EXPECT_EQ(code_of([&] { g.update(1, Scaled{.x = small, .y = z, .factor = 3u}); }), "D25");
  EXPECT_EQ(code_of([&] { g.update(1, Scaled{.x = z, .y = z, .factor = 3u}); }), "D26");
  EXPECT_EQ(code_of([&] { g.update(2, AddTo{.x = x, .value = 1u}); }), "RT13");
}

TEST_P(Streams, WhatCannotBeCapturedIsRefused) {
  Stream s(device());
  auto x = device().buffer(std::vector<u32>(10, 0));
  EXPECT_EQ(code_of([&] { s.capture([&] { s.fill_bytes(x, 0); }); }), "RT10");
  EXPECT_EQ(code_of([&] { s.capture([&] { s.record(); }); }), "RT10");
  EXPECT_EQ(code_of([&] { s.capture([&] { s.synchronize(); }); }), "RT10");
  EXPECT_EQ(code_of([&] { s.capture([] {}); }), "RT10");
  EXPECT_EQ(code_of([&] { s.replay(Graph()); }), "RT12");
  s.launch(AddTo{.x = x, .value = 4u});  // the stream works on
  s.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<u32>(10, 4));
}

TEST_P(Streams, ObjectsOfAnotherDeviceAreRefused) {
  if (GetParam() == "interpreter") GTEST_SKIP() << "skipped: it is the other device";
  const Device other = Device::open("interpreter");
  Stream s(device()), t(other);
  auto x = other.buffer(std::vector<u32>(10, 0));
  const AddTo kernel{.x = x, .value = 1u};
  const Graph g = t.capture([&] { t.launch(kernel); });
  EXPECT_EQ(code_of([&] { s.replay(g); }), "RT11");
  std::vector<LaunchArg> args;
  Device::bind(kernel, args);
  EXPECT_EQ(code_of([&] { s.launch(other.prepare(kernel, Threads{256}), args, {{1, 1, 1}, {256, 1, 1}, 10}); }),
            "RT11");
}

TEST_P(Streams, TheContractIsCheckedBeforeTheDevice) {
  Stream s(device());
  auto x = device().buffer<u32>(100), y = device().buffer<u32>(100);
  const Scaled kernel{.x = x, .y = y, .factor = 1u};
  const auto prepared = device().prepare(kernel, Threads{256});
  const auto launched = [&](const Scaled& k, LaunchGeometry g) {
    std::vector<LaunchArg> args;
    Device::bind(k, args);
    return code_of([&] { s.launch(prepared, args, g); });
  };
  EXPECT_EQ(launched(kernel, {{1, 1, 1}, {256, 1, 1}, 100}), "none");
  EXPECT_EQ(launched(kernel, {{0, 1, 1}, {256, 1, 1}, 100}), "D02");
  EXPECT_EQ(launched(kernel, {{1, 1, 1}, {256, 1, 1}, 1000}), "D03");
  EXPECT_EQ(launched(kernel, {{1, 1, 1}, {4096, 1, 1}, 100}), "D27");
  EXPECT_EQ(launched({.x = x, .y = y.data() ? Out<u32>(BufferRef{y.data(), 40, true}) : y, .factor = 1u},
                     {{1, 1, 1}, {256, 1, 1}, 100}),
            "D25");
  EXPECT_EQ(launched({.x = x, .y = x, .factor = 1u}, {{1, 1, 1}, {256, 1, 1}, 100}), "D26");
}

TEST_P(Streams, ThreadgroupMemoryAbove48KiB) {
  std::vector<u32> from(Reversed::size);
  for (u32 i = 0; i < Reversed::size; ++i) from[i] = i * 7;
  auto x = device().buffer(from), y = device().buffer<u32>(Reversed::size);
  Stream s(device());
  s.launch(Reversed{.x = x, .y = y});
  s.synchronize();
  std::reverse(from.begin(), from.end());
  EXPECT_EQ(y.to_host(), from);
}

// Buffers that die while their work is in flight: nobody may be given their memory too early.
TEST_P(Streams, MemoryInFlightIsGivenToNobody) {
  Stream a(device()), b(device());
  constexpr u32 n = 1 << 14, rounds = 30;
  auto sum = device().buffer(std::vector<u32>(n, 0));
  for (u32 r = 1; r <= rounds; ++r) {
    auto x = device().buffer(std::vector<u32>(n, r));
    auto y = device().buffer<u32>(n);
    for (int i = 0; i < 5; ++i) a.launch(AddTo{.x = x, .value = 1u});
    const Event done = a.record();
    b.wait(done);
    b.launch(Scaled{.x = x, .y = y, .factor = 2u});
    std::vector<u32> got(n);
    b.download(y, std::span(got));
    if (r % 3 == 0) {  // these two die while they are in use
      x = {}, y = {};
      auto z = device().buffer<u32>(n);
      z.fill_bytes(0xff);
    }
    b.synchronize();
    ASSERT_EQ(got, std::vector<u32>(n, 2 * (r + 5))) << r;
  }
}

TEST_P(Streams, ThePoolKeepsAndGivesBack) {
  device().synchronize();
  device().trim();
  const auto before = device().memory();
  {
    const auto x = device().buffer<u8>(10 << 20);
    EXPECT_GE(device().memory().used_bytes, before.used_bytes + (10 << 20));
  }
  device().synchronize();
  const auto after = device().memory();
  EXPECT_EQ(after.used_bytes, before.used_bytes);
  for (int i = 0; i < 20; ++i) {
    const auto x = device().buffer<u8>(10 << 20);
    EXPECT_LE(device().memory().kept_bytes, after.kept_bytes);
  }
  device().synchronize();
  EXPECT_EQ(device().memory().kept_bytes, after.kept_bytes);  // no allocation went to the system
  device().trim();
  EXPECT_LE(device().memory().kept_bytes, after.kept_bytes);
}

INSTANTIATE_TEST_SUITE_P(Devices, Streams, ::testing::ValuesIn(runtime::backend_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace iron
