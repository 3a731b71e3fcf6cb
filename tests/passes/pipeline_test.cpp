// The pipeline's table, its contracts, its hooks, and what it catches when a pass breaks its promise.
#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"

namespace iron::passes {
namespace {
using namespace ir;

constexpr std::string_view text = R"(kernel @k(%x: in f32, %y: out f32) threadgroup exact {
  %t = thread_id : index
  %r = for %i = 0 to 4 step 1 carry(%a = 0.0:f32) : f32 {
    %j = add %t, %i : index
    %v = load %x[%j] : f32
    %w = mul %v, 2.0:f32 : f32
    %b = add %a, %w : f32
    yield %b
  }
  store %y[%t], %r
}
)";

TEST(Pipeline, RunsTheFifteenInOrder) {
  constexpr std::string_view order[] = {"kernel_inline", "type_check", "const_fold",     "algebraic_simplify",
                                        "copy_prop",     "cse",        "licm",           "if_conversion",
                                        "value_sink",    "fusion",     "fma_fusion",     "unroll",
                                        "schedule",      "vectorize",  "dead_store_elim"};
  ASSERT_EQ(optimise_passes().size(), std::size(order));
  Kernel k = parse(text);
  std::vector<std::string> seen;
  PassOptions options;
  options.after_each = [&](const Kernel&, const PassEntry& p) { seen.emplace_back(p.name); };
  const auto result = run_pipeline(k, options);
  ASSERT_EQ(seen.size(), std::size(order));
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i], order[i]);
    EXPECT_EQ(result.stats[i].pass, order[i]);
    EXPECT_EQ(optimise_passes()[i].bits, order[i] == "fma_fusion" ? BitPolicy::fused : BitPolicy::exact);
    EXPECT_GE(result.stats[i].time_us, 0);
    if (i > 0) EXPECT_EQ(result.stats[i].ops_before, result.stats[i - 1].ops_after);
  }
}

TEST(Pipeline, StopsAfterTheNamedPass) {
  Kernel k = parse(text);
  PassOptions options;
  options.stop_after = "licm";
  EXPECT_EQ(run_pipeline(k, options).stats.size(), 7u);
  options.stop_after = "nothing";
  EXPECT_THROW(run_pipeline(k, options), Error);
}

TEST(Pipeline, FormsFmaOnlyWhereThePolicyAllows) {
  for (const auto policy : {Numerics::exact, Numerics::fused, Numerics::fast}) {
    Kernel k = parse(text);
    PassOptions options;
    options.policy = policy;
    run_pipeline(k, options);
    EXPECT_EQ(k.numerics, policy);
    EXPECT_EQ(print(k).find(" = fma ") != std::string::npos, policy != Numerics::exact);
  }
}

std::string code_of(Kernel k, const PassEntry& pass, bool verify = true) {
  PassContext context;
  PassOptions options;
  options.verify = verify;
  try {
    run_pass(k, pass, context, options);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "IR0303");
    EXPECT_NE(std::string(e.what()).find(pass.name), std::string::npos);
    return e.diagnostics().back().code;
  }
  return "";
}

TEST(Pipeline, CatchesAPassThatBreaksItsPromise) {
  const auto broken = [](Changed (*run)(Kernel&, PassContext&), u32 guarantees) {
    return PassEntry{"broken", BitPolicy::exact, no_slots, guarantees, run, ""};
  };
  const Kernel k = parse(text);
  // A body emptied without its header.
  const Kernel loop = parse(
      "kernel @e(%y: out f32) threadgroup exact {\n for %i = 0 to 4 step 1 {\n store %y[%i], 1.0:f32\n }\n store "
      "%y[0], 2.0:f32\n}\n");
  EXPECT_EQ(code_of(loop, broken(
                              [](Kernel& w, PassContext&) {
                                OpId store = none;
                                w.walk([&](OpId id) {
                                  if (w.op(id).code == Opcode::Store && store == none) store = id;
                                });
                                w.erase(store);
                                return true;
                              },
                              well_typed)),
            "D06");
  // A value used after it has gone.
  EXPECT_EQ(code_of(k, broken(
                           [](Kernel& w, PassContext&) {
                             OpId load = none;
                             w.walk([&](OpId id) {
                               if (w.op(id).code == Opcode::Load) load = id;
                             });
                             w.erase(load);
                             return true;
                           },
                           well_typed)),
            "IR0208");
  // An op that nothing uses.
  EXPECT_EQ(code_of(k, broken(
                           [](Kernel& w, PassContext&) {
                             w.append(w.body(), w.create(Opcode::ThreadId, index_type, {}));
                             return true;
                           },
                           no_dead_ops)),
            "IR0305");
  // A loop that does nothing.
  EXPECT_EQ(code_of(parse("kernel @e(%x: in f32, %y: out f32) threadgroup exact {\n for %i = 0 to 4 step 1 {\n %v = "
                          "load %x[%i] : f32\n }\n store %y[0], 2.0:f32\n}\n"),
                    broken([](Kernel&, PassContext&) { return false; }, no_empty_loops)),
            "D06");
  // The same without checks passes: the checks are what finds it.
  EXPECT_EQ(code_of(k,
                    broken(
                        [](Kernel& w, PassContext&) {
                          w.append(w.body(), w.create(Opcode::ThreadId, index_type, {}));
                          return true;
                        },
                        no_dead_ops),
                    false),
            "");
}

TEST(Pipeline, ChecksWhatAPassNeeds) {
  Kernel k = parse(
      "kernel @s(%y: out f32) threadgroup exact {\n %v = slot.new : f32\n slot.store %v, 1.0:f32\n %w = slot.load %v : "
      "f32\n store %y[0], %w\n}\n");
  EXPECT_EQ(code_of(k, *find_pass("cse")), "IR0305");
}

TEST(Pipeline, KeepsSourceLines) {
  Kernel k = parse(R"(kernel @k(%x: in f32, %y: out f32) threadgroup exact {
  file 0 "kernels/k.cpp"
  %0 = thread_id : index !3
  %1 = mul %0, 4 : index !4
  for %2 = 0 to 4 step 1 { !5
    %3 = add %1, %2 : index !6
    %4 = load %x[%3] : f32 !7
    store %y[%3], %4 !8
  }
}
)");
  const auto result = run_pipeline(k);
  const auto out = print(k);
  EXPECT_NE(out.find("load<align 16> %x[%1] : f32x4 !7"), std::string::npos) << out;
  EXPECT_NE(out.find("store<align 16> %y[%1], %2 !8"), std::string::npos) << out;
  bool found = false;
  for (const auto& r : result.remarks)
    found |= to_string(r) == "kernels/k.cpp:7: done [vectorize]: 4 loads of x became one";
  EXPECT_TRUE(found);
}

}  // namespace
}  // namespace iron::passes
