// Normalisations of rows that other code uses: RMS norm in its geometries and fused forms, layer norm.
#pragma once

#include <vector>

#include "iron/dsl.h"
#include "norm/inverse_rms.h"
#include "row_registers.h"

namespace iron::kernels {

// All forms: sums in f32, eps inside the root, one rounding at the store; NaN and infinities spread over their row.

/// y[r, i] = x[r, i] * rsqrt(mean_i x[r, i]^2 + eps) * weight[i]        x, y: [rows, n], weight: [n]
/// A thread keeps `per_thread` elements in registers (row_registers.h) and adds their squares in that order: x is read
/// once. n is a multiple of 32 * per_thread, at most 1024 * per_thread. Zhang and Sennrich 2019, eq. 4.
template <class T>
struct RmsNormRows {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x, weight;
  Out<T> y;
  Scalar<u32> n;
  Scalar<f32> eps;
  u32 per_thread = 4;

  Grid grid() const { return register_row_groups(y.size(), n.value(), per_thread); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto v = load_part(x, row, per_thread);
    const auto w = load_part(weight, constant<Index>(0), per_thread);
    std::vector<Val<f32>> sums{v[0] * v[0]};
    for (u32 k = 1; k < per_thread; ++k) sums.push_back(sums.back() + v[k] * v[k]);
    const auto scale = inverse_rms(threadgroup_sum(sums.back()), n, eps);
    store_part(y, row, per_thread, [&](u32 k) { return v[k] * scale * w[k]; });
  }
};

/// The geometry for rows of n elements.
enum class RmsNormForm : u8 { small, rows, registers, wide };
/// small: 2 elements a thread; rows: 4 a thread; registers: 32 a thread; wide: any n, by striding.
constexpr RmsNormForm rms_norm_for(u32 n) {
  if (n >= 64 && n <= 512 && n % 64 == 0) return RmsNormForm::small;
  if (n >= 128 && n <= 4096 && n % 128 == 0) return RmsNormForm::rows;
  if (fits_registers(n, 32)) return RmsNormForm::registers;
  return RmsNormForm::wide;
}

/// y[r, i] = residual[r, i] + weight[i] * x[r, i] * rsqrt(mean_i x[r, i]^2 + eps)        x, residual, y: [rows, n]
template <class T>
struct RmsNormResidual {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x, residual, weight;
  Out<T> y;
  Scalar<u32> n;
  Scalar<f32> eps;

  Grid grid() const { return row_groups(y.size(), n.value()); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto scale = row_inverse_rms(n, eps, [&](const Val<Index>& i) { return cast<f32>(x[row + i]); });
    for (auto i : range(thread_id(), n, threads())) {
      const auto normed = cast<f32>(x[row + i]) * scale * cast<f32>(weight[i]);
      y[row + i] = cast<T>(cast<f32>(residual[row + i]) + normed);
    }
  }
};

/// residual_out[r, i] = a[r, i] + b[r, i], rounded to T; normed_out is the RMS norm of these rounded sums.
/// a, b, residual_out, normed_out: [rows, n], weight: [n]
template <class T>
struct AddRmsNorm {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> a, b, weight;
  Out<T> residual_out, normed_out;
  Scalar<u32> n;
  Scalar<f32> eps;

  Grid grid() const { return row_groups(normed_out.size(), n.value()); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto added = [&](const Val<Index>& i) { return cast<T>(cast<f32>(a[row + i]) + cast<f32>(b[row + i])); };
    const auto scale = row_inverse_rms(n, eps, [&](const Val<Index>& i) {
      const auto r = added(i);
      residual_out[row + i] = r;
      return cast<f32>(r);
    });
    for (auto i : range(thread_id(), n, threads()))
      normed_out[row + i] = cast<T>(cast<f32>(added(i)) * scale * cast<f32>(weight[i]));
  }
};

/// out[r, i] = y[r, i] * rsqrt(mean_i y[r, i]^2 + eps) * weight[i] * silu(z[r, i])        y: f32 [rows, n], z, out: T
/// [rows, n] Any n, by striding. GatedMixerNorm is the same mathematics with 4 elements a thread.
template <class T>
struct GatedRmsNorm {
  static constexpr Mode mode = Mode::Threadgroup;

  In<f32> y;
  In<T> z, weight;
  Out<T> out;
  Scalar<u32> n;
  Scalar<f32> eps;

  Grid grid() const { return row_groups(out.size(), n.value()); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto scale = row_inverse_rms(n, eps, [&](const Val<Index>& i) { return y[row + i]; });
    for (auto i : range(thread_id(), n, threads()))
      out[row + i] = cast<T>(y[row + i] * scale * cast<f32>(weight[i]) * silu(cast<f32>(z[row + i])));
  }
};

/// As GatedRmsNorm, for n a multiple of 128 up to 4096: y is read once.
template <class T>
struct GatedMixerNorm {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 per_thread = 4;

  In<f32> y;
  In<T> z, weight;
  Out<T> out;
  Scalar<u32> n;
  Scalar<f32> eps;

