// A norm and the affine-quantised product that follows it in one launch: every threadgroup computes the norm again,
// which costs less than a launch and a trip through memory.
#include <fmt/format.h>

#include "iron/library.h"
#include "norm/inverse_rms.h"
#include "quant/affine_case.h"
#include "quant/qmv.h"
#include "registry.h"

namespace iron::kernels {

// out[n] = sum_k w[n, k] * (x[k] * rsqrt(mean x^2 + eps) * norm_weight[k])
// x, norm_weight: [K], w: codes [N, K], scales, biases: [N, K / G], out: [N]; the normed row stays in f32.
template <class T>
struct RmsNormQgemv {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x, norm_weight;
  In<u32> w;
  In<T> scales, biases;
  Out<T> out;
  Scalar<u32> n, k;
  Scalar<f32> eps;
  QmvSpec spec;

  Grid grid() const {
    const u32 rows = spec.rows_a_group();
    return {Threadgroups{(n.value() + rows - 1) / rows}, Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const auto scale = row_inverse_rms(k, eps, [&](const Val<Index>& i) { return cast<f32>(x[i]); });
    const Val<Index> rows(n);
    const auto n0 = (threadgroup_id() * spec.simdgroups + simdgroup_id()) * spec.rows;
    Vars<f32> sums(spec.rows, 0.0f);
    affine_dots<T>(
        spec, w, scales, biases, k, [&](u32 r) { return min(n0 + r, rows - 1); },
        [&](u32, const Val<Index>& first, u32 j) {
          return cast<f32>(x[first + j]) * scale * cast<f32>(norm_weight[first + j]);
        },
        sums);
    for (u32 r = 0; r < spec.rows; ++r) {
      const auto total = simd_sum(sums[r]);
      if_(lane_id() == 0 && n0 + r < rows) { out[n0 + r] = cast<T>(total); }
    }
  }
};

/// Elements of f32 that a threadgroup may stage: 32 KiB.
constexpr u32 most_staged = 8192;

// out[n] = sum_h sum_d w[n, h * D + d] * (y[h, d] * rsqrt(mean_d y[h, d]^2 + eps) * norm_weight[d] * silu(z[h, d]))
// y: f32 [heads, D], z: [heads, D], norm_weight: [D], w: codes [N, heads * D], out: [N]
// Heads are normed by the simdgroups in turn into threadgroup memory, which bounds heads * D.
template <class T>
struct GatedRmsNormQgemv {
  static constexpr Mode mode = Mode::Threadgroup;

  In<f32> y;
  In<T> z, norm_weight;
  In<u32> w;
  In<T> scales, biases;
  Out<T> out;
  Scalar<u32> n;
  Scalar<f32> eps;
  u32 heads = 4, head_dim = 128;
  QmvSpec spec = {.format = {.bits = 4, .group = 64}};

