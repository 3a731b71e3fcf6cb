// Copies that threads start: what they bring, in every schedule, and that nothing is seen of them before.
#include "helpers.h"

namespace iron::exec {
namespace {

// 16 bytes a thread: y holds them from the thread at the other end, x where the guard holds, else zeros.
TEST(Copies, BringTheBytesOrZeros) {
  const auto k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %s = shared.new<256> : shared f32
    %t = thread_id : index
    %j = mul %t, 4 : index
    %e = cast %n : index
    %p = lt %j, %e : bool
    %z = vec.make 0.0:f32, 0.0:f32, 0.0:f32, 0.0:f32 : f32x4
    %v = load.or<align 16> %x[%j], %p, %z : f32x4
    copy.async<align 16> %s[%j], %v
    copy.commit
    copy.wait<0>
    barrier
    %o = sub 63, %t : index
    %q = mul %o, 4 : index
    %r = load<align 16> %s[%q] : f32x4
    store<align 16> %y[%j], %r
)");
  auto x = iota_f32(100);
  for (const Schedule schedule : all_schedules) {
    std::vector<f32> y(256, 77.0f);
    const auto r = launch(k, geometry(1, 64), {buffer(x), buffer(y), scalar(100u)}, {.schedule = schedule});
    EXPECT_TRUE(r.clean()) << r.render();
    for (u32 i = 0; i < 256; ++i) {
      const u32 from = (63 - i / 4) * 4 + i % 4;
      EXPECT_EQ(y[i], from < 100 ? static_cast<f32>(from) : 0.0f) << i;
    }
  }
}

// Groups arrive oldest first, also where one of them is empty.
TEST(Copies, WaitsLeaveTheNewestGroups) {
  const std::string body = R"(
    %s = shared.new<128> : shared f32
    %t = thread_id : index
    %u = add %t, 64 : index
    %v = load<align 4> %x[%t] : f32
    copy.async<align 4> %s[%t], %v
    copy.commit
    EMPTY
    %w = load<align 4> %x[%u] : f32
    copy.async<align 4> %s[%u], %w
    copy.commit
    copy.wait<LEFT>
    barrier
    %r = load %s[%AT] : f32
    store %y[%t], %r
    copy.wait<0>
)";
  const auto run = [&](std::string empty, std::string left, std::string at) {
    std::string text = body;
    text.replace(text.find("EMPTY"), 5, empty);
    text.replace(text.find("LEFT"), 4, left);
    text.replace(text.find("AT]"), 2, at);
    auto x = iota_f32(128);
    std::vector<f32> y(64);
    return launch(kernel("%x: in f32, %y: out f32", text), geometry(1, 64), {buffer(x), buffer(y)});
  };
  EXPECT_TRUE(run("", "1", "t").clean());
  EXPECT_TRUE(run("", "2", "t").has(code::in_flight));
  EXPECT_TRUE(run("", "1", "u").has(code::in_flight));
  EXPECT_TRUE(run("", "0", "u").clean());
  EXPECT_TRUE(run("copy.commit", "2", "t").clean());
  EXPECT_TRUE(run("copy.commit", "3", "t").has(code::in_flight));
}

}  // namespace
}  // namespace iron::exec
