// sin, cos, tan: reduction by multiples of pi/2, right for every f32.
#include <array>
#include <limits>

#include "passes/math/emit.h"

namespace iron::passes::math {

namespace {
// fit.py sin: sin r = r + r^3 P(r^2), |r| <= 0.7875, error 0.0698 x 2^-24
constexpr f32 sin_poly[] = {-0x1.555544p-3f, 0x1.1106c6p-7f, -0x1.991c2cp-13f};
// fit.py cos: cos r = 1 - r^2/2 + r^4 P(r^2), |r| <= 0.7875, error 0.00204 x 2^-24
constexpr f32 cos_poly[] = {0x1.55554ap-5f, -0x1.6c0c26p-10f, 0x1.99e706p-16f};

constexpr f32 two_over_pi = 0x1.45f306p-1f;
constexpr f32 half_pi[] = {0x1.921fb6p+0f, -0x1.777a5cp-25f, -0x1.ee59dap-50f};
// Up to here k = x * 2/pi stays below 2^17, x - k * half_pi[0] is exact and |r| stays below 0.7875.
constexpr f32 cody_waite_limit = 0x1p17f;

// The bits of 2/pi, 32 a word, after 32 zeros.
constexpr u32 two_over_pi_words[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                     0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};

/// x = quadrant * pi/2 + r + low, the quadrant modulo 4.
struct Reduced {
  Val r, quadrant, low;
};

// |x| > 2^17. With |x| = m 2^e, the bits of 2/pi worth 2^(2-e) and more only add multiples of 4 to m 2^e 2/pi, so 96
// bits from there on are enough: y = m * window mod 2^96 is 2/pi |x| modulo 4 in units of 2^-94.
Reduced reduce_huge(Val x) {
  Emit& e = *x.emit;
  const auto wide = [](Val v) { return cast(DType::u64, v); };
  const auto wide_const = [&](u64 v) { return e.constant(DType::u64, v); };
  const Val finite = abs(x) < std::numeric_limits<f32>::infinity();
  const Val b = e.convert(ir::Opcode::Bitcast, DType::u32, select(finite, abs(x), 0x1p100f));
  const Val m = (b & e.u(0x7fffff)) | e.u(0x800000);
  const Val skip = (b >> e.u(23)) - e.u(150 - 30);  // e + 30: two bits above the point, and the 32 zeros
  const Val word = skip >> e.u(5), shift = skip & e.u(31);
  std::array<Val, 5> is;
  for (u32 n = 1; n < 5; ++n) is[n] = word == e.u(n);
  std::array<Val, 4> words;
  for (u32 n = 0; n < 4; ++n) {
    words[n] = e.u(two_over_pi_words[n]);
    for (u32 at = 1; at < 5; ++at) words[n] = select(is[at], e.u(two_over_pi_words[n + at]), words[n]);
  }
  std::array<Val, 3> window;
  for (u32 n = 0; n < 3; ++n) window[n] = wide(e.op(ir::Opcode::FunnelShl, {words[n], words[n + 1], shift}));
  const Val wide_m = wide(m);
  const Val thirty_two = wide_const(32);
  const Val y = ((wide_m * window[0]) << thirty_two) + wide_m * window[1] + ((wide_m * window[2]) >> thirty_two);
  const Val quadrant = (y + wide_const(u64{1} << 61)) >> wide_const(62);
  const Val fraction = e.convert(ir::Opcode::Bitcast, DType::i64, y - (quadrant << wide_const(62)));
  // fraction * pi/2 in two parts, added at the end: one rounding in all.
  const Val high = cast(DType::f32, fraction);
  const Val rest = cast(DType::f32, fraction - cast(DType::i64, high));
  constexpr f32 scale = half_pi[0] * 0x1p-62f, scale_low = half_pi[1] * 0x1p-62f;
  const Val product = high * scale;
  const Val low = fma(rest, scale, fma(high, scale_low, fma(high, scale, -product)));
  const Val sum = product + low;
  const Val r = select(finite, sum, std::numeric_limits<f32>::quiet_NaN());
  const Val lost = low - (sum - product);
  const Val q = cast(DType::i32, quadrant);
  const Val negative = x < 0.0f;
  return {select(negative, -r, r), select(negative, e.i(0) - q, q), select(negative, -lost, lost)};
}

// Three parts of pi/2; whatever is too large, infinite or NaN takes the branch. `low` costs six ops: only tan asks for
// it.
enum class Want { r, low };
Reduced reduce(Val x, Want want) {
  const Val moderate = abs(x) <= cody_waite_limit;
  const Val a = select(moderate, x, 0.0f);
  const Val shifted = fma(a, two_over_pi, round_magic);
  const Val k = shifted - round_magic;
  const Val first = fma(k, -half_pi[0], a);  // exact
  if (want == Want::r) {
    const Val r = fma(k, -half_pi[2], fma(k, -half_pi[1], first));
    const auto out = x.emit->branch<2>(!moderate, {r, bits(shifted)}, [&] {
      const auto huge = reduce_huge(x);
      return std::array{huge.r, huge.quadrant};
    });
    return {out[0], out[1], {}};
  }
  const Val step = k * -half_pi[1];
  const Val step_low = fma(k, -half_pi[2], fma(k, -half_pi[1], -step));
  const Val r = first + step;
  const Val low = ((first - r) + step) + step_low;
  const auto out = x.emit->branch<3>(!moderate, {r, bits(shifted), low}, [&] {
    const auto huge = reduce_huge(x);
    return std::array{huge.r, huge.quadrant, huge.low};
  });
  return {out[0], out[1], out[2]};
}

Val sin_near_zero(Val r, Val square) { return fma(r * square, poly(square, sin_poly), r); }
Val cos_near_zero(Val square) { return fma(square * square, poly(square, cos_poly), fma(square, -0.5f, 1.0f)); }

// sin of r plus that many quarter turns.
Val sin_of_turns(Val r, Val quadrant) {
  const Val square = r * r;
  const Val y = select((quadrant & 1) != 0, cos_near_zero(square), sin_near_zero(r, square));
  return select((quadrant & 2) != 0, -y, y);
}
}  // namespace

Val sin(Val x) {
  const Reduced a = reduce(x, Want::r);
  return keep_tiny(x, sin_of_turns(a.r, a.quadrant));
}

Val cos(Val x) {
  const Reduced a = reduce(x, Want::r);
  return sin_of_turns(a.r, a.quadrant + 1);
}

namespace {
// fit.py tan: tan r = r + r^3 P(r^2), |r| <= 0.7875, error 0.0534 x 2^-24
constexpr f32 tan_poly[] = {0x1.555560p-2f, 0x1.110da6p-3f,  0x1.bad7acp-5f, 0x1.5cd79ep-6f,
                            0x1.625506p-7f, 0x1.e767acp-14f, 0x1.1dfb48p-8f};
}  // namespace

// With the last bits of the reduction, since tan doubles their error near pi/4; -1 / tan r in odd quadrants, corrected
// by what the rounding of tan r lost.
Val tan(Val x) {
  const auto [r, quadrant, low] = reduce(x, Want::low);
  const Val square = r * r;
  const Val cubic = r * square * poly(square, tan_poly);
  const Val rough = r + cubic;
  const Val tail = fma(low, fma(rough, rough, 1.0f), cubic);
  const Val t = r + tail;
  const Val lost = tail - (t - r);
  const Val inverse = -1.0f / t;
  const Val residual = fma(lost, inverse, fma(t, inverse, 1.0f));
  const Val odd = fma(inverse, residual, inverse);
  return keep_tiny(x, select((quadrant & 1) != 0, odd, t));
}

}  // namespace iron::passes::math
