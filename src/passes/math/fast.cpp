// The named fast forms where a device has no instruction: shorter polynomials, denormals flushed, a stated error.
#include <limits>

#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py exp2_short: 2^r = 1 + r P(r), [-0.5001, 0.5001], error 7.99 x 2^-24
constexpr f32 exp2_slope[] = {0x1.62e39ep-1f, 0x1.ebfa4ep-3f, 0x1.c742fep-5f, 0x1.3cbc72p-7f, 0x1.235668p-10f};
// fit.py log_short: log(1 + f) = f + f^2 P(f), [sqrt(1/2) - 1, sqrt(2) - 1], error 9.36 x 2^-24
constexpr f32 log_poly[] = {-0x1.00006cp-1f, 0x1.55685ap-2f, -0x1.ff8f2ep-3f, 0x1.93412ap-3f,
                            -0x1.59a954p-3f, 0x1.6f9ffep-3f, -0x1.1846a0p-3f};
constexpr f32 infinity = std::numeric_limits<f32>::infinity();
constexpr f32 nan = std::numeric_limits<f32>::quiet_NaN();
constexpr f32 smallest_normal = std::numeric_limits<f32>::min();

// The ends of the clamp are where adding k to the exponent field gives infinity and zero.
Val exp2_clamped(Val t) {
  const Val c = above(below(t, 128.0f), -127.0f);
  const Val shifted = c + round_magic;
  const Val r = c - (shifted - round_magic);
  const Val p = fma(r, poly(r, exp2_slope), 1.0f);
  return as_float(bits(p) + (bits(shifted) << 23));  // the magic number's own bits leave the word
}

struct Parts {
  Val k, log_m;
};
Parts parts(Val x) {
  const Val b = bits(select(x >= smallest_normal, x, 1.0f));
  const Val k = log_exponent(b);
  const Val f = as_float(b - (k << 23)) - 1.0f;
  return {cast(DType::f32, k), fma(f * f, poly(f, log_poly), f)};
}
Val special(Val x, Val y) {
  const Val outside = select(x >= 0.0f, -infinity, x.emit->f(nan));
  return select(x < infinity, select(x >= smallest_normal, y, outside), x);
}
}  // namespace

Val fast_exp2(Val x) { return select(is_nan(x), x, exp2_clamped(x)); }
Val fast_exp(Val x) { return select(is_nan(x), x, exp2_clamped(x * 0x1.715476p+0f)); }

Val fast_log2(Val x) {
  const auto [k, log_m] = parts(x);
  return special(x, fma(log_m, 0x1.715476p+0f, k));
}
Val fast_log(Val x) {
  const auto [k, log_m] = parts(x);
  return special(x, fma(k, 0x1.62e43p-1f, log_m));
}

}  // namespace iron::passes::math
