// The model on the CPU device against the recorded float64 reference, teacher-forced, and against what llama.cpp says.
// Reads $IRON_MODEL (the path that fetch_model.sh prints).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "generate/model.h"
#include "iron/error.h"
#include "reference_data.h"
#include "runtime/backend.h"

namespace iron::model {
namespace {

const std::string data_folder = IRON_SOURCE_DIR "/tests/model/data";
constexpr std::size_t prompt_count = 10;

const Reference& reference() {
  static const Reference r = read_reference(data_folder);
  return r;
}
const nlohmann::json& peer() {
  static const auto json = nlohmann::json::parse(std::ifstream(data_folder + "/llama_cpp.json"));
  return json;
}

class Generate : public testing::Test {
 protected:
  void SetUp() override {
    const auto names = runtime::backend_names();
    if (std::find(names.begin(), names.end(), "cpu") == names.end()) GTEST_SKIP() << "built without the CPU device";
    if (!path()) GTEST_SKIP() << "IRON_MODEL is not set; export IRON_MODEL=$(tests/model/fetch_model.sh)";
  }
  static const char* path() { return std::getenv("IRON_MODEL"); }
  static const Gguf& file() {
    static const Gguf g = Gguf::open(path());
    return g;
  }
  static Model& model() {
    static Model m = made(Policy::exact);
    m.reset();
    return m;
  }
  static Model& model_int8() {
    static Model m = made(Policy::int8);
    m.reset();
    return m;
  }

