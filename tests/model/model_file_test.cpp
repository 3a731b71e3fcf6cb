// The real model file: its tables, its tokens against recorded ones, its weights against the schema, and the reference
// data against itself. Reads $IRON_MODEL (the path that fetch_model.sh prints); the data checks run without it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "generate/llama.h"
#include "generate/prompts.h"
#include "iron/error.h"
#include "quant/prepack.h"
#include "reference_data.h"

namespace iron::model {
namespace {

const std::string data_folder = IRON_SOURCE_DIR "/tests/model/data";

const Reference& reference() {
  static const Reference r = read_reference(data_folder);
  return r;
}

class ModelFile : public testing::Test {
 protected:
  void SetUp() override {
    if (!path()) GTEST_SKIP() << "IRON_MODEL is not set; export IRON_MODEL=$(tests/model/fetch_model.sh)";
  }
  static const char* path() { return std::getenv("IRON_MODEL"); }
  static const Gguf& file() {
    static const Gguf g = Gguf::open(path());
    return g;
  }
  static const Tokenizer& tokenizer() {
    static const Tokenizer t(file());
    return t;
  }
};

TEST_F(ModelFile, IsTheArchitectureTheReferenceWasRecordedFor) {
  const LlamaConfig c = read_llama_config(file());
  EXPECT_EQ(c.layers, 30u);
  EXPECT_EQ(c.width, 576u);
  EXPECT_EQ(c.feed_forward, 1536u);
  EXPECT_EQ(c.heads, 9u);
  EXPECT_EQ(c.kv_heads, 3u);
  EXPECT_EQ(c.head_dim, 64u);
  EXPECT_EQ(c.context, 8192u);
  EXPECT_EQ(c.vocabulary, reference().vocabulary);
  EXPECT_EQ(c.rope_base, 100000.0f);
  EXPECT_EQ(c.norm_epsilon, 1e-5f);
  const LlamaWeights w = find_llama_weights(file(), c);
  EXPECT_EQ(w.head, w.embedding) << "tied";
  EXPECT_EQ(w.embedding->type, quant::GgufType::q8_0);
  EXPECT_EQ(w.layers[29].gate->type, quant::GgufType::q4_1);
  for (const Tensor& t : file().tensors()) EXPECT_FALSE(quant::first_non_finite_block(t.type, t.bytes)) << t.name;
}

TEST_F(ModelFile, EveryWeightSurvivesPrepacking) {
  u64 packed_tensors = 0;
  for (const Tensor& t : file().tensors()) {
    if (!quant::has_prepacked_layout(t.type)) continue;
    std::vector<std::byte> packed(quant::prepacked_bytes(t.type, t.rows(), t.cols())), back(t.bytes.size());
    quant::prepack(t.type, t.rows(), t.cols(), t.bytes, packed);
    quant::unprepack(t.type, t.rows(), t.cols(), packed, back);
    EXPECT_TRUE(std::equal(back.begin(), back.end(), t.bytes.begin())) << t.name;
    ++packed_tensors;
  }
  EXPECT_EQ(packed_tensors, 211u);
}

TEST_F(ModelFile, TokensEqualTheRecordedOnes) {
  std::ifstream in(data_folder + "/tokens.json");
  ASSERT_TRUE(in);
  const auto rows = nlohmann::json::parse(in);
  EXPECT_GT(rows.size(), 600u);
  for (const auto& row : rows) {
    const std::string text = row.at("text");
    const auto tokens = tokenizer().encode(text);
    EXPECT_EQ(tokens, row.at("tokens").get<std::vector<u32>>()) << text;
    EXPECT_EQ(tokenizer().decode(tokens), text);
  }
}

TEST_F(ModelFile, PromptsGiveTheReferencesTokens) {
  const auto prompts = read_prompts(IRON_SOURCE_DIR "/examples/generate/prompts.txt");
  ASSERT_EQ(prompts.size(), reference().prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(prompts[i].name, reference().prompts[i].name);
    EXPECT_EQ(encode_prompt(tokenizer(), prompts[i]), reference().prompts[i].tokens) << prompts[i].name;
  }
}

TEST_F(ModelFile, ChatPutsTheSystemMessageFirstUnlessThereIsOne) {
  const Tokenizer::Message user{"user", "Hi"}, system{"system", "Be brief."};
  const auto text_of = [&](std::span<const Tokenizer::Message> messages) {
    std::string out;
    for (TokenId id : tokenizer().chat(messages))
      out += id == tokenizer().special("<|im_start|>") ? "<S>"
             : tokenizer().is_special(id)              ? "<E>"
                                                       : std::string(tokenizer().bytes(id));
    return out;
  };
  EXPECT_EQ(text_of({&user, 1}),
            "<S>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<E>\n<S>user\nHi<E>\n<S>assistant\n");
  const Tokenizer::Message both[] = {system, user};
  EXPECT_EQ(text_of(both), "<S>system\nBe brief.<E>\n<S>user\nHi<E>\n<S>assistant\n");
  EXPECT_EQ(tokenizer().end_of_turn(), tokenizer().special("<|im_end|>"));
}

TEST_F(ModelFile, ATruncatedCopyIsAnError) {
  const MappedFile whole(path());
  const std::size_t size = whole.bytes().size();
  const std::pair<std::size_t, const char*> parts[] = {
      {20, "GGUF02"}, {std::size_t{1} << 20, "GGUF05"}, {size / 2, "GGUF12"}, {size - 33, "GGUF12"}};
  for (const auto& [part, code] : parts) {
    try {
      Gguf::parse(whole.bytes().first(part), "part");
      ADD_FAILURE() << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
    }
  }
}

TEST(ReferenceData, IsWholeAndConsistent) {
  const Reference& r = reference();
  ASSERT_EQ(r.prompts.size(), 10u);
  bool long_prompt = false;
  for (const ReferencePrompt& p : r.prompts) {
    ASSERT_EQ(p.greedy.size(), 64u) << p.name;
    ASSERT_EQ(p.full.size(), 2u) << p.name;
    long_prompt = long_prompt || p.tokens.size() >= 1400;
    for (std::size_t s = 0; s < p.steps.size(); ++s) {
      EXPECT_EQ(p.steps[s].top_id[0], p.greedy[s]) << p.name << ' ' << s;
      EXPECT_GE(p.steps[s].margin(), 0.0f);
    }
    for (const auto& [step, full] : p.full) {
      const Comparison c = compare(full, p.steps[step], full);
      EXPECT_NEAR(c.cosine, 1.0, 1e-12);
      EXPECT_EQ(c.top_error, 0.0);
      EXPECT_TRUE(c.same_argmax) << p.name << ' ' << step;
    }
  }
  EXPECT_TRUE(long_prompt);
}

// What llama.cpp was recorded to say agrees with the reference wherever it is sure, so the two records belong together.
TEST(ReferenceData, LlamaCppAgreesWhereItsMarginIsLarge) {
  std::ifstream in(data_folder + "/llama_cpp.json");
  ASSERT_TRUE(in);
  const auto peer = nlohmann::json::parse(in);
  ASSERT_EQ(peer.at("model_sha256"), reference().model_sha256);
  ASSERT_EQ(peer.at("prompts").size(), reference().prompts.size());
  int sure = 0;
  for (std::size_t p = 0; p < reference().prompts.size(); ++p) {
    const auto& row = peer.at("prompts")[p];
    const ReferencePrompt& prompt = reference().prompts[p];
    ASSERT_EQ(row.at("name"), prompt.name);
    ASSERT_EQ(row.at("argmax").size(), prompt.greedy.size());
    for (std::size_t s = 0; s < prompt.greedy.size(); ++s) {
      if (row.at("margins")[s].get<f64>() <= 0.5) continue;
      EXPECT_EQ(row.at("argmax")[s], prompt.greedy[s]) << prompt.name << ' ' << s;
      ++sure;
    }
  }
  EXPECT_GT(sure, 400);
}

// The projections judge as the whole logits would: for candidates near the reference and for ones that are too far.
TEST(ReferenceData, ProjectedCosinesFollowExactOnes) {
  std::mt19937 random(1);
  std::normal_distribution<f32> normal;
  for (const ReferencePrompt& p : reference().prompts)
    for (const auto& [step, full] : p.full) {
      EXPECT_NEAR(compare(full, p.steps[step], {}).cosine, 1.0, 1e-9);
      for (f32 relative : {0.003f, 0.014f, 0.05f}) {  // 1 - cosine: about 4e-6, 1e-4, 1e-3
        std::vector<f32> candidate(full.begin(), full.end());
        const f32 scale =
            relative * static_cast<f32>(p.steps[step].norm / std::sqrt(static_cast<f64>(reference().vocabulary)));
        for (auto& x : candidate) x += scale * normal(random);
        const f64 exact = 1 - compare(candidate, p.steps[step], full).cosine;
        const f64 estimate = 1 - compare(candidate, p.steps[step], {}).cosine;
        EXPECT_GT(estimate, 0.4 * exact) << p.name << ' ' << relative;
        EXPECT_LT(estimate, 2.0 * exact) << p.name << ' ' << relative;
      }
      // Two logits exchanged: a wrong argmax is seen.
      std::vector<f32> swapped(full.begin(), full.end());
      std::swap(swapped[p.steps[step].top_id[0]], swapped[p.steps[step].top_id[1]]);
      EXPECT_FALSE(compare(swapped, p.steps[step], full).same_argmax && p.steps[step].margin() > 0);
    }
}

}  // namespace
}  // namespace iron::model
