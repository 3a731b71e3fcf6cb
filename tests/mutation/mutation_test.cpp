// The tests are tested: a sample of small faults in the library's kernels, or all of them under IRON_TEST_FULL.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <thread>

#include "ir/text.h"
#include "journal.h"
#include "mutants.h"
#include "rules.h"

namespace iron::mutation {
namespace {

// Kernels of the Hopper tier take the interpreter seconds a mutant, all together about as long as the others.
constexpr f64 share = 0.0378, tier_share = 0.0005, tier_share_full = 0.02;
constexpr f64 aim = 0.95;  // of the sample and of the whole set

TEST(Library, NoticesFaults) {
  const char* v = std::getenv("IRON_TEST_FULL");
  const bool full = v != nullptr && std::string_view(v) == "1";
  TrialOptions o;
  o.share = full ? 1 : share;
  o.tier_share = full ? tier_share_full : tier_share;
  if (full) o.threads = std::max(1u, std::thread::hardware_concurrency());
  o.explained = read_explained(built_in_explanations(), "equivalent.txt");
  u64 mutants = 0;
  o.finished = [&](const Part& p, u64 done, u64 kernels) {
    mutants += p.counts.all();
    if (full && done % 20 == 0) fmt::print(stderr, "{} of {} kernels, {} mutants\n", done, kernels, mutants);
  };
  const auto score = try_mutants(standard_library(), o);
  std::string list;
  for (const auto& s : score.survivors()) list += fmt::format("{} {}\n  {}\n  {}\n", s.kernel, s.mutant, s.ir, s.where);
  const auto& c = score.counts;
  fmt::print("{} kernels: {} killed, {} survived, {} explained, {} equivalent; score {:.4f}\n", score.kernels(),
             c.killed(), c.survived, c.explained, c.equivalent, c.score());
  for (const auto& b : score.broken) ADD_FAILURE() << b;
  EXPECT_GT(c.killed(), 0u);
  EXPECT_GE(c.score(), aim) << "survivors:\n" << list;
}

// Two kernels, whole: what a run writes down is what the next one takes over, and shards are parts of the whole.
TEST(Results, AreResumedShardedAndMerged) {
  const std::string path = ::testing::TempDir() + "mutation.tsv";
  std::remove(path.c_str());
  TrialOptions o;
  o.filter = "iron_logsumexp_f";
  const auto whole = try_mutants(standard_library(), o);
  ASSERT_GT(whole.kernels(), 1u);
  ASSERT_GT(whole.counts.killed(), 40u);
  ASSERT_GT(whole.counts.explained + whole.counts.survived, 0u);
  u64 parts = 0;
  const auto run = [&](u32 shard, u32 shards) {
    Journal journal(path);
    o.shard = shard, o.shards = shards;
    o.known = [&](const std::string& k, u64 begin, u64 print) { return journal.known(k, begin, print); };
    u64 tried = 0;
    o.note = [&](const Verdict&) { ++tried; };
    o.finished = [&](const Part& p, u64, u64) {
      if (!journal.known(p.kernel, p.begin, p.fingerprint)) journal.add(p), ++parts;
    };
    try_mutants(standard_library(), o);
    return tried;
  };
  const auto same = [&](const Score& got) {
    EXPECT_EQ(got.counts.killed(), whole.counts.killed());
    EXPECT_EQ(got.counts.explained, whole.counts.explained);
    EXPECT_EQ(got.counts.survived, whole.counts.survived);
    EXPECT_EQ(got.kernels(), whole.kernels());
  };
  EXPECT_EQ(run(0, 2) + run(1, 2), whole.counts.all());
  same(merged(read_results(path)));
  EXPECT_EQ(parts, whole.parts.size());
  EXPECT_EQ(run(0, 1), 0u) << "everything is known";
  // What was cut off is tried again, and nothing else.
  std::ifstream in(path);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  in.close();
  text.resize(text.size() - 5);
  std::ofstream(path) << text;
  const u64 again = run(0, 1);
  EXPECT_GT(again, 0u);
  EXPECT_LT(again, whole.counts.all());
  same(merged(read_results(path)));
  const auto page = report(merged(read_results(path)), 1000);
  EXPECT_NE(page.find(fmt::format("- Killed: {} (", whole.counts.killed())), std::string::npos) << page;
  EXPECT_NE(page.find(fmt::format("- Kernels tried whole: {} of 1000\n", whole.kernels())), std::string::npos) << page;
  // An explanation that is written later holds for what was tried before.
  for (const auto& p : whole.parts)
    for (const auto& v : p.lived) {
      if (v.fate != Fate::survived) continue;
      const Explained all{
          {"iron_*", v.mutant.substr(0, v.mutant.find(':')), v.where.substr(0, v.where.find(':')), v.ir, "why"}};
      const Part later = explained_anew(p, all);
      EXPECT_LT(later.counts.survived, p.counts.survived);
      EXPECT_EQ(later.counts.all(), p.counts.all());
    }
  std::ofstream(path) << "part\tnonsense\n";
  EXPECT_THROW(read_results(path), Error);
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

// The first op of a code, mutated: why nobody can notice.
std::string_view why(const std::string& body, ir::Opcode code, Fault fault, int nth = 0) {
  const ir::Kernel k = ir::canonical(
      ir::parse("kernel @k(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {\n" + body + "}\n"));
  for (const auto& m : mutations_of(k))
    if (k.op(m.at).code == code && m.fault == fault && nth-- == 0) return invisible(k, m).value_or("");
  ADD_FAILURE() << "no such fault in " << ir::print(k);
  return "";
}

TEST(Rules, ALadderMayReachItsLanesInAnotherOrder) {
  const std::string ladder = R"(  %l = lane_id : index
  %t = thread_id : index
  %a = load %x[%t] : f32
  %b = simd.shuffle_xor<2> %a : f32
  %c = max %a, %b : f32
  %d = simd.shuffle_xor<1> %c : f32
  %e = max %c, %d : f32
  store %y[%t], %e
)";
  // 2 -> 3 reaches the same four lanes, 1 -> 2 only two.
  EXPECT_FALSE(why(ladder, ir::Opcode::SimdShuffleXor, Fault::other_lane, 0).empty());
  EXPECT_TRUE(why(ladder, ir::Opcode::SimdShuffleXor, Fault::other_lane, 1).empty());
  // Somebody else sees the value in between.
  std::string watched = ladder;
  watched.replace(watched.find("store %y[%t], %e"), 16, "store %y[%t], %c");
  EXPECT_TRUE(why(watched, ir::Opcode::SimdShuffleXor, Fault::other_lane, 0).empty());
  // Two operations do not join the same terms.
  std::string mixed = ladder;
  mixed.replace(mixed.find("max %c, %d"), 3, "add");
  EXPECT_TRUE(why(mixed, ir::Opcode::SimdShuffleXor, Fault::other_lane, 0).empty());
}

TEST(Rules, ATransposingLadderIsFollowedThroughItsSelects) {
  const std::string ladder = R"(  %t = thread_id : index
  %l = lane_id : index
  %m = and %l, 2 : index
  %u = ne %m, 0 : bool
  %a = load %x[%t] : f32
  %b = mul %a, %a : f32
  %k = select %u, %b, %a : f32
  %g = select %u, %a, %b : f32
  %s = simd.shuffle_xor<2> %g : f32
  %c = add %k, %s : f32
  %d = simd.shuffle_xor<1> %c : f32
  %e = add %c, %d : f32
  store %y[%t], %e
)";
  EXPECT_FALSE(why(ladder, ir::Opcode::SimdShuffleXor, Fault::other_lane, 0).empty());
  EXPECT_TRUE(why(ladder, ir::Opcode::SimdShuffleXor, Fault::other_lane, 1).empty());
}

TEST(Rules, CopiesLieInTheLanesThatTheirExpressionGivesThem) {
  const auto body = [](const std::string& divisor) {
    return R"(  %t = thread_id : index
  %l = lane_id : index
  %p = div %l, )" +
           divisor + R"( : index
  %a = load %x[%p] : f32
  %e = exp %a : f32
  %b = simd.broadcast %e, 4 : f32
  store %y[%t], %b
)";
  };
  EXPECT_FALSE(why(body("4"), ir::Opcode::SimdBroadcast, Fault::other_lane).empty());
  EXPECT_FALSE(why(body("2"), ir::Opcode::SimdBroadcast, Fault::other_lane).empty());
  EXPECT_TRUE(why(body("1"), ir::Opcode::SimdBroadcast, Fault::other_lane).empty());
  EXPECT_TRUE(why(body("3"), ir::Opcode::SimdBroadcast, Fault::other_lane).empty());
}

