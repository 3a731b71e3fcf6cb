// Fourier transform of rows of any length N by three of a power of two M >= 2 N - 1 (Bluestein 1970):
//   Y[k] = w(k) * sum_n (x[n] w(n)) conj(w(k - n)), w(n) = e^(-i pi n^2 / N) forward, its conjugate for the inverse.
// A convolution: preprocess and chirp_filter give its two sides, fft_n transforms both, cmul multiplies them, the
// inverse fft_n comes back, postprocess turns by w(k). n^2 is reduced modulo 2 N in integers before it becomes an
// angle.
#include <algorithm>

#include <numbers>

#include "iron/dsl.h"
#include "iron/library.h"
#include "registry.h"
#include "transform/fft.h"

namespace iron::kernels {

namespace {

struct Chirp {
  Val<f32> re, im;
};
/// w(n), or its conjugate.
Chirp chirp(const Val<Index>& n, const Val<Index>& length, bool conjugate) {
  const Val<f32> turn = cast<f32>(n * n % (length * 2)) / cast<f32>(length);
  const Val<f32> angle = turn * static_cast<f32>(conjugate ? std::numbers::pi : -std::numbers::pi);
  return {cos(angle), sin(angle)};
}

/// Threads along rows of n, a row of the grid for each.
Grid row_grid(u32 n, u64 elements) {
  return {Threadgroups{(n + 127) / 128, static_cast<u32>(elements / std::max(n, 1u))}, Threads{128}};
}

// out[r, n] = x[r, n] w(n) for n < N, zeros up to M      in: [rows, N], out: [rows, M]
template <class T>
struct BluesteinPreprocess {
  static constexpr Mode mode = Mode::Grid3D;

  In<T> in_re, in_im;
  Out<T> out_re, out_im;
  Scalar<u32> n_len, m_len;
  bool inverse = false;

  Grid grid() const { return row_grid(m_len.value(), out_re.size()); }

  void operator()() const {
    const Val<Index> n = grid_position(Axis::x), row = grid_position(Axis::y), length(n_len);
    if_(n < m_len) {
      const auto w = chirp(n, length, inverse);
      const auto at = row * length + min(n, length - 1), to = row * m_len + n;
      const auto re = cast<f32>(in_re.load_or(n < length, at, T{})), im = cast<f32>(in_im.load_or(n < length, at, T{}));
      out_re[to] = cast<T>(re * w.re - im * w.im);
      out_im[to] = cast<T>(re * w.im + im * w.re);
    }
  }
};

// out[n] = out[M - n] = conj(w(n)) for n < N, zeros between      out: f32 [M]
struct BluesteinChirpFilter {
  Out<f32> out_re, out_im;
  Scalar<u32> n_len, m_len;
  bool inverse = false;

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> length(n_len), back = m_len - i, n = min(i, back);
    const auto w = chirp(n, length, !inverse);
    const auto inside = n < length;
    out_re[i] = select(inside, w.re, constant<f32>(0.0f));
    out_im[i] = select(inside, w.im, constant<f32>(0.0f));
  }
};

// out[r, i] = y[r, i] * filter[i]      y, out: [rows, M], filter: f32 [M]
template <class T>
struct BluesteinCmul {
  In<T> y_re, y_im;
  In<f32> filter_re, filter_im;
  Out<T> out_re, out_im;
  Scalar<u32> m_len;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto at = i % m_len;
    const auto a = cast<f32>(y_re[i]), b = cast<f32>(y_im[i]), c = filter_re[at], d = filter_im[at];
    out_re[i] = cast<T>(a * c - b * d);
    out_im[i] = cast<T>(a * d + b * c);
  }
};

// out[r, k] = y[r, k] w(k), divided by N for the inverse      y: [rows, M], out: [rows, N]
template <class T>
struct BluesteinPostprocess {
  static constexpr Mode mode = Mode::Grid3D;

  In<T> y_re, y_im;
  Out<T> out_re, out_im;
  Scalar<u32> n_len, m_len;
  bool inverse = false;

  Grid grid() const { return row_grid(n_len.value(), out_re.size()); }

  void operator()() const {
    const Val<Index> k = grid_position(Axis::x), row = grid_position(Axis::y), length(n_len);
    if_(k < length) {
      const auto w = chirp(k, length, inverse);
      const auto at = row * m_len + min(k, m_len - 1u), to = row * length + k;
      const Val<f32> scale = inverse ? Val<f32>(recip(cast<f32>(length))) : constant<f32>(1.0f);
      const auto re = cast<f32>(y_re[at]) * scale, im = cast<f32>(y_im[at]) * scale;
      out_re[to] = cast<T>(re * w.re - im * w.im);
      out_im[to] = cast<T>(re * w.im + im * w.re);
    }
  }
};

