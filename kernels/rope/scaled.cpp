// Rotary embedding of models whose context was extended, and of images: Llama 3 bands, YaRN, two axes.
#include <algorithm>
#include <numbers>

#include "registry.h"
#include "rope/oracle.h"
#include "rope/rope.h"
#include "specials.h"

namespace iron::kernels {
namespace {

// x: [tokens, row_stride] with its heads first in a row, as in a joint projection; out: [tokens, heads, head_dim];
// pairs (i, i + D/2).
// Positions: positions[t], or position + t where there are none. Frequencies banded as in Llama 3.1, high > low.
template <class T>
struct RopeLlama {
  static constexpr Mode mode = Mode::Grid3D;
  In<T> x;
  Optional<In<u32>> positions;
  Out<T> out;
  Scalar<u32> tokens, heads, head_dim, row_stride, position;
  Scalar<f32> log2_base, scale, low, high, original;

  Grid grid() const { return rope_grid(head_dim.value() / 2, heads.value(), tokens.value()); }

  void operator()() const {
    const auto pair = grid_position(Axis::x), head = grid_position(Axis::y), token = grid_position(Axis::z);
    const auto half = cast<Index>(head_dim / 2u);
    if_((pair < half) & (head < heads) & (token < tokens)) {
      const Val<u32> p = positions ? (*positions)[token] : position + cast<u32>(token);
      const Val<f32> frequency = llama_frequency(rope_frequency(pair, half, log2_base), {scale, low, high, original});
      const Val<Index> from = token * row_stride + head * head_dim + pair;
      const Val<Index> to = (token * heads + head) * head_dim + pair;
      const auto turned = turn(cast<f32>(x[from]), cast<f32>(x[from + half]), cast<f32>(p) * frequency);
      const Val<T> first = cast<T>(turned.a), second = cast<T>(turned.b);
      out[to] = first;
      out[to + half] = second;
    }
  }
};

// x, out: [heads, head_dim] of one token at `position`; pairs (i, i + D/2). Frequency i is divided by `factor` as far
// as ramp(i) = clamp((i - low) / (high - low), 0, 1) says; low and high count pairs. Results times `attention` (YaRN,
// Peng et al. 2023).
template <class T>
struct RopeYarn {
  static constexpr Mode mode = Mode::Grid3D;
  In<T> x;
  Out<T> out;
  Scalar<u32> heads, head_dim, position;
  Scalar<f32> log2_base, factor, low, high, attention;

  Grid grid() const { return rope_grid(head_dim.value() / 2, heads.value(), 1); }

  void operator()() const {
    const auto pair = grid_position(Axis::x), head = grid_position(Axis::y);
    const auto half = cast<Index>(head_dim / 2u);
    if_((pair < half) & (head < heads)) {
      const Val<f32> frequency = rope_frequency(pair, half, log2_base), index = cast<f32>(pair);
      const Val<f32> width = max(high - low, 1e-3f);  // a step where low == high
      const Val<f32> ramp = max(min((index - low) / width, 1.0f), 0.0f);
      const Val<f32> scaled = frequency * (1.0f - ramp) + frequency / factor * ramp;
      const Val<Index> row = head * head_dim;
      const auto turned = turn(cast<f32>(x[row + pair]), cast<f32>(x[row + pair + half]), cast<f32>(position) * scaled);
      const Val<T> first = cast<T>(turned.a * attention), second = cast<T>(turned.b * attention);
      out[row + pair] = first;
      out[row + pair + half] = second;
    }
  }
};

// x, out: [tokens, heads, head_dim], positions: [tokens, 2]. The first half of a head turns by the row, the second by
// the column; in each half the pairs are (i, i + D/4), the frequencies base^(-4i/D). head_dim is a multiple of 4.
template <class T>
struct Rope2d {
  static constexpr Mode mode = Mode::Grid3D;
  In<T> x;
  In<u32> positions;
  Out<T> out;
  Scalar<u32> tokens, heads, head_dim;
  Scalar<f32> log2_base;

