// The scalar evaluator against independent formulations: every 8- and 16-bit input, edges at 32 and 64 bits.
#include "ir/eval.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "iron/error.h"

namespace iron::ir {
namespace {

// Casts from 64-bit integers need more than f64 to be judged.
using Exact = long double;
static_assert(std::numeric_limits<Exact>::digits >= 64);

u64 ev(Opcode code, DType type, std::initializer_list<u64> v, u64 imm = 0) {
  const Type t = Type::value(type);
  const std::vector<Type> types(v.size(), t);
  return eval(code, t, types, std::vector<u64>(v), imm);
}
u64 cast(DType to, DType from, u64 bits) {
  const Type f = Type::value(from);
  return eval(Opcode::Cast, Type::value(to), {&f, 1}, {&bits, 1});
}
u64 ones(DType t) { return dtype_bits(t) == 64 ? ~u64{0} : (u64{1} << dtype_bits(t)) - 1; }
bool has_sign(DType t) { return is_signed_int(t) || t == DType::index; }

// --- an independent reading of a number and an independent rounding
Exact decode16(DType t, u64 bits) {
  const int man = t == DType::f16 ? 10 : 7, exp_bits = t == DType::f16 ? 5 : 8, bias = (1 << (exp_bits - 1)) - 1;
  const bool negative = bits >> 15 & 1;
  const int e = static_cast<int>(bits >> man) & ((1 << exp_bits) - 1), m = static_cast<int>(bits) & ((1 << man) - 1);
  Exact v = 0;
  if (e == (1 << exp_bits) - 1)
    v = m ? std::numeric_limits<Exact>::quiet_NaN() : std::numeric_limits<Exact>::infinity();
  else
    v = e ? std::ldexp(static_cast<Exact>(m + (1 << man)), e - bias - man)
          : std::ldexp(static_cast<Exact>(m), 1 - bias - man);
  return negative ? -v : v;
}
Exact decode(DType t, u64 bits) {
  switch (t) {
    case DType::f16:
    case DType::bf16:
      return decode16(t, bits);
    case DType::f32:
      return std::bit_cast<f32>(static_cast<u32>(bits));
    case DType::f64:
      return std::bit_cast<f64>(bits);
    case DType::boolean:
      return static_cast<Exact>(bits & 1);
    default: {
      const u64 v = bits & ones(t);
      if (has_sign(t) && v >> (dtype_bits(t) - 1)) return -static_cast<Exact>(ones(t) - v) - 1;
      return static_cast<Exact>(v);
    }
  }
}
bool is_nan16(DType t, u64 bits) { return std::isnan(decode16(t, bits)); }

/// The magnitudes of a 16-bit format in order; its rounding is a search for the nearest, ties to the even code.
const std::vector<Exact>& magnitudes(DType t) {
  static const auto make = [](DType d) {
    std::vector<Exact> v;
    for (u64 b = 0; std::isfinite(decode16(d, b)); ++b) v.push_back(decode16(d, b));
    v.push_back(2 * v.back() - v[v.size() - 2]);  // where infinity begins, were it a number
    return v;
  };
  static const std::vector<Exact> half = make(DType::f16), brain = make(DType::bf16);
  return t == DType::f16 ? half : brain;
}
u64 round16(DType t, Exact v) {
  if (std::isnan(v)) return t == DType::f16 ? 0x7e00 : 0x7fc0;
  const auto& m = magnitudes(t);
  const Exact a = std::abs(v);
  const u64 sign = std::signbit(v) ? 0x8000 : 0;
  if (a >= m.back()) return sign | (m.size() - 1);
  const auto above = static_cast<u64>(std::upper_bound(m.begin(), m.end(), a) - m.begin());
  const u64 below = above - 1;
  const Exact down = a - m[below], up = m[above] - a;
  return sign | (down < up ? below : up < down ? above : below & 1 ? above : below);
}
/// What a cast gives, from the exact value.
u64 expected_cast(DType to, Exact v, u64 source_bits, bool from_int) {
  switch (to) {
    case DType::boolean:
      return v != 0;
    case DType::f16:
    case DType::bf16:
      return round16(to, v);
    case DType::f32:
      return std::isnan(v) ? 0x7fc00000u : std::bit_cast<u32>(static_cast<f32>(v));
    case DType::f64:
      return std::isnan(v) ? 0x7ff8000000000000ull : std::bit_cast<u64>(static_cast<f64>(v));
    default:
      break;
  }
  if (from_int) return source_bits & ones(to);
  if (std::isnan(v)) return 0;
  const Exact t = std::trunc(v), top = has_sign(to) ? static_cast<Exact>(ones(to) >> 1) : static_cast<Exact>(ones(to));
  const Exact bottom = has_sign(to) ? -top - 1 : 0;
  if (t >= top) return has_sign(to) ? ones(to) >> 1 : ones(to);
  if (t <= bottom) return has_sign(to) ? (ones(to) >> 1) + 1 : 0;
  return (t < 0 ? u64{0} - static_cast<u64>(-t) : static_cast<u64>(t)) & ones(to);
}
/// The bits widened to 64 as the type's sign says.
u64 extended(DType t, u64 bits) {
  return has_sign(t) && dtype_bits(t) < 64 && bits >> (dtype_bits(t) - 1) & 1 ? bits | ~ones(t) : bits;
}

constexpr DType all_types[] = {DType::boolean, DType::i8,  DType::u8,  DType::i16,  DType::u16,
                               DType::i32,     DType::u32, DType::i64, DType::u64,  DType::f16,
                               DType::bf16,    DType::f32, DType::f64, DType::index};

void check_cast(DType from, u64 bits) {
  const Exact v = decode(from, bits);
  for (const DType to : all_types) {
    if (to == from) {
      ASSERT_EQ(cast(to, from, bits), bits);  // a move, NaNs included
      continue;
    }
    ASSERT_EQ(cast(to, from, bits), expected_cast(to, v, extended(from, bits), !is_float(from)))
        << dtype_name(from) << " " << std::hex << bits << " to " << dtype_name(to);
  }
}

TEST(EvalCast, EveryNarrowValueToEveryType) {
  for (const DType from : {DType::boolean, DType::i8, DType::u8, DType::i16, DType::u16, DType::f16, DType::bf16})
    for (u64 b = 0; b <= ones(from); ++b) ASSERT_NO_FATAL_FAILURE(check_cast(from, b));
}

std::vector<u64> integer_edges(int bits, u32 seed) {
  std::vector<u64> v{0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64};
  for (int i = 0; i < bits; ++i)
    for (const u64 d : {~u64{0}, u64{0}, u64{1}}) {
      v.push_back((u64{1} << i) + d);
      v.push_back(u64{0} - (u64{1} << i) + d);
      v.push_back((u64{3} << i) + d);
    }
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) v.push_back(random() >> (random() % 64));
  const u64 mask = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  for (auto& x : v) x &= mask;
  return v;
}
TEST(EvalCast, EdgesOfWideIntegersRoundOnce) {
  for (const DType from : {DType::i32, DType::u32, DType::i64, DType::u64, DType::index})
    for (const u64 b : integer_edges(static_cast<int>(dtype_bits(from)), 3)) {
      ASSERT_NO_FATAL_FAILURE(check_cast(from, b));
      ASSERT_NO_FATAL_FAILURE(check_cast(from, b >> 8 << 8 & ones(from)));
    }
  // Between two bf16 numbers, just above the middle: through f32 it would round to even, downwards.
  EXPECT_EQ(cast(DType::bf16, DType::i32, (1u << 30) + (1u << 22) + 1), round16(DType::bf16, 1077936129.0L));
  EXPECT_EQ(cast(DType::bf16, DType::u64, (u64{1} << 63) + (u64{1} << 55) + 1),
            round16(DType::bf16, 9259400833873739777.0L));
}
TEST(EvalCast, MiddlesBetweenNarrowFloats) {
  for (const DType to : {DType::f16, DType::bf16}) {
    const auto& m = magnitudes(to);
    for (std::size_t i = 0; i + 1 < m.size(); i += 1 + i / 40) {
      const f64 middle = static_cast<f64>((m[i] + m[i + 1]) / 2);
      for (const f64 v : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e300), -middle}) {
        ASSERT_EQ(cast(to, DType::f64, std::bit_cast<u64>(v)), round16(to, v)) << v;
        const f32 s = static_cast<f32>(v);
        ASSERT_EQ(cast(to, DType::f32, std::bit_cast<u32>(s)), round16(to, s)) << s;
      }
    }
  }
}
TEST(EvalCast, WideFloatEdges) {
  std::vector<f64> values{0.0,
                          -0.0,
                          0.5,
                          -0.5,
                          0.99999999,
                          -0.99999999,
                          1,
                          -1,
                          1e300,
                          -1e300,
                          5e-324,
                          3.4028235677973366e38,
                          std::numeric_limits<f64>::infinity(),
                          -std::numeric_limits<f64>::infinity(),
                          std::numeric_limits<f64>::quiet_NaN()};
  for (int e = 0; e <= 65; ++e)
    for (const f64 s : {-1.0, 1.0})
      for (const f64 d : {-1.0, -0.5, 0.0, 0.5, 1.0})
        values.push_back(s * (std::ldexp(1.0, e) + d)), values.push_back(s * std::nextafter(std::ldexp(1.0, e), 0.0));
  for (const f64 v : values) {
    ASSERT_NO_FATAL_FAILURE(check_cast(DType::f64, std::bit_cast<u64>(v)));
    ASSERT_NO_FATAL_FAILURE(check_cast(DType::f32, std::bit_cast<u32>(static_cast<f32>(v))));
  }
}

