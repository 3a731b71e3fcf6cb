// erf and its inverse.
#include <limits>

#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py erf: erf x = x + x P(x^2), |x| <= 1, error 0.0572 x 2^-24
constexpr f32 erf_poly[] = {0x1.06eba8p-3f, -0x1.81273ep-2f,  0x1.ce2ce6p-4f, -0x1.b7f71ep-6f,
                            0x1.53f204p-8f, -0x1.a3537ap-11f, 0x1.479268p-14f};
// fit.py erfc: erfc x = 2^P(x), [1, 4], error 0.0298 x 2^-24 relative to erf x
constexpr f32 erfc_poly[] = {-0x1.026f98p-11f, -0x1.a0447ep+0f, -0x1.d75f6cp-1f, -0x1.30a3f8p-3f,
                             0x1.0216bep-5f,   -0x1.16af3ap-8f, 0x1.19ed16p-12f};
// fit.py erfinv_centre: erfinv x = x (sqrt(pi)/2 + w P(w)), w = -log(1 - x^2) in [0, 6.125], error 0.365 x 2^-24; the
// low part of the first coefficient is left out
constexpr f32 centre_poly[] = {0x1.db29e4p-3f,  0x1.7a80d0p-7f,   -0x1.32cd52p-9f, -0x1.f1e774p-14f, 0x1.3ca64ep-15f,
                               0x1.e22be2p-18f, -0x1.856f54p-19f, 0x1.99e9c2p-22f, -0x1.9f96d2p-26f, 0x1.5791e2p-31f};
constexpr f32 half_root_pi = 0x1.c5bf88p-1f, half_root_pi_low = 0x1.1b4ef6p-25f;
// fit.py erfinv_tail: erfinv x = x (tail_start + v P(v)), v = sqrt(w) - 3.25, w in [6.125, 16.2], error 0.425 x 2^-24
constexpr f32 tail_poly[] = {0x1.0158a2p+0f,   0x1.60129ep-8f,  -0x1.eaa6b6p-9f,  0x1.44cc8ep-9f,
                             -0x1.c6f2c6p-10f, 0x1.071718p-10f, -0x1.085a4ep-12f, -0x1.d16146p-15f};
constexpr f32 tail_start = 0x1.8abcc4p+1f, tail_start_low = -0x1.25f90cp-24f;
constexpr f32 infinity = std::numeric_limits<f32>::infinity();
constexpr f32 nan = std::numeric_limits<f32>::quiet_NaN();
}  // namespace

// Beyond 4 the result is 1. From 1 on the error function is one minus a small number, whose logarithm is smooth.
Val erf(Val x) {
  const Val c = above(below(x, 4.0f), -4.0f);
  const Val a = abs(c);
  const Val near = fma(a, poly(a * a, erf_poly), a);
  const Val far = 1.0f - exp2_core(poly(a, erfc_poly));
  return select(is_nan(x), x, with_sign(select(a < 1.0f, near, far), sign_bit(c)));
}

// w = -log(1 - x^2) comes with what its last rounding lost: between 4 and 6 that is worth most of an ULP of the result,
// whose slope over w is about 0.22 there.
Val erfinv(Val x) {
  const Val inside = abs(x) < 1.0f;
  const Val c = select(inside, x, 0.0f);
  const Val q = bits(fma(c, -c, 1.0f));
  const Val k = log_exponent(q);
  const Val f = as_float(q - (k << 23)) - 1.0f;
  const auto [log, lost] = log_sum_exact(cast(DType::f32, k), f, log_tail(f));
  const Val w = -log;
  const Val slope = fma(w, poly(w, centre_poly), fma(lost, -0.22f, half_root_pi_low));
  const Val centre = fma(c, half_root_pi, c * slope);
  const Val v = sqrt(w) - 3.25f;
  const Val tail = fma(c, tail_start, c * fma(v, poly(v, tail_poly), tail_start_low));
  const Val y = select(w < 6.125f, centre, tail);
  return select(inside, y, select(abs(x) == 1.0f, x * infinity, x.emit->f(nan)));
}

}  // namespace iron::passes::math
