// The llama architecture as a file describes it: sizes with checked ranges, and every weight with a checked shape.
#pragma once

#include <vector>

#include "generate/gguf.h"

namespace iron::model {

/// Sizes and constants of a model. Rotary embedding turns the neighbours (2i, 2i + 1) of each query and key head.
struct LlamaConfig {
  u32 layers, width, feed_forward, heads, kv_heads, head_dim, vocabulary, context;
  f32 rope_base, norm_epsilon;
};

/// Weights as they lie in the file. Matrices are [inputs, outputs] in GGUF's order: a row is one output.
struct LlamaLayer {
  const Tensor *attn_norm, *q, *k, *v, *attn_output, *ffn_norm, *gate, *up, *down;
};
struct LlamaWeights {
  const Tensor *embedding, *output_norm, *head;  ///< head is the embedding when the two are tied
  std::vector<LlamaLayer> layers;
};

/// Reads the sizes: GGUF14 for a missing key or one out of range, also for another architecture.
LlamaConfig read_llama_config(const Gguf& file);
/// Finds the weights: GGUF15 for a missing tensor or a shape that disagrees with the sizes. They live as long as
/// `file`.
LlamaWeights find_llama_weights(const Gguf& file, const LlamaConfig& config);

}  // namespace iron::model
