// Bundles of failing cases: what is written is what is run again.
#include "bundle.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "equality.h"
#include "iron/error.h"
#include "maker.h"
#include "messages.h"
#include "runtime/run_case.h"

namespace iron::tool {
namespace {

const KernelEntry& entry(const std::string& name) {
  for (const auto& e : standard_library().entries())
    if (e.full_name() == name) return e;
  throw Error("TEST00", name + " is gone: name another kernel here");
}
const KernelEntry& rms_norm() { return entry("iron_rms_norm_wide_f16"); }

class Bundle : public ::testing::TestWithParam<bool> {
 protected:
  std::string folder = (std::filesystem::path(::testing::TempDir()) / "iron-bundles").string();
};

// Small buffers travel inside the file; the bench's large ones are made again from the seed.
TEST_P(Bundle, RunsAgainAndGivesTheSameBits) {
  const bool bench = GetParam();
  CaseSource source;
  for (auto& s : cases_of(rms_norm(), true))
    if (s.bench == bench) source = s;
  ASSERT_NE(source.entry, nullptr);
  const auto path = write_bundle(source, 7, "interpreter", "said so", folder);
  EXPECT_EQ(Json::parse(read_file(path))["carried"], !bench);

  auto loaded = load_bundle(path);
  EXPECT_EQ(loaded.kernel, "iron_rms_norm_wide_f16");
  EXPECT_EQ(loaded.case_name, source.name);
  EXPECT_EQ(loaded.message, "said so");
  Gen gen(7);
  const auto original = source.make(gen);
  ASSERT_EQ(loaded.c.steps.size(), original.steps.size());
  ASSERT_EQ(loaded.c.expectations.size(), original.expectations.size());
  EXPECT_EQ(loaded.c.expectations[0].values, original.expectations[0].values);

  auto& device = runtime::backend("interpreter");
  const auto first = runtime::run_case(device, original, source.tolerance);
  const auto again = runtime::run_case(device, loaded.c, loaded.tolerance);
  EXPECT_TRUE(again.passed) << again.message;
  EXPECT_EQ(first.max_error, again.max_error);
  for (std::size_t i = 0; i < original.steps[0].args.size(); ++i) {
    const auto &a = original.steps[0].args[i], &b = loaded.c.steps[0].args[i];
    EXPECT_EQ(a.bits, b.bits);
    ASSERT_EQ(a.buffer.bytes, b.buffer.bytes);
    if (a.buffer.bytes) EXPECT_EQ(std::memcmp(a.buffer.data, b.buffer.data, a.buffer.bytes), 0) << a.name;
  }
}
INSTANTIATE_TEST_SUITE_P(Sizes, Bundle, ::testing::Bool(), [](const auto& i) { return i.param ? "Large" : "Small"; });

TEST(BundleFile, DamageIsNamed) {
  auto source = cases_of(rms_norm(), false).front();
  const auto path = write_bundle(source, 1, "interpreter", "", ::testing::TempDir());
  auto j = Json::parse(read_file(path));
  j["buffers"][0]["data"] = "AAAA";
  write_file(path, j.dump());
  try {
    load_bundle(path);
    FAIL() << "a damaged bundle was read";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "REPLAY01");
  }
}

// Results are the same bits on every device, but for what the ops themselves say otherwise.
TEST(Equality, IsDemandedButOfMatrixUnitsAndApproximations) {
  const auto exempt = [](const char* name, const char* backend) {
    const auto made = make_case(cases_of(entry(name), false).front(), 1);
    return exempt_from_equality(*made.c, backend).value_or("");
  };
  EXPECT_EQ(exempt("iron_rms_norm_wide_f16", "cuda"), "");
  EXPECT_EQ(exempt("iron_scan_lookback_f32", "cuda"), "");
  EXPECT_EQ(exempt("iron_steel_gemm_64x64x16_2x2_f32", "cuda"), "");
  EXPECT_EQ(exempt("iron_steel_gemm_64x64x16_2x2_f16", "cuda"), "a matrix unit sums in its own order");
  EXPECT_EQ(exempt("iron_steel_gemm_64x64x16_2x2_f16", "interpreter"), "");
  EXPECT_EQ(exempt("iron_gemm_tma_bf16", "cuda"), "a matrix unit sums in its own order");
  EXPECT_EQ(exempt("iron_gemm_splitk_tma_cluster2_f16", "cuda"), "a matrix unit sums in its own order");
}

}  // namespace
}  // namespace iron::tool