// --- 16-bit floats: innocuous double rounding makes "f32 op, then one rounding" the correctly rounded result
std::vector<u64> narrow_samples(DType t) {
  std::vector<u64> v{0, 0x8000, 1, 0x8001, 2, 3, round16(t, 1), round16(t, -1), round16(t, 3), round16(t, 0.1L)};
  const u64 inf = magnitudes(t).size() - 1;
  for (const u64 b : {inf, inf - 1, inf + 1, inf - 2}) v.push_back(b), v.push_back(b | 0x8000);
  std::mt19937 random(11);
  while (v.size() < 260) v.push_back(random() & 0xffff);
  return v;
}
class Narrow : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Floats, Narrow, ::testing::Values(DType::f16, DType::bf16));

TEST_P(Narrow, EveryUnaryInput) {
  const DType t = GetParam();
  for (u64 b = 0; b <= 0xffff; ++b) {
    const Exact v = decode16(t, b);
    EXPECT_EQ(ev(Opcode::Neg, t, {b}), b ^ 0x8000);
    EXPECT_EQ(ev(Opcode::Abs, t, {b}), b & 0x7fff);
    ASSERT_EQ(ev(Opcode::IsNan, t, {b}), static_cast<u64>(std::isnan(v)));
    ASSERT_EQ(ev(Opcode::Sign, t, {b}), round16(t, std::isnan(v) ? v : v > 0 ? 1 : v < 0 ? -1 : 0));
    ASSERT_EQ(ev(Opcode::Sqrt, t, {b}), round16(t, v < 0 ? std::numeric_limits<Exact>::quiet_NaN() : std::sqrt(v)))
        << b;
    ASSERT_EQ(ev(Opcode::Recip, t, {b}), round16(t, 1 / v)) << b;
    ASSERT_EQ(ev(Opcode::Floor, t, {b}), round16(t, std::floor(v)));
    ASSERT_EQ(ev(Opcode::Ceil, t, {b}), round16(t, std::ceil(v)));
    ASSERT_EQ(ev(Opcode::Trunc, t, {b}), round16(t, std::trunc(v)));
    Exact even = v;
    if (std::isfinite(v)) {
      const Exact down = std::floor(v), part = v - down;
      even = part < 0.5L ? down : part > 0.5L ? down + 1 : std::fmod(down, 2.0L) == 0 ? down : down + 1;
      even = std::copysign(even, v);
    }
    ASSERT_EQ(ev(Opcode::Round, t, {b}), round16(t, even)) << b;
    const f32 root = std::sqrt(static_cast<f32>(v));
    ASSERT_EQ(ev(Opcode::Rsqrt, t, {b}),
              round16(t, v < 0 ? std::numeric_limits<Exact>::quiet_NaN() : Exact{1.0f / root}))
        << b;
    for (const i32 n : {-300, -24, -1, 0, 1, 15, 300}) {
      const Type types[] = {Type::value(t), Type::value(DType::i32)};
      const u64 operands[] = {b, static_cast<u32>(n)};
      ASSERT_EQ(eval(Opcode::Ldexp, types[0], types, operands), round16(t, std::ldexp(v, n))) << b << " " << n;
    }
    for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::prod, ReduceKind::min, ReduceKind::max})
      ASSERT_EQ(reduce_step(kind, t, reduce_identity(kind, t), b),
                std::isnan(v) && kind >= ReduceKind::min ? reduce_identity(kind, t) : round16(t, v))
          << b;
  }
}
TEST_P(Narrow, BinaryOnEdgesAndSamples) {
  const DType t = GetParam();
  const auto samples = narrow_samples(t);
  for (const u64 a : samples)
    for (const u64 b : samples) {
      const Exact x = decode16(t, a), y = decode16(t, b);
      ASSERT_EQ(ev(Opcode::Add, t, {a, b}), round16(t, x + y)) << a << " " << b;
      ASSERT_EQ(ev(Opcode::Sub, t, {a, b}), round16(t, x - y)) << a << " " << b;
      ASSERT_EQ(ev(Opcode::Mul, t, {a, b}), round16(t, x * y)) << a << " " << b;
      ASSERT_EQ(ev(Opcode::Div, t, {a, b}), round16(t, x / y)) << a << " " << b;
      ASSERT_EQ(ev(Opcode::Rem, t, {a, b}), round16(t, std::fmod(x, y))) << a << " " << b;
      ASSERT_EQ(ev(Opcode::Lt, t, {a, b}), static_cast<u64>(x < y));
      ASSERT_EQ(ev(Opcode::Ge, t, {a, b}), static_cast<u64>(x >= y));
      ASSERT_EQ(ev(Opcode::Eq, t, {a, b}), static_cast<u64>(x == y));
      ASSERT_EQ(ev(Opcode::Ne, t, {a, b}), static_cast<u64>(!(x == y)));
      const auto pick = [&](bool larger) {
        if (is_nan16(t, a)) return round16(t, y);
        if (is_nan16(t, b)) return round16(t, x);
        if (x == y) return larger ? a & b : a | b;  // only zeros have two codes
        return (x > y) == larger ? a : b;
      };
      ASSERT_EQ(ev(Opcode::Max, t, {a, b}), pick(true)) << a << " " << b;
      ASSERT_EQ(ev(Opcode::Min, t, {a, b}), pick(false)) << a << " " << b;
    }
}

