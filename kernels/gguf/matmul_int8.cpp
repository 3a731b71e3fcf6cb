// Bodies of the int8 kernels, and their registration.
#include "gguf/matmul_int8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "gguf/matmul.h"
#include "gguf/prepacked_fixture.h"
#include "iron/error.h"
#include "registry.h"

namespace iron::kernels {

using quant::GgufType;

namespace {
/// c + the four products of the unsigned bytes of a and the signed ones of b.
Val<i32> dot4_u8_i8(const Val<u32>& a, Use<i32> b, Use<i32> c) {
  const Val<i32> bits = bitcast<i32>(a);
  return Val<i32>(
      detail::emit(detail::Opcode::Dot4I8, b.loc, {{bits.id()}, b.arg, c.arg}, ir::pack(ir::SignsImm{false, true})),
      b.loc);
}
}  // namespace

void QuantiseBlocks::operator()() const {
  const auto i = grid_thread_id();
  const Val<f32> v = x.load_or(i < n, i, 0.0f);
  const Val<f32> most = simd_max(abs(v));
  const Val<f32> inverse = select(most > 0.0f, 127.0f / most, 0.0f);
  const Val<i32> code = cast<i32>(round(v * inverse));
  const Val<i32> sum = simd_sum(code);
  if_(i < n) {
    q[i] = cast<i8>(code);
    if_(lane_id() == 0) {
      const Val<f32> scale = most / 127.0f;
      scales[i / 32] = scale;
      sums[i / 32] = scale * cast<f32>(sum);
      offsets[i / 32] = sum * -128;
    }
  }
}

void GgufMatmulInt8::operator()() const {
  const bool minimum = codec.has_minimum();
  if (minimum ? !x_sums : !x_offsets)
    throw Error("QUANT05", "an int8 product with " + codec.spec_text() + " lacks " + (minimum ? "x_sums" : "x_offsets"),
                "give it those of QuantiseBlocks");
  const Val<Index> panel = threadgroup_id(), lane = thread_id(), row = panel * quant::prepacked_rows + lane;
  const Val<Index> blocks = cast<Index>(cols / 32u);
  const Val<Index> first = threadgroup_id(Axis::y) * block_tokens, last_token = cast<Index>(tokens - 1u);
  // Beyond the last token the threadgroup repeats it, and stores nothing.
  std::vector<Val<Index>> token;
  for (u32 t = 0; t < block_tokens; ++t)
    token.emplace_back(block_tokens == 1 ? Val<Index>(first) : Val<Index>(min(first + t, last_token)));
  const In<i32> words = x.view<i32>(0);

  Vars<f32> acc(block_tokens, 0.0f);
  for (auto b : range(blocks)) {
    const GgufRecord record(codec, w, panel * blocks + b, lane);
    std::vector<Val<u32>> bytes;
    for (u32 j = 0; j < 8; ++j) bytes.push_back(record.bytes(j));
    const Val<f32> d = record.scale();
    std::optional<Val<f32>> m;
    if (minimum) m.emplace(record.minimum());
    for (u32 t = 0; t < block_tokens; ++t) {
      const Val<Index> at = token[t] * blocks + b;
      // Two sums, so that the second does not wait for the first.
      std::optional<Val<i32>> sum[2];
      if (minimum)
        sum[0].emplace(constant<i32>(0));
      else
        sum[0].emplace((*x_offsets)[at]);
      sum[1].emplace(constant<i32>(0));
      for (u32 j = 0; j < 8; ++j) {
        const Val<i32> next = dot4_u8_i8(bytes[j], words[at * 8 + j], *sum[j % 2]);
        sum[j % 2].emplace(next);
      }
      const Val<f32> dot = cast<f32>(*sum[0] + *sum[1]);
      acc[t] = fma(d * x_scales[at], dot, acc[t]);
      if (minimum) acc[t] = fma(*m, (*x_sums)[at], acc[t]);
    }
  }
  store_products(*this, acc, row, first);
}

namespace {
// Activations are codes and scales from the start, so that the oracle has the same numbers.
Case product(Gen& g, GgufType type, u32 block_tokens, GgufShape s, bool add) {
  const PrepackedMatrix m = random_prepacked_matrix(g, type, s.rows, s.cols);
  const u64 count = u64{s.tokens} * s.cols, blocks = count / 32;
  std::vector<i32> codes(count), totals(blocks);
  for (u64 i = 0; i < count; ++i) codes[i] = static_cast<i32>(g.next() % 255) - 127, totals[i / 32] += codes[i];
  const auto x = g.from<i8>([&](u64 i) { return codes[i]; }, s.tokens, s.cols);
  const auto scales = g.uniform<f32>(0.001, 0.02, s.tokens, s.cols / 32);
  const auto sums = g.from<f32>([&](u64 i) { return f64{scales.at(i)} * totals[i]; }, s.tokens, s.cols / 32);
  const auto offsets = g.from<i32>([&](u64 i) { return -128 * totals[i]; }, s.tokens, s.cols / 32);
  const auto residual = g.normal<f32>(3.0, s.tokens, s.rows);
  const auto y = g.output<f32>(s.tokens, s.rows);
  std::vector<f64> want(u64{s.tokens} * s.rows);
  for (u64 t = 0; t < s.tokens; ++t)
    for (u64 r = 0; r < s.rows; ++r) {
      f64 sum = add ? residual.at(t * s.rows + r) : 0.0;
      for (u64 c = s.cols; c-- > 0;) {
        const u64 at = t * s.cols + c;
        sum += f64{m.values[r * s.cols + c]} * codes[at] * scales.at(at / 32);
      }
      want[t * s.rows + r] = sum;
    }
  GgufMatmulInt8 k{.w = m.packed,
                   .x = x,
                   .x_scales = scales,
                   .x_sums = {},
                   .x_offsets = {},
                   .residual = {},
                   .y = y,
                   .rows = s.rows,
                   .cols = s.cols,
                   .tokens = s.tokens,
                   .codec = {type},
                   .block_tokens = block_tokens};
  if (add) k.residual = In<f32>(residual);
  if (k.codec.has_minimum())
    k.x_sums = In<f32>(sums);
  else
    k.x_offsets = In<i32>(offsets);
  Case c{k};
  c.expect("y", want).moves(m.packed.size() + x.size() + 4 * y.size()).computes(2.0 * s.tokens * s.rows * s.cols);
  return c;
}

// The sums are exact; a few dozen roundings of f32 remain.
constexpr Tolerance limit = tolerance(2e-5, 0, 0);

void register_products(Registry& r, GgufType type, u32 block_tokens, const std::string& name, const std::string& doc) {
  auto k = r.kernel<GgufMatmulInt8, f32>(name, "gguf", [type, block_tokens](GgufMatmulInt8& m) {
    m.codec.type = type, m.block_tokens = block_tokens;
    if (m.codec.has_minimum())
      m.x_sums = In<f32>(BufferRef{});
    else
      m.x_offsets = In<i32>(BufferRef{});
  });
  k.doc(doc);
  k.test("one panel", limit, [=]<class T>(Gen& g) { return product(g, type, block_tokens, {1, 16, 32}, false); });
  k.test("ragged rows and tokens", limit,
         [=]<class T>(Gen& g) { return product(g, type, block_tokens, {block_tokens + 1, 37, 96}, false); });
  k.test("added to a residual", limit,
         [=]<class T>(Gen& g) { return product(g, type, block_tokens, {block_tokens + 3, 33, 64}, true); });
  // Every row of a block is once the last.
  for (u32 tokens = 2; tokens <= block_tokens; ++tokens)
    for (const bool add : {false, true})
      k.test(fmt::format("{} tokens{}", tokens, add ? ", residual" : ""), limit,
             [=]<class T>(Gen& g) { return product(g, type, block_tokens, {tokens, 16, 64}, add); });
  if (block_tokens == 1)
    k.bench("1536 x 576", [=]<class T>(Gen& g) { return product(g, type, block_tokens, {1, 1536, 576}, false); });
  else
    k.bench("64 tokens, 1536 x 576",
            [=]<class T>(Gen& g) { return product(g, type, block_tokens, {64, 1536, 576}, false); });
}

Case quantised(Gen& g, u32 n, std::string_view judged) {
  Array<f32> x = g.normal<f32>(2.0, n);
  const auto zeros = [&](u64 from, u64 to) {
    for (u64 i = from; i < to; ++i) x[i] = 0.0f;
  };
  if (n >= 96) zeros(64, 96);
  const auto q = g.output<i8>(n);
  const auto scales = g.output<f32>(n / 32), sums = g.output<f32>(n / 32);
  const auto offsets = g.output<i32>(n / 32);
  std::vector<i8> want_q(n);
  std::vector<f32> want_scales(n / 32), want_sums(n / 32);
  std::vector<i32> want_offsets(n / 32);
  for (u32 b = 0; b < n / 32; ++b) {
    f32 most = 0;
    for (u32 i = 0; i < 32; ++i) most = std::max(most, std::abs(static_cast<f32>(x.at(32 * b + i))));
    const f32 inverse = most > 0 ? 127.0f / most : 0.0f;
    i32 sum = 0;
    for (u32 i = 0; i < 32; ++i) {
      const i32 code = static_cast<i32>(std::nearbyint(static_cast<f32>(x.at(32 * b + i)) * inverse));
      want_q[32 * b + i] = static_cast<i8>(code), sum += code;
    }
    want_scales[b] = most / 127.0f;
    want_sums[b] = want_scales[b] * static_cast<f32>(sum), want_offsets[b] = -128 * sum;
  }
  Case c{QuantiseBlocks{.x = x, .q = q, .scales = scales, .sums = sums, .offsets = offsets, .n = n}};
  c.moves(n * 5 + n / 32 * 12);
  if (judged == "q") return c.expect_exact("q", want_q);
  if (judged == "scales") return c.expect_exact("scales", want_scales);
  if (judged == "sums") return c.expect_exact("sums", want_sums);
  return c.expect_exact("offsets", want_offsets);
}

std::string lower(std::string_view name) {
  std::string s(name);
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}
}  // namespace

void register_gguf_int8(Registry& r) {
  auto q = r.kernel<QuantiseBlocks, f32>("quantise_blocks", "gguf");
  q.doc("Blocks of 32 activations as bytes with one scale, and the sums that products need.");
  for (const std::string judged : {"q", "scales", "sums", "offsets"})
    q.test(judged + ", the last threadgroup short", exact_match,
           [=]<class T>(Gen& g) { return quantised(g, 32 * 19, judged); });
  q.bench("1M", [=]<class T>(Gen& g) { return quantised(g, 1 << 20, "q"); });
  for (const GgufType type : GgufCodec::types) {
    const std::string name(quant::gguf_format(type).name), suffix = lower(name);
    register_products(r, type, 1, "gguf_qmv_int8_" + suffix,
                      "Matrix-vector product of a prepacked " + name + " matrix with activations of 8 bits.");
    register_products(r, type, 8, "gguf_qmm_int8_" + suffix,
                      "Eight rows of activations of 8 bits share one pass over a prepacked " + name + " matrix.");
  }
}

}  // namespace iron::kernels
