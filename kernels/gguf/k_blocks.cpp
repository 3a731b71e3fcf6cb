// Bodies of the kernels over Q4_K and Q6_K blocks, tests and benches.
#include "gguf/k_blocks.h"

#include "gguf/fixture.h"
#include "registry.h"

namespace iron::kernels {

using quant::GgufType;

void GgufKMatmul::operator()() const {
  const Val<Index> row = threadgroup_id() * simdgroups + simdgroup_id(), last_row = cast<Index>(rows) - 1;
  const Val<Index> blocks = cast<Index>(cols) / KBlockCodec::elements;
  const Val<Index> first = threadgroup_id(Axis::y) * block_tokens, last_token = cast<Index>(tokens) - 1;
  // Beyond the edges the last row and token are repeated, and not stored.
  const Val<Index> matrix_row = min(row, last_row);
  std::vector<Val<Index>> token;
  for (u32 t = 0; t < block_tokens; ++t) token.emplace_back(min(first + t, last_token));

  Vars<f32> sums(block_tokens, 0.0f);
  for (auto b : range(blocks))
    decode_k_block(codec, w, matrix_row * blocks + b, [&](u32 offset, const Val<f32>& weight) {
      for (u32 t = 0; t < block_tokens; ++t) {
        const auto input = x[token[t] * cols + b * KBlockCodec::elements + offset + lane_id()];
        const Val<f32> before = sums[t];
        sums[t] = fma(weight, input, before);
      }
    });
  for (u32 t = 0; t < block_tokens; ++t) {
    const auto total = simd_sum(sums[t]);
    if_(lane_id() == 0 && row < rows && first + t < tokens) {
      const Val<Index> at = (first + t) * rows + row;
      y[at] = residual ? (*residual)[at] + total : total;
    }
  }
}

void GgufKEmbedding::operator()() const {
  const auto block = threadgroup_id(), token = threadgroup_id(Axis::y);
  const Val<Index> row = bounded(cast<Index>(ids[token]), 0, cast<Index>(rows) - 1);
  const Val<Index> blocks = cast<Index>(cols) / KBlockCodec::elements;
  decode_k_block(codec, table, row * blocks + block, [&](u32 offset, const Val<f32>& value) {
    out[token * cols + block * KBlockCodec::elements + offset + lane_id()] = value;
  });
}

namespace {
// A random matrix as a file has it, and its values.
struct Matrix {
  Array<u8> blocks;
  std::vector<f32> values;
};
Matrix matrix(Gen& g, GgufType type, u64 rows, u64 cols) {
  auto m = random_gguf_matrix(g, type, rows, cols);
  return {g.from<u8>([&](u64 i) { return std::to_integer<u32>(m.blocks[i]); }, m.blocks.size()), std::move(m.values)};
}

Case product(Gen& g, GgufType type, u32 block_tokens, GgufShape s, bool add) {
  const Matrix m = matrix(g, type, s.rows, s.cols);
  const auto x = g.values<f32>(s.tokens, s.cols), residual = g.normal<f32>(3.0, s.tokens, s.rows);
  const auto y = g.output<f32>(s.tokens, s.rows);
  GgufKMatmul k{.w = m.blocks,
                .x = x,
                .residual = {},
                .y = y,
                .rows = s.rows,
                .cols = s.cols,
                .tokens = s.tokens,
                .codec = {type},
                .block_tokens = block_tokens};
  if (add) k.residual = In<f32>(residual);
  return Case{k}
      .expect("y", gguf_product(m.values, x, s, add ? &residual : nullptr))
      .computes(2.0 * s.tokens * s.rows * s.cols)
      .moves(m.blocks.size() + 4 * (x.size() + y.size()));
}
constexpr Tolerance limit = tolerance(3e-5, 0, 0);
}  // namespace

void register_gguf_k(Registry& r) {
  for (const GgufType type : {GgufType::q4_k, GgufType::q6_k}) {
    const std::string name(quant::gguf_format(type).name), suffix = type == GgufType::q4_k ? "q4_k" : "q6_k";
    for (const u32 tokens : {1u, 4u}) {
      auto k = r.kernel<GgufKMatmul, f32>((tokens == 1 ? "gguf_qmv_" : "gguf_qmm_") + suffix, "gguf",
                                          [=](GgufKMatmul& m) { m.codec = {type}, m.block_tokens = tokens; });
      k.doc(tokens == 1
                ? "Matrix-vector product of a matrix of " + name + " blocks as files have them; a simdgroup a row."
                : "Four rows of activations share one pass over a matrix of " + name + " blocks.");
      k.test("one row, one block", limit,
             [=]<class T>(Gen& g) { return product(g, type, tokens, {1, 1, 256}, false); });
      k.test("ragged rows and tokens", limit,
             [=]<class T>(Gen& g) { return product(g, type, tokens, {tokens + 1, 13, 768}, false); });
      k.test("added to a residual", limit,
             [=]<class T>(Gen& g) { return product(g, type, tokens, {2, 7, 512}, true); });
      const u32 many = tokens == 1 ? 1 : 64;
      k.bench(std::to_string(many) + " x 1536 x 2048",
              [=]<class T>(Gen& g) { return product(g, type, tokens, {many, 1536, 2048}, false); });
    }
    auto e = r.kernel<GgufKEmbedding, f32>("gguf_embedding_" + suffix, "gguf",
                                           [type](GgufKEmbedding& k) { k.codec = {type}; });
    e.doc("Rows of a matrix of " + name + " blocks by their numbers, decoded to f32: [tokens, cols].");
    const auto rows_of = [type](Gen& g, const std::vector<u32>& wanted, u32 rows, u32 cols) {
      const Matrix m = matrix(g, type, rows, cols);
      const auto ids = g.from<u32>([&](u64 i) { return wanted[i]; }, wanted.size());
      const auto out = g.output<f32>(wanted.size(), cols);
      return Case{
          GgufKEmbedding{.table = m.blocks, .ids = ids, .out = out, .rows = rows, .cols = cols, .codec = {type}}}
          .expect_exact("out", gguf_rows(m.values, wanted, cols))
          .moves(wanted.size() * cols * 5);
    };
    e.test("first, last, repeated", exact_match,
           [=]<class T>(Gen& g) { return rows_of(g, {0, 10, 7, 7, 3}, 11, 768); });
    e.bench("64 of 1024 x 2048", [=]<class T>(Gen& g) {
      std::vector<u32> ids;
      for (u32 i = 0; i < 64; ++i) ids.push_back(static_cast<u32>(g.next() % 1024));
      return rows_of(g, ids, 1024, 2048);
    });
  }
}

}  // namespace iron::kernels
