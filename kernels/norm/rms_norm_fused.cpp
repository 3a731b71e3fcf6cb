// RMS norm beyond the plain wide form: register rows, residual, add, gate, and the scalar that fused kernels use.
#include "iron/library.h"
#include "norm/norm.h"

namespace iron::kernels {

namespace {

constexpr f32 eps = 1e-3f;  // large enough to show in the result of the test data
constexpr auto limit = tolerance(1e-5, 2e-3, 1.6e-2);

// scale[r] = 1 / sqrt(sum_p partial[r, p] / n + eps)        partial: f32 [rows, parts] sums of squares, scale: [rows]
// The second step of a norm whose sums of squares come from another kernel; a thread a row, parts in ascending order.
template <class T>
struct RmsInvScalar {
  In<f32> partial_ssq;
  Out<T> scale;
  Scalar<u32> parts, n;
  Scalar<f32> eps;

  void operator()() const {
    const auto row = grid_thread_id();
    Var<f32> sum{0.0f};
    for (auto p : range(parts)) sum += partial_ssq[row * parts + p];
    scale[row] = cast<T>(rsqrt(sum / cast<f32>(n) + eps));
  }
};

// 1 / rms of row r of n values.
template <class A>
f64 inverse_rms(const A& value, u64 n) {
  f64 sum = 0;
  for (u64 i = 0; i < n; ++i) sum += value(i) * value(i);
  return 1.0 / std::sqrt(sum / static_cast<f64>(n) + f64{eps});
}
template <class A>
std::vector<f64> normed(const A& value, u64 rows, u64 n) {
  std::vector<f64> y(rows * n);
  for (u64 r = 0; r < rows; ++r) {
    const auto in_row = [&](u64 i) { return value(r * n + i); };
    const f64 scale = inverse_rms(in_row, n);
    for (u64 i = 0; i < n; ++i) y[r * n + i] = in_row(i) * scale;
  }
  return y;
}
f64 silu_of(f64 z) { return z / (1.0 + std::exp(-z)); }

template <class T>
Case plain(Gen& g, u32 rows, u32 n, u32 per_thread) {
  const auto x = g.normal<T>(0.3, rows, n), w = g.values<T>(n);
  const auto y = g.output<T>(rows, n);
  auto want = normed([&](u64 i) { return x.at(i); }, rows, n);
  for (u64 i = 0; i < want.size(); ++i) want[i] *= w.at(i % n);
  return Case{RmsNormRows<T>{.x = x, .weight = w, .y = y, .n = n, .eps = eps, .per_thread = per_thread}}.expect(
      "y", std::move(want));
}
template <class T>
Case with_residual(Gen& g, u32 rows, u32 n) {
  const auto x = g.normal<T>(0.3, rows, n), residual = g.values<T>(rows, n), w = g.values<T>(n);
  const auto y = g.output<T>(rows, n);
  auto want = normed([&](u64 i) { return x.at(i); }, rows, n);
  for (u64 i = 0; i < want.size(); ++i) want[i] = residual.at(i) + want[i] * w.at(i % n);
  return Case{RmsNormResidual<T>{.x = x, .residual = residual, .weight = w, .y = y, .n = n, .eps = eps}}.expect(
      "y", std::move(want));
}
template <class T>
Case added(Gen& g, u32 rows, u32 n) {
  const auto a = g.normal<T>(0.3, rows, n), b = g.normal<T>(0.2, rows, n), w = g.values<T>(n);
  const auto sum = g.output<T>(rows, n), y = g.output<T>(rows, n);
  std::vector<T> rounded(a.size());
  for (u64 i = 0; i < rounded.size(); ++i) rounded[i] = T(static_cast<f32>(a[i]) + static_cast<f32>(b[i]));
  auto want = normed([&](u64 i) { return static_cast<f64>(rounded[i]); }, rows, n);
  for (u64 i = 0; i < want.size(); ++i) want[i] *= w.at(i % n);
  Case c{AddRmsNorm<T>{.a = a, .b = b, .weight = w, .residual_out = sum, .normed_out = y, .n = n, .eps = eps}};
  return c.expect_exact("residual_out", rounded).expect("normed_out", std::move(want));
}
template <template <class> class K, class T>
Case gated(Gen& g, u32 rows, u32 n) {
  const auto y = g.normal<f32>(0.3, rows, n);
  const auto z = g.normal<T>(2.0, rows, n), w = g.values<T>(n);
  const auto out = g.output<T>(rows, n);
  auto want = normed([&](u64 i) { return y.at(i); }, rows, n);
  for (u64 i = 0; i < want.size(); ++i) want[i] *= w.at(i % n) * silu_of(z.at(i));
  return Case{K<T>{.y = y, .z = z, .weight = w, .out = out, .n = n, .eps = eps}}.expect("out", std::move(want));
}
template <class T>
Case scalars(Gen& g, u32 rows, u32 parts, u32 n) {
  const auto ssq = g.uniform<f32>(0.0, 2.0 * n / parts, rows, parts);
  const auto scale = g.output<T>(rows);
  std::vector<f64> want(rows);
  for (u64 r = 0; r < rows; ++r) {
    f64 sum = 0;
    for (u64 p = 0; p < parts; ++p) sum += ssq.at(r * parts + p);
    want[r] = 1.0 / std::sqrt(sum / n + f64{eps});
  }
  return Case{RmsInvScalar<T>{.partial_ssq = ssq, .scale = scale, .parts = parts, .n = n, .eps = eps}}.expect(
      "scale", std::move(want));
}

}  // namespace

void register_rms_norm_fused(Registry& r) {
  constexpr auto all = dtypes<f32, f16, bf16>;
  constexpr f64 mega = 1024.0 * 1024.0;

  auto rows4 = r.kernel<RmsNormRows>("rms_norm", "norm", all);
  rows4.doc("RMS norm of rows [rows, n], 4 elements a thread in registers; n a multiple of 128 up to 4096.");
  rows4.shapes("x, y: [..., n]; weight: [n]");
  rows4.test("one simdgroup a row", limit, []<class T>(Gen& g) { return plain<T>(g, 5, 128, 4); });
  rows4.test("three simdgroups a row", limit, []<class T>(Gen& g) { return plain<T>(g, 3, 384, 4); });
  rows4.test("longest row", limit, []<class T>(Gen& g) { return plain<T>(g, 2, 4096, 4); });
  rows4.bench("1024 x 1024", []<class T>(Gen& g) { return plain<T>(g, 1024, 1024, 4).computes(4.0 * mega); });

  auto small = r.kernel<RmsNormRows>("rms_norm_small", "norm", all, [](auto& k) { k.per_thread = 2; });
  small.doc("RMS norm of short rows [rows, n], 2 elements a thread in registers; n a multiple of 64 up to 2048.");
  small.shapes("x, y: [..., n]; weight: [n]");
  small.test("one simdgroup a row", limit, []<class T>(Gen& g) { return plain<T>(g, 5, 64, 2); });
  small.test("five simdgroups a row", limit, []<class T>(Gen& g) { return plain<T>(g, 3, 320, 2); });
  small.bench("16384 x 64", []<class T>(Gen& g) { return plain<T>(g, 16384, 64, 2).computes(4.0 * mega); });

  auto held = r.kernel<RmsNormRows>("rms_norm_registers", "norm", all, [](auto& k) { k.per_thread = 32; });
  held.doc("RMS norm of long rows [rows, n], 32 elements a thread in registers; n a multiple of 1024 up to 32768.");
  held.shapes("x, y: [..., n]; weight: [n]");
  held.test("eight simdgroups a row", limit, []<class T>(Gen& g) { return plain<T>(g, 2, 8192, 32); });
  held.test("one simdgroup a row", limit, []<class T>(Gen& g) { return plain<T>(g, 3, 1024, 32); });
  held.test("longest row", limit, []<class T>(Gen& g) { return plain<T>(g, 1, 32768, 32); });
  held.bench("128 x 8192", []<class T>(Gen& g) { return plain<T>(g, 128, 8192, 32).computes(4.0 * mega); });

  auto residual = r.kernel<RmsNormResidual>("rms_norm_residual", "norm", all);
  residual.doc("Residual plus the RMS norm of rows [rows, n] of any length, with one rounding.");
  residual.shapes("x, residual, y: [..., n]; weight: [n]");
  residual.test("ragged rows", limit, []<class T>(Gen& g) { return with_residual<T>(g, 4, 777); });
  residual.test("fewer elements than threads", limit, []<class T>(Gen& g) { return with_residual<T>(g, 3, 33); });
  residual.bench("1024 x 1024", []<class T>(Gen& g) { return with_residual<T>(g, 1024, 1024).computes(5.0 * mega); });

  auto add = r.kernel<AddRmsNorm>("add_rms_norm", "norm", all);
  add.doc("Sum of two [rows, n] arrays, rounded to the element type, and the RMS norm of that rounded sum.");
  add.shapes("a, b, residual_out, normed_out: [..., n]; weight: [n]");
  add.test("ragged rows", limit, []<class T>(Gen& g) { return added<T>(g, 4, 777); });
  add.test("fewer elements than threads", limit, []<class T>(Gen& g) { return added<T>(g, 3, 33); });
  add.bench("1024 x 1024", []<class T>(Gen& g) { return added<T>(g, 1024, 1024).computes(5.0 * mega); });

  auto gate = r.kernel<GatedRmsNorm>("gated_rmsnorm", "norm", all);
  gate.doc("RMS norm of f32 rows [rows, n] of any length times weight times silu of a gate.");
  gate.shapes("y, z, out: [..., n]; weight: [n]");
  gate.test("ragged rows", limit, []<class T>(Gen& g) { return gated<GatedRmsNorm, T>(g, 4, 777); });
  gate.test("fewer elements than threads", limit, []<class T>(Gen& g) { return gated<GatedRmsNorm, T>(g, 3, 33); });
  gate.bench("1024 x 1024", []<class T>(Gen& g) { return gated<GatedRmsNorm, T>(g, 1024, 1024).computes(9.0 * mega); });

  auto mixer = r.kernel<GatedMixerNorm>("gated_mixer_norm", "norm", all);
  mixer.doc("As gated_rmsnorm with 4 elements a thread in registers; n a multiple of 128 up to 4096.");
  mixer.shapes("y, z, out: [..., n]; weight: [n]");
  mixer.test("one simdgroup a row", limit, []<class T>(Gen& g) { return gated<GatedMixerNorm, T>(g, 5, 128); });
  mixer.test("three simdgroups a row", limit, []<class T>(Gen& g) { return gated<GatedMixerNorm, T>(g, 3, 384); });
  mixer.bench("1024 x 1024",
              []<class T>(Gen& g) { return gated<GatedMixerNorm, T>(g, 1024, 1024).computes(9.0 * mega); });

  auto inverse = r.kernel<RmsInvScalar>("rms_inv_scalar", "norm", all);
  inverse.doc("1 / sqrt(sum of partial sums of squares / n + eps) for each row, [rows, parts] f32 to [rows].");
  inverse.shapes("partial_ssq: [..., parts]; scale: [...]");
  inverse.test("ragged rows", limit, []<class T>(Gen& g) { return scalars<T>(g, 301, 7, 1000); });
  inverse.test("one part", limit, []<class T>(Gen& g) { return scalars<T>(g, 5, 1, 64); });
  inverse.bench("65536 x 8", []<class T>(Gen& g) { return scalars<T>(g, 65536, 8, 4096).computes(10.0 * 65536); });
}

}  // namespace iron::kernels
