// Products of decoded weights, term by term: dequant_gemv, also with a matrix chosen by a stack's index.
#include "iron/dsl.h"
#include "iron/library.h"
#include "iron/variants.h"
#include "quant/affine_case.h"
#include "quant/decode.h"
#include "registry.h"

namespace iron::kernels {

struct DequantGemvSpec {
  AffineFormat format;
  u32 rows = 1, simdgroups = 4;  ///< rows a simdgroup, simdgroups a threadgroup
};

// out[n] = sum_k fma(q[n, k], scales[n, k / G], biases[n, k / G]) * x[k], each weight rounded as affine_dequantize does
// before T, so that the sum is that of the decoded matrix. w: codes [N, K], scales, biases: [N, K / G], x: [K], out:
// [N] expert: u32 [1], which matrix of a stack [E, N, K] is meant; an id that is none reads nothing and gives zeros.
template <class T>
struct DequantGemv {
  static constexpr Mode mode = Mode::Threadgroup;

  In<u32> w;
  In<T> scales, biases, x;
  Out<T> out;
  Scalar<u32> n, k;
  Optional<In<u32>> expert = {};
  DequantGemvSpec spec = {};

  Grid grid() const {
    const u32 rows = spec.rows * spec.simdgroups;
    return {Threadgroups{(n.value() + rows - 1) / rows}, Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const AffineFormat f = spec.format;
    const u32 chunk = f.chunk();
    const Val<Index> rows(n), depth(k);
    const auto n0 = (threadgroup_id() * spec.simdgroups + simdgroup_id()) * spec.rows;
    Vars<f32> sums(spec.rows, 0.0f);
    const auto add = [&](const Val<Index>& first_row) {
      for (auto step : range(lane_id(), depth / chunk, 32)) {
        const auto first = step * chunk;
        std::vector<Val<f32>> inputs;
        for (u32 j = 0; j < chunk; ++j) inputs.push_back(cast<f32>(x[first + j]));
        for (u32 r = 0; r < spec.rows; ++r) {
          const auto row = first_row + min(n0 + r, rows - 1);
          const auto group = row * (depth / f.group) + first / f.group;
          const auto scale = cast<f32>(scales[group]), bias = cast<f32>(biases[group]);
          const auto codes = read_codes(w, row * (depth / 32 * f.bits) + step * f.words(chunk), chunk, f.bits);
          std::vector<Val<f32>> sum{sums[r]};
          for (u32 j = 0; j < chunk; ++j)
            sum.push_back(fma(affine_value(codes[j], scale, bias), inputs[j], sum.back()));
          sums[r] = sum.back();
        }
      }
    };
    if (expert) {
      const Val<Index> id((*expert)[0]), matrices = scales.length() / (rows * (depth / f.group));
      if_(id < matrices) { add(id * rows); }
    } else {
      add(Val<Index>(constant<Index>(0)));
    }
    for (u32 r = 0; r < spec.rows; ++r) {
      const auto total = simd_sum(sums[r]);
      if_(lane_id() == 0 && n0 + r < rows) { out[n0 + r] = cast<T>(total); }
    }
  }
};

namespace {
// id: of the matrix in a stack of `matrices`; none without a stack.
template <class T>
Case product(Gen& g, DequantGemvSpec spec, u32 n, u32 k, u32 matrices = 1, std::optional<u32> id = {}) {
  const auto w = packed_matrix<T>(g, spec.format.bits, spec.format.group, u64{matrices} * n, k);
  const auto x = g.values<T>(k);
  const auto out = g.output<T>(n);
  std::vector<f64> want(n);
  const u64 first = u64{id.value_or(0)} * n;
  if (!id || *id < matrices)
    for (u64 r = 0; r < n; ++r)
      for (u64 i = 0; i < k; ++i) want[r] += w.values[(first + r) * k + i] * x.at(i);
  DequantGemv<T> kernel{
      .w = w.words, .scales = w.scales, .biases = w.biases, .x = x, .out = out, .n = n, .k = k, .spec = spec};
  const auto ids = g.from<u32>([&](u64) { return id.value_or(0); }, 1);
  if (id) kernel.expert = In<u32>(ids);
  return Case{kernel}
      .expect("out", std::move(want))
      .computes(2.0 * n * k)
      .moves(u64{n} * k * spec.format.bits / 8 + 2 * sizeof(T) * u64{n} * k / spec.format.group + sizeof(T) * (n + k));
}
// Straddling widths are packed in groups of 32.
DequantGemvSpec spec_of(u32 bits) { return {.format = {.bits = bits, .group = 32 % bits == 0 ? 64u : 32u}}; }
constexpr auto types = dtypes<f32, f16, bf16>;
}  // namespace

void register_dequant_gemv(Registry& r) {
  const auto add = [&](const std::string& name, DequantGemvSpec spec, const std::string& doc) {
    auto k = r.kernel<DequantGemv>(name, "quant", types, [spec](auto& x) { x.spec = spec; });
    k.doc(doc);
    k.test("rows ragged, the last step a part of the lanes", affine_limit,
           [spec]<class T>(Gen& g) { return product<T>(g, spec, 19, 40 * spec.format.group); });
    k.test("one row, one group", affine_limit,
           [spec]<class T>(Gen& g) { return product<T>(g, spec, 1, spec.format.group); });
    k.bench("2048 x 2048", [spec]<class T>(Gen& g) { return product<T>(g, spec, 2048, 2048); });
  };
  for (const auto& v : variants({{"BITS", {2u, 3u, 4u, 5u, 6u, 8u}}}))
    add(v.text("dequant_gemv_int{BITS}"), spec_of(v["BITS"]),
        v.text("Matrix of int{BITS} codes [N,K], decoded, times a vector; a row a simdgroup, 4 a threadgroup."));
  add("dequant_gemv_int4_fast", {.format = {.bits = 4, .group = 64}, .rows = 4, .simdgroups = 2},
      "Matrix of int4 codes [N,K], decoded, times a vector; 4 rows a simdgroup share what they read of it.");

  auto e = r.kernel<DequantGemv>("dequant_gemv_int4_expert_indexed", "quant", types, [](auto& x) {
    x.spec = spec_of(4);
    x.expert = In<u32>(BufferRef{});
  });
  e.doc("As dequant_gemv_int4 with a matrix of a stack [E,N,K] by an index from a buffer; zeros for one that is none.");
  e.test("last of a stack", affine_limit, []<class T>(Gen& g) { return product<T>(g, spec_of(4), 13, 192, 3, 2); });
  e.test("first of a stack", affine_limit, []<class T>(Gen& g) { return product<T>(g, spec_of(4), 5, 64, 2, 0); });
  e.test("no matrix of the stack: zeros", exact_match,
         []<class T>(Gen& g) { return product<T>(g, spec_of(4), 6, 64, 2, 2); });
  e.bench("one of 8 of 1024 x 1024", []<class T>(Gen& g) { return product<T>(g, spec_of(4), 1024, 1024, 8, 5); });
}

}  // namespace iron::kernels
