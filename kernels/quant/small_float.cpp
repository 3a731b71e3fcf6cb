// Small floats: a round trip of blocks of 32, and products with weights kept so.
#include "quant/small_float.h"

#include "gemm/tile_gemm.h"
#include "iron/library.h"
#include "quant/affine_case.h"
#include "registry.h"

namespace iron::kernels {

// out[i] = s * decode(encode(x[i] / s)), s = largest magnitude of its 32 / largest number of the format, 1 for zeros
// x, out: f32 [n], n a multiple of 32: one simdgroup a block.
struct SmallFloatQuantDequant {
  static constexpr Mode mode = Mode::Threadgroup;

  In<f32> x;
  Out<f32> out;
  SmallFloat type = SmallFloat::e4m3;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size() / 32)}, Threads{32}}; }

  void operator()() const {
    const auto i = threadgroup_id() * 32 + lane_id();
    const auto v = x[i];
    const auto scale = small_float_scale(type, simd_max(abs(v)));
    out[i] = decode_small_float(type, encode_small_float(type, v / scale)) * scale;
  }
};

struct SmallFloatWeights {
  SmallFloat type = SmallFloat::e2m1;
  static constexpr u32 block = 32;  ///< elements that share a scale
  u32 bits() const { return format_of(type).bits; }
};

// out[m, n] = sum_k T(scales[n, k / 32] * decode(code[n, k])) * x[m, k]
// w: codes [N, K], scales: [N, K / 32], x: [M, K], out: [M, N]; any M and N, K a multiple of 32; sums in f32.
template <class T>
struct SmallFloatQmmTile {
  static constexpr Mode mode = Mode::SimdGroup2D;

  In<u32> w;
  In<T> scales, x;
  Out<T> out;
  Scalar<u32> m, n, k;
  SmallFloatWeights format;
  GemmSpec spec{.bm = 32, .bn = 32, .bk = 32};

  Grid grid() const { return spec.grid(m.value(), n.value()); }

  void operator()() const {
    const auto m0 = threadgroup_id(Axis::y) * spec.bm, n0 = threadgroup_id(Axis::x) * spec.bn;
    const Val<Index> depth(k), rows(n);
    const u32 per_word = 32 / format.bits();
    GemmTile<T> tile(spec, true);
    tile.sum.zero();
    tile.multiply(0, depth, block_rows(x, m0, m, depth), [&](auto at, auto col, auto inside) {
      const auto row = min(n0 + col, rows - 1), term = min(at, depth - 1);
      const auto code = row * depth + term;
      const auto bits = w[code / per_word] >> cast<u32>(code % per_word * format.bits());
      const auto v =
          decode_small_float(format.type, bits) * cast<f32>(scales[row * (depth / format.block) + term / format.block]);
      return cast<T>(select(inside && n0 + col < rows, v, constant<f32>(0.0f)));
    });
    tile.sum.store(Block(out, m0 * rows + n0, rows), valid(m, m0, spec.bm), valid(rows, n0, spec.bn));
  }
};

