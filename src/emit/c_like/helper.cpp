// The shared helpers: total integer arithmetic, exact scaling, decoding of small floats.
#include "emit/c_like/helper.h"

namespace iron::emit {

namespace {
constexpr Helper helpers[] = {
    // Overloads that come with a type's own helper.
    {"bits_of", "", ""},
    {"widen", "", ""},
    {"as_f32", "float_bits", ""},
    {"as_f64", "double_bits", ""},
    {"narrow_f16", "f16", ""},
    {"narrow_bf16", "bf16", ""},
    {"idiv", "", R"(// x / 0 is all ones, MIN / -1 is MIN
template <class T> $fn T idiv(T a, T b) {
  if (b == 0) return (T)-1;
  if ((T)-1 < (T)0 && b == (T)-1) return (T)(0ull - (u64)a);
  return (T)(a / b);
})"},
    {"irem", "", R"(// x % 0 is x, MIN % -1 is 0
template <class T> $fn T irem(T a, T b) {
  if (b == 0) return a;
  if ((T)-1 < (T)0 && b == (T)-1) return 0;
  return (T)(a % b);
})"},
    {"imin", "", "template <class T> $fn T imin(T a, T b) { return b < a ? b : a; }"},
    {"imax", "", "template <class T> $fn T imax(T a, T b) { return a < b ? b : a; }"},
    {"iabs", "", "template <class T> $fn T iabs(T a) { return a < 0 ? (T)(0ull - (u64)a) : a; }"},
    {"isign", "", "template <class T> $fn T isign(T a) { return (T)((a > 0) - (a < 0)); }"},
    {"fsign", "", "template <class T> $fn T fsign(T a) { return a != a ? a : (T)((a > 0) - (a < 0)); }"},
    {"is_nan", "", "template <class T> $fn bool is_nan(T a) { return a != a; }"},
    {"funnel_shl", "", R"(template <class U> $fn U funnel_shl(U a, U b, u32 n) {
  return n == 0 ? a : (U)((U)(a << n) | (U)(b >> (sizeof(U) * 8 - n)));
})"},
    {"funnel_shr", "", R"(template <class U> $fn U funnel_shr(U a, U b, u32 n) {
  return n == 0 ? b : (U)((U)(b >> n) | (U)(a << (sizeof(U) * 8 - n)));
})"},
    {"bit_extract", "", R"(template <class T, class U> $fn T bit_extract(T a, T b, T c) {
  const u32 width = sizeof(T) * 8, from = (u32)b & (width - 1), there = width - from;
  const u32 n = (U)c < there ? (u32)c : there;
  return n == 0 ? (T)0 : (T)((T)((U)a << (there - n)) >> (width - n));
})"},
    {"bit_insert", "", R"(template <class T, class U> $fn T bit_insert(T a, T b, T c, T d) {
  const u32 width = sizeof(T) * 8, from = (u32)c & (width - 1), there = width - from;
  const u32 n = (U)d < there ? (u32)d : there;
  const U mask = n == 0 ? (U)0 : (U)((U)((U)~(U)0 >> (width - n)) << from);
  return (T)(((U)a & (U)~mask) | ((U)((U)b << from) & mask));
})"},
    {"power_f32", "float_bits",
     "$fn f32 power_f32(i32 n) { return as_f32(n >= -126 ? (u32)(n + 127) << 23 : 1u << (n + 149)); }"},
    {"ldexp_f32", "power_f32 abs_f32",
     R"(// a * 2^n with one rounding: every product but the last is exact, or the result is zero anyway.
$fn f32 ldexp_f32(f32 a, i32 n) {
  if (n >= -126 && n <= 127) return a * as_f32((u32)(n + 127) << 23);
  if (n >= -149 && n <= 127) return a * power_f32(n);
  for (int turn = 0; turn < 2 && n > 127; ++turn) a *= power_f32(127), n -= 127;
  for (int turn = 0; turn < 2 && n < -149; ++turn) {
    if (!(abs_f32(a) >= 1.4901161e-08f)) return a * power_f32(-149);
    a *= power_f32(-100), n += 100;
  }
  return a * power_f32(n > 127 ? 127 : n < -149 ? -149 : n);
})"},
    {"power_f64", "double_bits",
     "$fn f64 power_f64(i32 n) { return as_f64(n >= -1022 ? (u64)(n + 1023) << 52 : 1ull << (n + 1074)); }"},
    {"ldexp_f64", "power_f64 abs_f64",
     R"(// a * 2^n with one rounding: every product but the last is exact, or the result is zero anyway.
$fn f64 ldexp_f64(f64 a, i32 n) {
  if (n >= -1074 && n <= 1023) return a * power_f64(n);
  for (int turn = 0; turn < 2 && n > 1023; ++turn) a *= power_f64(1023), n -= 1023;
  for (int turn = 0; turn < 2 && n < -1074; ++turn) {
    if (!(abs_f64(a) >= 2.384185791015625e-07)) return a * power_f64(-1074);
    a *= power_f64(-1000), n += 1000;
  }
  return a * power_f64(n > 1023 ? 1023 : n < -1074 ? -1074 : n);
})"},
    {"max_f64", "double_bits", R"($fn f64 max_f64(f64 a, f64 b) {
  if (a != a || b != b) return a != a ? b : a;
  return a == b ? as_f64(bits_of(a) & bits_of(b)) : a < b ? b : a;
})"},
    {"min_f64", "double_bits", R"($fn f64 min_f64(f64 a, f64 b) {
  if (a != a || b != b) return a != a ? b : a;
  return a == b ? as_f64(bits_of(a) | bits_of(b)) : b < a ? b : a;
})"},
    {"decode_e2m1", "float_bits", R"($fn f32 decode_e2m1(u32 code) {
  const u32 sign = (code & 8u) << 28, e = (code >> 1) & 3u, m = code & 1u;
  return as_f32(sign | (e != 0 ? ((e + 126u) << 23) | (m << 22) : m * 0x3f000000u));
})"},
    {"decode_e4m3", "float_bits", R"($fn f32 decode_e4m3(u32 code) {
  const u32 sign = (code & 0x80u) << 24, e = (code >> 3) & 15u, m = code & 7u;
  if ((code & 0x7fu) == 0x7fu) return as_f32(sign | 0x7fc00000u);
  if (e == 0) return as_f32(sign | bits_of((f32)m * 0.001953125f));
  return as_f32(sign | ((e + 120u) << 23) | (m << 20));
})"},
    {"decode_e5m2", "f16", "$fn f32 decode_e5m2(u32 code) { return widen(f16{(u16)((code & 0xffu) << 8)}); }"},
    {"decode_e8m0", "float_bits", R"($fn f32 decode_e8m0(u32 code) {
  const u32 e = code & 0xffu;
  return as_f32(e == 255u ? 0x7fc00000u : e == 0 ? 0x00400000u : e << 23);
})"},
    {"dot4", "", R"($fn u32 dot4(u32 a, u32 b, u32 c, bool a_signed, bool b_signed) {
  for (int i = 0; i < 32; i += 8) {
    const u32 x = (a >> i) & 0xffu, y = (b >> i) & 0xffu;
    c += (a_signed ? (u32)(i32)(i8)x : x) * (b_signed ? (u32)(i32)(i8)y : y);
  }
  return c;
})"},
    {"at_least_1", "", "template <class T> $fn T at_least_1(T step) { return step < 1 ? (T)1 : step; }"},
    {"trips", "", R"(// turns of a loop from start below end, without overflow
template <class T, class U> $fn U trips(T start, T end, T step) {
  return start < end ? (U)(((U)end - (U)start - 1) / (U)step + 1) : (U)0;
})"},
    {"Vec", "", R"(template <class T, int count, int align> struct alignas(align) Vec {
  T e[count];
};)"},
    {"in_panels", "",
     R"(// Where an element of slots of rows x cols lies whose columns are in panels, one after another in their slot.
template <int rows, int cols, int panel> $fn index_t in_panels(index_t i) {
  const u32 line = (u32)i / cols, col = (u32)i % cols;
  return (index_t)(((line / rows * (cols / panel) + col / panel) * rows + line % rows) * panel + col % panel);
})"},
    {"swizzled", "",
     R"(// Where an element of a swizzled array lies: 16-byte chunks of a 128-byte row are permuted by the row's number.
template <int size, int chunks> $fn index_t swizzled(index_t i) {
  const u32 at = (u32)i * size;
  return (index_t)((at ^ (((at >> 7) & (chunks - 1)) << 4)) / size);
})"},
};
}  // namespace

std::span<const Helper> shared_helpers() { return helpers; }

}  // namespace iron::emit