  Grid grid() const { return row_groups(out.size(), n.value(), n.value() / per_thread); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto first = thread_id() * per_thread;
    std::vector<Val<f32>> v;
    Var<f32> sum{0.0f};
    for (u32 k = 0; k < per_thread; ++k) {
      v.push_back(y[row + first + k]);
      sum += v.back() * v.back();
    }
    const auto scale = inverse_rms(threadgroup_sum(sum), n, eps);
    for (u32 k = 0; k < per_thread; ++k) {
      const auto gate = silu(cast<f32>(z[row + first + k]));
      out[row + first + k] = cast<T>(v[k] * scale * cast<f32>(weight[first + k]) * gate);
    }
  }
};

/// RMS norm over the axis, then a rotation of the pairs (i, i + axis / 2) by angle = position * inv_freqs[i].
/// Row r = (batch * seq_len + s) * n_heads + head has position offset + s.        x, out: [rows, axis], weight: [axis],
/// inv_freqs: f32 [axis / 2]. A thread a pair: axis is a multiple of 64, at most 2048. Su et al. 2021 (RoFormer), eq.
/// 34, split halves. The angle is an f32 product: its error grows with the position.
template <class T>
struct RmsNormRope {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x, weight;
  In<f32> inv_freqs;
  Out<T> out;
  Scalar<u32> axis, offset, n_heads, seq_len;
  Scalar<f32> eps;

  Grid grid() const { return row_groups(out.size(), axis.value(), axis.value() / 2); }

  void operator()() const {
    const auto row = threadgroup_id();
    const auto half = cast<Index>(axis) / 2u;
    const auto i = thread_id();
    const auto low = row * axis + i, high = low + half;
    const auto a = cast<f32>(x[low]), b = cast<f32>(x[high]);
    const auto scale = inverse_rms(threadgroup_sum(a * a + b * b), axis, eps);
    const auto p = a * scale * cast<f32>(weight[i]), q = b * scale * cast<f32>(weight[i + half]);
    const auto angle = cast<f32>(row / n_heads % seq_len + offset) * inv_freqs[i];
    const auto c = cos(angle), s = sin(angle);
    out[low] = cast<T>(p * c - q * s);
    out[high] = cast<T>(p * s + q * c);
  }
};

/// y[r, i] = (x[r, i] - mean_r) / sqrt(var_r + eps) * weight[i] + bias[i]        x, y: [rows, n], weight, bias: [n]
/// Two passes: the variance is the mean of the squared differences from the mean, which keeps its digits where the mean
/// is large. Ba, Kiros and Hinton 2016, eq. 4.
template <class T>
struct LayerNorm {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x, weight, bias;
  Out<T> y;
  Scalar<u32> n;
  Scalar<f32> eps;

  Grid grid() const { return row_groups(y.size(), n.value()); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto count = cast<f32>(n);
    Var<f32> sum{0.0f};
    for (auto i : range(thread_id(), n, threads())) sum += cast<f32>(x[row + i]);
    const auto mean = threadgroup_sum(sum) / count;
    Var<f32> squares{0.0f};
    for (auto i : range(thread_id(), n, threads())) {
      const auto d = cast<f32>(x[row + i]) - mean;
      squares += d * d;
    }
    const auto scale = rsqrt(threadgroup_sum(squares) / count + eps);
    for (auto i : range(thread_id(), n, threads())) {
      const auto normed = (cast<f32>(x[row + i]) - mean) * scale;
      y[row + i] = cast<T>(normed * cast<f32>(weight[i]) + cast<f32>(bias[i]));
    }
  }
};

/// As LayerNorm, for n a multiple of 32 * per_thread up to 1024 * per_thread: both passes are over registers, each
/// thread's elements in their order (row_registers.h), so that x is read once.
template <class T>
struct LayerNormRegisters {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x, weight, bias;
  Out<T> y;
  Scalar<u32> n;
  Scalar<f32> eps;
  u32 per_thread = 32;

  Grid grid() const { return register_row_groups(y.size(), n.value(), per_thread); }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    const auto count = cast<f32>(n);
    const auto v = load_part(x, row, per_thread);
    std::vector<Val<f32>> sums{v[0]}, centred, squares;
    for (u32 k = 1; k < per_thread; ++k) sums.push_back(sums.back() + v[k]);
    const auto mean = threadgroup_sum(sums.back()) / count;
    for (u32 k = 0; k < per_thread; ++k) {
      const Val<f32> d = v[k] - mean;
      centred.push_back(d);
      squares.push_back(k == 0 ? d * d : squares.back() + d * d);
    }
    const auto scale = rsqrt(threadgroup_sum(squares.back()) / count + eps);
    const auto w = load_part(weight, constant<Index>(0), per_thread),
               b = load_part(bias, constant<Index>(0), per_thread);
    store_part(y, row, per_thread, [&](u32 k) { return centred[k] * scale * w[k] + b[k]; });
  }
};

/// The geometry for rows of n elements.
enum class LayerNormForm : u8 { registers, any };
/// registers: 32 elements a thread, rows of at least two simdgroups; any: any n, by striding.
constexpr LayerNormForm layer_norm_for(u32 n) {
  return n >= 2048 && fits_registers(n, 32) ? LayerNormForm::registers : LayerNormForm::any;
}

}  // namespace iron::kernels
