// Fourier transform of rows of 32 to 1024 complex elements, a power of two, in split planes.
#pragma once

#include <numbers>

#include "iron/dsl.h"

namespace iron::kernels {

/// forward: Y[r, k] = sum_j X[r, j] exp(-2 pi i j k / n); inverse: conjugate factors, divided by n        planes:
/// [rows, n] Stockham's radix-2 form: log2(n) stages between two arrays in threadgroup memory, no bit reversal, a
/// thread a butterfly. The n/2 factors are computed once; all in f32, one rounding at the store.
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

}  // namespace iron::kernels