struct Complex {
  f64 re, im;
};
Complex turned(f64 re, f64 im, u64 n, u64 length, bool conjugate) {
  const f64 angle =
      (conjugate ? 1.0 : -1.0) * std::numbers::pi * static_cast<f64>(n * n % (2 * length)) / static_cast<f64>(length);
  return {re * std::cos(angle) - im * std::sin(angle), re * std::sin(angle) + im * std::cos(angle)};
}
struct Planes {
  std::vector<f64> re, im;
  void add(Complex z) { re.push_back(z.re), im.push_back(z.im); }
};

template <class T>
Case preprocess(Gen& g, u32 rows, u32 n, u32 m, bool inverse) {
  const auto re = g.values<T>(rows, n), im = g.values<T>(rows, n);
  const auto out_re = g.output<T>(rows, m), out_im = g.output<T>(rows, m);
  Planes want;
  for (u64 r = 0; r < rows; ++r)
    for (u64 i = 0; i < m; ++i)
      want.add(i < n ? turned(re.at(r * n + i), im.at(r * n + i), i, n, inverse) : Complex{0, 0});
  return Case{
      BluesteinPreprocess<T>{
          .in_re = re, .in_im = im, .out_re = out_re, .out_im = out_im, .n_len = n, .m_len = m, .inverse = inverse}}
      .expect("out_re", want.re)
      .expect("out_im", want.im);
}
Case filter(Gen& g, u32 n, u32 m, bool inverse) {
  const auto out_re = g.output<f32>(m), out_im = g.output<f32>(m);
  Planes want;
  for (u64 i = 0; i < m; ++i) {
    const u64 k = std::min<u64>(i, m - i);
    want.add(k < n ? turned(1.0, 0.0, k, n, !inverse) : Complex{0, 0});
  }
  return Case{BluesteinChirpFilter{.out_re = out_re, .out_im = out_im, .n_len = n, .m_len = m, .inverse = inverse}}
      .expect("out_re", want.re)
      .expect("out_im", want.im);
}
template <class T>
Case cmul(Gen& g, u32 rows, u32 m) {
  const auto re = g.values<T>(rows, m), im = g.values<T>(rows, m);
  const auto filter_re = g.values<f32>(m), filter_im = g.values<f32>(m);
  const auto out_re = g.output<T>(rows, m), out_im = g.output<T>(rows, m);
  Planes want;
  for (u64 i = 0; i < re.size(); ++i) {
    const f64 a = re.at(i), b = im.at(i), c = filter_re.at(i % m), d = filter_im.at(i % m);
    want.add({a * c - b * d, a * d + b * c});
  }
  return Case{BluesteinCmul<T>{.y_re = re,
                               .y_im = im,
                               .filter_re = filter_re,
                               .filter_im = filter_im,
                               .out_re = out_re,
                               .out_im = out_im,
                               .m_len = m}}
      .expect("out_re", want.re)
      .expect("out_im", want.im)
      .computes(6.0 * rows * m);
}
template <class T>
Case postprocess(Gen& g, u32 rows, u32 n, u32 m, bool inverse) {
  const auto re = g.values<T>(rows, m), im = g.values<T>(rows, m);
  const auto out_re = g.output<T>(rows, n), out_im = g.output<T>(rows, n);
  Planes want;
  const f64 scale = inverse ? 1.0 / n : 1.0;
  for (u64 r = 0; r < rows; ++r)
    for (u64 k = 0; k < n; ++k) want.add(turned(scale * re.at(r * m + k), scale * im.at(r * m + k), k, n, inverse));
  return Case{
      BluesteinPostprocess<T>{
          .y_re = re, .y_im = im, .out_re = out_re, .out_im = out_im, .n_len = n, .m_len = m, .inverse = inverse}}
      .expect("out_re", want.re)
      .expect("out_im", want.im);
}

