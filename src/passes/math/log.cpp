// log, log2, log10, log1p over one mantissa polynomial.
#include <limits>

#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py log: log(1 + f) = f + f^2 P(f), [sqrt(1/2) - 1, sqrt(2) - 1], error 0.0921 x 2^-24
constexpr f32 log_poly[] = {-0x1.fffff8p-2f, 0x1.555558p-2f,  -0x1.00044cp-2f, 0x1.999fecp-3f, -0x1.541ae0p-3f,
                            0x1.22bc9ap-3f,  -0x1.0ffc20p-3f, 0x1.06a35ap-3f,  -0x1.300d8ap-4f};

constexpr i32 sqrt_half_bits = 0x3f3504f3;
constexpr f32 infinity = std::numeric_limits<f32>::infinity();
constexpr f32 nan = std::numeric_limits<f32>::quiet_NaN();

// A factor as a sum: `high` has few bits, so that its product with an exponent is exact.
struct Split {
  f32 high, low;
};
constexpr Split ln2{0x1.62e4p-1f, 0x1.7f7d1cp-20f};
constexpr Split log10_2{0x1.3440p-2f, 0x1.3509f8p-18f};
constexpr Split log2_e{0x1.715476p+0f, 0x1.4ae0c0p-26f};
constexpr Split log10_e{0x1.bcb7b2p-2f, -0x1.5b235ep-27f};

// k and f with x = 2^k (1 + f). What has no logarithm is taken as 1.
struct Parts {
  Val k, f;
};
Parts split(Val x) {
  const Val a = select(x > 0.0f, x, 1.0f);
  const Val tiny = a < std::numeric_limits<f32>::min();
  const Val b = bits(select(tiny, a * 0x1p23f, a));
  const Val k = log_exponent(b);
  const Val m = as_float(b - (k << 23));
  return {cast(DType::f32, k) - select(tiny, 23.0f, 0.0f), m - 1.0f};
}

// The logarithm of what has none: infinity and NaN as they are, -infinity of zero, NaN of negative numbers.
Val special(Val x, Val y) {
  const Val outside = select(x == 0.0f, -infinity, nan);
  return select(x < infinity, select(x > 0.0f, y, outside), x);
}
}  // namespace

Val log_exponent(Val bits_of_a) { return (bits_of_a - sqrt_half_bits) >> 23; }

Val log_tail(Val f) { return f * f * poly(f, log_poly); }

Val log_sum(Val k_float, Val f, Val tail) { return fma(k_float, ln2.high, f + fma(k_float, ln2.low, tail)); }

ExactSum log_sum_exact(Val k_float, Val f, Val tail) {
  const Val rest = f + fma(k_float, ln2.low, tail);
  const Val sum = fma(k_float, ln2.high, rest);
  return {sum, fma(k_float, ln2.high, -sum) + rest};
}

Val log(Val x) {
  const auto [k, f] = split(x);
  return special(x, log_sum(k, f, log_tail(f)));
}

namespace {
// k * log_b(2) + log_b(e) * (f + tail), with log_b(e) split so that a small f keeps its last bit.
Val scaled(Val x, Split base_e, Split base_2, bool exponent_exact) {
  const auto [k, f] = split(x);
  const Val low = fma(f, base_e.low, log_tail(f) * base_e.high);
  const Val y =
      exponent_exact ? k + fma(f, base_e.high, low) : fma(k, base_2.high, fma(f, base_e.high, fma(k, base_2.low, low)));
  return special(x, y);
}
}  // namespace

Val log2(Val x) { return scaled(x, log2_e, {1.0f, 0.0f}, true); }
Val log10(Val x) { return scaled(x, log10_e, log10_2, false); }

// 2^-k (1 + x) - 1 with one rounding: nothing is lost in 1 + x, which only chooses k.
Val log1p_core(Val x) {
  const Val k = log_exponent(bits(1.0f + x));
  const Val scale = ldexp(x.emit->f(1.0f), x.emit->i(0) - k);
  const Val f = fma(x, scale, scale - 1.0f);
  return log_sum(cast(DType::f32, k), f, log_tail(f));
}

Val log1p(Val x) {
  const Val inside = x > -1.0f;
  const Val y = log1p_core(select(inside, x, 0.0f));
  const Val outside = select(x == -1.0f, -infinity, nan);
  return select(x < infinity, select(inside, keep_tiny(x, y), outside), x);
}

}  // namespace iron::passes::math
