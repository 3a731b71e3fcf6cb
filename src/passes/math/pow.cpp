// pow: log2 of the base in two f32, times the exponent, to 2^; special cases of IEEE 754.
#include <limits>

#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py pow: log2((1 + s) / (1 - s)) = 2 log2(e) s + s^3 P(s^2), |s| <= 0.1716, error 0.000189 x 2^-24
constexpr f32 pow_poly[] = {0x1.ec709ep-1f, 0x1.2776e0p-1f, 0x1.a5d066p-2f, 0x1.588c06p-2f};
constexpr f32 two_log2_e = 0x1.715476p+1f, two_log2_e_low = 0x1.4ae0c0p-25f;
constexpr f32 infinity = std::numeric_limits<f32>::infinity();

struct Double {
  Val high, low;
};

// log2 of a magnitude: 2^k m with s = (m - 1) / (m + 1), and what the roundings of s and of the sum lost.
Double log2_of(Val a) {
  const Val proper = (a > 0.0f) & (a < infinity);
  const Val p = select(proper, a, 1.0f);
  const Val tiny = p < std::numeric_limits<f32>::min();
  const Val b = bits(select(tiny, p * 0x1p23f, p));
  const Val k_int = log_exponent(b);
  const Val k = cast(DType::f32, k_int) - select(tiny, 23.0f, 0.0f);
  const Val f = as_float(b - (k_int << 23)) - 1.0f;
  const Val d = f + 2.0f, d_low = f - (d - 2.0f);
  const Val inverse = 1.0f / d;
  const Val s = f * inverse;
  const Val s_low = fma(-s, d_low, fma(-s, d, f)) * inverse;
  // s^3 with its low part as well: its roundings alone would cost 5 ULP where the result overflows.
  const Val square = s * s, square_low = fma(s + s, s_low, fma(s, s, -square));
  const Val cube = s * square, cube_low = fma(s_low, square, fma(s, square_low, fma(s, square, -cube)));
  const Val cubic = cube * pow_poly[0];
  const Val cubic_low = fma(cube_low, pow_poly[0], fma(cube, pow_poly[0], -cubic));
  const Val higher = fma(cube * square, poly(square, std::span(pow_poly).subspan(1)), cubic_low);
  const Val first = s * two_log2_e;
  const Val first_low = fma(s_low, two_log2_e, fma(s, two_log2_e_low, fma(s, two_log2_e, -first)));
  const Val rest = cubic + (first_low + higher);
  const Val sum = k + first;
  const Val lost = ((k - sum) + first) + rest;
  const Val high = sum + lost;
  const Val low = lost - (high - sum);
  return {select(proper, high, select(a == 0.0f, -infinity, a)), low};
}
}  // namespace

Val pow(Val x, Val y) {
  const Val undefined = is_nan(x) | is_nan(y);
  const Val base = select(undefined, 1.0f, x), e = select(undefined, 1.0f, y);
  const Val a = abs(base);
  const auto [high, low] = log2_of(a);
  const Val product = e * high;
  const Val in_range = abs(product) < 152.0f;
  const Val product_low = select(in_range, fma(e, low, fma(e, high, -product)), 0.0f);
  const Val t = above(below(product, 152.0f), -152.0f);
  const auto power = exp2_sum(t, product_low);
  const Val magnitude = select(a == 1.0f, 1.0f, power);  // also for infinite exponents

  const Val half = e * 0.5f;
  const Val whole = trunc(e) == e;
  const Val odd = whole & (trunc(half) != half);
  const Val negative = sign_bit(base) & select(odd, x.emit->i(-1), x.emit->i(0));
  const Val signed_power = with_sign(magnitude, negative);
  const Val no_root = (base < 0.0f) & (a < infinity) & !whole;
  const Val y_or_nan = select(undefined | no_root, std::numeric_limits<f32>::quiet_NaN(), signed_power);
  return select((y == 0.0f) | (x == 1.0f), 1.0f, y_or_nan);
}

}  // namespace iron::passes::math
