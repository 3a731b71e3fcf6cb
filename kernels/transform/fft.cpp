// Fourier transform of rows of 32 to 1024 complex elements, a power of two, in split planes.
#include <numbers>

#include "iron/dsl.h"
#include "iron/library.h"

namespace iron::kernels {

namespace {

// forward: Y[r, k] = sum_j X[r, j] exp(-2 pi i j k / n); inverse: conjugate factors, divided by n        planes: [rows,
// n] Stockham's radix-2 form: log2(n) stages between two arrays in threadgroup memory, no bit reversal, a thread a
// butterfly. The n/2 factors are computed once; all in f32, one rounding at the store.
template <class T>
struct Fft {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    u32 n = 32;
    bool inverse = false;
  } spec;

  In<T> in_re, in_im;
  Out<T> out_re, out_im;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out_re.size() / spec.n)}, Threads{spec.n / 2}}; }

  void operator()() const {
    const u32 n = spec.n, half = n / 2;
    const auto row = threadgroup_id() * n;
    const auto t = thread_id();
    Shared<f32> cosines{half}, sines{half}, re0{n}, im0{n}, re1{n}, im1{n};
    const auto angle = cast<f32>(t) * ((spec.inverse ? 2.0 : -2.0) * std::numbers::pi / n);
    cosines[t] = cos(angle);
    sines[t] = sin(angle);
    barrier();
    const f64 norm = spec.inverse ? 1.0 / n : 1.0;
    for (u32 p = 1, stage = 0; p < n; p *= 2, ++stage) {
      const auto &from_re = stage % 2 ? re0 : re1, &from_im = stage % 2 ? im0 : im1;
      const auto &to_re = stage % 2 ? re1 : re0, &to_im = stage % 2 ? im1 : im0;
      const auto load = [&](const In<T>& plane, const Shared<f32>& shared, const Val<Index>& i) -> Val<f32> {
        if (p == 1) return cast<f32>(plane[row + i]);
        return Val<f32>(shared[i]);
      };
      const auto a_re = load(in_re, from_re, t), a_im = load(in_im, from_im, t);
      const auto b_re = load(in_re, from_re, t + half), b_im = load(in_im, from_im, t + half);
      const auto k = t % p;
      const Val c = cosines[k * (half / p)];
      const Val s = sines[k * (half / p)];
      const auto w_re = b_re * c - b_im * s, w_im = b_re * s + b_im * c;
      const auto low = t / p * (2 * p) + k, high = low + p;
      if (p < half) {
        to_re[low] = a_re + w_re;
        to_im[low] = a_im + w_im;
        to_re[high] = a_re - w_re;
        to_im[high] = a_im - w_im;
        barrier();
      } else {
        out_re[row + low] = cast<T>((a_re + w_re) * norm);
        out_im[row + low] = cast<T>((a_im + w_im) * norm);
        out_re[row + high] = cast<T>((a_re - w_re) * norm);
        out_im[row + high] = cast<T>((a_im - w_im) * norm);
      }
    }
  }
};

template <class T>
Case transform(Gen& g, u32 rows, u32 n, bool inverse, bool with_oracle = true) {
  const auto re = g.values<T>(rows, n), im = g.values<T>(rows, n);
  const auto out_re = g.output<T>(rows, n), out_im = g.output<T>(rows, n);
  Case c{Fft<T>{.spec = {n, inverse}, .in_re = re, .in_im = im, .out_re = out_re, .out_im = out_im}};
  c.computes(5.0 * rows * n * std::log2(static_cast<f64>(n)));
  if (!with_oracle) return c;
  std::vector<f64> want_re(re.size()), want_im(re.size());
  for (u64 r = 0; r < rows; ++r)
    for (u64 k = 0; k < n; ++k)
      for (u64 j = 0; j < n; ++j) {
        const f64 angle = (inverse ? 2.0 : -2.0) * std::numbers::pi * static_cast<f64>(j * k % n) / n;
        const f64 x = re.at(r * n + j), y = im.at(r * n + j), scale = inverse ? 1.0 / n : 1.0;
        want_re[r * n + k] += (x * std::cos(angle) - y * std::sin(angle)) * scale;
        want_im[r * n + k] += (x * std::sin(angle) + y * std::cos(angle)) * scale;
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
    k.bench("1 Mi elements", [n]<class T>(Gen& g) { return transform<T>(g, (1 << 20) / n, n, false, false); });
  }
}

}  // namespace iron::kernels