TEST(Rules, ACarriedValueIsSymmetricOnlyIfItsLoopIs) {
  const auto body = [](const std::string& end) {
    return R"(  %t = thread_id : index
  %l = lane_id : index
  %m = cast %n : index
  %z = div %l, 1 : index
  %r = for %i = 0 to )" +
           end + R"( step 1 carry(%v = 1.0:f32) : f32 {
    %w = add %v, %v : f32
    yield %w
  }
  %b = simd.broadcast %r, 0 : f32
  store %y[%t], %b
)";
  };
  EXPECT_FALSE(why(body("%m"), ir::Opcode::SimdBroadcast, Fault::other_lane).empty());
  EXPECT_TRUE(why(body("%z"), ir::Opcode::SimdBroadcast, Fault::other_lane).empty());
}

TEST(Rules, ALoopOfOneTripHasNoStep) {
  const auto body = [](const std::string& end) {
    return "  %t = thread_id : index\n  for %i = %t to " + end + R"( step 64 {
    %a = load %x[%i] : f32
    store %y[%i], %a
  }
)";
  };
  EXPECT_FALSE(why(body("48"), ir::Opcode::Const, Fault::constant, 1).empty());
  EXPECT_TRUE(why(body("65"), ir::Opcode::Const, Fault::constant, 1).empty());
}

TEST(Explained, NeedsAReason) {
  const auto read = read_explained("iron_a_* | constant | a.cpp | constant 0 in f(x) | it is not used\n", "list");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].expression, "constant 0 in f(x)");
  EXPECT_EQ(read[0].why, "it is not used");
  EXPECT_THROW(read_explained("# comment\niron_b_f32 | swap | b.cpp\n", "list"), Error);
  EXPECT_GT(read_explained(built_in_explanations(), "list").size(), 20u);
}

}  // namespace
}  // namespace iron::mutation
