// Fourier transform of rows: oracle, tests and benches.
#include "transform/fft.h"

#include "iron/library.h"

namespace iron::kernels {

namespace {

template <class T>
Case transform(Gen& g, u32 rows, u32 n, bool inverse) {
  const auto re = g.values<T>(rows, n), im = g.values<T>(rows, n);
  const auto out_re = g.output<T>(rows, n), out_im = g.output<T>(rows, n);
  Case c{Fft<T>{.spec = {n, inverse}, .in_re = re, .in_im = im, .out_re = out_re, .out_im = out_im}};
  c.computes(5.0 * rows * n * std::log2(static_cast<f64>(n)));
  std::vector<f64> want_re(re.size()), want_im(re.size());
  std::vector<f64> cosine(n), sine(n);
  for (u64 i = 0; i < n; ++i) {
    const f64 angle = (inverse ? 2.0 : -2.0) * std::numbers::pi * static_cast<f64>(i) / n,
              scale = inverse ? 1.0 / n : 1.0;
    cosine[i] = std::cos(angle) * scale, sine[i] = std::sin(angle) * scale;
  }
  for (u64 r = 0; r < rows; ++r)
    for (u64 k = 0; k < n; ++k)
      for (u64 j = 0; j < n; ++j) {
        const f64 x = re.at(r * n + j), y = im.at(r * n + j), c_jk = cosine[j * k % n], s_jk = sine[j * k % n];
        want_re[r * n + k] += x * c_jk - y * s_jk;
        want_im[r * n + k] += x * s_jk + y * c_jk;
      }
  return c.expect("out_re", std::move(want_re)).expect("out_im", std::move(want_im));
}

}  // namespace

void register_fft(Registry& r) {
  for (const u32 n : {32u, 64u, 128u, 256u, 512u, 1024u}) {
    auto k =
        r.kernel<Fft>("fft_n" + std::to_string(n), "transform", dtypes<f32, f16, bf16>, [n](auto& f) { f.spec.n = n; });
    k.doc("Fourier transform of rows [rows, " + std::to_string(n) +
          "] in real and imaginary planes; spec.inverse divides by n.");
    const auto limit = tolerance(1e-4, 2e-3, 1.6e-2);
    k.test("forward", limit, [n]<class T>(Gen& g) { return transform<T>(g, n > 256 ? 2 : 3, n, false); });
    k.test("inverse", limit, [n]<class T>(Gen& g) { return transform<T>(g, 2, n, true); });
    k.bench("256 Ki elements", [n]<class T>(Gen& g) { return transform<T>(g, (1 << 18) / n, n, false); });
  }
}

}  // namespace iron::kernels
