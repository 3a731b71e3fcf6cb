// exp, exp2, expm1 and their common reduction.
#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py exp: e^r = 1 + r + r^2 P(r), [-0.3475, 0.3475], error 0.24 x 2^-24 relative to e^r - 1
constexpr f32 exp_tail[] = {0x1.fffffep-2f, 0x1.5554a8p-3f, 0x1.555796p-5f, 0x1.122e28p-7f, 0x1.6ac048p-10f};
// fit.py exp2: 2^r = 1 + r P(r), [-0.5001, 0.5001], error 0.0921 x 2^-24
constexpr f32 exp2_slope[] = {0x1.62e432p-1f, 0x1.ebfbe6p-3f,  0x1.c6adc8p-5f,
                              0x1.3b2538p-7f, 0x1.5fa8e2p-10f, 0x1.47b6e2p-13f};

constexpr f32 log2_e = 0x1.715476p+0f;
// ln 2 in two parts; the first has 16 bits, so that k * ln2_high is exact for |k| <= 2^8.
constexpr f32 ln2_high = 0x1.62e4p-1f;
constexpr f32 ln2_low = 0x1.7f7d1cp-20f;

struct Rounded {
  Val number, as_int;
};
Rounded round_to_int(Val shifted) { return {shifted - round_magic, bits(shifted) - round_magic_bits}; }
}  // namespace

ExpParts exp_parts(Val x) {
  const auto [k, k_int] = round_to_int(fma(x, log2_e, round_magic));
  const Val r = fma(k, -ln2_low, fma(k, -ln2_high, x));
  return {k_int, r, r * r * poly(r, exp_tail)};
}

Val exp2_core(Val t) {
  const auto [k, k_int] = round_to_int(t + round_magic);
  const Val r = t - k;
  const Val p = fma(r, poly(r, exp2_slope), 1.0f);
  return as_float(bits(p) + (k_int << 23));
}

// The clamps keep k small: beyond them ldexp rounds to infinity or zero anyway. They turn NaN into a number, so that no
// NaN meets a bitcast; the last select brings it back.
Val exp(Val x) {
  const auto [k, r, tail] = exp_parts(above(below(x, 89.0f), -104.0f));
  const Val y = ldexp((r + tail) + 1.0f, k);
  return select(is_nan(x), x, y);
}

Val exp2_sum(Val t, Val low) {
  const auto [k, k_int] = round_to_int(t + round_magic);
  const Val r = (t - k) + low;
  return ldexp(fma(r, poly(r, exp2_slope), 1.0f), k_int);
}

Val exp2(Val x) {
  const Val t = above(below(x, 129.0f), -151.0f);
  const auto [k, k_int] = round_to_int(t + round_magic);
  const Val r = t - k;
  return select(is_nan(x), x, ldexp(fma(r, poly(r, exp2_slope), 1.0f), k_int));
}

// 2^k (q + (1 - 2^-k)) with q = e^r - 1: exact where k = 0, and no cancellation elsewhere.
Val expm1(Val x) {
  const auto [k, r, tail] = exp_parts(above(below(x, 89.0f), -18.0f));
  const Val inverse = as_float(max_int(x.emit->i(127) - k, 0) << 23);  // 2^-k; 0 for k = 128, where it does not count
  const Val y = ldexp((r + tail) + (1.0f - inverse), k);
  return keep_tiny(x, y);
}

}  // namespace iron::passes::math
