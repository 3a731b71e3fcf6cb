// Activations and small compositions, each with one stated formula.
#pragma once

#include "iron/dsl/value.h"

namespace iron {

/// 1 / (1 + exp(-x)).
template <DeviceValue V>
auto sigmoid(const V& x, detail::Loc l = detail::Loc::here()) {
  using T = device_type_of<V>;
  const Val<T> v(Use<T>(x, l));
  return recip(exp(-v) + Use<T>(1.0, l));
}
/// x * sigmoid(x).
template <DeviceValue V>
auto silu(const V& x, detail::Loc l = detail::Loc::here()) {
  using T = device_type_of<V>;
  const Val<T> v(Use<T>(x, l));
  return v / (exp(-v) + Use<T>(1.0, l));
}
/// x / 2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the argument clamped to +-15 (catalogue form).
template <DeviceValue V>
auto gelu(const V& x, detail::Loc l = detail::Loc::here()) {
  using T = device_type_of<V>;
  const Val<T> v(Use<T>(x, l));
  const Val<T> inner = (v + v * v * v * Use<T>(0.044715, l)) * Use<T>(0.7978845608028654, l);
  return v * Use<T>(0.5, l) * (tanh(max(min(inner, Use<T>(15.0, l)), Use<T>(-15.0, l))) + Use<T>(1.0, l));
}
/// max(x, 0); NaN gives 0.
template <DeviceValue V>
auto relu(const V& x, detail::Loc l = detail::Loc::here()) {
  using T = device_type_of<V>;
  return max(Val<T>(Use<T>(x, l)), Use<T>(0.0, l));
}
/// max(x, 0) + log1p(exp(-|x|)).
template <DeviceValue V>
auto softplus(const V& x, detail::Loc l = detail::Loc::here()) {
  using T = device_type_of<V>;
  const Val<T> v(Use<T>(x, l));
  return max(v, Use<T>(0.0, l)) + log1p(exp(-abs(v)));
}

}  // namespace iron
