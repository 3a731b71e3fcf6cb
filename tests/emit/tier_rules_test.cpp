// A test a rule of the Hopper tier's emission, on the text of the library's kernels. What rules keep away is measured
// and named in the design; that the compiler's gate notices them is tested beside.
#define IRON_NO_IF_MACRO  // the IR has functions of that name
#include <gtest/gtest.h>

#include <regex>

#include "runtime/cuda/compile.h"
#include "tier_texts.h"

namespace iron {
namespace {
using namespace tier_texts;

std::string line_at(const std::string& text, std::size_t at) {
  const auto begin = text.rfind('\n', at) + 1;
  return text.substr(text.find_first_not_of(' ', begin), text.find('\n', at) - text.find_first_not_of(' ', begin));
}
// The line of code before; comments name the author's lines.
std::string line_before(const std::string& text, std::size_t at) {
  std::string line;
  do at = text.rfind('\n', at) - 1, line = line_at(text, at);
  while (line.starts_with("//"));
  return line;
}
std::string line_after(const std::string& text, std::size_t at) { return line_at(text, text.find('\n', at) + 1); }
template <class F>
u32 each_place(const std::string& text, std::string_view word, const F& check) {
  u32 n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) check(at), ++n;
  return n;
}

// The rules of emission, by their numbers in the design of the tier, in the text alone: no compiler is needed.
TEST(TierRules, R1AccumulatorsAreNamedScalarsAndEachProductIsOneAsm) {
  const auto text = emitted(gemm<kernels::GemmTma<bf16>>(2)).text;
  const auto at = text.find("void wgmma_m64n256k16_bf16("), end = text.find("\n}", at);
  ASSERT_NE(at, std::string::npos);
  const auto product = text.substr(at, end - at);
  EXPECT_EQ(count(product, "asm volatile("), 1u);
  EXPECT_EQ(count(product, "\"+f\"("), 128u);
  EXPECT_NE(product.find("i32 accumulate"), std::string::npos);  // a bool operand is refused
  EXPECT_EQ(count(from_signature(text), "f32 acc["), 0u);
}

TEST(TierRules, R2EveryLoopOfARoleStaysALoop) {
  for (const auto& text : {emitted(gemm<kernels::GemmTma<bf16>>(2)).text, emitted(attention<bf16>(true)).text,
                           emitted(gemm<kernels::GemmTmaE4M3Blocks<bf16>>(2)).text}) {
    const auto body = from_signature(text);
    const auto loops =
        each_place(body, "for (", [&](std::size_t at) { EXPECT_EQ(line_before(body, at), "#pragma unroll 1"); });
    EXPECT_GE(loops, 3u);
  }
}

TEST(TierRules, R3BatchesAreStraightLinesWithAFenceEach) {
  for (const auto& text : {emitted(gemm<kernels::GemmTma<bf16>>(2)).text, emitted(attention<bf16>(true)).text}) {
    const auto body = from_signature(text);
    const auto fences = each_place(body, "products_begin();", [&](std::size_t at) {
      auto next = line_after(body, at);
      u32 products = 0;
      for (auto from = body.find('\n', at) + 1; next.starts_with("wgmma_"); ++products)
        from = body.find('\n', from) + 1, next = line_at(body, from);
      EXPECT_GE(products, 4u);
      EXPECT_EQ(next, "products_commit();");
    });
    EXPECT_EQ(count(body, "products_commit();"), fences);
    EXPECT_GE(fences, 1u);
  }
}

TEST(TierRules, R4PinsStandBeforeTheFenceAndAfterTheWait) {
  const auto body = from_signature(emitted(attention<bf16>(true)).text);
  const auto pinned = [](const std::string& line) { return line.starts_with("pin_f32_"); };
  EXPECT_GE(each_place(body, "products_begin();",
                       [&](std::size_t at) { EXPECT_TRUE(pinned(line_before(body, at))) << line_before(body, at); }),
            4u);
  EXPECT_GE(each_place(body, "products_settle<",
                       [&](std::size_t at) { EXPECT_TRUE(pinned(line_after(body, at))) << line_after(body, at); }),
            3u);
  EXPECT_GE(count(body, "pin_u32_"), 2u);  // A of the products with V is in registers
}

TEST(TierRules, R5WhatCodeReadsIsSettledBeforeTheLoopTurns) {
  const auto body = from_signature(emitted(gemm<kernels::GemmTmaE4M3Blocks<bf16>>(1)).text);
  const auto last = body.rfind("wgmma_m64n128k32_e4m3("), drained = body.find("products_settle<0>", last);
  ASSERT_NE(drained, std::string::npos);
  u32 depth = 0;  // both stand in the same trip: no brace closes what encloses the product in between
  for (const char c : body.substr(last, drained - last)) {
    ASSERT_FALSE(c == '}' && depth == 0);
    depth += c == '{' ? 1 : 0, depth -= c == '}' ? 1 : 0;
  }
}

TEST(TierRules, R6AccumulatorsAreRotatedByUnrolling) {
  const auto body = from_signature(emitted(gemm<kernels::GemmTmaE4M3Blocks<bf16>>(1)).text);
  std::vector<std::string> first;  // the first register of the batches of a trip
  each_place(body, "products_begin();", [&](std::size_t at) {
    const auto product = line_after(body, at), from = product.substr(product.find("acc"));
    first.push_back(from.substr(0, from.find_first_of(",)")));
  });
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(first[0], first[2]);
  EXPECT_EQ(first[1], first[3]);
  EXPECT_NE(first[0], first[1]);
  EXPECT_FALSE(std::regex_search(body, std::regex(R"(\bacc(_\w+)? = acc(_\w+)?;)")));  // no swap
}

TEST(TierRules, R7NothingHasARunTimeIndexAndAllIsInlined) {
  for (const auto& text : {emitted(gemm<kernels::GemmTma<bf16>>(2)).text, emitted(attention<bf16>(true)).text}) {
    EXPECT_FALSE(std::regex_search(from_signature(text), std::regex(R"(\n +(const )?(f32|u32|index_t) \w+\[)")));
    EXPECT_GT(each_place(text, "__device__ ",
                         [&](std::size_t at) { EXPECT_EQ(text.substr(at + 11, 15), "__forceinline__"); }),
              0u);
  }
}

TEST(TierRules, R8SlotsGoBackToPeersWithoutAClusterFence) {
  const auto text = emitted(gemm<kernels::GemmTma<bf16>>(2)).text;
  EXPECT_EQ(count(text, "mbarrier.arrive.relaxed.cluster"), 1u);
  EXPECT_EQ(count(text, "mbarrier.arrive.release.cluster"), 0u);
  EXPECT_EQ(count(text, "try_wait.parity.acquire.cta"), 1u);
  EXPECT_EQ(count(text, "acquire.cluster"), 0u);
}

TEST(TierRules, R9RolesAreOneChainAndBeginWithTheirRegisters) {
  const auto text = emitted(gemm<kernels::GemmTma<bf16>>(2)).text, body = from_signature(text);
  EXPECT_NE(body.find("__launch_bounds__(384, 1)"), std::string::npos);
  const auto load = body.find("{  // load"), mma = body.find("} else {  // mma");
  ASSERT_NE(load, std::string::npos);
  ASSERT_NE(mma, std::string::npos);
  EXPECT_EQ(line_after(body, load), "asm volatile(\"setmaxnreg.dec.sync.aligned.u32 40;\");");
  EXPECT_EQ(line_after(body, mma), "asm volatile(\"setmaxnreg.inc.sync.aligned.u32 232;\");");
  for (const auto& option : runtime::cuda::nvrtc_options()) EXPECT_EQ(option.find("Ofast-compile"), std::string::npos);
}

TEST(TierRules, R10ElectedRegionsEndConverged) {
  const auto body = from_signature(emitted(gemm<kernels::GemmTma<bf16>>(2)).text);
  const auto elected = body.find("elect_one()"), next_role = body.find("} else {  // mma", elected);
  ASSERT_NE(elected, std::string::npos);
  EXPECT_EQ(line_before(body, next_role), "__syncwarp();");
}

}  // namespace
}  // namespace iron
