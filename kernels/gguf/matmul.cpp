// The body of GgufMatmul, and the registration of the GGUF kernels.
#include "gguf/matmul.h"

#include "gguf/prepacked_fixture.h"
#include "iron/error.h"
#include "registry.h"

namespace iron::kernels {

using quant::GgufType;

namespace {
// A chain of fused multiply-adds whose first link is a product.
class Chain {
 public:
  void add(const Val<f32>& a, const Val<f32>& b) {
    if (sum_) {
      const Val<f32> next = fma(a, b, *sum_);
      sum_.emplace(next);
    } else {
      sum_.emplace(a * b);
    }
  }
  const Val<f32>& sum() const { return *sum_; }

 private:
  std::optional<Val<f32>> sum_;
};

f32 power_of_half(u32 n) { return 1.0f / static_cast<f32>(u64{1} << n); }
}  // namespace

void GgufMatmul::operator()() const {
  if (codec.has_minimum() && !x_sums)
    throw Error("QUANT05", "a product with " + codec.spec_text() + " lacks x_sums", "give it the BlockSums of x");
  const Val<Index> panel = threadgroup_id(), lane = thread_id(), row = panel * quant::prepacked_rows + lane;
  const Val<Index> blocks = cast<Index>(cols / 32u);
  const Val<Index> first = threadgroup_id(Axis::y) * block_tokens, last_token = cast<Index>(tokens - 1u);
  // Beyond the last token the threadgroup repeats it, and stores nothing.
  std::vector<Val<Index>> token;
  for (u32 t = 0; t < block_tokens; ++t)
    token.emplace_back(block_tokens == 1 ? Val<Index>(first) : Val<Index>(min(first + t, last_token)));

  Vars<f32> acc(block_tokens, 0.0f);
  for (auto b : range(blocks)) {
    const GgufRecord record(codec, w, panel * blocks + b, lane);
    std::vector<Chain> sums(block_tokens);
    const auto activation = [&](u32 t, u32 e) { return Val<f32>(x[token[t] * cols + b * 32 + e]); };
    for (u32 p = 0; p < record.positions(); ++p) {
      Chain position;
      for (u32 g = 0; g < record.words(); ++g) {
        const u32 e = record.element(p, g);
        if (block_tokens == 1) {
          position.add(record.weighted_code(p, g), activation(0, e));
        } else {
          const Val<f32> q = record.code(p, g);
          for (u32 t = 0; t < block_tokens; ++t) sums[t].add(q, activation(t, e));
        }
      }
      if (block_tokens == 1) sums[0].add(position.sum(), constant<f32>(power_of_half(record.weight(p))));
    }
    const Val<f32> d = record.scale();
    for (u32 t = 0; t < block_tokens; ++t) acc[t] = fma(d, sums[t].sum(), acc[t]);
    if (codec.has_minimum()) {
      const Val<f32> m = record.minimum();
      for (u32 t = 0; t < block_tokens; ++t) acc[t] = fma(m, (*x_sums)[token[t] * blocks + b], acc[t]);
    }
  }
  store_products(*this, acc, row, first);
}

namespace {
Case product(Gen& g, GgufType type, u32 block_tokens, GgufShape s, bool add) {
  const PrepackedMatrix m = random_prepacked_matrix(g, type, s.rows, s.cols);
  const auto x = g.values<f32>(s.tokens, s.cols), residual = g.normal<f32>(3.0, s.tokens, s.rows);
  const auto y = g.output<f32>(s.tokens, s.rows);
  const auto sums = g.from<f32>(
      [&](u64 i) {
        f64 sum = 0;
        for (u64 c = 32 * i; c < 32 * (i + 1); ++c) sum += x.at(c);
        return sum;
      },
      s.tokens, s.cols / 32);
  const auto want = gguf_product(m.values, x, s, add ? &residual : nullptr);
  GgufMatmul k{.w = m.packed,
               .x = x,
               .x_sums = {},
               .residual = {},
               .y = y,
               .rows = s.rows,
               .cols = s.cols,
               .tokens = s.tokens,
               .codec = {type},
               .block_tokens = block_tokens};
  if (add) k.residual = In<f32>(residual);
  if (k.codec.has_minimum()) k.x_sums = In<f32>(sums);
  Case c{k};
  c.expect("y", want).moves(m.packed.size() + 4 * (x.size() + y.size())).computes(2.0 * s.tokens * s.rows * s.cols);
  return c;
}

// Products of a few hundred terms in f32: rounding alone stays below this.
constexpr Tolerance limit = tolerance(2e-5, 0, 0);

void register_products(Registry& r, GgufType type, u32 block_tokens, const std::string& name, const std::string& doc) {
  auto k = r.kernel<GgufMatmul, f32>(name, "gguf", [type, block_tokens](GgufMatmul& m) {
    m.codec.type = type, m.block_tokens = block_tokens;
    if (m.codec.has_minimum()) m.x_sums = In<f32>(BufferRef{});
  });
  k.doc(doc);
  k.test("one panel", limit, [=]<class T>(Gen& g) { return product(g, type, block_tokens, {1, 16, 32}, false); });
  k.test("ragged rows and tokens", limit,
         [=]<class T>(Gen& g) { return product(g, type, block_tokens, {block_tokens + 1, 37, 96}, false); });
  k.test("added to a residual", limit,
         [=]<class T>(Gen& g) { return product(g, type, block_tokens, {block_tokens + 1, 33, 64}, true); });
  for (u32 rest = 2; rest <= block_tokens; ++rest)
    k.test(std::to_string(rest) + " tokens left", limit, [=]<class T>(Gen& g) {
      return product(g, type, block_tokens, {block_tokens + rest, 16, 64}, rest % 2 == 0);
    });
  if (block_tokens == 1)
    k.bench("1536 x 576", [=]<class T>(Gen& g) { return product(g, type, block_tokens, {1, 1536, 576}, false); });
  else
    k.bench("64 tokens, 1536 x 576",
            [=]<class T>(Gen& g) { return product(g, type, block_tokens, {64, 1536, 576}, false); });
}

void register_embedding(Registry& r, GgufType type, const std::string& name, const std::string& suffix) {
  auto k = r.kernel<GgufEmbedding, f32>("gguf_embedding_" + suffix, "gguf",
                                        [type](GgufEmbedding& e) { e.codec.type = type; });
  k.doc("Rows of a prepacked " + name + " matrix by their numbers, decoded to f32: [tokens, cols].");
  const auto rows_of = [type](Gen& g, const std::vector<u32>& wanted, u32 rows, u32 cols) {
    const PrepackedMatrix m = random_prepacked_matrix(g, type, rows, cols);
    const auto ids = g.from<u32>([&](u64 i) { return wanted[i]; }, wanted.size());
    const auto out = g.output<f32>(wanted.size(), cols);
    const auto want = gguf_rows(m.values, wanted, cols);
    return Case{GgufEmbedding{.table = m.packed, .ids = ids, .out = out, .rows = rows, .cols = cols, .codec = {type}}}
        .expect_exact("out", want);
  };
  k.test("first, last, repeated", exact_match,
         [=]<class T>(Gen& g) { return rows_of(g, {0, 36, 17, 17, 5, 31}, 37, 96); });
  k.bench("64 of 8192 x 576", [=]<class T>(Gen& g) {
    std::vector<u32> ids;
    for (u32 i = 0; i < 64; ++i) ids.push_back(static_cast<u32>(g.next() % 8192));
    auto c = rows_of(g, ids, 8192, 576);
    c.moves(64 * 576 * 5);
    return c;
  });
}

std::string lower(std::string_view name) {
  std::string s(name);
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}
}  // namespace

void register_gguf(Registry& r) {
  auto sums = r.kernel<BlockSums, f32>("block_sums", "gguf");
  sums.doc("Sums of 32 neighbours, one simdgroup a block.");
  sums.shapes("x: [n]");
  const auto make = [](Gen& g, u32 n) {
    const auto x = g.values<f32>(n);
    const auto out = g.output<f32>(n / 32);
    std::vector<f64> want(n / 32, 0.0);
    for (u32 i = 0; i < n; ++i) want[i / 32] += x.at(i);
    return Case{BlockSums{.x = x, .sums = out, .n = n}}.expect("sums", want);
  };
  sums.test("three groups, the last short", tolerance(2e-6, 0, 0), [=]<class T>(Gen& g) { return make(g, 32 * 19); });
  sums.bench("1M", [=]<class T>(Gen& g) { return make(g, 1 << 20); });

  for (const GgufType type : GgufCodec::types) {
    const std::string name(quant::gguf_format(type).name), suffix = lower(name);
    register_products(r, type, 1, "gguf_qmv_" + suffix,
                      "Matrix-vector product of a prepacked " + name + " matrix: a lane is a row, no horizontal sums.");
    register_products(r, type, 4, "gguf_qmm_" + suffix,
                      "Four rows of activations share one pass over a prepacked " + name + " matrix.");
    register_embedding(r, type, name, suffix);
  }
}

}  // namespace iron::kernels
