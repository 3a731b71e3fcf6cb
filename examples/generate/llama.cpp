// The schema of a llama model in a GGUF file.
#include "generate/llama.h"

#include <fmt/format.h>

#include <cmath>

namespace iron::model {

LlamaConfig read_llama_config(const Gguf& file) {
  if (const auto name = file.string("general.architecture"); name != "llama")
    file.fail("GGUF14", fmt::format("the architecture is '{}'; only 'llama' is implemented", printable(name)),
              "use a model of the llama architecture, such as SmolLM2");
  const auto size = [&](const char* key, u64 high) {
    return static_cast<u32>(file.number(fmt::format("llama.{}", key), 1, high));
  };
  LlamaConfig c{};
  c.layers = size("block_count", 1024);
  c.width = size("embedding_length", 1 << 16);
  c.feed_forward = size("feed_forward_length", 1 << 18);
  c.heads = size("attention.head_count", 1024);
  c.kv_heads = size("attention.head_count_kv", c.heads);
  c.context = size("context_length", 1 << 24);
  c.vocabulary = size("vocab_size", 1 << 24);
  c.head_dim = size("rope.dimension_count", 1024);
  if (c.heads % c.kv_heads != 0 || c.head_dim % 2 != 0 || c.heads * c.head_dim != c.width)
    file.fail("GGUF14",
              fmt::format("{} heads ({} for keys and values) of {} rotated elements do not fit a width of {}", c.heads,
                          c.kv_heads, c.head_dim, c.width),
              "use a model whose heads are rotated whole");
  c.rope_base = static_cast<f32>(file.real("llama.rope.freq_base"));
  c.norm_epsilon = static_cast<f32>(file.real("llama.attention.layer_norm_rms_epsilon"));
  if (!(c.rope_base > 1.0f && std::isfinite(c.rope_base)) || !(c.norm_epsilon > 0.0f && c.norm_epsilon < 1.0f))
    file.fail("GGUF14", fmt::format("rope base {} or norm epsilon {} is out of range", c.rope_base, c.norm_epsilon));
  if (file.find("llama.rope.scaling.type") && file.string("llama.rope.scaling.type") != "none")
    file.fail("GGUF14", "scaled rotary embedding is not implemented", "use a model without rope scaling");
  if (const u64 tokens = file.strings("tokenizer.ggml.tokens").size(); tokens != c.vocabulary)
    file.fail("GGUF14", fmt::format("the vocabulary has {} tokens, llama.vocab_size is {}", tokens, c.vocabulary));
  return c;
}

LlamaWeights find_llama_weights(const Gguf& file, const LlamaConfig& c) {
  const u64 kv = u64{c.kv_heads} * c.head_dim;
  LlamaWeights w{};
  w.embedding = &file.tensor("token_embd.weight", {c.width, c.vocabulary});
  w.output_norm = &file.tensor("output_norm.weight", {c.width});
  w.head = file.find_tensor("output.weight") ? &file.tensor("output.weight", {c.width, c.vocabulary}) : w.embedding;
  for (u32 layer = 0; layer < c.layers; ++layer) {
    const auto find = [&](const char* name, std::initializer_list<u64> dims) {
      return &file.tensor(fmt::format("blk.{}.{}.weight", layer, name), dims);
    };
    w.layers.push_back({.attn_norm = find("attn_norm", {c.width}),
                        .q = find("attn_q", {c.width, c.width}),
                        .k = find("attn_k", {c.width, kv}),
                        .v = find("attn_v", {c.width, kv}),
                        .attn_output = find("attn_output", {c.width, c.width}),
                        .ffn_norm = find("ffn_norm", {c.width}),
                        .gate = find("ffn_gate", {c.width, c.feed_forward}),
                        .up = find("ffn_up", {c.width, c.feed_forward}),
                        .down = find("ffn_down", {c.feed_forward, c.width})});
  }
  return w;
}

}  // namespace iron::model
