// Elementwise multiply-adds whose factor is one number in memory, and products with a gate.
#include "iron/dsl.h"
#include "registry.h"
#include "specials.h"

namespace iron::kernels {
namespace {

// out[i] = base[i] + s * value[i] (+ residual[i]), s = scale[0] or sigmoid(scale[0])
// value, base, residual, out: n elements, scale: 1 element. Sums left to right in f32, one rounding at the store.
template <class T>
struct ScalarFma {
  In<T> scale, value, base;
  Optional<In<T>> residual;
  Out<T> out;
  bool gated = false;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto raw = cast<f32>(scale[0]);
    const auto s = gated ? sigmoid(raw) : raw;
    const auto sum = cast<f32>(base[i]) + s * cast<f32>(value[i]);
    if (residual)
      out[i] = cast<T>(sum + cast<f32>((*residual)[i]));
    else
      out[i] = cast<T>(sum);
  }
};

// out[i] = s[0] v0[i] + ... + s[7] v7[i], added in that order from 0.
template <class T>
struct ScalarFmaChain8 {
  In<T> scales, v0, v1, v2, v3, v4, v5, v6, v7;
  Out<T> out;

  void operator()() const {
    const auto i = grid_thread_id();
    const In<T>* const inputs[8] = {&v0, &v1, &v2, &v3, &v4, &v5, &v6, &v7};
    Var<f32> sum{0.0f};
    for (u32 k = 0; k < 8; ++k) {
      const auto s = cast<f32>(scales[k]);
      sum += s * cast<f32>((*inputs[k])[i]);
    }
    out[i] = cast<T>(sum);
  }
};

// out[i] = a[i] * sigmoid(b[i])
template <class T>
struct SigmoidMul {
  In<T> a, b;
  Out<T> out;

  void operator()() const {
    const auto i = grid_thread_id();
    out[i] = cast<T>(cast<f32>(a[i]) * sigmoid(cast<f32>(b[i])));
  }
};

f64 logistic(f64 x) { return 1.0 / (1.0 + std::exp(-x)); }

template <class T>
Case scalar_fma(Gen& g, u64 n, bool gated, bool with_residual) {
  const auto scale = listed<T>(g, {gated ? -0.7 : 1.7});
  const auto value = g.values<T>(n), base = g.values<T>(n), residual = g.values<T>(n);
  const auto out = g.output<T>(n);
  const f64 s = gated ? logistic(scale.at(0)) : scale.at(0);
  std::vector<f64> want(n);
  for (u64 i = 0; i < n; ++i) want[i] = base.at(i) + s * value.at(i) + (with_residual ? residual.at(i) : 0.0);
  ScalarFma<T> k{.scale = scale, .value = value, .base = base, .residual = {}, .out = out, .gated = gated};
  if (with_residual) k.residual = Optional<In<T>>(residual);
  return Case{k}.expect("out", want);
}

template <class T>
Case chain8(Gen& g, u64 n) {
  const auto scales = listed<T>(g, {1.0, -0.5, 0.25, 2.0, -1.5, 0.75, 3.0, -0.125});
  std::vector<Array<T>> v;
  for (int k = 0; k < 8; ++k) v.push_back(g.values<T>(n));
  const auto out = g.output<T>(n);
  std::vector<f64> want(n);
  for (u64 i = 0; i < n; ++i)
    for (u64 k = 0; k < 8; ++k) want[i] += scales.at(k) * v[k].at(i);
  return Case{ScalarFmaChain8<T>{scales, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], out}}.expect("out", want);
}
// The terms cancel in one order only: 2^24 + 1 - 2^24 keeps the 1 exactly where it comes last.
template <class T>
Case chain8_order(Gen& g) {
  const auto one = listed<T>(g, {1, 1, 1, 1, 1, 1, 1, 1});
  const f64 big = std::same_as<T, f16> ? 0x1p15 : 0x1p30, small = std::same_as<T, f16> ? 0x1p-12 : 1.0;
  const f64 terms[8] = {small, big, -big, small, big, -big, small, 2 * small};
  std::vector<Array<T>> v;
  for (const f64 t : terms) v.push_back(listed<T>(g, {t, -t}));
  const auto out = g.output<T>(2);
  return Case{ScalarFmaChain8<T>{one, v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], out}}.expect_exact(
      "out", rounded_all<T>({3 * small, -3 * small}));
}

template <class T>
Case sigmoid_mul(Gen& g, u64 n) {
  const auto a = g.values<T>(n), b = g.normal<T>(3.0, n);
  const auto out = g.output<T>(n);
  std::vector<f64> want(n);
  for (u64 i = 0; i < n; ++i) want[i] = a.at(i) * logistic(b.at(i));
  return Case{SigmoidMul<T>{.a = a, .b = b, .out = out}}.expect("out", want);
}

}  // namespace

void register_scalar_fused(Registry& r) {
  const auto fma = [&](const char* name, const char* doc, bool gated, bool with_residual) {
    auto k = r.kernel<ScalarFma>(name, "unary", dtypes<f32, f16, bf16>, [=]<class K>(K& kernel) {
      kernel.gated = gated;
      if (with_residual) kernel.residual = decltype(kernel.residual)(BufferRef{});
    });
    k.doc(doc);
    k.test("ragged values", one_rounding,
           [=]<class T>(Gen& g) { return scalar_fma<T>(g, 1003, gated, with_residual); });
    k.test("one element", one_rounding, [=]<class T>(Gen& g) { return scalar_fma<T>(g, 1, gated, with_residual); });
    k.bench("1M", [=]<class T>(Gen& g) { return scalar_fma<T>(g, 1 << 20, gated, with_residual); });
  };
  fma("scalar_fma", "base + s * value with one number s in memory, elementwise.", false, false);
  fma("sigmoid_scalar_fma", "base + sigmoid(gate) * value with one gate in memory, elementwise.", true, false);
  fma("sigmoid_scalar_fma_residual", "base + sigmoid(gate) * value + residual with one gate in memory, elementwise.",
      true, true);

  auto chain = r.kernel<ScalarFmaChain8>("scalar_fma_chain8", "unary", dtypes<f32, f16, bf16>);
  chain.doc("Sum of eight vectors, each times its own number in memory, added in order 0 to 7.");
  chain.test("ragged values", tolerance(4e-6, 1e-3, 8e-3), []<class T>(Gen& g) { return chain8<T>(g, 519); });
  chain.test("order of addition", exact_match, []<class T>(Gen& g) { return chain8_order<T>(g); });
  chain.bench("1M", []<class T>(Gen& g) { return chain8<T>(g, 1 << 20).computes(16.0 * (1 << 20)); });

  auto gate = r.kernel<SigmoidMul>("sigmoid_mul", "unary", dtypes<f32, f16, bf16>);
  gate.doc("a * sigmoid(b), elementwise.");
  gate.test("ragged values", one_rounding, []<class T>(Gen& g) { return sigmoid_mul<T>(g, 1003); });
  gate.bench("1M", []<class T>(Gen& g) { return sigmoid_mul<T>(g, 1 << 20); });
}

}  // namespace iron::kernels
