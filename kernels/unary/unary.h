// Functions of one value, elementwise: one kernel body, the function is its specialisation.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

enum class UnaryOp : u8 {
  abs,
  neg,
  sign,
  floor,
  ceil,
  trunc,
  round,
  relu,
  square,
  identity,  // exact
  sqrt,
  rsqrt,
  recip,  // IEEE 754
  exp,
  exp2,
  log,
  log2,
  log10,
  log1p,
  expm1,  //
  sin,
  cos,
  tan,
  asin,
  acos,
  atan,
  sinh,
  cosh,
  tanh,
  asinh,
  acosh,
  atanh,  //
  erf,
  erfinv,
  sigmoid,
  silu,
  gelu,
  softplus,  //
};

/// The function in f32. round: half to even; sign(+-0) = +0; relu(NaN) = 0; gelu: the tanh form.
Val<f32> apply(UnaryOp op, const Val<f32>& x);

/// y[i] = f(x[i])        x, y: n elements. Computed in f32, one rounding at the store.
template <class T>
struct Unary {
  In<T> x;
  Out<T> y;
  UnaryOp op = UnaryOp::abs;

  void operator()() const {
    const auto i = grid_thread_id();
    y[i] = cast<T>(apply(op, cast<f32>(x[i])));
  }
};

/// y[i] = f(x[i]) with an f32 result, whatever the input's type.
template <class T>
struct UnaryToF32 {
  In<T> x;
  Out<f32> y;
  UnaryOp op = UnaryOp::identity;

  void operator()() const {
    const auto i = grid_thread_id();
    y[i] = apply(op, cast<f32>(x[i]));
  }
};

}  // namespace iron::kernels
