// Interval arithmetic with residues.
#include "analysis/range.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ir/eval.h"
#include "ir/scalar.h"

namespace iron::analysis {

using ir::Opcode;

namespace {
constexpr u64 max_mod = u64{1} << 40;   // residues above this help nobody and would overflow products
constexpr Wide limit = Wide{1} << 100;  // saturation: far outside every type, far inside 128 bits

Wide clamp(Wide v) { return std::clamp(v, -limit, limit); }
Wide times(Wide a, Wide b) {
  Wide r = 0;
  if (__builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? limit : -limit;
  return clamp(r);
}
u64 wrap_rem(Wide v, u64 m) {
  Wide r = v % static_cast<Wide>(m);
  if (r < 0) r += static_cast<Wide>(m);
  return static_cast<u64>(r);
}
// Bounds moved inwards to members; residues dropped where they say nothing.
Range tidy(Range r) {
  if (r.mod <= 1 || r.empty()) return {r.lo, r.hi, 1, 0};
  const u64 up = wrap_rem(static_cast<Wide>(r.rem) - r.lo, r.mod),
            down = wrap_rem(r.hi - static_cast<Wide>(r.rem), r.mod);
  r.lo += static_cast<Wide>(up), r.hi -= static_cast<Wide>(down);
  if (r.lo >= r.hi) return {r.lo, r.hi, 1, 0};
  return r;
}
Range with_residue(Wide lo, Wide hi, u64 mod, Wide rem) {
  if (mod == 0 || mod > max_mod) mod = 1;
  return tidy({clamp(lo), clamp(hi), mod, wrap_rem(rem, mod)});
}
Wide representative(const Range& a) { return a.is_point() ? a.lo : static_cast<Wide>(a.rem); }
}  // namespace

Wide floor_div(Wide a, Wide b) {
  const Wide q = a / b;
  return a % b < 0 ? q - 1 : q;
}

Range Range::of(DType type) {
  switch (type) {
    case DType::boolean:
      return between(0, 1);
    case DType::index:
      return between(-(Wide{1} << 63), (Wide{1} << 63) - 1);
    default:
      break;
  }
  const u32 bits = dtype_bits(type);
  if (is_unsigned_int(type)) return between(0, (Wide{1} << bits) - 1);
  if (is_signed_int(type)) return between(-(Wide{1} << (bits - 1)), (Wide{1} << (bits - 1)) - 1);
  return between(-limit, limit);
}

bool Range::residue(u64 m, u64& out) const {
  if (is_point()) return out = wrap_rem(lo, m), true;
  if (mod % m) return false;
  return out = rem % m, true;
}

Range congruent(Range a, u64 mod, Wide rem) {
  if (mod <= 1 || mod > max_mod) return a;
  if (a.mod > 1 && a.mod % mod == 0) return a;  // already finer
  if (a.mod > 1 && mod % a.mod != 0) return a;  // unrelated: keep what is known
  return with_residue(a.lo, a.hi, mod, rem);
}

Range intersect(Range a, Range b) {
  if (b.mod > a.mod) std::swap(a, b);
  return tidy({std::max(a.lo, b.lo), std::min(a.hi, b.hi), a.mod, a.rem});
}

Range hull(const Range& a, const Range& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  const Wide apart = representative(a) - representative(b);
  const u64 distance = static_cast<u64>(apart < 0 ? -apart : apart);
  return with_residue(std::min(a.lo, b.lo), std::max(a.hi, b.hi), std::gcd(std::gcd(a.stride(), b.stride()), distance),
                      representative(a));
}

Range operator+(const Range& a, const Range& b) {
  return with_residue(a.lo + b.lo, a.hi + b.hi, std::gcd(a.stride(), b.stride()),
                      representative(a) + representative(b));
}
Range scale(const Range& a, Wide k) {
  if (k == 0) return Range::point(0);
  if (a.is_point()) return Range::point(times(a.lo, k));
  const Wide x = times(a.lo, k), y = times(a.hi, k);
  const Wide mod = times(static_cast<Wide>(a.mod), k < 0 ? -k : k);
  // A modulus that grows too large keeps its power of two: that part serves alignment.
  const u64 m =
      mod > static_cast<Wide>(max_mod) ? static_cast<u64>(mod & -mod & ((Wide{1} << 41) - 1)) : static_cast<u64>(mod);
  if (m <= 1) return Range::between(std::min(x, y), std::max(x, y));
  const Wide wm = static_cast<Wide>(m);
  return with_residue(std::min(x, y), std::max(x, y), m, (static_cast<Wide>(a.rem) % wm) * (k % wm));
}
Range operator-(const Range& a, const Range& b) { return a + scale(b, -1); }
Range operator*(const Range& a, const Range& b) {
  if (b.is_point()) return scale(a, b.lo);
  if (a.is_point()) return scale(b, a.lo);
  const Wide c[] = {times(a.lo, b.lo), times(a.lo, b.hi), times(a.hi, b.lo), times(a.hi, b.hi)};
  // (p m + r)(q n + s) is r s modulo gcd(m n, m s, n r).
  const u64 m = a.mod, n = b.mod;
  u64 mod = 1;
  if (m < (1u << 20) && n < (1u << 20)) mod = std::gcd(std::gcd(m * n, m * b.rem), n * a.rem);
  return with_residue(*std::min_element(c, c + 4), *std::max_element(c, c + 4), mod,
                      static_cast<Wide>(a.rem) * static_cast<Wide>(b.rem));
}

namespace {
Wide bit_ceil_mask(Wide v) {  // smallest 2^k - 1 that is at least v
  Wide m = 0;
  while (m < v) m = m * 2 + 1;
  return m;
}

Range divide(const Range& a, const Range& b) {  // b does not hold 0
  const Wide c[] = {a.lo / b.lo, a.lo / b.hi, a.hi / b.lo, a.hi / b.hi};
  Range r = Range::between(*std::min_element(c, c + 4), *std::max_element(c, c + 4));
  if (b.lo < 0 && b.hi > 0) r = hull(r, hull(a, scale(a, -1)));
  if (b.is_point() && b.lo > 0 && !a.is_point() && a.mod % static_cast<u64>(std::min<Wide>(b.lo, limit)) == 0 &&
      a.lo >= 0) {
    const u64 k = static_cast<u64>(b.lo);
    if (a.rem % k == 0) r = congruent(r, a.mod / k, static_cast<Wide>(a.rem / k));
  }
  return r;
}

Range remainder(const Range& a, const Range& b) {  // b does not hold 0
  const Wide m = std::max(b.lo < 0 ? -b.lo : b.lo, b.hi < 0 ? -b.hi : b.hi);
  if (a.lo >= 0 && b.lo > 0 && a.hi < b.lo) return a;
  Range r = Range::between(a.lo < 0 ? std::max(a.lo, 1 - m) : 0, a.hi > 0 ? std::min(a.hi, m - 1) : 0);
  if (b.is_point() && !a.is_point()) {
    const u64 g = std::gcd(a.mod, static_cast<u64>(std::min<Wide>(m, Wide{1} << 62)));
    if (a.lo >= 0) r = congruent(r, g, static_cast<Wide>(a.rem));
  }
  return r;
}

Range bit_and(DType type, const Range& a, const Range& b) {
  if (a.is_point() && b.is_point()) return Range::point(a.lo & b.lo);
  if (a.is_point()) return bit_and(type, b, a);
  const Range full = Range::of(type);
  if (b.is_point()) {
    const Wide mask = b.lo;
    const u64 low =
        static_cast<u64>(mask) == 0 ? 0 : static_cast<u64>(mask) & (~static_cast<u64>(mask) + 1);  // lowest set bit
    const Wide all = is_unsigned_int(type) ? full.hi : -1;
    if (low > 1 && (mask | static_cast<Wide>(low - 1)) == all) {  // aligns down
      const Wide k = static_cast<Wide>(low);
      return congruent(Range::between(floor_div(a.lo, k) * k, floor_div(a.hi, k) * k), low, 0);
    }
    if (mask >= 0) {
      if (a.lo >= 0 && (mask & (mask + 1)) == 0 && a.hi <= mask) return a;
      return congruent(Range::between(0, a.lo >= 0 ? std::min(a.hi, mask) : mask), std::max<u64>(low, 1), 0);
    }
  }
  if (a.lo >= 0 && b.lo >= 0) return Range::between(0, std::min(a.hi, b.hi));
  if (a.lo >= 0) return Range::between(0, a.hi);
  if (b.lo >= 0) return Range::between(0, b.hi);
  return full;
}

// The mathematical result, before it is put into the type.
Range exact(Opcode code, DType type, const Range& a, const Range& b) {
  const Range full = Range::of(type);
  const Wide bits = static_cast<Wide>(dtype_bits(type));
  switch (code) {
    case Opcode::Add:
      return a + b;
    case Opcode::Sub:
      return a - b;
    case Opcode::Mul:
      return a * b;
    case Opcode::Min: {
      Range r = hull(a, b);
      r.hi = std::min(a.hi, b.hi);
      return tidy(r);
    }
    case Opcode::Max: {
      Range r = hull(a, b);
      r.lo = std::max(a.lo, b.lo);
      return tidy(r);
    }
    case Opcode::Div: {
      const Wide all_ones = is_unsigned_int(type) ? full.hi : -1;  // x / 0 (R3)
      if (b == Range::point(0)) return Range::point(all_ones);
      Range r;
      if (b.lo <= 0 && b.hi >= 0) {
        r = Range::point(all_ones);
        if (b.lo < 0) r = hull(r, divide(a, Range::between(b.lo, -1)));
        if (b.hi > 0) r = hull(r, divide(a, Range::between(1, b.hi)));
      } else
        r = divide(a, b);
      if (r.hi > full.hi) r = hull(r, Range::point(full.lo));  // MIN / -1 is MIN
      return r;
    }
    case Opcode::Rem: {
      if (b == Range::point(0)) return a;
      if (b.lo <= 0 && b.hi >= 0)
        return hull(a, Range::between(std::min<Wide>(a.lo, 0), std::max<Wide>(a.hi, 0)));  // x % 0 is x
      return remainder(a, b);
    }
    case Opcode::And:
      return bit_and(type, a, b);
    case Opcode::Or:
      if (a.lo >= 0 && b.lo >= 0) return Range::between(std::max(a.lo, b.lo), bit_ceil_mask(std::max(a.hi, b.hi)));
      return full;
    case Opcode::Xor:
      if (a.lo >= 0 && b.lo >= 0) return Range::between(0, bit_ceil_mask(std::max(a.hi, b.hi)));
      return full;
    case Opcode::Not:
      if (type == DType::boolean) return Range::point(1) - a;
      return (is_unsigned_int(type) ? Range::point(full.hi) : Range::point(-1)) - a;
    case Opcode::Shl: {
      if (b.lo < 0 || b.hi >= bits) return full;
      return a * (b.is_point() ? Range::point(Wide{1} << static_cast<int>(b.lo))
                               : Range::between(Wide{1} << static_cast<int>(b.lo), Wide{1} << static_cast<int>(b.hi)));
    }
    case Opcode::Shr: {
      if (b.lo < 0 || b.hi >= bits) return hull(a, Range::between(std::min<Wide>(a.lo, 0), std::max<Wide>(a.hi, 0)));
      const auto shifted = [&](Wide v, Wide by) { return floor_div(v, Wide{1} << static_cast<int>(by)); };
      const Wide c[] = {shifted(a.lo, b.lo), shifted(a.lo, b.hi), shifted(a.hi, b.lo), shifted(a.hi, b.hi)};
      if (b.is_point() && a.lo >= 0) return divide(a, Range::point(Wide{1} << static_cast<int>(b.lo)));
      return Range::between(*std::min_element(c, c + 4), *std::max_element(c, c + 4));
    }
    case Opcode::Neg:
      return scale(a, -1);
    case Opcode::Abs:
      if (a.lo >= 0) return a;
      if (a.hi <= 0) return scale(a, -1);
      return Range::between(0, std::max(-a.lo, a.hi));
    case Opcode::Sign:
      return Range::between(a.lo < 0 ? -1 : (a.lo == 0 ? 0 : 1), a.hi > 0 ? 1 : (a.hi == 0 ? 0 : -1));
    case Opcode::MulHi: {
      const Range p = a * b;
      if (p.hi >= limit || p.lo <= -limit) return full;
      const Wide k = Wide{1} << static_cast<int>(bits);
      return Range::between(floor_div(p.lo, k), floor_div(p.hi, k));
    }
    case Opcode::Popcount:
    case Opcode::Clz:
    case Opcode::Ctz:
      return Range::between(0, bits);
    default:
      return full;
  }
}

// Two's complement of the type's width; the value must fit the type.
u64 encode(DType type, Wide v) {
  const u64 bits = static_cast<u64>(v);
  return dtype_bits(type) < 64 ? bits & ((u64{1} << dtype_bits(type)) - 1) : bits;
}
}  // namespace

Wide decode(DType type, u64 bits) {
  return ir::scalar::with_dtype(type, [&]<DType D>() -> Wide {
    using Store = typename ir::scalar::Rep<D>::Store;
    if constexpr (is_float(D))
      return static_cast<Wide>(bits);
    else if constexpr (D == DType::boolean)
      return bits ? 1 : 0;
    else
      return std::bit_cast<Store>(static_cast<ir::scalar::Bits<Store>>(bits));
  });
}

Range apply(Opcode code, DType type, const Range& a, const Range& b, bool& wrapped) {
  const Range full = Range::of(type);
  const Range r = exact(code, type, a, b);
  wrapped = !r.within(full);
  // Numbers have the value that every device computes; only what is not known yet is bounded here.
  if (a.is_point() && b.is_point() && a.within(full) && b.within(full)) {
    const ir::Type types[] = {ir::Type::value(type), ir::Type::value(type)};
    const u64 values[] = {encode(type, a.lo), encode(type, b.lo)};
    return Range::point(decode(type, ir::eval(code, types[0], types, values)));
  }
  return wrapped ? full : r;
}

Range convert(DType from, DType to, const Range& a) {
  const Range full = Range::of(to);
  if (from != DType::boolean && from != DType::index && !is_int(from)) return full;  // from a float
  if (a.is_point() && a.within(Range::of(from))) {
    const ir::Type source = ir::Type::value(from);
    const u64 value = encode(from, a.lo);
    return Range::point(decode(to, ir::eval(Opcode::Cast, ir::Type::value(to), {&source, 1}, {&value, 1})));
  }
  if (to == DType::boolean) return a.lo > 0 || a.hi < 0 ? Range::point(1) : full;
  return a.within(full) ? a : full;
}

std::string to_string(Wide v) {
  if (v == 0) return "0";
  const bool negative = v < 0;
  std::string s;
  for (Wide m = negative ? -v : v; m > 0; m /= 10) s += static_cast<char>('0' + static_cast<int>(m % 10));
  if (negative) s += '-';
  std::reverse(s.begin(), s.end());
  return s;
}
std::string to_string(const Range& r) { return "[" + to_string(r.lo) + ", " + to_string(r.hi) + "]"; }

}  // namespace iron::analysis
