// Every kernel x dtype of the library: recording is stable, and every case passes in the interpreter under all checks.
#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "ir/text.h"
#include "iron/library.h"
#include "runtime/backend.h"
#include "runtime/run_case.h"
#include "target/requirement.h"

namespace iron {
namespace {

class Library : public ::testing::TestWithParam<const KernelEntry*> {};

TEST_P(Library, RecordsTheSameWhenProbed) {
  const auto& e = *GetParam();
  const auto text = ir::print(*record_checked(e));
  EXPECT_EQ(ir::print(ir::parse(text)), text);
}

TEST_P(Library, PassesInTheInterpreter) {
  const auto& e = *GetParam();
  ASSERT_FALSE(e.tests.empty()) << e.full_name() << " has no test";
  EXPECT_FALSE(e.benches.empty()) << e.full_name() << " has no bench";
  for (const auto& t : e.tests) {
    Gen gen(1);
    const auto outcome = runtime::run_case(runtime::backend("interpreter"), t.make(gen), t.tolerance);
    EXPECT_TRUE(outcome.passed) << e.full_name() << ", " << t.name << ": " << outcome.message;
  }
}

std::vector<const KernelEntry*> all() {
  std::vector<const KernelEntry*> out;
  for (const auto& e : standard_library().entries())
    if (runtime::runs(runtime::backend("interpreter"), e)) out.push_back(&e);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Standard, Library, ::testing::ValuesIn(all()),
                         [](const auto& i) { return i.param->full_name(); });

// Members for some devices are recorded, have cases, and are refused elsewhere with the capability that they need.
TEST(Tier, IsRefusedWithTheCapabilityItNeeds) {
  int seen = 0;
  for (const auto& e : standard_library().entries()) {
    if (e.needs.empty()) continue;
    ++seen;
    EXPECT_FALSE(e.tests.empty()) << e.full_name() << " has no test";
    EXPECT_FALSE(e.benches.empty()) << e.full_name() << " has no bench";
    for (const auto& d : analysis::verify(*e.record(true))) ADD_FAILURE() << e.full_name() << ": " << d.render();
    const auto lacking = target::fit(*e.record(false), target::profile("sm_80"));
    ASSERT_FALSE(lacking.empty()) << e.full_name();
    EXPECT_EQ(lacking[0].code, "D20");
    EXPECT_TRUE(target::fit(*e.record(false), target::profile("sm_90a")).empty()) << e.full_name();
  }
  EXPECT_GE(seen, 10);
}

}  // namespace
}  // namespace iron