TEST(EvalFloat, SpecialsAt32And64) {
  const u64 nan = 0x7fc00000, inf = 0x7f800000, minus_zero = 0x80000000, one = std::bit_cast<u32>(1.0f);
  EXPECT_EQ(ev(Opcode::Max, DType::f32, {minus_zero, 0}), 0u);
  EXPECT_EQ(ev(Opcode::Max, DType::f32, {0, minus_zero}), 0u);
  EXPECT_EQ(ev(Opcode::Min, DType::f32, {minus_zero, 0}), minus_zero);
  EXPECT_EQ(ev(Opcode::Min, DType::f32, {0, minus_zero}), minus_zero);
  EXPECT_EQ(ev(Opcode::Max, DType::f32, {0xffc12345, one}), one);
  EXPECT_EQ(ev(Opcode::Min, DType::f32, {one, 0x7f800001}), one);
  EXPECT_EQ(ev(Opcode::Max, DType::f32, {0x7f800001, 0x7f800001}), nan);
  EXPECT_EQ(ev(Opcode::Sub, DType::f32, {inf, inf}), nan);
  EXPECT_EQ(ev(Opcode::Div, DType::f32, {one, minus_zero}), inf | 0x80000000);
  EXPECT_EQ(ev(Opcode::Add, DType::f32, {1, 1}), 2u);  // denormals are kept
  EXPECT_EQ(ev(Opcode::Mul, DType::f32, {0x00800000, std::bit_cast<u32>(0.5f)}), 0x00400000u);
  // One rounding: a product that f32 rounds away is still there for the sum.
  const u32 a = std::bit_cast<u32>(1.0f + 0x1p-12f), c = std::bit_cast<u32>(-(1.0f + 0x1p-11f));
  EXPECT_EQ(ev(Opcode::Fma, DType::f32, {a, a, c}), std::bit_cast<u32>(0x1p-24f));
  EXPECT_EQ(ev(Opcode::Sign, DType::f32, {minus_zero}), 0u);
  EXPECT_EQ(ev(Opcode::Round, DType::f64, {std::bit_cast<u64>(2.5)}), std::bit_cast<u64>(2.0));
  EXPECT_EQ(ev(Opcode::Rsqrt, DType::f32, {std::bit_cast<u32>(3.0f)}), std::bit_cast<u32>(1.0f / std::sqrt(3.0f)));
  EXPECT_EQ(reduce_identity(ReduceKind::sum, DType::f32), minus_zero);
}

