// Every mutant of a tier kernel is found, and in every schedule, but for those that keep the meaning: each of these is
// named here with its reason.
#include <gtest/gtest.h>

#include <map>

#include "mutants.h"
#include "tier_kernels.h"

namespace iron::exec::tier {
namespace {

constexpr std::string_view bytes_first =
                               "bytes may arrive before they are expected: the round ends when both are there",
                           later_release = "the slot goes back later, at no other cost than time",
                           next_release = "the next release gives that slot back too",
                           early_settle = "the product is waited for sooner than needed",
                           unread = "the slot has been read by then: what it is moved over touches other memory",
                           own_reclaim = "the view is still reclaimed between the store and the next write",
                           turns = "turns order when work starts, no memory; they are entered and left as often",
                           over_release = "what it is moved over touches no memory that the barrier orders",
                           over_input = "what it is moved over reads an input, which nothing writes",
                           over_read = "the group closes later, but before the next wait",
                           earlier_group = "copies are waited for sooner than needed",
                           over_output = "it is still waited for before the kernel ends",
                           own_end = "the threadgroups of a cluster end together by themselves";
using Equivalent = std::map<std::string, std::string_view>;

void all_found(const Case& c, Equivalent equivalent, u32 count) {
  u32 found = 0;
  for (const auto& m : mutants(*c.kernel)) {
    const bool keeps_meaning = equivalent.erase(m.name) != 0;
    for (const Schedule schedule : all_schedules) {
      f32 error = 0;
      const Result r = c.run(m.kernel, {.schedule = schedule, .seed = 3}, error);
      EXPECT_EQ(r.clean(), keeps_meaning)
          << m.name << " in schedule " << static_cast<int>(schedule) << ", error " << error << "\n"
          << r.render();
      if (keeps_meaning) EXPECT_LE(error, c.tolerance) << m.name << " is silent and wrong";
    }
    found += !keeps_meaning;
  }
  EXPECT_TRUE(equivalent.empty()) << "no mutant is named " << equivalent.begin()->first;
  EXPECT_EQ(found, count);
  ::testing::Test::RecordProperty("found", static_cast<int>(found));
}

TEST(TierMutants, Copy) {
  all_found(copy_case(48, 128, 1),
            {{"1 later: pipe.expect #1", bytes_first},
             {"3 later: reclaim #1", own_reclaim},
             {"1 later: pipe.release #1", later_release}},
            21);
}

const Equivalent gemm{{"1 later: pipe.expect #1", bytes_first},      {"2 later: pipe.expect #1", bytes_first},
                      {"3 earlier: pipe.release #1", later_release},  // before the wait: of the trip before
                      {"1 later: pipe.release #2", later_release},   {"2 later: pipe.release #2", later_release},
                      {"3 later: pipe.release #2", later_release},   {"1 later: reclaim #1", own_reclaim},
                      {"3 later: reclaim #1", own_reclaim}};
TEST(TierMutants, Gemm) { all_found(gemm_case(128, 128, 256, 1, 1), gemm, 37); }
TEST(TierMutants, GemmOfACluster) { all_found(gemm_case(256, 128, 256, 2, 2), gemm, 38); }

TEST(TierMutants, Attention) {
  Equivalent e{{"drop pipe.release #1", next_release},
               {"keep one more of pipe.release #1", next_release},
               {"keep one more of pipe.release #3", next_release}};
  for (const auto* name : {"1 later: pipe.expect #1", "1 later: pipe.expect #2", "2 later: pipe.expect #2",
                           "3 later: pipe.expect #2", "1 later: pipe.expect #3"})
    e[name] = bytes_first;
  for (const auto* name :
       {"1 earlier: turn.enter #1", "2 earlier: turn.enter #1", "1 later: turn.enter #1", "2 later: turn.enter #1",
        "1 earlier: turn.leave #1", "2 earlier: turn.leave #1", "1 later: turn.leave #1", "2 later: turn.leave #1",
        "3 later: turn.leave #1", "1 later: turn.enter #2", "2 later: turn.enter #2", "3 later: turn.enter #2",
        "1 earlier: turn.leave #2", "2 earlier: turn.leave #2", "3 earlier: turn.leave #2", "1 later: turn.leave #2",
        "2 later: turn.leave #2", "3 later: turn.leave #2"})
    e[name] = turns;
  for (const auto* name : {"1 earlier: acc.settle #1", "1 earlier: acc.settle #2", "1 earlier: acc.settle #3",
                           "2 earlier: acc.settle #3", "3 earlier: acc.settle #3"})
    e[name] = early_settle;
  for (const auto* name :
       {"1 later: pipe.release #1", "2 later: pipe.release #1", "3 later: pipe.release #1", "1 later: pipe.release #2",
        "2 later: pipe.release #2", "3 later: pipe.release #2", "1 later: pipe.release #3", "1 later: pipe.release #4",
        "2 later: pipe.release #4", "3 later: pipe.release #4"})
    e[name] = later_release;
  all_found(attention_case(256, 256, 1), e, 100);
}

TEST(TierMutants, Exchange) {
  all_found(exchange_case(4),
            {{"1 later: pipe.expect #1", bytes_first},
             {"1 earlier: pipe.release #1", unread},
             {"1 later: pipe.release #1", later_release},
             {"2 later: pipe.release #1", later_release},
             {"3 later: pipe.release #1", later_release},
             {"1 earlier: role.barrier #1", over_release},
             {"1 earlier: role.barrier #2", over_release}},
            25);
}

TEST(TierMutants, SplitDepth) {
  all_found(split_case(64, 16, 384, 2),
            {{"1 later: pipe.expect #1", bytes_first},
             {"2 later: pipe.expect #1", bytes_first},
             {"3 earlier: pipe.release #1", later_release},  // before the wait: of the trip before
             {"1 later: pipe.release #2", later_release},
             {"2 later: pipe.release #2", later_release}},
            39);
}

// The copies of a stage start after the barrier that ends the reads of what they overwrite.
TEST(TierMutants, Staged) {
  all_found(staged_case(5),
            {{"1 later: copy.commit #1", over_input},
             {"2 later: copy.commit #1", earlier_group},  // the second stage's copies count as the first's,
             {"3 later: copy.commit #1", earlier_group},  // and the second group is empty
             {"1 later: copy.commit #3", over_read},
             {"1 later: barrier #1", over_input},
             {"1 earlier: copy.wait #2", over_output}},
            33);
}

TEST(TierMutants, Cluster) {
  all_found(cluster_case(),
            {{"drop cluster.sync #2", own_end},
             {"1 earlier: cluster.sync #2", own_end},
             {"2 earlier: cluster.sync #2", own_end},
             {"3 earlier: cluster.sync #2", own_end}},
            5);
}

}  // namespace
}  // namespace iron::exec::tier
