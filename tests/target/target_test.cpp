// Capability atoms, their implications, profiles, and what kernels need.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "target/requirement.h"

namespace iron::target {
namespace {

TEST(Capability, ImplicationsClose) {
  const AtomSet s{Atom::roles};
  for (const Atom a : {Atom::roles, Atom::wgmma, Atom::tma, Atom::mbarrier, Atom::cp_async, Atom::mma_fp8,
                       Atom::mma_bf16, Atom::mma_f16})
    EXPECT_TRUE(s.has(a)) << name(a);
  EXPECT_FALSE(s.has(Atom::tcgen05));
  EXPECT_TRUE(AtomSet{Atom::forward_progress}.has(Atom::atomic_order));
}

TEST(Capability, NamesReadBack) {
  for (int i = 0; i < atom_count; ++i) {
    Atom a{};
    ASSERT_TRUE(atom_from_name(name(static_cast<Atom>(i)), a));
    EXPECT_EQ(a, static_cast<Atom>(i));
    EXPECT_FALSE(meaning(a).empty());
  }
}

TEST(Capability, EveryAtomOfTheOpTableExists) {
  for (int i = 0; i < ir::opcode_count; ++i) {
    const auto& op = ir::info(static_cast<ir::Opcode>(i));
    Atom a{};
    EXPECT_TRUE(op.atom.empty() || atom_from_name(op.atom, a)) << op.text << " needs '" << op.atom << "'";
  }
}

TEST(Profile, NewerCudaDevicesUseTheNewestKnown) {
  EXPECT_EQ(cuda_profile(8, 0).name, "sm_80");
  EXPECT_EQ(cuda_profile(8, 6).name, "sm_80");
  EXPECT_EQ(cuda_profile(9, 0).name, "sm_90a");
  EXPECT_EQ(cuda_profile(12, 0).name, "sm_120a");
  EXPECT_EQ(cuda_profile(12, 1).name, "sm_121a");
  EXPECT_EQ(cuda_profile(13, 0).name, "sm_121a");
  try {
    cuda_profile(7, 5);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "TARGET01");
  }
  try {
    profile("sm_1");
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("sm_90a"), std::string::npos);
  }
}

TEST(Requirement, ListsAtomsAtTheirFirstUse) {
  const auto k = ir::parse(R"(kernel @k(%s: inout u64, %y: out f64) threadgroup exact {
  file 0 "k.cpp"
  %0 = atomic.rmw<add, acquire, cluster> %s[0], 1:u64 : u64 !7
  %1 = cast %0 : f64 !8
  store %y[0], %1 !9
}
)");
  const auto r = requirement(k);
  const auto atoms = r.atoms();
  for (const Atom a : {Atom::int64, Atom::f64, Atom::atomic_64, Atom::atomic_order, Atom::cluster})
    EXPECT_TRUE(atoms.has(a)) << name(a);
  for (const auto& n : r.needs)
    if (n.atom == Atom::cluster) EXPECT_EQ(k.location(n.first_use).line, 7);
  EXPECT_TRUE(fit(k, profile("sm_90a")).empty());
  const auto lacking = fit(k, profile("sm_80"));
  ASSERT_EQ(lacking.size(), 1u);
  EXPECT_EQ(lacking[0].code, "D20");
  EXPECT_EQ(lacking[0].line, 7);
  EXPECT_NE(lacking[0].message.find("cluster"), std::string::npos);
}

}  // namespace
}  // namespace iron::target
