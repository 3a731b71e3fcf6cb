// CUDA's primitives: 16-bit floats by PTX conversions, saturating casts, shuffles, approximate instructions.
#include <bit>

#include "emit/cuda/rows.h"

namespace iron::emit::cuda {

namespace {
constexpr Helper table[] = {
    {"float_bits", "", R"($fn f32 as_f32(u32 bits) { return __uint_as_float(bits); }
$fn u32 bits_of(f32 a) { return __float_as_uint(a); })"},
    {"double_bits", "", R"($fn f64 as_f64(u64 bits) { return __longlong_as_double((i64)bits); }
$fn u64 bits_of(f64 a) { return (u64)__double_as_longlong(a); })"},
    {"f16", "", R"(struct f16 {
  u16 bits;
};
$fn f32 widen(f16 a) {
  f32 wide;
  asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(a.bits));
  return wide;
}
$fn f16 narrow_f16(f32 a) {
  f16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(a));
  return out;
}
$fn u16 bits_of(f16 a) { return a.bits; })"},
    {"bf16", "float_bits", R"(struct bf16 {
  u16 bits;
};
$fn f32 widen(bf16 a) { return as_f32((u32)a.bits << 16); }
$fn bf16 narrow_bf16(f32 a) {
  bf16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(a));
  return out;
}
$fn u16 bits_of(bf16 a) { return a.bits; })"},
    {"narrow_f16_of_f64", "f16", R"($fn f16 narrow_f16_of_f64(f64 a) {
  f16 out;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(out.bits) : "d"(a));
  return out;
})"},
    // Rounded to odd: the sticky last bit lets a second rounding be the only one that counts.
    {"odd_f32_of_i32", "float_bits", R"($fn f32 odd_f32_of_i32(i32 a) {
  const f32 cut = __int2float_rz(a);
  return (i32)cut == a ? cut : as_f32(bits_of(cut) | 1u);
})"},
    {"odd_f32_of_u32", "float_bits", R"($fn f32 odd_f32_of_u32(u32 a) {
  const f32 cut = __uint2float_rz(a);
  return (u32)cut == a ? cut : as_f32(bits_of(cut) | 1u);
})"},
    {"odd_f32_of_i64", "float_bits", R"($fn f32 odd_f32_of_i64(i64 a) {
  const f32 cut = __ll2float_rz(a);
  return (i64)cut == a ? cut : as_f32(bits_of(cut) | 1u);
})"},
    {"odd_f32_of_u64", "float_bits", R"($fn f32 odd_f32_of_u64(u64 a) {
  const f32 cut = __ull2float_rz(a);
  return (u64)cut == a ? cut : as_f32(bits_of(cut) | 1u);
})"},
    {"odd_f32_of_f64", "float_bits", R"($fn f32 odd_f32_of_f64(f64 a) {
  const f32 cut = __double2float_rz(a);
  return (f64)cut == a ? cut : as_f32(bits_of(cut) | 1u);
})"},

    // cvt.rzi saturates; NaN gives 0 by the instruction only in 32 bits.
    {"f32_to_i32", "", "$fn i32 f32_to_i32(f32 a) { return a != a ? 0 : __float2int_rz(a); }"},
    {"f32_to_u32", "", "$fn u32 f32_to_u32(f32 a) { return a != a ? 0u : __float2uint_rz(a); }"},
    {"f32_to_i64", "", "$fn i64 f32_to_i64(f32 a) { return a != a ? 0ll : __float2ll_rz(a); }"},
    {"f32_to_u64", "", "$fn u64 f32_to_u64(f32 a) { return a != a ? 0ull : __float2ull_rz(a); }"},
    {"f32_to_i8", "f32_to_i32 imin imax",
     "$fn i8 f32_to_i8(f32 a) { return (i8)imin<i32>(imax<i32>(f32_to_i32(a), -128), 127); }"},
    {"f32_to_i16", "f32_to_i32 imin imax",
     "$fn i16 f32_to_i16(f32 a) { return (i16)imin<i32>(imax<i32>(f32_to_i32(a), -32768), 32767); }"},
    {"f32_to_u8", "f32_to_u32 imin", "$fn u8 f32_to_u8(f32 a) { return (u8)imin<u32>(f32_to_u32(a), 255u); }"},
    {"f32_to_u16", "f32_to_u32 imin", "$fn u16 f32_to_u16(f32 a) { return (u16)imin<u32>(f32_to_u32(a), 65535u); }"},
    {"f64_to_i32", "", "$fn i32 f64_to_i32(f64 a) { return a != a ? 0 : __double2int_rz(a); }"},
    {"f64_to_u32", "", "$fn u32 f64_to_u32(f64 a) { return a != a ? 0u : __double2uint_rz(a); }"},
    {"f64_to_i64", "", "$fn i64 f64_to_i64(f64 a) { return a != a ? 0ll : __double2ll_rz(a); }"},
    {"f64_to_u64", "", "$fn u64 f64_to_u64(f64 a) { return a != a ? 0ull : __double2ull_rz(a); }"},
    {"f64_to_i8", "f64_to_i32 imin imax",
     "$fn i8 f64_to_i8(f64 a) { return (i8)imin<i32>(imax<i32>(f64_to_i32(a), -128), 127); }"},
    {"f64_to_i16", "f64_to_i32 imin imax",
     "$fn i16 f64_to_i16(f64 a) { return (i16)imin<i32>(imax<i32>(f64_to_i32(a), -32768), 32767); }"},
    {"f64_to_u8", "f64_to_u32 imin", "$fn u8 f64_to_u8(f64 a) { return (u8)imin<u32>(f64_to_u32(a), 255u); }"},
    {"f64_to_u16", "f64_to_u32 imin", "$fn u16 f64_to_u16(f64 a) { return (u16)imin<u32>(f64_to_u32(a), 65535u); }"},

    {"min_f32", "", "$fn f32 min_f32(f32 a, f32 b) { return fminf(a, b); }"},
    {"max_f32", "", "$fn f32 max_f32(f32 a, f32 b) { return fmaxf(a, b); }"},
    {"abs_f32", "", "$fn f32 abs_f32(f32 a) { return fabsf(a); }"},
    {"abs_f64", "", "$fn f64 abs_f64(f64 a) { return fabs(a); }"},
    {"fma_f32", "", "$fn f32 fma_f32(f32 a, f32 b, f32 c) { return __fmaf_rn(a, b, c); }"},
    {"fma_f64", "", "$fn f64 fma_f64(f64 a, f64 b, f64 c) { return __fma_rn(a, b, c); }"},
    {"fmod_f32", "", "$fn f32 fmod_f32(f32 a, f32 b) { return fmodf(a, b); }"},
    {"fmod_f64", "", "$fn f64 fmod_f64(f64 a, f64 b) { return fmod(a, b); }"},
    {"sqrt_f32", "", "$fn f32 sqrt_f32(f32 a) { return __fsqrt_rn(a); }"},
    {"sqrt_f64", "", "$fn f64 sqrt_f64(f64 a) { return __dsqrt_rn(a); }"},
    {"rsqrt_f32", "", "$fn f32 rsqrt_f32(f32 a) { return 1.0f / __fsqrt_rn(a); }"},
    {"rsqrt_f64", "", "$fn f64 rsqrt_f64(f64 a) { return 1.0 / __dsqrt_rn(a); }"},
    {"recip_f32", "", "$fn f32 recip_f32(f32 a) { return 1.0f / a; }"},
    {"recip_f64", "", "$fn f64 recip_f64(f64 a) { return 1.0 / a; }"},
    {"floor_f32", "", "$fn f32 floor_f32(f32 a) { return floorf(a); }"},
    {"floor_f64", "", "$fn f64 floor_f64(f64 a) { return floor(a); }"},
    {"ceil_f32", "", "$fn f32 ceil_f32(f32 a) { return ceilf(a); }"},
    {"ceil_f64", "", "$fn f64 ceil_f64(f64 a) { return ceil(a); }"},
    {"trunc_f32", "", "$fn f32 trunc_f32(f32 a) { return truncf(a); }"},
    {"trunc_f64", "", "$fn f64 trunc_f64(f64 a) { return trunc(a); }"},
    {"round_f32", "", "$fn f32 round_f32(f32 a) { return rintf(a); }"},
    {"round_f64", "", "$fn f64 round_f64(f64 a) { return rint(a); }"},

    {"fast_exp2_f32", "", R"($fn f32 fast_exp2_f32(f32 a) {
  f32 out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},
    {"fast_exp_f32", "fast_exp2_f32", "$fn f32 fast_exp_f32(f32 a) { return fast_exp2_f32(a * 1.44269504f); }"},
    {"fast_log2_f32", "", R"($fn f32 fast_log2_f32(f32 a) {
  f32 out;
  asm("lg2.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},
    {"fast_log_f32", "fast_log2_f32", "$fn f32 fast_log_f32(f32 a) { return fast_log2_f32(a) * 0.693147181f; }"},
    {"fast_sin_f32", "", R"($fn f32 fast_sin_f32(f32 a) {
  f32 out;
  asm("sin.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},
    {"fast_cos_f32", "", R"($fn f32 fast_cos_f32(f32 a) {
  f32 out;
  asm("cos.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},
    {"fast_tanh_f32", "", R"($fn f32 fast_tanh_f32(f32 a) {
  f32 out;
  asm("tanh.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},
    {"fast_sqrt_f32", "", R"($fn f32 fast_sqrt_f32(f32 a) {
  f32 out;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},
    {"fast_rsqrt_f32", "", R"($fn f32 fast_rsqrt_f32(f32 a) {
  f32 out;
  asm("rsqrt.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},
    {"fast_recip_f32", "", R"($fn f32 fast_recip_f32(f32 a) {
  f32 out;
  asm("rcp.approx.f32 %0, %1;" : "=f"(out) : "f"(a));
  return out;
})"},

    {"and_or", "", R"(// (a & mask) | bits in one instruction: ptxas makes two of two constants by itself.
$fn u32 and_or(u32 a, u32 mask, u32 bits) {
  u32 out;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(out) : "r"(a), "r"(mask), "r"(bits));
  return out;
})"},

    {"popcount_32", "", "$fn u32 popcount_32(u32 a) { return (u32)__popc(a); }"},
    {"popcount_64", "", "$fn u32 popcount_64(u64 a) { return (u32)__popcll(a); }"},
    {"clz_32", "", "$fn u32 clz_32(u32 a) { return (u32)__clz((i32)a); }"},
    {"clz_64", "", "$fn u32 clz_64(u64 a) { return (u32)__clzll((i64)a); }"},
    {"ctz_32", "", "$fn u32 ctz_32(u32 a) { return (u32)__clz((i32)__brev(a)); }"},
    {"ctz_64", "", "$fn u32 ctz_64(u64 a) { return (u32)__clzll((i64)__brevll(a)); }"},
    {"bit_reverse_32", "", "$fn u32 bit_reverse_32(u32 a) { return __brev(a); }"},
    {"bit_reverse_64", "", "$fn u64 bit_reverse_64(u64 a) { return __brevll(a); }"},
    {"mul_hi_i32", "", "$fn i32 mul_hi_i32(i32 a, i32 b) { return __mulhi(a, b); }"},
    {"mul_hi_u32", "", "$fn u32 mul_hi_u32(u32 a, u32 b) { return __umulhi(a, b); }"},
    {"mul_hi_i64", "", "$fn i64 mul_hi_i64(i64 a, i64 b) { return __mul64hi(a, b); }"},
    {"mul_hi_u64", "", "$fn u64 mul_hi_u64(u64 a, u64 b) { return __umul64hi(a, b); }"},
    // dp4a takes each operand's sign by itself.
    {"dot4", "", R"($fn u32 dot4(u32 a, u32 b, u32 c, bool a_signed, bool b_signed) {
  u32 out;
  if (a_signed && b_signed) asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  else if (a_signed) asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  else if (b_signed) asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  else asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
  return out;
})"},

    {"Words", "", R"(// A value as whole 32-bit words, which is what lanes exchange.
template <class T> union Words {
  u32 word[(sizeof(T) + 3) / 4];
  T value;
};)"},
    {"shuffle", "Words", R"(template <class T> $fn T shuffle(T v, i32 lane) {
  Words<T> w = {};
  w.value = v;
#pragma unroll
  for (u32& word : w.word) word = __shfl_sync(0xffffffffu, word, lane);
  return w.value;
})"},
    {"shuffle_xor", "Words", R"(template <class T> $fn T shuffle_xor(T v, u32 mask) {
  Words<T> w = {};
  w.value = v;
#pragma unroll
  for (u32& word : w.word) word = __shfl_xor_sync(0xffffffffu, word, (i32)mask);
  return w.value;
})"},
    {"shuffle_up", "Words", R"(template <class T> $fn T shuffle_up(T v, u32 delta) {
  Words<T> w = {};
  w.value = v;
#pragma unroll
  for (u32& word : w.word) word = __shfl_up_sync(0xffffffffu, word, delta);
  return w.value;
})"},
    {"shuffle_down", "Words", R"(template <class T> $fn T shuffle_down(T v, u32 delta) {
  Words<T> w = {};
  w.value = v;
#pragma unroll
  for (u32& word : w.word) word = __shfl_down_sync(0xffffffffu, word, delta);
  return w.value;
})"},
    {"ballot", "", "$fn u32 ballot(bool p) { return __ballot_sync(0xffffffffu, p); }"},
    {"simd_any", "", "$fn bool simd_any(bool p) { return __any_sync(0xffffffffu, p) != 0; }"},
    {"simd_all", "", "$fn bool simd_all(bool p) { return __all_sync(0xffffffffu, p) != 0; }"},
    {"group_any", "", "$fn bool group_any(bool p) { return __syncthreads_or(p) != 0; }"},
    {"group_all", "", "$fn bool group_all(bool p) { return __syncthreads_and(p) != 0; }"},

    {"Raw", "", R"(template <int size> struct Raw;
template <> struct Raw<1> { typedef u8 type; };
template <> struct Raw<2> { typedef u16 type; };
template <> struct Raw<4> { typedef u32 type; };
template <> struct Raw<8> { typedef u64 type; };
template <> struct Raw<16> { typedef uint4 type; };
template <class T> union Streamed {
  typename Raw<sizeof(T)>::type raw;
  T value;
};)"},
    {"load_stream", "Raw", R"(template <class T> $fn T load_stream(const T* p) {
  Streamed<T> s;
  s.raw = __ldcs((const typename Raw<sizeof(T)>::type*)p);
  return s.value;
})"},
    {"store_stream", "Raw", R"(template <class T> $fn void store_stream(T* p, T v) {
  Streamed<T> s;
  s.value = v;
  __stcs((typename Raw<sizeof(T)>::type*)p, s.raw);
})"},
    {"prefetch", "", R"($fn void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" : : "l"(p)); })"},
};
}  // namespace