  Grid grid() const { return rope_grid(head_dim.value() / 4, heads.value(), tokens.value()); }

  void operator()() const {
    const auto pair = grid_position(Axis::x), head = grid_position(Axis::y), token = grid_position(Axis::z);
    const auto quarter = cast<Index>(head_dim / 4u);
    if_((pair < quarter) & (head < heads) & (token < tokens)) {
      const Val<f32> frequency = rope_frequency(pair, quarter, log2_base);
      for (u32 axis = 0; axis < 2; ++axis) {
        const Val<f32> theta = cast<f32>(positions[token * 2u + axis]) * frequency;
        const Val<Index> a = (token * heads + head) * head_dim + quarter * (2u * axis) + pair, b = a + quarter;
        const auto turned = turn(cast<f32>(x[a]), cast<f32>(x[b]), theta);
        const Val<T> first = cast<T>(turned.a), second = cast<T>(turned.b);
        out[a] = first;
        out[b] = second;
      }
    }
  }
};

constexpr auto limit = tolerance(1e-3, 8e-3, 4e-2);
f32 log2_of(f64 base) { return static_cast<f32>(std::log2(base)); }

// A short original context, so that all three bands occur among few pairs.
template <class T>
Case llama(Gen& g, u32 tokens, u32 heads, u32 dim, u32 padding, bool many) {
  constexpr f64 base = 10000.0, scale = 8.0, low = 1.0, high = 4.0, original = 64.0;
  const u32 stride = heads * dim + padding;
  const auto x = g.values<T>(tokens, stride);
  const auto out = g.output<T>(tokens, heads, dim);
  const auto positions = g.integers<u32>(0, 400, tokens);
  constexpr u32 start = 201;
  std::vector<f64> want(out.size()), all(x.size());
  for (u64 t = 0; t < tokens; ++t)
    for (u64 h = 0; h < heads; ++h) {
      turn_row(x, all, t * stride + h * dim, dim, true, [&](u64 i) {
        const f64 f = std::pow(base, -2.0 * static_cast<f64>(i) / dim), wavelength = 2.0 * std::numbers::pi / f;
        const f64 s = (original / wavelength - low) / (high - low);
        const f64 banded = wavelength < original / high  ? f
                           : wavelength > original / low ? f / scale
                                                         : (1 - s) * f / scale + s * f;
        return (many ? positions.at(t) : static_cast<f64>(start + t)) * banded;
      });
      for (u64 i = 0; i < dim; ++i) want[(t * heads + h) * dim + i] = all[t * stride + h * dim + i];
    }
  RopeLlama<T> k{.x = x,
                 .positions = {},
                 .out = out,
                 .tokens = tokens,
                 .heads = heads,
                 .head_dim = dim,
                 .row_stride = stride,
                 .position = start,
                 .log2_base = log2_of(base),
                 .scale = f32{scale},
                 .low = f32{low},
                 .high = f32{high},
                 .original = f32{original}};
  if (many) k.positions = Optional<In<u32>>(positions);
  return Case{k}.expect("out", want);
}

template <class T>
Case yarn(Gen& g, u32 heads, u32 dim, f64 low, f64 high) {
  constexpr f64 base = 10000.0, factor = 4.0, attention = 1.25;
  const auto x = g.values<T>(heads, dim);
  const auto out = g.output<T>(heads, dim);
  constexpr u32 position = 333;
  std::vector<f64> want(x.size());
  for (u64 h = 0; h < heads; ++h)
    turn_row(
        x, want, h * dim, dim, true,
        [&](u64 i) {
          const f64 f = std::pow(base, -2.0 * static_cast<f64>(i) / dim), at = static_cast<f64>(i);
          const f64 ramp = at <= low ? 0.0 : at >= high ? 1.0 : (at - low) / (high - low);
          return position * (f + (f / factor - f) * ramp);
        },
        attention);
  return Case{RopeYarn<T>{.x = x,
                          .out = out,
                          .heads = heads,
                          .head_dim = dim,
                          .position = position,
                          .log2_base = log2_of(base),
                          .factor = f32{factor},
                          .low = static_cast<f32>(low),
                          .high = static_cast<f32>(high),
                          .attention = f32{attention}}}
      .expect("out", want);
}

template <class T>
Case two_axes(Gen& g, u32 tokens, u32 heads, u32 dim) {
  constexpr f64 base = 10000.0;
  const auto x = g.values<T>(tokens, heads, dim);
  const auto positions = g.integers<u32>(0, 60, tokens, 2);
  const auto out = g.output<T>(tokens, heads, dim);
  std::vector<f64> want(x.size());
  for (u64 t = 0; t < tokens; ++t)
    for (u64 h = 0; h < heads; ++h)
      for (u64 axis = 0; axis < 2; ++axis)
        turn_row(x, want, (t * heads + h) * dim + axis * (dim / 2), dim / 2, true,
                 [&](u64 i) { return positions.at(2 * t + axis) * std::pow(base, -4.0 * static_cast<f64>(i) / dim); });
  return Case{Rope2d<T>{.x = x,
                        .positions = positions,
                        .out = out,
                        .tokens = tokens,
                        .heads = heads,
                        .head_dim = dim,
                        .log2_base = log2_of(base)}}
      .expect("out", want);
}

}  // namespace

void register_rope_scaled(Registry& r) {
  constexpr auto types = dtypes<f32, f16, bf16>;
  auto one = r.kernel<RopeLlama>("rope_llama", "rope", types);
  one.doc("Rotary embedding with Llama 3 frequency bands; tokens at consecutive positions from a launch scalar.");
  one.test("all three bands", limit, []<class T>(Gen& g) { return llama<T>(g, 1, 3, 48, 0, false); });
  one.test("consecutive tokens", limit, []<class T>(Gen& g) { return llama<T>(g, 4, 5, 20, 0, false); });
  one.bench("1 token x 32 heads x 128", []<class T>(Gen& g) { return llama<T>(g, 1, 32, 128, 0, false); });

  auto many = r.kernel<RopeLlama>("rope_llama_many", "rope", types,
                                  []<class K>(K& k) { k.positions = decltype(k.positions)(BufferRef{}); });
  many.doc("Rotary embedding with Llama 3 frequency bands; each token at its own position, rows with a stride.");
  many.test("all three bands", limit, []<class T>(Gen& g) { return llama<T>(g, 3, 3, 48, 0, true); });
  many.test("padded rows", limit, []<class T>(Gen& g) { return llama<T>(g, 4, 3, 24, 10, true); });
  many.bench("256 tokens x 32 heads x 128", []<class T>(Gen& g) { return llama<T>(g, 256, 32, 128, 0, true); });

  auto y = r.kernel<RopeYarn>("rope_yarn", "rope", types);
  y.doc("Rotary embedding with YaRN's ramp of frequencies and its attention factor; one token.");
  y.test("ramp inside", limit, []<class T>(Gen& g) { return yarn<T>(g, 5, 48, 4.0, 17.0); });
  y.test("ramp of no width", limit, []<class T>(Gen& g) { return yarn<T>(g, 2, 40, 7.0, 7.0); });
  y.bench("32 heads x 128", []<class T>(Gen& g) { return yarn<T>(g, 32, 128, 16.0, 40.0); });

  auto two = r.kernel<Rope2d>("rope_2d", "rope", types);
  two.doc("Rotary embedding of image patches: half of a head turns by the row, half by the column.");
  two.test("ragged", limit, []<class T>(Gen& g) { return two_axes<T>(g, 5, 3, 40); });
  two.bench("1024 patches x 16 heads x 64", []<class T>(Gen& g) { return two_axes<T>(g, 1024, 16, 64); });
}

}  // namespace iron::kernels
