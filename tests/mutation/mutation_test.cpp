// The tests are tested: a sample of small faults in the library's kernels, or all of them under IRON_TEST_FULL.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <thread>

#include "ir/text.h"
#include "trial.h"

namespace iron::mutation {
namespace {

constexpr u64 sample = 20'000;
constexpr u64 tier_sample = 12, tier_sample_full = 400;  // a mutant of the Hopper tier takes seconds
constexpr double aim = 0.95;                             // of the whole set
constexpr double reached = 0.92;                         // of the sample: what later families must not lower

TEST(Library, NoticesFaults) {
  const char* v = std::getenv("IRON_TEST_FULL");
  const bool full = v != nullptr && std::string_view(v) == "1";
  TrialOptions o;
  o.sample = full ? 0 : sample;
  o.tier_sample = full ? tier_sample_full : tier_sample;
  if (full) o.threads = std::max(1u, std::thread::hardware_concurrency());
  o.explained = read_explained(IRON_SOURCE_DIR "/tests/mutation/equivalent.txt");
  o.progress = [&](u64 done, u64 all, const Verdict&) {
    if (full && done % 500 == 0) fmt::print(stderr, "{} of {} mutants\n", done, all);
  };
  const auto score = try_mutants(standard_library(), o);
  std::string list;
  for (const auto& s : score.survivors) list += fmt::format("{} {}\n  {}\n  {}\n", s.kernel, s.mutant, s.ir, s.where);
  fmt::print("{} kernels: {} killed, {} survived, {} explained, {} equivalent; score {:.4f}\n", score.kernels,
             score.killed, score.survived, score.explained, score.equivalent, score.value());
  for (const auto& b : score.broken) ADD_FAILURE() << b;
  EXPECT_GT(score.killed, 0u);
  EXPECT_GE(score.value(), full ? aim : reached) << "survivors:\n" << list;
}

constexpr std::string_view text = R"(kernel @k(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {
  %t = thread_id : index
  %m = cast %n : index
  %s = shared.new<64> : shared f32
  %c = lt %t, %m : bool
  %i = mul %t, 2 : index
  %a = load.or %x[%i], %c, 1.0:f32 : f32
  %b = simd.shuffle_xor<1> %a : f32
  %d = sub %a, %b : f32
  %e = min %d, %a : f32
  store %s[%t], %e
  barrier
  %r = sub 63, %t : index
  %l = load %s[%r] : f32
  %u = for %j = 0 to 3 step 1 carry(%v = %l) : f32 {
    %w = add %v, %a : f32
    yield %w
  }
  if %c {
    store %y[%t], %u
  }
}
)";

TEST(Mutants, EveryFaultIsMadeAndChangesTheKernel) {
  const ir::Kernel k = ir::canonical(ir::parse(text));
  std::set<Fault> seen;
  std::set<std::string> ids;
  for (const auto& m : mutations_of(k)) {
    EXPECT_TRUE(ids.insert(m.id()).second) << m.id();
    const auto mutant = mutate(k, m);
    if (!mutant) continue;
    seen.insert(m.fault);
    EXPECT_NE(ir::identity(*mutant), ir::identity(k)) << m.id();
    EXPECT_EQ(ir::print(ir::parse(ir::print(*mutant))), ir::print(*mutant)) << m.id();
  }
  EXPECT_EQ(seen.size(), 12u);
}

TEST(Explained, NeedsAReason) {
  const std::string path = ::testing::TempDir() + "explained.txt";
  std::FILE* f = std::fopen(path.c_str(), "w");
  std::fputs("iron_a_* | constant | a.cpp | constant 0 in f(x) | it is not used\n", f);
  std::fclose(f);
  const auto read = read_explained(path);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].expression, "constant 0 in f(x)");
  EXPECT_EQ(read[0].why, "it is not used");
  f = std::fopen(path.c_str(), "w");
  std::fputs(
      "# comment\niron_a_* | constant | a.cpp | constant 0 in f(x) | it is not used\niron_b_f32 | swap | b.cpp\n", f);
  std::fclose(f);
  EXPECT_THROW(read_explained(path), Error);
}

}  // namespace
}  // namespace iron::mutation