// --- integers: arithmetic in the exact numbers, then modulo 2^N
class Integers : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(Types, Integers,
                         ::testing::Values(DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32,
                                           DType::i64, DType::u64, DType::index));

TEST_P(Integers, BinaryOps) {
  const DType t = GetParam();
  const int n = static_cast<int>(dtype_bits(t));
  std::vector<u64> values = integer_edges(n, 5);
  if (n == 8) {
    values.resize(256);
    for (u64 i = 0; i < 256; ++i) values[i] = i;
  }
  if (n == 64) {  // a third of the edges: the pairs are what takes time
    std::vector<u64> some;
    for (std::size_t i = 0; i < values.size(); i += 3) some.push_back(values[i]);
    values = some;
  }
  const u64 mask = ones(t), top = u64{1} << (n - 1);
  const bool sign = has_sign(t);
  const auto bit = [](u64 v, int i) { return v >> i & 1; };
  for (const u64 a : values)
    for (const u64 b : values) {
      const u64 x = extended(t, a), y = extended(t, b);
      const bool na = sign && (a & top), nb = sign && (b & top);
      ASSERT_EQ(ev(Opcode::Add, t, {a, b}), (x + y) & mask);
      ASSERT_EQ(ev(Opcode::Sub, t, {a, b}), (x - y) & mask);
      ASSERT_EQ(ev(Opcode::Mul, t, {a, b}), (x * y) & mask);
      // Sign and magnitude.
      const u64 ma = na ? (u64{0} - x) & mask : a, mb = nb ? (u64{0} - y) & mask : b;
      const u64 quotient = b == 0 ? mask : (na != nb ? u64{0} - ma / mb : ma / mb) & mask;
      const u64 rest = b == 0 ? a : (na ? u64{0} - ma % mb : ma % mb) & mask;
      ASSERT_EQ(ev(Opcode::Div, t, {a, b}), quotient) << a << "/" << b;
      ASSERT_EQ(ev(Opcode::Rem, t, {a, b}), rest) << a << "%" << b;
      const bool less = na != nb ? na : a < b;
      ASSERT_EQ(ev(Opcode::Lt, t, {a, b}), static_cast<u64>(less));
      ASSERT_EQ(ev(Opcode::Ge, t, {a, b}), static_cast<u64>(!less));
      ASSERT_EQ(ev(Opcode::Le, t, {a, b}), static_cast<u64>(less || a == b));
      ASSERT_EQ(ev(Opcode::Gt, t, {a, b}), static_cast<u64>(!(less || a == b)));
      ASSERT_EQ(ev(Opcode::Min, t, {a, b}), less ? a : b);
      ASSERT_EQ(ev(Opcode::Max, t, {a, b}), less ? b : a);
      const int s = static_cast<int>(b % static_cast<u64>(n));
      u64 left = 0, right = 0, reversed = 0, fl = 0, fr = 0;
      for (int i = 0; i < n; ++i) {
        if (i >= s) left |= bit(a, i - s) << i;
        right |= (i + s < n ? bit(a, i + s) : static_cast<u64>(na)) << i;
        reversed |= bit(a, n - 1 - i) << i;
        fl |= (i >= s ? bit(a, i - s) : bit(b, n - s + i)) << i;
        fr |= (i + s < n ? bit(b, i + s) : bit(a, i + s - n)) << i;
      }
      ASSERT_EQ(ev(Opcode::Shl, t, {a, b}), left) << a << "<<" << b;
      ASSERT_EQ(ev(Opcode::Shr, t, {a, b}), right) << a << ">>" << b;
      ASSERT_EQ(ev(Opcode::BitReverse, t, {a}), reversed);
      ASSERT_EQ(ev(Opcode::FunnelShl, t, {a, b, b}), fl);
      ASSERT_EQ(ev(Opcode::FunnelShr, t, {a, b, b}), fr);
      // The upper half by long multiplication, bit by bit.
      u64 low = 0, high = 0;
      for (int i = n; i-- > 0;) {
        high = (high << 1 | bit(low, n - 1)) & mask, low = low << 1 & mask;
        if (bit(b, i)) {
          const u64 sum = (low + a) & mask;
          high += sum < low || (n < 64 && low + a > mask) ? 1 : 0;
          low = sum, high &= mask;
        }
      }
      ASSERT_EQ(ev(Opcode::MulHi, t, {a, b}), (high - (na ? b : 0) - (nb ? a : 0)) & mask) << a << "*" << b;
    }
}
TEST_P(Integers, BitsAndFields) {
  const DType t = GetParam();
  const int n = static_cast<int>(dtype_bits(t));
  const auto bit = [](u64 v, int i) { return v >> i & 1; };
  std::mt19937_64 random(9);
  for (const u64 a : integer_edges(n, 6)) {
    int set = 0, lead = 0, trail = 0;
    for (int i = 0; i < n; ++i) set += static_cast<int>(bit(a, i));
    while (lead < n && !bit(a, n - 1 - lead)) ++lead;
    while (trail < n && !bit(a, trail)) ++trail;
    ASSERT_EQ(ev(Opcode::Popcount, t, {a}), static_cast<u64>(set));
    ASSERT_EQ(ev(Opcode::Clz, t, {a}), static_cast<u64>(lead));
    ASSERT_EQ(ev(Opcode::Ctz, t, {a}), static_cast<u64>(trail));
    ASSERT_EQ(ev(Opcode::Not, t, {a}), ~a & ones(t));
    const bool negative = has_sign(t) && bit(a, n - 1);
    ASSERT_EQ(ev(Opcode::Neg, t, {a}), (u64{0} - a) & ones(t));
    ASSERT_EQ(ev(Opcode::Abs, t, {a}), negative ? (u64{0} - a) & ones(t) : a);
    ASSERT_EQ(ev(Opcode::Sign, t, {a}), a == 0 ? 0 : negative ? ones(t) : 1);
    for (int k = 0; k < 24; ++k) {
      const u64 b = random() % 80 & ones(t), c = (k == 0 ? ones(t) : random() % 80) & ones(t), v = random() & ones(t);
      const int at = static_cast<int>(b % static_cast<u64>(n));
      const int count = static_cast<int>(std::min<u64>(c, static_cast<u64>(n - at)));
      u64 field = 0, inserted = a;
      for (int i = 0; i < count; ++i) {
        field |= bit(a, at + i) << i;
        inserted = (inserted & ~(u64{1} << (at + i))) | bit(v, i) << (at + i);
      }
      if (has_sign(t) && count && bit(field, count - 1))
        for (int i = count; i < n; ++i) field |= u64{1} << i;
      ASSERT_EQ(ev(Opcode::BitExtract, t, {a, b, c}), field) << a << " " << at << " " << count;
      ASSERT_EQ(ev(Opcode::BitInsert, t, {a, v, b, c}), inserted) << a << " " << at << " " << count;
    }
  }
}
TEST(EvalInt, BoolsDotAndIdentities) {
  for (u64 a : {0, 1})
    for (u64 b : {0, 1}) {
      EXPECT_EQ(ev(Opcode::And, DType::boolean, {a, b}), a & b);
      EXPECT_EQ(ev(Opcode::Or, DType::boolean, {a, b}), a | b);
      EXPECT_EQ(ev(Opcode::Xor, DType::boolean, {a, b}), a ^ b);
      EXPECT_EQ(ev(Opcode::Eq, DType::boolean, {a, b}), static_cast<u64>(a == b));
      EXPECT_EQ(ev(Opcode::Not, DType::boolean, {a}), 1 - a);
    }
  EXPECT_EQ(ev(Opcode::Dot4I8, DType::i32, {0x80ff0102, 0x7f020304, 10}, pack(SignsImm{true, true})),
            static_cast<u32>(-128 * 127 - 2 + 3 + 8 + 10));
  EXPECT_EQ(ev(Opcode::Dot4I8, DType::u32, {0x80ff0102, 0x7f020304, 10}, pack(SignsImm{false, true})),
            static_cast<u32>(128 * 127 + 510 + 3 + 8 + 10));
  for (const DType t : {DType::i8, DType::u16, DType::i32, DType::u64, DType::index})
    for (const u64 v : integer_edges(static_cast<int>(dtype_bits(t)), 2))
      for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::prod, ReduceKind::min, ReduceKind::max,
                                    ReduceKind::and_, ReduceKind::or_, ReduceKind::xor_})
        ASSERT_EQ(reduce_step(kind, t, reduce_identity(kind, t), v), v) << name(kind);
}

