// The interpreter computes what the rules say: control flow, reductions, tiles, atomics, waiting, in every schedule.
#include <cmath>
#include <random>

#include "helpers.h"
#include "ir/builder.h"
#include "ir/eval.h"
#include "ir/tile_map.h"

namespace iron::exec {
namespace {

class Schedules : public ::testing::TestWithParam<Schedule> {
 protected:
  Options options() const { return {.schedule = GetParam(), .seed = 7}; }
};
INSTANTIATE_TEST_SUITE_P(All, Schedules, ::testing::ValuesIn(all_schedules));

TEST_P(Schedules, LoopsCarryAndBranchesYield) {
  const auto k = kernel("%x: in f32, %y: out f32, %n: scalar u32", R"(
    %t = thread_id : index
    %m = cast %n : index
    %end = rem %t, 5 : index
    %s, %c = for %i = 0 to %end step 2 carry(%a = 0.0:f32, %b = 1.0:f32) : f32, f32 {
      %v = load %x[%i] : f32
      %w = add %a, %v : f32
      %odd = eq %i, 2 : bool
      %z = if %odd : f32 {
        yield %w
      } else {
        %u = mul %w, 3.0:f32 : f32
        yield %u
      }
      yield %b, %z
    }
    %g = group_id<x> : index
    %q = group_size : index
    %base = mul %g, %q : index
    %at = add %base, %t : index
    %r = sub %s, %c : f32
    store %y[%at], %r
  )");
  const auto x = iota_f32(8);
  std::vector<f32> y(3 * 70, -1);
  const auto r = launch(k, geometry(3, 70), {buffer(x), buffer(y), scalar(8u)}, options());
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 i = 0; i < y.size(); ++i) {
    f32 a = 0, b = 1;
    for (u32 j = 0; j < i % 70 % 5; j += 2) {
      const f32 w = a + x[j], z = j == 2 ? w : w * 3;
      a = b, b = z;
    }
    EXPECT_EQ(y[i], a - b) << i;
  }
  EXPECT_GT(r.statistics.lane_ops, 0u);
}

TEST_P(Schedules, SharedMemoryWithBarriersAndGroupSum) {
  const auto k = kernel("%x: in f32, %y: out f32", R"(
    %s = shared.new<64> : shared f32
    %t = thread_id : index
    %v = load %x[%t] : f32
    store %s[%t], %v
    barrier
    %o = sub 63, %t : index
    %w = load %s[%o] : f32
    %sum = group.reduce<sum> %w : f32
    %scan = group.scan<sum> %v : f32
    %ex = group.scan<sum, exclusive> %v : f32
    %a = add %sum, %w : f32
    %b = mul %scan, 1000.0:f32 : f32
    %c = add %a, %b : f32
    %d = sub %c, %ex : f32
    store %y[%t], %d
  )");
  const auto x = iota_f32(64);
  std::vector<f32> y(64);
  const auto r = launch(k, geometry(1, 64), {buffer(x), buffer(y)}, options());
  EXPECT_TRUE(r.clean()) << r.render();
  for (u32 t = 0; t < 64; ++t) {
    const f32 before = static_cast<f32>(t * (t - 1) / 2 * (t > 0)), upto = static_cast<f32>(t * (t + 1) / 2);
    EXPECT_EQ(y[t], 2016.0f + static_cast<f32>(63 - t) + 1000.0f * upto - before) << t;
  }
  EXPECT_EQ(r.statistics.barriers, 1u);
}

}  // namespace
}  // namespace iron::exec
