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
// fit.py erfinv_centre: erfinv x = x P(w - 3.0625), w = -log(1 - x^2) in [0, 6.125], error 0.648 x 2^-24
constexpr f32 centre_poly[] = {0x1.a37cb0p+0f,   0x1.ed5ed4p-3f,   -0x1.82092ap-8f,  -0x1.9d18e4p-11f,
                               0x1.90ac48p-13f,  -0x1.bf7844p-17f, -0x1.a87b50p-20f, 0x1.d64e88p-22f,
                               -0x1.6ffbdcp-26f, -0x1.5b3392p-28f, 0x1.5c4188p-31f};
// fit.py erfinv_tail: erfinv x = x P(sqrt(w) - 3.25), w in [6.125, 16.2], error 0.726 x 2^-24
constexpr f32 tail_poly[] = {0x1.8abcc4p+1f,   0x1.0158a2p+0f,  0x1.60129ep-8f,   -0x1.eaa6b6p-9f, 0x1.44cc8ep-9f,
                             -0x1.c6f2c6p-10f, 0x1.071718p-10f, -0x1.085a4ep-12f, -0x1.d16146p-15f};
}  // namespace

// Beyond 4 the result is 1. From 1 on the error function is one minus a small number, whose logarithm is smooth.
Val erf(Val x) {
  const Val c = above(below(x, 4.0f), -4.0f);
  const Val a = abs(c);
  const Val near = fma(a, poly(a * a, erf_poly), a);
  const Val far = 1.0f - exp2_core(poly(a, erfc_poly));
  return select(is_nan(x), x, with_sign(select(a < 1.0f, near, far), sign_bit(c)));
}

Val erfinv(Val x) {
  const Val w = -log(fma(x, -x, 1.0f));
  const Val centre = poly(w - 3.0625f, centre_poly);
  const Val tail = poly(sqrt(w) - 3.25f, tail_poly);
  const Val y = x * select(w < 6.125f, centre, tail);
  return select(abs(x) == 1.0f, x * std::numeric_limits<f32>::infinity(), y);
}

}  // namespace iron::passes::math
