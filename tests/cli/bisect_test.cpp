// The search of `iron bisect` names the pass that is wrong, whatever is wrong with it.
#include "bisect_search.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "iron/dsl.h"
#include "iron/library.h"

namespace iron::tool {
namespace {

template <class T>
struct Axpy {
  static constexpr Numerics numerics = Numerics::fused;
  In<T> x;
  InOut<T> y;
  Scalar<f32> a;
  void operator()() const {
    const auto i = grid_thread_id();
    const Val old = y[i];
    y[i] = a * x[i] + old;
  }
};

const KernelEntry& axpy() {
  static const Registry registry = [] {
    Registry r;
    r.kernel<Axpy>("axpy", "demo", dtypes<f32>).test("values", tolerance(1e-5, 1, 1), []<class T>(Gen& g) {
      const auto x = g.values<T>(100), y = g.values<T>(100);
      std::vector<f64> want;
      for (u64 i = 0; i < 100; ++i) want.push_back(0.3 * f64{x[i]} + f64{y[i]});
      return Case{Axpy<T>{.x = x, .y = y, .a = 0.3f}}.expect("y", want);
    });
    return r;
  }();
  return registry.entries().front();
}

CaseSource source() { return cases_of(axpy(), false).front(); }

// The pass with something done to the kernel behind it.
std::vector<SearchPass> with_fault(const std::string& pass, const std::function<void(ir::Kernel&)>& fault) {
  auto all = search_passes();
  for (auto& p : all)
    if (p.name == pass)
      p.run = [run = p.run, fault](ir::Kernel& k) {
        run(k);
        fault(k);
      };
  return all;
}

ir::OpId find(const ir::Kernel& k, ir::Opcode code) {
  ir::OpId found = ir::none;
  k.walk([&](ir::OpId id) {
    if (k.op(id).code == code) found = id;
  });
  return found;
}

TEST(Bisect, FindsNothingWhereNothingIsWrong) { EXPECT_FALSE(bisect_case(source(), 1, search_passes())); }

TEST(Bisect, NamesThePassThatChangesAResult) {
  for (const char* pass : {"const_fold", "cse", "licm"}) {
    const auto found = bisect_case(source(), 1, with_fault(pass, [](ir::Kernel& k) {
                                     const auto id = find(k, ir::Opcode::Add);
                                     if (id != ir::none) k.mutable_op(id).code = ir::Opcode::Sub;
                                   }));
    ASSERT_TRUE(found) << pass;
    EXPECT_EQ(found->pass, pass);
    EXPECT_NE(found->how.find("keeps every bit"), std::string::npos) << found->how;
  }
}

TEST(Bisect, APassThatMayRoundIsJudgedByTheTolerance) {
  // fma_fusion saves a rounding: more than the bits change, and that is its promise.
  const auto planted = with_fault("fma_fusion", [](ir::Kernel& k) {
    const auto id = find(k, ir::Opcode::Fma);
    ASSERT_NE(id, ir::none) << "the policy of this kernel forms an fma";
    const ir::OpId a = k.operand(id, 0);
    k.set_operand(id, 0, k.operand(id, 2));
    k.set_operand(id, 2, a);
  });
  const auto found = bisect_case(source(), 1, planted);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pass, "fma_fusion");
  EXPECT_NE(found->how.find("tolerance"), std::string::npos) << found->how;
}

TEST(Bisect, NamesThePassThatMakesAnAccessWrong) {
  const auto found = bisect_case(source(), 1, with_fault("vectorize", [](ir::Kernel& k) {
                                   const auto id = find(k, ir::Opcode::If);
                                   ASSERT_NE(id, ir::none) << "an elementwise kernel guards itself";
                                   ir::Builder build(k);
                                   build.set_point_before(id);
                                   k.set_operand(id, 0, build.const_bool(true));
                                 }));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pass, "vectorize");
  EXPECT_NE(found->how.find("EXEC01"), std::string::npos) << found->how;
}

TEST(Bisect, NamesThePassWhoseOwnCheckFails) {
  auto all = search_passes();
  for (auto& p : all)
    if (p.name == "unroll")
      p.run = [](ir::Kernel&) { throw Error("PASS01", "the kernel is not what the pass promised"); };
  const auto found = bisect_case(source(), 1, all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->pass, "unroll");
  EXPECT_NE(found->how.find("PASS01"), std::string::npos) << found->how;
}

}  // namespace
}  // namespace iron::tool