// All steps of the transform of rows of n elements, against the sum that defines it.
Case whole(Gen& g, u32 rows, u32 n, u32 m, bool inverse) {
  const auto re = g.values<f32>(rows, n), im = g.values<f32>(rows, n);
  const auto plane = [&](u64 count) { return std::pair(g.output<f32>(count, m), g.output<f32>(count, m)); };
  const auto [a_re, a_im] = plane(rows);
  const auto [b_re, b_im] = plane(1);
  const auto [fa_re, fa_im] = plane(rows);
  const auto [fb_re, fb_im] = plane(1);
  const auto [p_re, p_im] = plane(rows);
  const auto [c_re, c_im] = plane(rows);
  const auto out_re = g.output<f32>(rows, n), out_im = g.output<f32>(rows, n);
  const auto fft = [&](bool back, const Array<f32>& x, const Array<f32>& y, const Array<f32>& u, const Array<f32>& v) {
    return Fft<f32>{.spec = {m, back}, .in_re = x, .in_im = y, .out_re = u, .out_im = v};
  };
  Planes want;
  for (u64 r = 0; r < rows; ++r)
    for (u64 k = 0; k < n; ++k) {
      Complex sum{0, 0};
      for (u64 j = 0; j < n; ++j) {
        const f64 angle = (inverse ? 2.0 : -2.0) * std::numbers::pi * static_cast<f64>(j * k % n) / n;
        const f64 x = re.at(r * n + j), y = im.at(r * n + j), scale = inverse ? 1.0 / n : 1.0;
        sum.re += (x * std::cos(angle) - y * std::sin(angle)) * scale;
        sum.im += (x * std::sin(angle) + y * std::cos(angle)) * scale;
      }
      want.add(sum);
    }
  Case c{BluesteinPreprocess<f32>{
      .in_re = re, .in_im = im, .out_re = a_re, .out_im = a_im, .n_len = n, .m_len = m, .inverse = inverse}};
  c.then(BluesteinChirpFilter{.out_re = b_re, .out_im = b_im, .n_len = n, .m_len = m, .inverse = inverse});
  c.then(fft(false, a_re, a_im, fa_re, fa_im)).then(fft(false, b_re, b_im, fb_re, fb_im));
  c.then(BluesteinCmul<f32>{.y_re = fa_re,
                            .y_im = fa_im,
                            .filter_re = fb_re,
                            .filter_im = fb_im,
                            .out_re = p_re,
                            .out_im = p_im,
                            .m_len = m});
  c.then(fft(true, p_re, p_im, c_re, c_im));
  c.then(BluesteinPostprocess<f32>{
      .y_re = c_re, .y_im = c_im, .out_re = out_re, .out_im = out_im, .n_len = n, .m_len = m, .inverse = inverse});
  return c.expect("out_re", want.re).expect("out_im", want.im);
}

constexpr auto types = dtypes<f32, f16, bf16>;
constexpr Tolerance limit = tolerance(1e-5, 2e-3, 1.6e-2);
}  // namespace

void register_bluestein(Registry& r) {
  auto pre = r.kernel<BluesteinPreprocess>("fft_bluestein_preprocess", "transform", types);
  pre.doc("Rows [rows, N] times the chirp, padded with zeros to [rows, M].");
  pre.test("forward", limit, []<class T>(Gen& g) { return preprocess<T>(g, 3, 37, 128, false); });
  pre.test("inverse", limit, []<class T>(Gen& g) { return preprocess<T>(g, 2, 100, 256, true); });
  pre.bench("1024 rows of 500", []<class T>(Gen& g) { return preprocess<T>(g, 1024, 500, 1024, false); });

  auto chirps = r.kernel<BluesteinChirpFilter, f32>("fft_bluestein_chirp_filter", "transform");
  chirps.doc("The conjugate chirp and its mirror image, zeros between: the filter [M] for rows of N.");
  chirps.test("forward", limit, []<class T>(Gen& g) { return filter(g, 37, 128, false); });
  chirps.test("inverse, M = 2 N", limit, []<class T>(Gen& g) { return filter(g, 64, 128, true); });
  chirps.test("large squares", limit, []<class T>(Gen& g) { return filter(g, 40000, 131072, false); });
  chirps.bench("M = 1 Mi", []<class T>(Gen& g) { return filter(g, 50000, 1 << 20, false); });

  auto multiply = r.kernel<BluesteinCmul>("fft_bluestein_cmul", "transform", types);
  multiply.doc("Complex product of rows [rows, M] with one filter [M].");
  multiply.test("rows", limit, []<class T>(Gen& g) { return cmul<T>(g, 5, 64); });
  multiply.bench("1024 rows of 1024", []<class T>(Gen& g) { return cmul<T>(g, 1024, 1024); });

  auto post = r.kernel<BluesteinPostprocess>("fft_bluestein_postprocess", "transform", types);
  post.doc("The first N of rows [rows, M] times the chirp, divided by N for the inverse.");
  post.test("forward", limit, []<class T>(Gen& g) { return postprocess<T>(g, 3, 37, 128, false); });
  post.test("inverse", limit, []<class T>(Gen& g) { return postprocess<T>(g, 2, 100, 256, true); });
  post.bench("1024 rows of 500", []<class T>(Gen& g) { return postprocess<T>(g, 1024, 500, 1024, false); });

  // The steps together are a matter of f32: one entry stands for it.
  constexpr Tolerance together = tolerance(1e-4, 0, 0);
  chirps.test("whole transform of 37", together, []<class T>(Gen& g) { return whole(g, 2, 37, 128, false); });
  chirps.test("whole transform of 100, inverse", together, []<class T>(Gen& g) { return whole(g, 2, 100, 256, true); });
}

}  // namespace iron::kernels