TEST(EvalDecode, EveryCode) {
  const auto value = [](Opcode code, u64 bits) {
    const Type t = u32_type;
    return std::bit_cast<f32>(static_cast<u32>(eval(code, Type::value(DType::f32), {&t, 1}, {&bits, 1})));
  };
  constexpr f32 fp4[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (u64 b = 0; b < 16; ++b) {
    EXPECT_EQ(value(Opcode::DecodeE2M1, b | 0xabcdef50), b & 8 ? -fp4[b & 7] : fp4[b & 7]);  // high bits do not matter
    EXPECT_EQ(std::signbit(value(Opcode::DecodeE2M1, b)), b >= 8);
  }
  for (u64 b = 0; b < 256; ++b) {
    const f32 e5 = value(Opcode::DecodeE5M2, b), half = f16_bits_to_f32(static_cast<u16>(b << 8));
    if (std::isnan(half))
      EXPECT_TRUE(std::isnan(e5));
    else
      EXPECT_EQ(std::bit_cast<u32>(e5), std::bit_cast<u32>(half)) << b;
    const f32 e4 = value(Opcode::DecodeE4M3, b);
    const int e = static_cast<int>(b >> 3 & 15), m = static_cast<int>(b & 7);
    if ((b & 127) == 127)
      EXPECT_TRUE(std::isnan(e4));
    else
      EXPECT_EQ(e4, (b & 128 ? -1.0 : 1.0) * (e ? std::ldexp(1 + m / 8.0, e - 7) : m * 0x1p-9)) << b;
    const f32 e8 = value(Opcode::DecodeE8M0, b);
    if (b == 255)
      EXPECT_TRUE(std::isnan(e8));
    else
      EXPECT_EQ(e8, std::ldexp(1.0, static_cast<int>(b) - 127)) << b;
  }
  EXPECT_EQ(value(Opcode::DecodeE4M3, 0x7e), 448);
  EXPECT_EQ(value(Opcode::DecodeE5M2, 0x7b), 57344);
}

TEST(EvalErrors, RefusesWhatHasNoValue) {
  EXPECT_FALSE(can_eval(Opcode::Load));
  EXPECT_FALSE(can_eval(Opcode::ThreadId));
  EXPECT_FALSE(can_eval(Opcode::Bounded));
  EXPECT_FALSE(can_eval(Opcode::Exp));  // its expansion is its meaning
  EXPECT_THROW(ev(Opcode::Exp, DType::f32, {0}), Error);
  EXPECT_THROW(ev(Opcode::ThreadId, DType::index, {0}), Error);
  EXPECT_THROW(ev(Opcode::Fma, DType::i32, {1, 2, 3}), Error);
}

}  // namespace
}  // namespace iron::ir