// An or whose other operand is a mask that nobody else needs: one three-input instruction.
Expr masked_or(Emitter& e, const LaneCall& c) {
  const auto& k = e.kernel();
  if (c.id == ir::none || c.type != DType::u32 || k.type(c.id).lanes != 1) return rows::bitwise(e, c);
  const ir::OpId masked = k.operand(c.id, 0);
  const bool fits = k.op(masked).code == ir::Opcode::And && e.used_once_here(masked) &&
                    k.op(k.operand(masked, 1)).code == ir::Opcode::Const &&
                    k.op(k.operand(c.id, 1)).code == ir::Opcode::Const;
  if (!fits) return rows::bitwise(e, c);
  return e.call("and_or", {e.arg(masked, 0), e.arg(masked, 1), c.args[1]});
}

// x < c ? x : c and x > c ? x : c are one instruction here: min and max give c for NaN too, and c is no zero.
Expr clamping_select(Emitter& e, const LaneCall& c) {
  const auto& k = e.kernel();
  if (c.id == ir::none || c.type != DType::f32 || k.type(c.id).lanes != 1) return rows::select(e, c);
  const ir::OpId test = k.operand(c.id, 0), x = k.operand(c.id, 1), limit = k.operand(c.id, 2);
  const auto code = k.op(test).code;
  const f32 value = std::bit_cast<f32>(static_cast<u32>(k.op(limit).imm));
  const auto is_limit = [&](ir::OpId v) {
    return k.op(v).code == ir::Opcode::Const && k.op(v).imm == k.op(limit).imm && value == value && value != 0.0f;
  };
  const bool clamps = (code == ir::Opcode::Lt || code == ir::Opcode::Gt) && k.operand(test, 0) == x &&
                      is_limit(limit) && is_limit(k.operand(test, 1));
  if (!clamps) return rows::select(e, c);
  return e.call(code == ir::Opcode::Lt ? "min_f32" : "max_f32", {c.args[1], c.args[2]});
}

std::span<const Helper> helpers() { return table; }

}  // namespace iron::emit::cuda
