// RMS norm of attention heads fused with their rotary embedding: tests and benches of RmsNormRope.
#include "iron/library.h"
#include "norm/norm.h"

namespace iron::kernels {

namespace {

struct Shape {
  u32 batch, seq_len, heads, axis, offset;
};

template <class T>
Case rotated(Gen& g, Shape s) {
  const u64 rows = u64{s.batch} * s.seq_len * s.heads, n = s.axis, half = n / 2;
  const f32 eps = 1e-3f;
  const auto x = g.normal<T>(0.3, rows, n), w = g.values<T>(n);
  const auto freqs =
      g.from<f32>([&](u64 i) { return std::pow(10000.0, -static_cast<f64>(i) / static_cast<f64>(half)); }, half);
  const auto out = g.output<T>(rows, n);
  std::vector<f64> want(rows * n);
  for (u64 r = 0; r < rows; ++r) {
    f64 sum = 0;
    for (u64 i = 0; i < n; ++i) sum += x.at(r * n + i) * x.at(r * n + i);
    const f64 scale = 1.0 / std::sqrt(sum / static_cast<f64>(n) + f64{eps});
    const auto position = static_cast<f64>(s.offset + r / s.heads % s.seq_len);
    for (u64 i = 0; i < half; ++i) {
      const f64 a = x.at(r * n + i) * scale * w.at(i), b = x.at(r * n + i + half) * scale * w.at(i + half);
      const f64 angle = position * freqs.at(i);
      want[r * n + i] = a * std::cos(angle) - b * std::sin(angle);
      want[r * n + i + half] = a * std::sin(angle) + b * std::cos(angle);
    }
  }
  return Case{RmsNormRope<T>{.x = x,
                             .weight = w,
                             .inv_freqs = freqs,
                             .out = out,
                             .axis = s.axis,
                             .offset = s.offset,
                             .n_heads = s.heads,
                             .seq_len = s.seq_len,
                             .eps = eps}}
      .expect("out", std::move(want));
}

}  // namespace

void register_rms_norm_rope(Registry& r) {
  auto k = r.kernel<RmsNormRope>("rms_norm_rope", "norm", dtypes<f32, f16, bf16>);
  k.doc(
      "RMS norm of heads [batch, seq, heads, axis], then rotation of the pairs (i, i + axis/2) by position * "
      "inv_freqs[i].");
  k.test("batches, positions, heads", tolerance(3e-5, 2e-3, 1.6e-2),
         []<class T>(Gen& g) { return rotated<T>(g, {2, 5, 3, 64, 7}); });
  k.test("two simdgroups a row", tolerance(3e-5, 2e-3, 1.6e-2),
         []<class T>(Gen& g) { return rotated<T>(g, {1, 3, 2, 128, 0}); });
  k.test("far position", tolerance(5e-3, 8e-3, 2e-2),
         []<class T>(Gen& g) { return rotated<T>(g, {1, 2, 2, 64, 9000}); });
  k.bench("512 positions, 16 heads of 128",
          []<class T>(Gen& g) { return rotated<T>(g, {1, 512, 16, 128, 0}).computes(10.0 * 512 * 16 * 128); });
}

}  // namespace iron::kernels