  Grid grid() const {
    const u32 rows = spec.rows_a_group();
    return {Threadgroups{(n.value() + rows - 1) / rows}, Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const u32 width = heads * head_dim;
    if (width > most_staged)
      throw Error(
          "LIB05",
          fmt::format("{} heads of {} are more than the {} elements that can be staged", heads, head_dim, most_staged),
          "use gated_rmsnorm and qmv, two launches");
    const Shared<f32> staged(width);
    for (auto head : range(simdgroup_id(), heads, spec.simdgroups)) {
      Var<f32> squares{0.0f};
      for (u32 d = 0; d < head_dim; d += 32) {
        const auto v = y[head * head_dim + d + lane_id()];
        squares += v * v;
      }
      const auto scale = rsqrt(simd_sum(squares) / static_cast<f32>(head_dim) + eps);
      for (u32 d = 0; d < head_dim; d += 32) {
        const auto place = lane_id() + d, at = head * head_dim + place;
        const auto v = y[at] * scale * cast<f32>(norm_weight[place]) * silu(cast<f32>(z[at]));
        staged[at] = v;
      }
    }
    barrier();
    const Val<Index> rows(n);
    const auto n0 = (threadgroup_id() * spec.simdgroups + simdgroup_id()) * spec.rows;
    Vars<f32> sums(spec.rows, 0.0f);
    affine_dots<T>(
        spec, w, scales, biases, width, [&](u32 r) { return min(n0 + r, rows - 1); },
        [&](u32, const Val<Index>& first, u32 j) { return Val<f32>(staged[first + j]); }, sums);
    for (u32 r = 0; r < spec.rows; ++r) {
      const auto total = simd_sum(sums[r]);
      if_(lane_id() == 0 && n0 + r < rows) { out[n0 + r] = cast<T>(total); }
    }
  }
};

namespace {
constexpr f32 eps = 1e-3f;
constexpr auto types = dtypes<f32, f16, bf16>;

std::vector<f64> matrix_vector(const std::vector<f64>& w, const std::vector<f64>& x, u64 n) {
  std::vector<f64> out(n);
  for (u64 r = 0; r < n; ++r)
    for (u64 i = 0; i < x.size(); ++i) out[r] += w[r * x.size() + i] * x[i];
  return out;
}

template <class T>
Case normed(Gen& g, u32 n, u32 k, QmvSpec spec) {
  const auto x = g.normal<T>(0.3, k), weight = g.values<T>(k);
  const auto w = packed_matrix<T>(g, spec.format.bits, spec.format.group, n, k);
  const auto out = g.output<T>(n);
  f64 squares = 0;
  for (u64 i = 0; i < k; ++i) squares += x.at(i) * x.at(i);
  std::vector<f64> row;
  for (u64 i = 0; i < k; ++i) row.push_back(x.at(i) / std::sqrt(squares / k + f64{eps}) * weight.at(i));
  return Case{RmsNormQgemv<T>{.x = x,
                              .norm_weight = weight,
                              .w = w.words,
                              .scales = w.scales,
                              .biases = w.biases,
                              .out = out,
                              .n = n,
                              .k = k,
                              .eps = eps,
                              .spec = spec}}
      .expect("out", matrix_vector(w.values, row, n))
      .computes(2.0 * n * k + 4.0 * k);
}
template <class T>
Case gated(Gen& g, u32 n, u32 heads, u32 dim) {
  const u64 k = u64{heads} * dim;
  const auto y = g.normal<f32>(0.3, heads, dim);
  const auto z = g.normal<T>(2.0, heads, dim), weight = g.values<T>(dim);
  const auto w = packed_matrix<T>(g, 4, 64, n, k);
  const auto out = g.output<T>(n);
  std::vector<f64> row;
  for (u64 h = 0; h < heads; ++h) {
    f64 squares = 0;
    for (u64 d = 0; d < dim; ++d) squares += y.at(h * dim + d) * y.at(h * dim + d);
    for (u64 d = 0; d < dim; ++d) {
      const f64 gate = z.at(h * dim + d);
      row.push_back(y.at(h * dim + d) / std::sqrt(squares / dim + f64{eps}) * weight.at(d) * gate /
                    (1.0 + std::exp(-gate)));
    }
  }
  return Case{GatedRmsNormQgemv<T>{.y = y,
                                   .z = z,
                                   .norm_weight = weight,
                                   .w = w.words,
                                   .scales = w.scales,
                                   .biases = w.biases,
                                   .out = out,
                                   .n = n,
                                   .eps = eps,
                                   .heads = heads,
                                   .head_dim = dim}}
      .expect("out", matrix_vector(w.values, row, n))
      .computes(2.0 * n * static_cast<f64>(k));
}

void add(Registry& r, const std::string& name, QmvSpec spec, const std::string& how) {
  auto k = r.kernel<RmsNormQgemv>(name, "quant", types, [spec](auto& x) { x.spec = spec; });
  k.doc("RMS norm of a row, then its product with int" + std::to_string(spec.format.bits) + " codes [N,K]; " + how +
        ".");
  const u32 step = 32 * spec.per_lane, group = spec.format.group;
  k.test("rows ragged, one step and a part", affine_limit,
         [=]<class T>(Gen& g) { return normed<T>(g, spec.rows_a_group() + 3, (step + group) / group * group, spec); });
  k.test("one row, one group", affine_limit, [=]<class T>(Gen& g) { return normed<T>(g, 1, group, spec); });
  k.bench("2048 x 2048", [=]<class T>(Gen& g) { return normed<T>(g, 2048, 2048, spec); });
}
}  // namespace

void register_norm_qgemv(Registry& r) {
  add(r, "rms_norm_qgemv", {.format = {.bits = 4, .group = 32}, .per_lane = 8, .rows = 1, .simdgroups = 4},
      "a row a simdgroup, 4 a threadgroup");
  add(r, "rms_norm_qgemv_fast", {.format = {.bits = 4, .group = 64}, .per_lane = 16},
      "8 rows a threadgroup, 16 codes a lane");
  add(r, "rms_norm_qgemv_int8_fast", {.format = {.bits = 8, .group = 64}, .per_lane = 4},
      "8 rows a threadgroup, 4 codes a lane");

  auto k = r.kernel<GatedRmsNormQgemv>("gated_rms_norm_qgemv_int4_fast", "quant", types);
  k.doc("RMS norm of each head times silu of a gate, then the product with int4 codes [N, heads * D].");
  k.test("heads ragged over the simdgroups", affine_limit, []<class T>(Gen& g) { return gated<T>(g, 11, 3, 64); });
  k.test("a head", affine_limit, []<class T>(Gen& g) { return gated<T>(g, 3, 1, 128); });
  k.bench("2048 of 16 heads of 128", []<class T>(Gen& g) { return gated<T>(g, 2048, 16, 128); });
}

}  // namespace iron::kernels
