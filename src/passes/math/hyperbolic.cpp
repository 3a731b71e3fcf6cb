// sinh, cosh, tanh and their inverses.
#include <limits>

#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py tanh: tanh x = x + x^3 P(x^2), |x| <= 0.5625, error 0.0232 x 2^-24
constexpr f32 tanh_poly[] = {-0x1.555548p-2f, 0x1.110c5ep-3f, -0x1.b905c8p-5f, 0x1.58124ep-6f, -0x1.945882p-8f};
// fit.py sinh: sinh x = x + x^3 P(x^2), |x| <= 1, error 0.00509 x 2^-24
constexpr f32 sinh_poly[] = {0x1.555556p-3f, 0x1.1110e0p-7f, 0x1.a022bcp-13f, 0x1.756c1ep-19f};
// fit.py asinh: asinh x = x + x^3 P(x^2), |x| <= 0.5, error 0.0218 x 2^-24
constexpr f32 asinh_poly[] = {-0x1.555536p-3f, 0x1.3324f2p-4f, -0x1.6b95d0p-5f, 0x1.cd642ep-6f, -0x1.b14fe2p-7f};
// fit.py acosh: acosh(1 + t) = sqrt(2t) (1 + t P(t)), t <= 0.6, error 0.00399 x 2^-24
constexpr f32 acosh_poly[] = {-0x1.555554p-4f,  0x1.333272p-6f,  -0x1.6d91cap-8f, 0x1.ee642cp-10f,
                              -0x1.5924dap-11f, 0x1.9f5636p-13f, -0x1.1e1020p-15f};
// fit.py atanh: atanh x = x + x^3 P(x^2), |x| <= 0.5, error 0.027 x 2^-24
constexpr f32 atanh_poly[] = {0x1.555540p-2f, 0x1.99a65ap-3f, 0x1.23510cp-3f,
                              0x1.e3b4a6p-4f, 0x1.a96760p-5f, 0x1.68280cp-3f};

constexpr f32 infinity = std::numeric_limits<f32>::infinity();
constexpr f32 nan = std::numeric_limits<f32>::quiet_NaN();
constexpr f32 ln2 = 0x1.62e43p-1f;

Val odd(Val a, Val square, std::span<const f32> c) { return fma(a * square, poly(square, c), a); }

// e^a / 2 for 0 <= a: halved, so that it overflows no earlier than sinh and cosh.
Val half_exp(Val a) {
  const auto [k, r, tail] = exp_parts(a);
  return ldexp((r + tail) + 1.0f, k - 1);
}
}  // namespace

// 1 - 2 / (e^2a + 1) from a = 0.5625 on, where nothing cancels.
Val tanh(Val x) {
  const Val c = above(below(x, 10.0f), -10.0f);
  const Val a = abs(c);
  const Val near = odd(a, a * a, tanh_poly);
  const Val far = 1.0f - 2.0f / (exp2_core(a * 0x1.715476p+1f) + 1.0f);
  return keep_tiny(x, with_sign(select(a < 0.5625f, near, far), sign_bit(c)));
}

Val sinh(Val x) {
  const Val c = above(below(x, 90.0f), -90.0f);
  const Val a = abs(c);
  const Val h = half_exp(a);
  const Val far = h - 0.25f / h;
  return keep_tiny(x, with_sign(select(a < 1.0f, odd(a, a * a, sinh_poly), far), sign_bit(c)));
}

Val cosh(Val x) {
  const Val h = half_exp(below(abs(x), 90.0f));
  return select(is_nan(x), x, h + 0.25f / h);
}

// log of the sum a + sqrt(a^2 + 1); beyond 2^30 the root is a itself.
Val asinh(Val x) {
  const Val finite = abs(x) < infinity;
  const Val c = select(finite, x, 0.0f);
  const Val a = abs(c);
  const Val square = a * a;
  const Val large = a > 0x1p30f;
  const Val w = select(large, a, a + square / (sqrt(square + 1.0f) + 1.0f));
  const Val whole = log1p_core(w);
  const Val l = select(large, whole + ln2, whole);
  return select(finite, with_sign(select(a < 0.5f, odd(a, square, asinh_poly), l), sign_bit(c)), x);
}

// With t = x - 1: a multiple of sqrt(2t) near 1, else log(x + sqrt(x^2 - 1)) as log1p of t + sqrt(t^2 + 2t).
Val acosh(Val x) {
  const Val inside = (x >= 1.0f) & (x < infinity);
  const Val t = select(inside, x - 1.0f, 0.0f);
  const Val large = t > 0x1p30f;
  const Val w = select(large, t, t + sqrt(fma(t, t, t + t)));
  const Val l = log1p_core(w);
  const Val root = sqrt(t + t);
  const Val near = fma(root * t, poly(t, acosh_poly), root);
  const Val y = select(t < 0.6f, near, select(large, l + ln2, l));
  return select(inside, y, select(x > 1.0f, x, nan));
}

// log((1 + a) / (1 - a)) / 2 from 0.5 on, where 1 - a is exact.
Val atanh(Val x) {
  const Val inside = abs(x) < 1.0f;
  const Val c = select(inside, x, 0.0f);
  const Val a = abs(c);
  const Val far = 0.5f * log1p_core((a + a) / (1.0f - a));
  const Val y = with_sign(select(a < 0.5f, odd(a, a * a, atanh_poly), far), sign_bit(c));
  return select(inside, y, select(abs(x) == 1.0f, x * infinity, x.emit->f(nan)));
}

}  // namespace iron::passes::math
