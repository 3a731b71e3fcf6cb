// The tables and records of `iron bench`, from numbers made up here.
#include "bench_report.h"

#include <gtest/gtest.h>

#include "bench/specs.h"
#include "table.h"

namespace iron::tool {
namespace {

KernelEntry entry(const std::string& name, const std::string& family, DType dtype) {
  KernelEntry e;
  e.name = "iron_" + name, e.family = family, e.dtype = dtype;
  return e;
}

// 8 MiB in 100 µs on a device of 100 GB/s and 1000 GFLOP/s.
BenchRow timed(const KernelEntry& e, f64 us, f64 flops) {
  BenchRow r;
  r.entry = &e, r.shape = "N=1M", r.checked = Checked::passed, r.bytes = 8 << 20;
  r.timing.emplace();
  r.timing->samples_us.assign(50, us);
  r.timing->summary = bench::summarise(r.timing->samples_us);
  bench::Peaks peaks;
  peaks.gbps = 100, peaks.gflops = 1000, peaks.engine = "fma f32";
  r.metrics = bench::metrics(us, r.bytes, flops, peaks, {}, false);
  return r;
}

// A product beside the vendor's: the ratio in the table, figures in the row's own metric in the record.
TEST(BenchReport, Reference) {
  set_color("never");
  const auto gemm = entry("gemm", "gemm", DType::bf16), exp = entry("exp", "unary", DType::f32);
  auto row = timed(gemm, 200, 1e8);
  row.reference = Reference{"cuBLASLt 13.0.0, algorithm 3 of 8", bench::summarise(std::vector<f64>(50, 100.0)), 1e-3};
  auto alone = timed(exp, 100, 1 << 20);
  alone.reference_message = "no vendor's kernel is compared with it";
  const auto text = render({row, alone}, 0);
  EXPECT_NE(text.find("ref µs  faster"), std::string::npos) << text;
  EXPECT_NE(text.find("0.500x"), std::string::npos) << text;
  const auto j = to_json(row);
  EXPECT_EQ(j["metric"], "gflops");
  EXPECT_EQ(j["iron"], 500);
  EXPECT_EQ(j["ref"], 1000);
  EXPECT_EQ(j["pct"], 50);
  EXPECT_EQ(j["ref_us"], 100);
  EXPECT_EQ(j["ref_name"], "cuBLASLt 13.0.0, algorithm 3 of 8");
  EXPECT_TRUE(to_json(alone)["ref"].is_null());
  EXPECT_EQ(to_json(alone)["ref_message"], "no vendor's kernel is compared with it");
}

TEST(BenchReport, TableSnapshot) {
  set_color("never");
  const auto exp = entry("exp", "unary", DType::f32), gemm = entry("gemm", "gemm", DType::bf16),
             gone = entry("sin", "unary", DType::f16);
  BenchRow failed;
  failed.entry = &gone, failed.shape = "N=1M", failed.checked = Checked::failed;
  const auto text = render({timed(exp, 100, 1 << 20), failed, timed(gemm, 200, 1e8)}, 0);
  EXPECT_EQ(text,
            "unary\n"
            "  kernel   shape   µs  GB/s  GFLOP/s  peak  FLOP/B  ok  limit\n"
            "  exp_f32  N=1M   100  83.9     10.5   84%   0.125  ✓   memory-bound\n"
            "  sin_f16  N=1M                                     ✗   failed\n"
            "gemm\n"
            "  kernel     shape   µs  GB/s  GFLOP/s  peak  FLOP/B  ok  limit\n"
            "  gemm_bf16  N=1M   200  41.9      500   50%    11.9  ✓   compute-bound\n");
}

TEST(BenchReport, MoreColumnsWithVerbosity) {
  set_color("never");
  const auto exp = entry("exp", "unary", DType::f32);
  const auto row = timed(exp, 100, 0);
  EXPECT_EQ(render({row}, 0).find("%BW"), std::string::npos);
  EXPECT_NE(render({row}, 1).find("%BW"), std::string::npos);
  EXPECT_EQ(render({row}, 1).find("p99"), std::string::npos);
  EXPECT_NE(render({row}, 2).find("p99"), std::string::npos);
}

TEST(BenchReport, UnknownIsBlankAndNeverZero) {
  const auto exp = entry("exp", "unary", DType::f32);
  auto row = timed(exp, 100, 0);
  const auto j = to_json(row);
  EXPECT_FALSE(j.contains("gflops"));
  EXPECT_FALSE(j.contains("arith_intensity"));
  EXPECT_EQ(j["metric"], "gbps");
  EXPECT_EQ(j["gbps"], 83.886);
  EXPECT_EQ(j["correct"], true);
  row.checked = Checked::unchecked;
  EXPECT_TRUE(to_json(row)["correct"].is_null());
  EXPECT_EQ(cell(std::nullopt), "");
}

TEST(BenchReport, ImpossibleIsNamed) {
  const auto exp = entry("exp", "unary", DType::f32);
  const auto row = timed(exp, 50, 0);  // 168 GB/s of 100
  EXPECT_FALSE(row.metrics.impossible.empty());
  EXPECT_NE(render({row}, 0).find("impossible"), std::string::npos);
}

TEST(Specs, LongestNameWins) {
  EXPECT_EQ(bench::find_specs("NVIDIA H200")->name, "H200");
  EXPECT_EQ(bench::find_specs("NVIDIA H100 PCIe")->name, "H100 PCIe");
  EXPECT_EQ(bench::find_specs("Apple M4 Max")->gbps, 546);
  EXPECT_EQ(bench::find_specs("abacus"), nullptr);
  const auto peaks = bench::peaks_of(*bench::find_specs("NVIDIA H200"), DType::bf16);
  EXPECT_EQ(peaks.engine, "matrix f16");
  EXPECT_NEAR(*peaks.gflops, 989400, 1e-6);
  EXPECT_FALSE(bench::peaks_of(*bench::find_specs("NVIDIA GB10"), DType::f32).gflops);
}

TEST(Terminal, WidthCountsCharactersWithoutColour) {
  EXPECT_EQ(display_width("µs"), 2);
  EXPECT_EQ(display_width("\x1b[32m✓\x1b[0m"), 1);
}

}  // namespace
}  // namespace iron::tool
