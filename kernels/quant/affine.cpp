// Affine codes: quantise, dequantise, and look up rows of a quantised table.
#include "quant/affine.h"

#include "iron/dsl.h"
#include "iron/library.h"
#include "quant/affine_case.h"
#include "quant/decode.h"
#include "registry.h"

namespace iron::kernels {

// Per group: scale = (max - min) / (2^bits - 1), or 1 where that is below 1e-7; bias = min; both rounded to T;
// q = clamp(floor((x - bias) / scale + 1/2), 0, 2^bits - 1) against the stored values.
// x: [groups, G], words: the code stream with its guard word, scales, biases: [groups]. One simdgroup a group.
template <class T>
struct AffineQuantize {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  Out<u32> words;
  Out<T> scales, biases;
  AffineFormat format;

  Grid grid() const { return {Threadgroups{static_cast<u32>(scales.size())}, Threads{32}}; }

  void operator()() const {
    const auto group = threadgroup_id(), lane = lane_id();
    const u32 share = format.group / 32;
    std::vector<Val<f32>> mine, low, high;
    for (u32 j = 0; j < share; ++j) {
      mine.push_back(cast<f32>(x[group * format.group + lane + 32 * j]));
      low.push_back(j == 0 ? mine[0] : min(low.back(), mine[j]));
      high.push_back(j == 0 ? mine[0] : max(high.back(), mine[j]));
    }
    const auto least = simd_min(low.back()), most = simd_max(high.back());
    const auto scale = cast<T>(affine_scale(least, most, format.bits)), bias = cast<T>(least);
    Shared<u32> codes(format.group);
    for (u32 j = 0; j < share; ++j) {
      const auto code = affine_code(mine[j], cast<f32>(scale), cast<f32>(bias), format.bits);
      codes[lane + 32 * j] = code;
    }
    barrier();
    if_(lane == 0) {
      scales[group] = scale;
      biases[group] = bias;
    }
    // Word w holds bits 32 w to 32 w + 31 of the group. Its first code may begin `back` bits before it, and its last
    // may go on in the word behind.
    const u32 bits = format.bits, group_words = format.words(format.group), reach = 32 % bits == 0 ? 32 : 31 + bits;
    for (auto w : range(lane, group_words, 32)) {
      const auto first = w * 32 / bits;
      const auto back = cast<u32>(w * 32 % bits);
      const Val<u32> begun = codes[first];
      Var<u32> word{begun >> back};
      for (u32 j = 1; j * bits < reach; ++j) {
        const auto up = j * bits - back;
        if (j * bits < 32) {
          const Val<u32> code = codes[first + j];
          word |= code << up;
        } else {  // begins in this word only where enough of the first code lies before it
          const Val<u32> code = codes[min(first + j, format.group - 1)];
          word |= select(up < 32u, code << (up & 31u), constant<u32>(0u));
        }
      }
      words[group * group_words + w] = word;
    }
    if (32 % format.bits != 0) {
      if_(lane == 0 && group + 1 == threadgroups()) { words[(group + 1) * group_words] = 0u; }
    }
  }
};

// out[i] = fma(q[i], scales[i / G], biases[i / G])      out: [rows, K]; a thread decodes the codes of whole words
template <class T>
struct AffineDequantize {
  In<u32> words;
  In<T> scales, biases;
  Out<T> out;
  AffineFormat format;

  Grid grid() const { return Grid::for_items(out.size() / format.chunk()); }

  void operator()() const {
    const u32 chunk = format.chunk();
    const auto item = grid_thread_id();
    const auto group = item * chunk / format.group;
    const auto scale = cast<f32>(scales[group]), bias = cast<f32>(biases[group]);
    const auto codes = read_codes(words, item * format.words(chunk), chunk, format.bits);
    for (u32 j = 0; j < chunk; ++j) {
      const auto v = affine_value(codes[j], scale, bias);
      out[item * chunk + j] = cast<T>(v);
    }
  }
};

// out[r] = row ids[r] of the quantised table, zeros for an id that is no row      ids: [R], table: [V, K], out: [R, K]
template <class T>
struct AffineGather {
  In<u32> words;
  In<T> scales, biases;
  In<u32> ids;
  Out<T> out;
  Scalar<u32> rows, k;
  AffineFormat format;

  Grid grid() const { return Grid::for_items(out.size() / format.chunk()); }

