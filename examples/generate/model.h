// A llama model on a device: its weights, its cache of keys and values, and the launches that feed it tokens.
// Everything that depends on a token is computed by Iron kernels.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "generate/llama.h"
#include "generate/tokenizer.h"
#include "gguf/codec.h"
#include "iron/runtime/device.h"
#include "iron/runtime/stream.h"

namespace iron::model {

/// How the next token is chosen: the largest logit at temperature 0, else a draw from the filtered softmax.
struct Sampling {
  f32 temperature = 0, top_p = 1, min_p = 0, repetition_penalty = 1;
  u64 seed = 0;
};

/// How products are computed: from f32 activations, or from activations rounded to 8 bits a block of 32.
enum class Policy : u8 { exact, int8 };

/// Errors: MODEL01 a matrix has a format without kernels; MODEL02 the context is full; MODEL03 sizes that the kernels
/// do not take; MODEL04 a token or sampling option out of range; those of the device.
class Model {
 public:
  /// Makes the packed copy of the weights on the device. `context` is the most tokens it can hold; 0 is the file's own.
  Model(const Gguf& file, const Device& device, u32 context, Policy policy = Policy::exact);
  ~Model();

  const LlamaConfig& config() const { return config_; }
  u32 context() const { return capacity_; }
  u32 position() const { return position_; }  ///< tokens fed so far
  u64 weight_bytes() const { return weight_bytes_; }
  /// "exact: ..." or "int8: ..." with the formats of the weights.
  std::string numerics() const;

  void reset() { position_ = 0; }
  /// Feeds tokens; afterwards the logits are those that follow the last one.
  void feed(std::span<const TokenId> tokens);
  std::vector<f32> logits() const;
  /// Chooses the next token. `history` is what a repetition penalty looks at. The logits are used up.
  TokenId sample(const Sampling& options, std::span<const TokenId> history);

 private:
  /// A matrix [rows, cols] on the device, 16 rows interleaved.
  struct Matrix {
    Buffer<u8> packed;
    kernels::GgufCodec codec;
    u32 rows = 0, cols = 0;
  };
  /// Matrices with one input: one matrix where their formats agree, else one each.
  struct Layer {
    Buffer<f32> attn_norm, ffn_norm;
    Buffer<u8> keys, values;  ///< f32, or f16 by the policy int8
    std::vector<Matrix> qkv, gate_up;
    Matrix attn_output, down;
  };
  /// A launch with its arguments; those at `moving` are the position of the first token.
  struct Launch {
    PreparedKernel kernel;
    std::vector<LaunchArg> args;
    LaunchGeometry geometry;
    std::vector<std::size_t> moving;
  };
  using Program = std::vector<Launch>;
  /// The results of one layer's products for q, k and v, `stride` elements from token to token.
  struct AttentionInput {
    BufferRef q, k, v;
    u32 q_stride = 0, kv_stride = 0;
  };

  Matrix pack(std::span<const Tensor* const> tensors);
  std::vector<Matrix> join(std::initializer_list<const Tensor*> tensors);
  Buffer<f32> values_of(const Tensor& t);
  void make_rope_table();
  template <class K>
  void add(Program& program, const K& kernel) const;
  void add_product(Program& program, const std::vector<Matrix>& w, BufferRef x, BufferRef y, const BufferRef* residual,
                   u32 tokens) const;
  void add_product(Program& program, const Matrix& w, BufferRef x, BufferRef y, const BufferRef* residual, u32 tokens,
                   bool input_made) const;
  void add_input(Program& program, const Matrix& w, BufferRef x, u32 tokens) const;
  template <class T>
  void add_attention(Program& program, const Layer& layer, const AttentionInput& input, u32 tokens) const;
  void add_layer(Program& program, const Layer& layer, u32 tokens) const;
  Program program_for(u32 tokens) const;
  void run(Program& program) const;
  void replay_decode();
  void draw(const Sampling& options);

  LlamaConfig config_;
  Device device_;
  Policy policy_;
  u32 capacity_ = 0, position_ = 0;
  u64 weight_bytes_ = 0;
  Matrix embedding_;
  std::unique_ptr<Matrix> own_head_;
  Buffer<f32> output_norm_, rope_table_;
  std::vector<Layer> layers_;

  // Activations of one batch.
  Buffer<u32> ids_, chosen_;
  Buffer<f32> hidden_, middle_, normed_, sums_, qkv_, rotated_, attended_, gate_up_, gated_, logits_, filtered_;
  Buffer<f32> temperature_, uniform_;
  // The input of a product by the policy int8.
  Buffer<i8> codes_;
  Buffer<f32> scales_;
  Buffer<i32> offsets_;
  Program decode_, prefill_;
  Stream stream_;
  Graph decode_graph_;  ///< the launches of decode_
  u32 prefill_tokens_ = 0;
  u64 draws_ = 0;
};

}  // namespace iron::model
