// Gated products of feed-forward layers, elementwise.
#include <numbers>

#include "binary/binary.h"
#include "registry.h"
#include "specials.h"

namespace iron::kernels {

// Elementwise kernels of 16 bits are bound by issue slots before bytes: exp of silu costs a range check and a branch
// for subnormal results, its division one for subnormal operands. Here neither can occur.
Val<f32> silu_short(const Val<f32>& v) {
  constexpr f32 log2e = 1.442695f, shifter = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number
  const Val<f32> x = max(-v, -80.0f), shifted = fma(x, log2e, shifter);
  const Val<f32> part = fma(x, log2e, -(shifted - shifter));  // of 2^part, to 2.7e-6:
  const Val<f32> cubic = fma(fma(0.0095700976f, part, 0.055917867f), part, 0.24024744f);
  const Val<f32> power = fma(fma(cubic, part, 0.6931218f), part, 0.9999993f);
  const Val<f32> whole = bitcast<f32>((bitcast<u32>(shifted) << 23u) + 0x3f800000u);
  const Val<f32> d = fma(power, whole, 1.0f);
  // 1 / d: its exponent and mantissa negated to 6 %, then Newton's steps, to 2.4e-6.
  const Val<f32> rough = bitcast<f32>(0x7ef3f000u - bitcast<u32>(d));
  const Val<f32> better = rough * fma(-d, rough, 2.0015f);
  const Val<f32> inverse = better * fma(-d, better, 2.0f);
  return v * select(v < -87.0f, 0.0f, inverse);
}

namespace {

f64 logistic(f64 x) { return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }
f64 swiglu(f64 g, f64 u) { return g * logistic(g) * u; }
f64 gelu_gate(f64 g, f64 u) {
  return 0.5 * g * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (g + 0.044715 * g * g * g))) * u;
}
f64 clipped_swiglu(f64 g, f64 u) {
  g = std::fmin(std::fmax(g, -7.0), 7.0), u = std::fmin(std::fmax(u, -7.0), 7.0);
  return g * logistic(1.702 * g) * (u + 1.0);
}

struct Row {
  const char *name, *doc;
  Gate kind;
  f64 (*oracle)(f64, f64);
};
const Row rows[] = {
    {"swiglu", "silu(gate) * up, elementwise (Shazeer 2020).", Gate::swiglu, swiglu},
    {"fused_gate_gelu", "gelu(gate) * up with the tanh form, elementwise.", Gate::gelu, gelu_gate},
    {"fused_gate_clipped_swiglu", "g * sigmoid(1.702 g) * (u + 1) with gate and up clamped to +-7, elementwise.",
     Gate::clipped_swiglu, clipped_swiglu},
};

template <class T>
Case gated(const Row& row, const Array<T>& gate, const Array<T>& up, Gen& g) {
  const auto out = g.output<T>(gate.size());
  std::vector<f64> want;
  for (u64 i = 0; i < gate.size(); ++i) want.push_back(row.oracle(gate.at(i), up.at(i)));
  return Case{Gated<T>{.gate = gate, .up = up, .out = out, .kind = row.kind}}.expect("out", want);
}

}  // namespace

void register_gates(Registry& r) {
  constexpr auto limit = tolerance(4e-6, 6e-4, 5e-3);
  for (const auto& row : rows) {
    auto k = r.kernel<Gated>(row.name, "binary", dtypes<f32, f16, bf16>, [row](auto& gate) { gate.kind = row.kind; });
    k.doc(row.doc);
    k.test("ragged values", limit, [row]<class T>(Gen& g) {
      const auto gate = g.normal<T>(2.0, 1003), up = g.normal<T>(2.0, 1003);
      return gated<T>(row, gate, up, g);
    });
    k.test("large values", limit, [row]<class T>(Gen& g) {  // beyond the clamps, and where exp overflows
      const auto gate = g.uniform<T>(-120.0, 120.0, 257), up = g.uniform<T>(-20.0, 20.0, 257);
      return gated<T>(row, gate, up, g);
    });
    k.bench("1M", [row]<class T>(Gen& g) {
      const auto gate = g.values<T>(1 << 20), up = g.values<T>(1 << 20);
      return gated<T>(row, gate, up, g).computes(20.0 * (1 << 20));
    });
  }
}

}  // namespace iron::kernels
