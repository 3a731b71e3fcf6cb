// Generated kernels under every judge: 2,000, or 100,000 under IRON_TEST_FULL.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "generator.h"
#include "ir/text.h"
#include "native.h"
#include "session.h"
#include "shrink.h"

namespace iron::fuzz {
namespace {

constexpr u64 chunk = 50;
bool full() {
  const char* v = std::getenv("IRON_TEST_FULL");
  return v != nullptr && std::string_view(v) == "1";
}
u64 kernels() { return full() ? 100'000 : 2'000; }

class Seeds : public ::testing::TestWithParam<u64> {};

TEST_P(Seeds, Hold) {
  SessionOptions o;
  o.first = GetParam() * chunk + 1, o.last = o.first + chunk - 1;
  o.shrink = true, o.most_failures = 2;
  o.code_every = full() ? 1 : 10;  // machine code takes most of the time
  for (const auto& r : run_session(o)) ADD_FAILURE() << r.text;
  if (full() && o.last % 1'000 == 0) fmt::print(stderr, "{} of {} kernels\n", o.last, kernels());
}

INSTANTIATE_TEST_SUITE_P(Generated, Seeds, ::testing::Range(u64{0}, kernels() / chunk),
                         [](const auto& i) { return fmt::format("from_{}", i.param * chunk + 1); });

TEST(Generator, OneSeedGivesOneKernel) {
  for (u64 seed = 1; seed <= 40; ++seed) EXPECT_EQ(to_text(generate(seed)), to_text(generate(seed)));
  EXPECT_NE(to_text(generate(1)), to_text(generate(2)));
}

// What is never generated is never judged.
TEST(Generator, ReachesEveryPureOpAndMost) {
  std::set<ir::Opcode> seen;
  for (u64 seed = 1; seed <= 1'500; ++seed) {
    const Subject s = generate(seed);
    s.kernel.walk([&](ir::OpId id) { seen.insert(s.kernel.op(id).code); });
  }
  using ir::Opcode;
  // Kernels of one recording have no slots and calls; roles, waits, copies and tiles have programs of their own.
  const std::set<Opcode> left_out{Opcode::Roles,       Opcode::SlotNew,     Opcode::SlotLoad,   Opcode::SlotStore,
                                  Opcode::Arg,         Opcode::WaitUntil,   Opcode::Ticket,     Opcode::Print,
                                  Opcode::Call,        Opcode::AtomicStore, Opcode::TileNew,    Opcode::TileZero,
                                  Opcode::TileMma,     Opcode::TileLoad,    Opcode::TileStore,  Opcode::TileGet,
                                  Opcode::TileSet,     Opcode::TileRow,     Opcode::TileCol,    Opcode::TileElems,
                                  Opcode::ClusterRank, Opcode::CopyAsync,   Opcode::CopyCommit, Opcode::CopyWait};
  for (int i = 0; i < ir::opcode_count; ++i) {
    const auto code = static_cast<Opcode>(i);
    if (ir::info(code).has(ir::TierOp) || ir::info(code).rule == ir::TypeRule::Tier) continue;  // so has the tier
    EXPECT_TRUE(seen.count(code) || left_out.count(code)) << ir::info(code).text << " is never generated";
  }
}

// Most kernels are judged by the widest target: it is the one that launches use.
TEST(Native, TheWidestTargetIsTheLast) {
  const auto targets = native_targets();
  if (targets.empty()) GTEST_SKIP() << "built without the CPU device";
  EXPECT_EQ(targets.front(), "sse2");
  EXPECT_EQ(targets.size() == 1, targets.back() == "sse2");
}

TEST(Text, SubjectsRoundTrip) {
  for (u64 seed = 1; seed <= 40; ++seed) {
    const std::string once = to_text(generate(seed));
    EXPECT_EQ(to_text(from_text(once, "text")), once);
  }
  EXPECT_THROW(from_text("kernel @k() threadgroup exact {\n}\n", "text"), Error);
}

// A fault that is known: whatever multiplies u32 fails. What is left is one product and what makes it visible.
TEST(Shrink, KeepsTheFaultAndLittleElse) {
  const auto fails = [](const Subject& s) {
    bool found = false;
    s.kernel.walk(
        [&](ir::OpId id) { found |= s.kernel.op(id).code == ir::Opcode::Mul && s.kernel.type(id).elem == DType::u32; });
    return found && !apply(judges()[0], s);
  };
  bool tried = false;
  for (u64 seed = 1; seed <= 200 && !tried; ++seed) {
    const Subject s = generate(seed);
    if (!fails(s)) continue;
    tried = true;
    const Subject least = shrink(s, fails);
    EXPECT_TRUE(fails(least));
    u64 ops = 0;
    least.kernel.walk([&](ir::OpId) { ++ops; });
    EXPECT_LE(ops, 16) << to_text(least);
  }
  EXPECT_TRUE(tried);
}

}  // namespace
}  // namespace iron::fuzz