 private:
  static Model made(Policy policy) {
    std::size_t longest = 0;
    for (const auto& p : reference().prompts) longest = std::max(longest, p.tokens.size() + p.greedy.size());
    return Model(file(), Device::open("cpu"), static_cast<u32>(longest), policy);
  }
};

class Prompts : public Generate, public testing::WithParamInterface<std::size_t> {};

TEST_P(Prompts, TeacherForcedLogitsEqualTheReference) {
  const ReferencePrompt& prompt = reference().prompts[GetParam()];
  const auto& llama = peer().at("prompts")[GetParam()];
  ASSERT_EQ(llama.at("name"), prompt.name);
  Model& m = model();
  m.feed(prompt.tokens);
  f64 largest = 0, lowest = 1;
  u32 judged = 0, sure = 0;
  for (std::size_t s = 0; s < prompt.greedy.size(); ++s) {
    if (s) m.feed({&prompt.greedy[s - 1], 1});
    const auto logits = m.logits();
    std::span<const f32> full;
    for (const auto& [step, values] : prompt.full)
      if (step == s) full = values;
    const Comparison c = compare(logits, prompt.steps[s], full);
    EXPECT_GE(c.cosine, 0.9999) << prompt.name << ", step " << s;
    if (prompt.steps[s].margin() > 1e-2f) {
      EXPECT_TRUE(c.same_argmax) << prompt.name << ", step " << s << ", margin " << prompt.steps[s].margin();
      ++judged;
    }
    const auto chosen = static_cast<u32>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    if (llama.at("margins")[s].get<f64>() > 0.5) {
      EXPECT_EQ(chosen, llama.at("argmax")[s].get<u32>()) << prompt.name << ", step " << s << ": llama.cpp differs";
      ++sure;
    }
    EXPECT_EQ(m.sample({}, {}), chosen) << "the kernel's greedy choice";
    largest = std::max(largest, c.top_error), lowest = std::min(lowest, c.cosine);
  }
  EXPECT_LT(largest, 1e-3) << "far above what f32 sums explain";
  EXPECT_GT(judged, 50u);
  EXPECT_GT(sure, 20u);
  RecordProperty("largest_logit_error", std::to_string(largest));
  std::printf(
      "%-12s %4zu tokens: largest logit error %.2e, lowest cosine 1 - %.1e, %u argmax judged, %u by llama.cpp\n",
      prompt.name.c_str(), prompt.tokens.size(), largest, 1 - lowest, judged, sure);
}
INSTANTIATE_TEST_SUITE_P(Reference, Prompts, testing::Range(std::size_t{0}, prompt_count));

// The named fast policy rounds activations as llama.cpp does, so it is held to what separates that from the reference.
TEST_P(Prompts, Int8IsNearTheReference) {
  const ReferencePrompt& prompt = reference().prompts[GetParam()];
  Model& m = model_int8();
  EXPECT_EQ(m.numerics().substr(0, 5), "int8:");
  m.feed(prompt.tokens);
  f64 lowest = 1;
  u32 judged = 0;
  for (std::size_t s = 0; s < prompt.greedy.size(); ++s) {
    if (s) m.feed({&prompt.greedy[s - 1], 1});
    const auto logits = m.logits();
    std::span<const f32> full;
    for (const auto& [step, values] : prompt.full)
      if (step == s) full = values;
    const Comparison c = compare(logits, prompt.steps[s], full);
    EXPECT_GE(c.cosine, 0.985) << prompt.name << ", step " << s;
    if (prompt.steps[s].margin() > 0.5f) {
      EXPECT_TRUE(c.same_argmax) << prompt.name << ", step " << s << ", margin " << prompt.steps[s].margin();
      ++judged;
    }
    lowest = std::min(lowest, c.cosine);
  }
  EXPECT_GT(judged, 20u);
  std::printf("%-12s %4zu tokens: lowest cosine 1 - %.1e, %u argmax judged\n", prompt.name.c_str(),
              prompt.tokens.size(), 1 - lowest, judged);
}

// A batch, single tokens and a batch after tokens see the same cache.
TEST_F(Generate, PiecesGiveTheLogitsOfTheWhole) {
  const auto& tokens = reference().prompts[0].tokens;
  ASSERT_GE(tokens.size(), 8u);
  Model& m = model();
  m.feed(tokens);
  const auto whole = m.logits();
  m.reset();
  m.feed({tokens.data(), 1});
  m.feed({tokens.data() + 1, 1});
  m.feed({tokens.data() + 2, tokens.size() - 2});
  const auto pieces = m.logits();
  f32 largest = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) largest = std::max(largest, std::abs(whole[i] - pieces[i]));
  EXPECT_LT(largest, 1e-2f);
  EXPECT_GT(*std::max_element(whole.begin(), whole.end()), 5.0f);
}

TEST_F(Generate, DrawsFollowTheirSeedAndFilters) {
  const auto& tokens = reference().prompts[0].tokens;
  const auto draw = [&](Sampling s) {
    Model& m = model();
    m.feed(tokens);
    return m.sample(s, tokens);
  };
  const TokenId greedy = draw({});
  EXPECT_EQ(draw({.temperature = 1.0f, .top_p = 1e-6f}), greedy) << "only the most probable token is left";
  EXPECT_EQ(draw({.temperature = 1.0f, .min_p = 1.0f}), greedy);
  EXPECT_EQ(draw({.temperature = 1e-4f}), greedy);
  std::vector<TokenId> seen;
  for (u64 seed = 0; seed < 8; ++seed) seen.push_back(draw({.temperature = 3.0f, .seed = seed}));
  std::sort(seen.begin(), seen.end());
  EXPECT_GT(std::unique(seen.begin(), seen.end()) - seen.begin(), 1) << "a hot distribution gives different tokens";
  EXPECT_NE(draw({.repetition_penalty = 1e6f}), tokens.back());
}

TEST_F(Generate, WhatDoesNotFitIsOneClearError) {
  const auto code_of = [](auto&& act) -> std::string {
    try {
      act();
    } catch (const Error& e) {
      EXPECT_EQ(e.diagnostics().size(), 1u);
      return e.code();
    }
    return "none";
  };
  Model& m = model();
  const TokenId beyond[] = {m.config().vocabulary};
  const std::vector<TokenId> many(m.context() + 1, 5);
  EXPECT_EQ(code_of([&] { m.feed(beyond); }), "MODEL04");
  EXPECT_EQ(code_of([&] { m.feed({}); }), "MODEL04");
  EXPECT_EQ(code_of([&] { m.feed(many); }), "MODEL02");
  EXPECT_EQ(m.position(), 0u) << "nothing was fed";
  EXPECT_EQ(code_of([&] { m.sample({.temperature = -1.0f}, {}); }), "MODEL04");
  EXPECT_EQ(code_of([&] { m.sample({.temperature = 1.0f, .top_p = 0.0f}, {}); }), "MODEL04");
  EXPECT_EQ(code_of([&] { Model(file(), Device::open("cpu"), m.config().context + 1); }), "MODEL02");
}

}  // namespace
}  // namespace iron::model