  void operator()() const {
    const u32 chunk = format.chunk();
    const auto item = grid_thread_id();
    const auto row_chunks = k / chunk;
    const auto place = item / row_chunks, part = item % row_chunks;
    const Val<Index> row(ids[place]);
    if_(row < rows) {
      const auto group = row * (k / format.group) + part * chunk / format.group;
      const auto scale = cast<f32>(scales[group]), bias = cast<f32>(biases[group]);
      const auto codes = read_codes(words, (row * row_chunks + part) * format.words(chunk), chunk, format.bits);
      for (u32 j = 0; j < chunk; ++j) {
        const auto v = affine_value(codes[j], scale, bias);
        out[item * chunk + j] = cast<T>(v);
      }
    }
    else {
      for (u32 j = 0; j < chunk; ++j) out[item * chunk + j] = T{};
    }
  }
};

namespace {
// The straddling widths are packed in groups of 32.
constexpr AffineFormat format_of(u32 bits) { return {.bits = bits, .group = 32 % bits == 0 ? 64u : 32u}; }

template <class T>
Case quantised(Gen& g, AffineFormat f, u64 rows, u64 cols) {
  auto x = g.values<T>(rows, cols);
  for (u64 i = 0; i < f.group; ++i) x[i] = T(1.5f);  // a group without range
  // and one whose range is too small for a scale
  for (u64 i = 0; i < f.group; ++i) x[f.group + i] = T(static_cast<f32>(i % 7) * 1e-8f + 3e-8f);
  std::vector<f32> source(x.size());
  for (u64 i = 0; i < x.size(); ++i) source[i] = static_cast<f32>(x.at(i));
  const auto m =
      quant::encode_affine({.bits = f.bits, .group = f.group, .scale_type = dtype_of<T>}, rows, cols, source);
  const auto words = g.output<u32>(m.words.size());
  const auto scales = g.output<T>(x.size() / f.group), biases = g.output<T>(x.size() / f.group);
  return Case{AffineQuantize<T>{.x = x, .words = words, .scales = scales, .biases = biases, .format = f}}
      .expect_exact("words", m.words)
      .expect_bytes("scales", m.scales)
      .expect_bytes("biases", m.biases);
}
template <class T>
Case dequantised(Gen& g, AffineFormat f, u64 rows, u64 cols) {
  const auto w = packed_matrix<T>(g, f.bits, f.group, rows, cols);
  const auto out = g.output<T>(rows, cols);
  return Case{AffineDequantize<T>{.words = w.words, .scales = w.scales, .biases = w.biases, .out = out, .format = f}}
      .expect("out", w.values);
}
template <class T>
Case gathered(Gen& g, AffineFormat f, u32 count, u32 rows, u32 cols, bool invalid) {
  const auto w = packed_matrix<T>(g, f.bits, f.group, rows, cols);
  auto ids = g.integers<u32>(0, rows - 1, count);
  if (invalid) ids[0] = rows - 1, ids[1] = rows, ids[2] = 0xffffffffu;
  const auto out = g.output<T>(count, cols);
  std::vector<f64> expected(out.size());
  for (u64 i = 0; i < out.size(); ++i)
    if (ids[i / cols] < rows) expected[i] = w.values[u64{ids[i / cols]} * cols + i % cols];
  return Case{AffineGather<T>{.words = w.words,
                              .scales = w.scales,
                              .biases = w.biases,
                              .ids = ids,
                              .out = out,
                              .rows = rows,
                              .k = cols,
                              .format = f}}
      .expect("out", std::move(expected));
}
constexpr auto rounding = tolerance(1e-6, 1e-3, 8e-3);
}  // namespace

void register_affine(Registry& r) {
  for (const u32 bits : {2u, 3u, 4u, 5u, 6u, 8u}) {
    const auto f = format_of(bits);
    const auto width = "int" + std::to_string(bits), group = std::to_string(f.group);
    const auto types = dtypes<f32, f16, bf16>;
    auto q = r.kernel<AffineQuantize>("affine_quantize_" + width, "quant", types, [f](auto& k) { k.format = f; });
    q.doc(width + " codes, scales and biases of groups of " + group + ", quantised against the stored scale and bias.");
    q.test("several rows, a group without range", exact_match,
           [f]<class T>(Gen& g) { return quantised<T>(g, f, 3, 192); });
    q.bench("1024 x 1024", [f]<class T>(Gen& g) { return quantised<T>(g, f, 1024, 1024); });

    auto d = r.kernel<AffineDequantize>("affine_dequantize_" + width, "quant", types, [f](auto& k) { k.format = f; });
    d.doc(width + " codes to T: scale * q + bias with one rounding to f32 and one to T; groups of " + group + ".");
    d.test("several rows", rounding, [f]<class T>(Gen& g) { return dequantised<T>(g, f, 5, 192); });
    d.bench("2048 x 2048", [f]<class T>(Gen& g) { return dequantised<T>(g, f, 2048, 2048); });

    auto e = r.kernel<AffineGather>("dequant_gather_" + width, "quant", types, [f](auto& k) { k.format = f; });
    e.doc("Rows of a table of " + width + " codes by id (embedding), groups of " + group +
          "; zeros for an id that is no row.");
    e.test("ids outside, last row", rounding, [f]<class T>(Gen& g) { return gathered<T>(g, f, 6, 9, 192, true); });
    e.bench("256 of 4096 x 1024", [f]<class T>(Gen& g) { return gathered<T>(g, f, 256, 4096, 1024, false); });
  }
}

}  // namespace iron::kernels
