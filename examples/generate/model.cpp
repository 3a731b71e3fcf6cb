// Loading of the weights and the programs of launches of a llama model.
#include "generate/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "attention/cached.h"
#include "binary/binary.h"
#include "gate/swiglu_rows.h"
#include "gguf/matmul.h"
#include "gguf/matmul_int8.h"
#include "iron/error.h"
#include "norm/rms_norm.h"
#include "quant/prepack.h"
#include "runtime/backend.h"

namespace iron::model {

namespace {
constexpr u32 batch = 256;         // tokens of a prefill that share one program
constexpr u32 product_tokens = 4;  // that share one pass over a weight
constexpr u32 int8_product_tokens = 8;
constexpr u32 block_queries = 4;  // that share one pass over the cache
template <class T>
BufferRef part(const Buffer<T>& b, u64 count, u64 at = 0) {
  return {b.data() + at, count * sizeof(T), true};
}
}  // namespace

Model::~Model() = default;

Model::Model(const Gguf& file, const Device& device, u32 context, Policy policy)
    : config_(read_llama_config(file)), device_(device), policy_(policy), stream_(device) {
  const LlamaConfig& c = config_;
  const LlamaWeights weights = find_llama_weights(file, c);
  if (c.head_dim % 32 != 0 || c.width % 32 != 0 || c.feed_forward % 32 != 0)
    throw Error("MODEL03",
                fmt::format("heads of {}, a width of {} or a feed-forward width of {} are not multiples of 32",
                            c.head_dim, c.width, c.feed_forward),
                "use a model whose sizes are");
  if (context == 0) context = c.context;
  if (context > c.context)
    throw Error("MODEL02", fmt::format("a context of {} tokens; the model was made for {}", context, c.context),
                "ask for fewer tokens");
  capacity_ = (context + c.head_dim - 1) / c.head_dim * c.head_dim;

  const Tensor* table[] = {weights.embedding};
  embedding_ = pack(table);
  if (weights.head != weights.embedding) {
    const Tensor* head[] = {weights.head};
    own_head_ = std::make_unique<Matrix>(pack(head));
  }
  output_norm_ = values_of(*weights.output_norm);
  const u64 cache_bytes =
      u64{c.kv_heads} * capacity_ * c.head_dim * (policy_ == Policy::int8 ? sizeof(f16) : sizeof(f32));
  for (const LlamaLayer& from : weights.layers) {
    Layer layer;
    layer.attn_norm = values_of(*from.attn_norm), layer.ffn_norm = values_of(*from.ffn_norm);
    layer.qkv = join({from.q, from.k, from.v}), layer.gate_up = join({from.gate, from.up});
    layer.attn_output = std::move(join({from.attn_output})[0]), layer.down = std::move(join({from.down})[0]);
    layer.keys = device_.buffer<u8>(cache_bytes), layer.values = device_.buffer<u8>(cache_bytes);
    layer.keys.fill_bytes(0), layer.values.fill_bytes(0);
    layers_.push_back(std::move(layer));
  }
  make_rope_table();

  const u64 kv = u64{c.kv_heads} * c.head_dim;
  ids_ = device_.buffer<u32>(batch), chosen_ = device_.buffer<u32>(1);
  for (Buffer<f32>* b : {&hidden_, &middle_, &normed_, &rotated_, &attended_})
    *b = device_.buffer<f32>(u64{batch} * c.width);
  const u64 widest = u64{batch} * std::max(c.width, c.feed_forward);
  sums_ = device_.buffer<f32>(widest / 32);
  if (policy_ == Policy::int8)
    codes_ = device_.buffer<i8>(widest), scales_ = device_.buffer<f32>(widest / 32),
    offsets_ = device_.buffer<i32>(widest / 32);
  qkv_ = device_.buffer<f32>(batch * (c.width + 2 * kv));
  gate_up_ = device_.buffer<f32>(u64{batch} * 2 * c.feed_forward),
  gated_ = device_.buffer<f32>(u64{batch} * c.feed_forward);
  logits_ = device_.buffer<f32>(c.vocabulary), filtered_ = device_.buffer<f32>(c.vocabulary);
  temperature_ = device_.buffer<f32>(1), uniform_ = device_.buffer<f32>(1);
  decode_ = program_for(1);
  decode_graph_ = stream_.capture([&] {
    for (const Launch& l : decode_) stream_.launch(l.kernel, l.args, l.geometry, {.overlap = true});
  });
}

// One packed matrix of tensors that lie one after the other: whole panels of rows, one format.
Model::Matrix Model::pack(std::span<const Tensor* const> tensors) {
  const quant::GgufType type = tensors[0]->type;
  if (!kernels::GgufCodec::has(type))
    throw Error("MODEL01",
                fmt::format("tensor {} has format {}, for which there is no product", printable(tensors[0]->name),
                            quant::gguf_format(type).name),
                "use a file of Q4_0, Q4_1, Q5_0, Q5_1 or Q8_0");
  Matrix m;
  m.codec.type = type, m.cols = static_cast<u32>(tensors[0]->cols());
  std::vector<std::byte> packed;
  for (const Tensor* t : tensors) {
    const u64 at = packed.size();
    packed.resize(at + quant::prepacked_bytes(type, t->rows(), t->cols()));
    quant::prepack(type, t->rows(), t->cols(), t->bytes, std::span(packed).subspan(at));
    m.rows += static_cast<u32>(t->rows());
  }
  m.packed = device_.buffer<u8>(std::span(reinterpret_cast<const u8*>(packed.data()), packed.size()));
  weight_bytes_ += packed.size();
  return m;
}

std::vector<Model::Matrix> Model::join(std::initializer_list<const Tensor*> tensors) {
  const std::span<const Tensor* const> all(tensors.begin(), tensors.size());
  const bool one = std::all_of(all.begin(), all.end(), [&](const Tensor* t) {
    return t->type == all[0]->type && (t == all.back() || t->rows() % quant::prepacked_rows == 0);
  });
  std::vector<Matrix> out;
  if (one) {
    out.push_back(pack(all));
  } else {
    for (std::size_t i = 0; i < all.size(); ++i) out.push_back(pack(all.subspan(i, 1)));
  }
  return out;
}

Buffer<f32> Model::values_of(const Tensor& t) {
  std::vector<f32> values(t.rows() * t.cols());
  quant::decode(t.type, t.bytes, values);
  return device_.buffer(values);
}

void Model::make_rope_table() {
  const u32 pairs = config_.head_dim / 2;
  std::vector<f32> high, low;
  for (u32 i = 0; i < pairs; ++i) {
    const f64 f = std::pow(f64{config_.rope_base}, -static_cast<f64>(i) / pairs);
    high.push_back(static_cast<f32>(f));
    low.push_back(static_cast<f32>(f - f64{high.back()}));
  }
  const auto high_on = device_.buffer(high), low_on = device_.buffer(low);
  rope_table_ = device_.buffer<f32>(u64{capacity_} * config_.head_dim);
  device_.launch(
      kernels::RopeTable{.high = high_on, .low = low_on, .table = rope_table_, .pairs = pairs, .positions = capacity_});
  device_.synchronize();
}

template <class K>
void Model::add(Program& program, const K& kernel) const {
  const Grid grid = grid_of(kernel);
  Launch launch;
  launch.kernel = device_.prepare(kernel, grid.threads);
  Device::bind(kernel, launch.args);
  launch.geometry = Device::geometry_of(grid);
  const auto args = arguments(kernel);
  for (std::size_t i = 0; i < args.size(); ++i)
    if (args[i].scalar && args[i].name == "first") launch.moving.push_back(i);
  program.push_back(std::move(launch));
}

// What products read beside or instead of x itself.
void Model::add_input(Program& program, const Matrix& w, BufferRef x, u32 tokens) const {
  const u32 n = tokens * w.cols;
  if (policy_ == Policy::int8)
    add(program, kernels::QuantiseBlocks{.x = x,
                                         .q = part(codes_, n),
                                         .scales = part(scales_, n / 32),
                                         .sums = part(sums_, n / 32),
                                         .offsets = part(offsets_, n / 32),
                                         .n = n});
  else if (w.codec.has_minimum())
    add(program, kernels::BlockSums{.x = x, .sums = part(sums_, n / 32), .n = n});
}

void Model::add_product(Program& program, const Matrix& w, BufferRef x, BufferRef y, const BufferRef* residual,
                        u32 tokens, bool input_made) const {
  if (!input_made) add_input(program, w, x, tokens);
  const u64 blocks = u64{tokens} * w.cols / 32;
  const bool minimum = w.codec.has_minimum();
  const auto finish = [&](auto& product) {
    if (minimum) product.x_sums = In<f32>(part(sums_, blocks));
    if (residual) product.residual = In<f32>(*residual);
    add(program, product);
  };
  if (policy_ == Policy::int8) {
    kernels::GgufMatmulInt8 product{.w = w.packed,
                                    .x = part(codes_, blocks * 32),
                                    .x_scales = part(scales_, blocks),
                                    .x_sums = {},
                                    .x_offsets = {},
                                    .residual = {},
                                    .y = y,
                                    .rows = w.rows,
                                    .cols = w.cols,
                                    .tokens = tokens,
                                    .codec = w.codec,
                                    .block_tokens = tokens == 1 ? 1 : int8_product_tokens};
    if (!minimum) product.x_offsets = In<i32>(part(offsets_, blocks));
    finish(product);
    return;
  }
  kernels::GgufMatmul product{.w = w.packed,
                              .x = x,
                              .x_sums = {},
                              .residual = {},
                              .y = y,
                              .rows = w.rows,
                              .cols = w.cols,
                              .tokens = tokens,
                              .codec = w.codec,
                              .block_tokens = tokens == 1 ? 1 : product_tokens};
  finish(product);
}

// The results of several matrices lie one after the other in y, each [tokens, rows].
void Model::add_product(Program& program, const std::vector<Matrix>& w, BufferRef x, BufferRef y,
                        const BufferRef* residual, u32 tokens) const {
  auto* at = static_cast<std::byte*>(y.data);
  bool input_made = false;
  for (const Matrix& m : w) {
    const u64 bytes = u64{tokens} * m.rows * sizeof(f32);
    add_product(program, m, x, {at, bytes, true}, residual, tokens, input_made);
    input_made = input_made || policy_ == Policy::int8 || m.codec.has_minimum();
    at += bytes;
  }
}

// T is the cache's type.
template <class T>
void Model::add_attention(Program& program, const Layer& layer, const AttentionInput& input, u32 n) const {
  const LlamaConfig& c = config_;
  const auto rotated = part(rotated_, u64{n} * c.width);
  add(program, kernels::RopeToCache<T>{.q = input.q,
                                       .k = input.k,
                                       .v = input.v,
                                       .table = rope_table_,
                                       .q_out = rotated,
                                       .keys = part(layer.keys, layer.keys.size()),
                                       .values = part(layer.values, layer.values.size()),
                                       .tokens = n,
                                       .heads = c.heads,
                                       .kv_heads = c.kv_heads,
                                       .q_stride = input.q_stride,
                                       .kv_stride = input.kv_stride,
                                       .capacity = capacity_,
                                       .first = 0u,
                                       .head_dim = c.head_dim});
  const u32 heads_per_kv = c.heads / c.kv_heads;
  add(program,
      kernels::CachedAttention<T>{
          .q = rotated,
          .keys = part(layer.keys, layer.keys.size()),
          .values = part(layer.values, layer.values.size()),
          .out = part(attended_, u64{n} * c.width),
          .tokens = n,
          .heads = c.heads,
          .heads_per_kv = heads_per_kv,
          .capacity = capacity_,
          .first = 0u,
          .scale = 1.0f / std::sqrt(static_cast<f32>(c.head_dim)),
          .head_dim = c.head_dim,
          .block_queries = n == 1 ? 1 : block_queries,
          .block_heads =
              n == 1 ? kernels::cached_attention_heads(c.heads, heads_per_kv, device_.backend().info().units) : 1});
}

void Model::add_layer(Program& program, const Layer& layer, u32 n) const {
  const LlamaConfig& c = config_;
  const u32 kv = c.kv_heads * c.head_dim, all = c.width + 2 * kv;
  const auto hidden = part(hidden_, u64{n} * c.width), middle = part(middle_, u64{n} * c.width);
  const auto normed = part(normed_, u64{n} * c.width), attended = part(attended_, u64{n} * c.width);
  const auto gated = part(gated_, u64{n} * c.feed_forward);
  const auto norm = [&](BufferRef x, const Buffer<f32>& weight) {
    add(program, kernels::RmsNorm<f32>{.x = x, .weight = weight, .y = normed, .n = c.width, .eps = c.norm_epsilon});
  };

  norm(hidden, layer.attn_norm);
  add_product(program, layer.qkv, normed, part(qkv_, u64{n} * all), nullptr, n);
  // Rows of one joined matrix follow each other within a token, results of several within the batch.
  const bool joined = layer.qkv.size() == 1;
  const u64 k_at = joined ? c.width : u64{n} * c.width, v_at = joined ? c.width + kv : u64{n} * (c.width + kv);
  const u64 end = u64{n} * all;
  const AttentionInput input{.q = part(qkv_, joined ? end : k_at),
                             .k = part(qkv_, (joined ? end : v_at) - k_at, k_at),
                             .v = part(qkv_, end - v_at, v_at),
                             .q_stride = joined ? all : c.width,
                             .kv_stride = joined ? all : kv};
  if (policy_ == Policy::int8)
    add_attention<f16>(program, layer, input, n);
  else
    add_attention<f32>(program, layer, input, n);
  add_product(program, layer.attn_output, attended, middle, &hidden, n, false);

  norm(middle, layer.ffn_norm);
  add_product(program, layer.gate_up, normed, part(gate_up_, u64{n} * 2 * c.feed_forward), nullptr, n);
  if (layer.gate_up.size() == 1) {
    add(program,
        kernels::SwigluRows{.x = part(gate_up_, u64{n} * 2 * c.feed_forward), .y = gated, .n = c.feed_forward});
  } else {
    const u64 half = u64{n} * c.feed_forward;
    add(program, kernels::Gated<f32>{.gate = part(gate_up_, half),
                                     .up = part(gate_up_, half, half),
                                     .out = gated,
                                     .kind = kernels::Gate::swiglu});
  }
  add_product(program, layer.down, gated, hidden, &middle, n, false);
}

Model::Program Model::program_for(u32 n) const {
  const LlamaConfig& c = config_;
  Program program;
  add(program, kernels::GgufEmbedding{.table = embedding_.packed,
                                      .ids = part(ids_, n),
                                      .out = part(hidden_, u64{n} * c.width),
                                      .rows = embedding_.rows,
                                      .cols = embedding_.cols,
                                      .codec = embedding_.codec});
  for (const Layer& layer : layers_) add_layer(program, layer, n);
  const auto last = part(normed_, c.width);
  add(program, kernels::RmsNorm<f32>{.x = part(hidden_, c.width, u64{n - 1} * c.width),
                                     .weight = output_norm_,
                                     .y = last,
                                     .n = c.width,
                                     .eps = c.norm_epsilon});
  add_product(program, own_head_ ? *own_head_ : embedding_, last, part(logits_, c.vocabulary), nullptr, 1, false);
  return program;
}

void Model::run(Program& program) const {
  for (Launch& launch : program) {
    for (const std::size_t i : launch.moving) launch.args[i].scalar = position_;
    launch.kernel.launch(launch.args, launch.geometry);
  }
}

// A step of one token is one replay; only the position differs from step to step.
void Model::replay_decode() {
  for (std::size_t i = 0; i < decode_.size(); ++i) {
    if (decode_[i].moving.empty()) continue;
    for (const std::size_t at : decode_[i].moving) decode_[i].args[at].scalar = position_;
    decode_graph_.set_args(i, decode_[i].args);
  }
  stream_.replay(decode_graph_);
  stream_.synchronize();
}

void Model::feed(std::span<const TokenId> tokens) {
  if (tokens.empty()) throw Error("MODEL04", "no tokens to feed", "feed at least one");
  if (tokens.size() > capacity_ - position_)
    throw Error("MODEL02",
                fmt::format("{} tokens after {} do not fit into a context of {}", tokens.size(), position_, capacity_),
                "make the model with a larger context");
  for (const TokenId id : tokens)
    if (id >= config_.vocabulary)
      throw Error("MODEL04", fmt::format("token {} is not below the vocabulary of {}", id, config_.vocabulary),
                  "feed tokens of this model's tokenizer");
  while (!tokens.empty()) {
    const u32 n = static_cast<u32>(std::min<u64>(tokens.size(), batch));
    if (n != 1 && n != prefill_tokens_) prefill_ = program_for(n), prefill_tokens_ = n;
    ids_.upload(tokens.first(n));
    if (n == 1)
      replay_decode();
    else
      run(prefill_);
    position_ += n;
    tokens = tokens.subspan(n);
  }
}

std::vector<f32> Model::logits() const { return logits_.to_host(); }

std::string Model::numerics() const {
  std::set<std::string_view> formats;
  const auto note = [&](const Matrix& m) { formats.insert(quant::gguf_format(m.codec.type).name); };
  note(embedding_);
  for (const Layer& layer : layers_) {
    for (const Matrix& m : layer.qkv) note(m);
    for (const Matrix& m : layer.gate_up) note(m);
    note(layer.attn_output), note(layer.down);
  }
  const auto* policy =
      policy_ == Policy::int8
          ? "int8: activations rounded to 8 bits a block of 32, f32 sums over blocks, keys and values kept in f16"
          : "exact: f32 activations and sums";
  return fmt::format("{}, weights decoded from {}", policy, fmt::join(formats, ", "));
}

}  // namespace iron::model
