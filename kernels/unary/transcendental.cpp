// Exponentials, logarithms, circular and hyperbolic functions, error functions and activations, elementwise.
#include <numbers>

#include "registry.h"
#include "specials.h"
#include "unary/unary.h"

namespace iron::kernels {
namespace {

enum class Zero : u8 {
  none,    ///< f(0) is not 0
  linear,  ///< f(x) ~ c x near 0: relative precision is kept there
  odd,     ///< linear, and f(-0) = -0
};

struct Row {
  const char *name, *doc;
  UnaryOp op;
  f64 (*oracle)(f64);
  f64 low, high;  ///< of the ragged test; outside the domain the special values ask for NaN
  Zero zero;
  bool at_infinity = true;  ///< f has a value at both infinities
};

// Bisection on erf, which the host library has: no polynomial in common with the kernel.
f64 inverse_erf(f64 a) {
  if (!(std::abs(a) <= 1.0)) return not_a_number;
  if (std::abs(a) == 1.0) return std::copysign(infinity, a);
  f64 low = 0, high = 7;
  for (int i = 0; i < 200; ++i) {
    const f64 mid = 0.5 * (low + high), m = std::abs(a);
    const bool below = m < 0.5 ? std::erf(mid) < m : std::erfc(mid) > 1.0 - m;
    (below ? low : high) = mid;
  }
  return std::copysign(low, a);
}
f64 logistic(f64 x) { return x >= 0 ? 1.0 / (1.0 + std::exp(-x)) : std::exp(x) / (1.0 + std::exp(x)); }
f64 tanh_gelu(f64 x) {
  return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}
f64 soft_maximum(f64 x) { return std::log1p(std::exp(-std::abs(x))) + (x > 0 ? x : 0.0 * x == 0.0 || x < 0 ? 0.0 : x); }

const Row rows[] = {
    {"exp", "e^x, elementwise.", UnaryOp::exp, [](f64 x) { return std::exp(x); }, -9, 9, Zero::none},
    {"exp2", "2^x, elementwise.", UnaryOp::exp2, [](f64 x) { return std::exp2(x); }, -9, 9, Zero::none},
    {"log", "Natural logarithm, elementwise.", UnaryOp::log, [](f64 x) { return std::log(x); }, 0.01, 30, Zero::none},
    {"log2", "Logarithm to base 2, elementwise.", UnaryOp::log2, [](f64 x) { return std::log2(x); }, 0.01, 30,
     Zero::none},
    {"log10", "Logarithm to base 10, elementwise.", UnaryOp::log10, [](f64 x) { return std::log10(x); }, 0.01, 30,
     Zero::none},
    {"log1p", "log(1 + x), elementwise, precise near 0.", UnaryOp::log1p, [](f64 x) { return std::log1p(x); }, -0.9, 9,
     Zero::odd},
    {"expm1", "e^x - 1, elementwise, precise near 0.", UnaryOp::expm1, [](f64 x) { return std::expm1(x); }, -9, 9,
     Zero::odd},
    {"sin", "Sine of radians, elementwise, reduced exactly.", UnaryOp::sin, [](f64 x) { return std::sin(x); }, -20, 20,
     Zero::odd},
    {"cos", "Cosine of radians, elementwise, reduced exactly.", UnaryOp::cos, [](f64 x) { return std::cos(x); }, -20,
     20, Zero::none},
    {"tan", "Tangent of radians, elementwise, reduced exactly.", UnaryOp::tan, [](f64 x) { return std::tan(x); }, -20,
     20, Zero::odd},
    {"asin", "Arc sine on [-1, 1], elementwise; NaN outside.", UnaryOp::asin, [](f64 x) { return std::asin(x); }, -1, 1,
     Zero::odd},
    {"acos", "Arc cosine on [-1, 1], elementwise; NaN outside.", UnaryOp::acos, [](f64 x) { return std::acos(x); }, -1,
     1, Zero::none},
    {"atan", "Arc tangent, elementwise.", UnaryOp::atan, [](f64 x) { return std::atan(x); }, -9, 9, Zero::odd},
    {"sinh", "Hyperbolic sine, elementwise.", UnaryOp::sinh, [](f64 x) { return std::sinh(x); }, -9, 9, Zero::odd},
    {"cosh", "Hyperbolic cosine, elementwise.", UnaryOp::cosh, [](f64 x) { return std::cosh(x); }, -9, 9, Zero::none},
    {"tanh", "Hyperbolic tangent, elementwise.", UnaryOp::tanh, [](f64 x) { return std::tanh(x); }, -5, 5, Zero::odd},
    {"asinh", "Inverse hyperbolic sine, elementwise.", UnaryOp::asinh, [](f64 x) { return std::asinh(x); }, -9, 9,
     Zero::odd},
    {"acosh", "Inverse hyperbolic cosine on [1, inf), elementwise; NaN below.", UnaryOp::acosh,
     [](f64 x) { return std::acosh(x); }, 1, 20, Zero::none},
    {"atanh", "Inverse hyperbolic tangent on [-1, 1], elementwise; NaN outside.", UnaryOp::atanh,
     [](f64 x) { return std::atanh(x); }, -0.99, 0.99, Zero::odd},
    {"erf", "Error function, elementwise.", UnaryOp::erf, [](f64 x) { return std::erf(x); }, -4, 4, Zero::odd},
    {"erfinv", "Inverse error function on [-1, 1], elementwise; infinite at the ends, NaN outside.", UnaryOp::erfinv,
     inverse_erf, -0.9999, 0.9999, Zero::odd},
    {"sigmoid", "1 / (1 + e^-x), elementwise.", UnaryOp::sigmoid, logistic, -9, 9, Zero::none},
    {"silu", "x * sigmoid(x), elementwise; NaN at -inf.", UnaryOp::silu, [](f64 x) { return x * logistic(x); }, -9, 9,
     Zero::odd, false},
    {"gelu", "x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), elementwise; NaN at -inf.", UnaryOp::gelu, tanh_gelu, -6,
     6, Zero::odd, false},
    {"softplus", "log(1 + e^x) as max(x, 0) + log1p(e^-|x|), elementwise.", UnaryOp::softplus, soft_maximum, -9, 9,
     Zero::none},
};

template <template <class> class K, class T>
Case values(const Row& row, const Array<T>& x, Gen& g) {
  using Y = std::conditional_t<std::same_as<K<T>, UnaryToF32<T>>, f32, T>;
  const auto y = g.output<Y>(x.size());
  std::vector<f64> want;
  for (u64 i = 0; i < x.size(); ++i) want.push_back(rounded<Y>(row.oracle(x.at(i))));
  return Case{K<T>{.x = x, .y = y, .op = row.op}}.expect("y", want);
}
template <class T>
Array<T> specials(const Row& row, Gen& g) {
  auto v = row.at_infinity ? all_specials<T>() : finite_specials<T>();
  v.push_back(not_a_number);
  return listed<T>(g, v);
}
// The same values with the largest ones away: squares and cubes of them are beyond f64's own formula.
template <class T>
Array<T> around_zero(Gen& g) {
  const f64 size = std::same_as<T, f16> ? 1e-3 : 1e-7;
  return g.uniform<T>(-size, size, 301);
}

template <template <class> class K, class R>
void add_cases(const Row& row, R& k) {
  k.test("ragged values", one_rounding,
         [row]<class T>(Gen& g) { return values<K, T>(row, g.uniform<T>(row.low, row.high, 1003), g); });
  k.test("special values", one_rounding, [row]<class T>(Gen& g) { return values<K, T>(row, specials<T>(row, g), g); });
  if (row.zero != Zero::none)
    k.test("near zero", near_zero, [row]<class T>(Gen& g) { return values<K, T>(row, around_zero<T>(g), g); });
  k.bench("1M", [row]<class T>(Gen& g) {
    return values<K, T>(row, g.uniform<T>(row.low, row.high, 1 << 20), g).computes(20.0 * (1 << 20));
  });
}

}  // namespace

void register_unary_transcendental(Registry& r) {
  for (const auto& row : rows) {
    auto k = r.kernel<Unary>(row.name, "unary", dtypes<f32, f16, bf16>, [row](auto& u) { u.op = row.op; });
    k.doc(row.doc);
    add_cases<Unary>(row, k);
    if (row.zero == Zero::odd)
      k.test("signed zeros", exact_match, [row]<class T>(Gen& g) {
        const auto x = listed<T>(g, {-0.0, 0.0});
        const auto y = g.output<T>(2);
        return Case{Unary<T>{.x = x, .y = y, .op = row.op}}.expect_exact("y", rounded_all<T>({-0.0, 0.0}));
      });
    if (row.op == UnaryOp::silu) {
      auto wide = r.kernel<UnaryToF32>("silu_cast_to_f32", "unary", dtypes<f32, f16, bf16>,
                                       [](auto& u) { u.op = UnaryOp::silu; });
      wide.doc("x * sigmoid(x) with an f32 result, elementwise.");
      add_cases<UnaryToF32>(row, wide);
    }
  }
}

}  // namespace iron::kernels