namespace {
std::string name_of(SmallFloat type) {
  return type == SmallFloat::e2m1 ? "fp4" : type == SmallFloat::e4m3 ? "fp8_e4m3" : "fp8_e5m2";
}

// Values at codes, between codes, on ties, of every magnitude down to zero.
Case round_trip(Gen& g, SmallFloat type, u32 blocks) {
  const auto f = format_of(type);
  auto x = g.values<f32>(u64{blocks} * 32);
  for (u64 b = 0; b < blocks; ++b) {
    if (b % 5 == 3)
      for (u64 i = 0; i < 32; ++i) x[b * 32 + i] = i % 2 ? -0.0f : 0.0f;
    if (b % 5 == 1) {  // the scale is 1: codes and the middles between them
      x[b * 32] = static_cast<f32>(f.largest);
      for (u32 i = 1; i < 32; ++i) {
        const u32 code = static_cast<u32>((b * 31 + i * 3) % f.largest_code);
        const f64 low = small_float_value(type, code), high = small_float_value(type, code + 1);
        x[b * 32 + i] = static_cast<f32>((i % 2 ? low : 0.5 * (low + high)) * (i % 3 ? 1 : -1));
      }
    }
    if (b % 5 == 2)
      for (u64 i = 0; i < 32; ++i) x[b * 32 + i] *= static_cast<f32>(std::ldexp(1.0, -static_cast<int>(i)));
  }
  const auto out = g.output<f32>(x.size());
  std::vector<f32> want;
  for (u64 i = 0; i < x.size(); ++i) {
    f32 amax = 0;
    for (u64 j = i / 32 * 32; j < i / 32 * 32 + 32; ++j) amax = std::max(amax, std::fabs(x[j]));
    const f32 scale = amax == 0 ? 1.0f : amax / static_cast<f32>(f.largest);
    want.push_back(static_cast<f32>(small_float_value(type, small_float_code(type, f64{x[i] / scale}))) * scale);
  }
  return Case{SmallFloatQuantDequant{.x = x, .out = out, .type = type}}.expect_exact("out", want);
}

template <class T>
Case product(Gen& g, SmallFloatWeights format, u32 m, u32 n, u32 k, GemmSpec spec) {
  const auto f = format_of(format.type);
  const u32 per_word = 32 / f.bits;
  std::vector<u32> codes;
  for (u64 i = 0; i < u64{n} * k; ++i)
    codes.push_back(static_cast<u32>(g.next() % (f.largest_code + 1)) | static_cast<u32>(g.next() % 2) << (f.bits - 1));
  const auto w = g.from<u32>(
      [&](u64 i) {
        u32 word = 0;
        for (u32 j = 0; j < per_word; ++j) word |= codes[i * per_word + j] << (j * f.bits);
        return word;
      },
      codes.size() / per_word);
  const auto scales = g.uniform<T>(0.1 / f.largest, 1.0 / f.largest, n, k / 32);
  const auto x = g.values<T>(m, k);
  const auto out = g.output<T>(m, n);
  std::vector<f64> weights;
  for (u64 i = 0; i < codes.size(); ++i)
    weights.push_back(small_float_value(format.type, codes[i]) * scales.at(i / 32));
  return Case{SmallFloatQmmTile<T>{
                  .w = w, .scales = scales, .x = x, .out = out, .m = m, .n = n, .k = k, .format = format, .spec = spec}}
      .expect("out", affine_product(weights, x, m, n, k))
      .computes(2.0 * m * n * k);
}
void add(Registry& r, const std::string& name, SmallFloat type, GemmSpec spec) {
  const SmallFloatWeights format{type};
  auto k = r.kernel<SmallFloatQmmTile>(name, "quant", dtypes<f32, f16, bf16>,
                                       [=](auto& q) { q.format = format, q.spec = spec; });
  k.doc("x [M,K] * W^T of " + name_of(type) + " codes [N,K] with a scale for each 32, in tiles of " +
        std::to_string(spec.bm) + " x " + std::to_string(spec.bn) + " x " + std::to_string(spec.bk) + ".");
  k.determinism("bitwise in software; a device's matrix unit sums in its own order");
  k.test("rows and columns ragged", affine_limit,
         [=]<class T>(Gen& g) { return product<T>(g, format, spec.bm + 1, 35, 96, spec); });
  k.test("one row, one block", affine_limit, [=]<class T>(Gen& g) { return product<T>(g, format, 1, 3, 32, spec); });
  k.bench("128 x 1024 x 1024", [=]<class T>(Gen& g) { return product<T>(g, format, 128, 1024, 1024, spec); });
}
}  // namespace

void register_small_floats(Registry& r) {
  for (const SmallFloat type : {SmallFloat::e2m1, SmallFloat::e4m3, SmallFloat::e5m2}) {
    auto k = r.kernel<SmallFloatQuantDequant, f32>(name_of(type) + "_quant_dequant", "quant",
                                                   [type](SmallFloatQuantDequant& q) { q.type = type; });
    k.doc("Round trip of blocks of 32 through " + name_of(type) + " codes with a scale a block.");
    k.test("codes, ties, zeros, many magnitudes", exact_match,
           [type]<class T>(Gen& g) { return round_trip(g, type, 23); });
    k.bench("1 Mi elements", [type]<class T>(Gen& g) { return round_trip(g, type, 1 << 15); });
  }
  add(r, "fp4_qmm_mma", SmallFloat::e2m1, {.bm = 32, .bn = 32, .bk = 32});
  add(r, "fp8_e4m3_qmm_mma", SmallFloat::e4m3, {.bm = 32, .bn = 32, .bk = 32});
  add(r, "fp_qmm_nax", SmallFloat::e2m1, {.bm = 16, .bn = 32, .bk = 16, .simdgroups = 1});
}

}  // namespace iron::kernels
