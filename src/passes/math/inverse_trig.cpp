// asin, acos, atan, atan2.
#include <limits>

#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py asin: asin x = x + x^3 P(x^2), |x| <= 0.5, error 0.0893 x 2^-24
constexpr f32 asin_poly[] = {0x1.5555c8p-3f, 0x1.330210p-4f, 0x1.74781ep-5f, 0x1.8c81f8p-6f, 0x1.5907a0p-5f};
// fit.py atan: atan x = x + x^3 P(x^2), |x| <= 1, error 0.0825 x 2^-24
constexpr f32 atan_poly[] = {-0x1.55553ep-2f, 0x1.9991e4p-3f,  -0x1.242086p-3f, 0x1.c089b8p-4f,  -0x1.57fba4p-4f,
                             0x1.d9fd30p-5f,  -0x1.fd5800p-6f, 0x1.64614ap-7f,  -0x1.d4bc0ap-10f};

constexpr f32 half_pi = 0x1.921fb6p+0f, half_pi_low = -0x1.777a5cp-25f;
constexpr f32 pi = 0x1.921fb6p+1f, pi_low = -0x1.777a5cp-24f;

// asin |x| = base + tail on |x| <= 0.5; above, asin |x| = pi/2 - 2 (base + tail) with base = sqrt((1 - |x|) / 2).
struct Arc {
  Val central, base, tail;
};
Arc arc(Val x) {
  const Val a = abs(x);
  const Val central = a <= 0.5f;
  const Val square = select(central, a * a, fma(a, -0.5f, 0.5f));
  const Val base = select(central, a, sqrt(square));
  return {central, base, base * square * poly(square, asin_poly)};
}

// atan of the quotient of two magnitudes, num <= den.
Val atan_unit(Val z) {
  const Val square = z * z;
  return fma(z * square, poly(square, atan_poly), z);
}
}  // namespace

// Outside [-1, 1] the root is of a negative number: NaN by itself.
Val asin(Val x) {
  const auto [central, base, tail] = arc(x);
  const Val twice = base + base;
  const Val difference = half_pi - twice;
  const Val lost = (half_pi - difference) - twice;
  const Val outer = difference + (lost - ((tail + tail) - half_pi_low));
  const Val y = select(central, base + tail, outer);
  return keep_tiny(x, select(x < 0.0f, -y, y));
}

Val acos(Val x) {
  const auto [central, base, tail] = arc(x);
  const Val negative = x < 0.0f;
  const Val b = select(negative, -base, base), t = select(negative, -tail, tail);
  const Val inner = half_pi - (b - (half_pi_low - t));
  const Val outer = (base + base) + (tail + tail);
  return select(central, inner, select(negative, (pi - (base + base)) - ((tail + tail) - pi_low), outer));
}

Val atan(Val x) {
  const Val a = abs(x);
  const Val steep = a > 1.0f;
  const Val t = atan_unit(select(steep, 1.0f / a, a));
  const Val y = select(steep, half_pi - (t - half_pi_low), t);
  return keep_tiny(x, select(x < 0.0f, -y, y));
}

// The octant by the larger magnitude, then reflections. Signs come from sign bits, so that zeros work.
Val atan2(Val y, Val x) {
  const Val undefined = is_nan(y) | is_nan(x);
  const Val py = select(undefined, 0.0f, y), px = select(undefined, 0.0f, x);
  const Val a = abs(py), b = abs(px);
  const Val steep = a > b;
  const Val num = select(steep, b, a), den = select(steep, a, b);
  const Val quotient = select(num == den, select(den == 0.0f, 0.0f, 1.0f), num / den);
  const Val t = atan_unit(quotient);
  const Val first = select(steep, half_pi - (t - half_pi_low), t);
  const Val left = sign_bit(px) != 0;
  const Val angle = select(left, pi - (first - pi_low), first);
  return select(undefined, y + x, with_sign(angle, sign_bit(py)));
}

}  // namespace iron::passes::math
