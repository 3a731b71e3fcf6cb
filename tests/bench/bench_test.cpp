// Metric maths on synthetic samples, and every branch of the verdict.
#include <gtest/gtest.h>

#include "bench/statistics.h"
#include "bench/verdict.h"

namespace iron::bench {
namespace {

TEST(Statistics, SummaryOfKnownSamples) {
  const Summary s = summarise({4, 1, 3, 2});
  EXPECT_EQ(s.samples, 4u);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.mean, 2.5);
  EXPECT_EQ(s.median, 2.5);
  EXPECT_EQ(s.p95, 4);
  EXPECT_NEAR(s.cv_percent, 51.64, 0.01);
  EXPECT_EQ(summarise({7, 9, 8}).median, 8);
}

std::vector<f64> around(f64 centre, f64 spread) {
  std::vector<f64> v;
  for (int i = 0; i < 60; ++i) v.push_back(centre + spread * ((i * 7919 % 61) / 30.0 - 1.0));
  return v;
}
TEST(Statistics, KeepNeedsAGainAndAnIntervalAboveOne) {
  EXPECT_EQ(keep_verdict(speedup_interval(around(110, 1), around(100, 1))), Keep::keep);
  EXPECT_EQ(keep_verdict(speedup_interval(around(100, 1), around(100, 1))), Keep::reject);
  EXPECT_EQ(keep_verdict(speedup_interval(around(106, 60), around(100, 60))), Keep::inconclusive);
}
TEST(Statistics, FlatLatencyOverGrowingWorkWarns) {
  EXPECT_TRUE(flatness_warning(std::vector<Cell>{{"a", 1, 10}, {"b", 4, 10.5}}).has_value());
  EXPECT_FALSE(flatness_warning(std::vector<Cell>{{"a", 1, 10}, {"b", 4, 30}}).has_value());
}

const Peaks peaks{100.0, 1000.0, 1000.0, "fma f32"};
TEST(Verdict, Branches) {
  EXPECT_EQ(metrics(10, 800'000, 0, peaks, {}, false).bottleneck, "memory-bound");
  EXPECT_EQ(metrics(10, 100'000, 0, peaks, {}, false).bottleneck, "latency-bound");
  EXPECT_EQ(metrics(10, 100'000, 0, peaks, {20.0, ""}, false).bottleneck, "occupancy-limited");
  EXPECT_EQ(metrics(10, 100'000, 0, peaks, {20.0, "registers"}, false).bottleneck, "register-limited");
  EXPECT_EQ(metrics(10, 1000, 6e6, peaks, {}, false).bottleneck, "compute-bound");
  EXPECT_EQ(metrics(10, 1000, 1e6, peaks, {20.0, ""}, false).bottleneck, "occupancy-limited");
  EXPECT_EQ(metrics(10, 1000, 1e6, peaks, {}, false).bottleneck, "compute-bound");
  EXPECT_EQ(metrics(10, 100'000, 0, {}, {}, false).bottleneck, "");
}
TEST(Verdict, FiguresAbovePeakAreImpossible) {
  EXPECT_NE(metrics(1, 800'000, 0, peaks, {}, false).impossible, "");
  EXPECT_EQ(metrics(1, 800'000, 0, peaks, {}, true).impossible, "");
  EXPECT_NE(metrics(1, 10, 2e6, peaks, {}, false).impossible, "");
}
TEST(Verdict, Formulas) {
  const auto m = metrics(10, 500'000, 1e6, peaks, {}, false);
  EXPECT_DOUBLE_EQ(m.gbps, 50);
  EXPECT_DOUBLE_EQ(*m.gflops, 100);
  EXPECT_DOUBLE_EQ(*m.percent_bandwidth, 50);
  EXPECT_DOUBLE_EQ(*m.percent_flops, 10);
  EXPECT_DOUBLE_EQ(*m.intensity, 2);
  EXPECT_DOUBLE_EQ(*m.ridge, 10);
}

}  // namespace
}  // namespace iron::bench
