#include "exec/rows.h"

#include <bit>
#include <cmath>
#include <limits>

#if defined(__x86_64__)
#include <immintrin.h>
#define IRON_VECTOR_FLOAT __attribute__((target("avx2,fma,f16c")))
#endif

namespace iron::exec {

namespace {
#if defined(__x86_64__)
bool vector_float() {
  static const bool has =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return has;
}

IRON_VECTOR_FLOAT void fma_row_vector(const f32* a, const f32* b, const f32* c, f32* out, u32 n) {
  const __m256 quiet = _mm256_set1_ps(std::numeric_limits<f32>::quiet_NaN());
  u32 i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 r = _mm256_fmadd_ps(_mm256_loadu_ps(a + i), _mm256_loadu_ps(b + i), _mm256_loadu_ps(c + i));
    _mm256_storeu_ps(out + i, _mm256_blendv_ps(r, quiet, _mm256_cmp_ps(r, r, _CMP_UNORD_Q)));
  }
  for (; i < n; ++i) {
    const f32 r = __builtin_fmaf(a[i], b[i], c[i]);
    out[i] = r == r ? r : std::numeric_limits<f32>::quiet_NaN();
  }
}
IRON_VECTOR_FLOAT void fma_into_row_vector(f32 a, const f32* b, f32* out, u32 n) {
  const __m256 left = _mm256_set1_ps(a);
  u32 i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_fmadd_ps(left, _mm256_loadu_ps(b + i), _mm256_loadu_ps(out + i)));
  for (; i < n; ++i) out[i] = __builtin_fmaf(a, b[i], out[i]);
}
// NaNs keep to the one form of the scalar conversions, which the instructions do not: such rows go one by one.
IRON_VECTOR_FLOAT u32 widen_row_vector(const u16* in, f32* out, u32 n) {
  u32 i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 r = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
    if (_mm256_movemask_ps(_mm256_cmp_ps(r, r, _CMP_UNORD_Q))) break;
    _mm256_storeu_ps(out + i, r);
  }
  return i;
}
IRON_VECTOR_FLOAT u32 narrow_row_vector(const f32* in, u16* out, u32 n) {
  u32 i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m256 v = _mm256_loadu_ps(in + i);
    if (_mm256_movemask_ps(_mm256_cmp_ps(v, v, _CMP_UNORD_Q))) break;
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  return i;
}
#endif
}  // namespace

void fma_row(const f32* a, const f32* b, const f32* c, f32* out, u32 n) {
#if defined(__x86_64__)
  if (vector_float()) return fma_row_vector(a, b, c, out, n);
#endif
  for (u32 i = 0; i < n; ++i) {
    const f32 r = std::fma(a[i], b[i], c[i]);
    out[i] = r == r ? r : std::numeric_limits<f32>::quiet_NaN();
  }
}

void fma_into_row(f32 a, const f32* b, f32* out, u32 n) {
#if defined(__x86_64__)
  if (vector_float()) return fma_into_row_vector(a, b, out, n);
#endif
  for (u32 i = 0; i < n; ++i) out[i] = std::fma(a, b[i], out[i]);
}

void widen_f16_row(const u16* in, f32* out, u32 n) {
  u32 i = 0;
#if defined(__x86_64__)
  if (vector_float()) i = widen_row_vector(in, out, n);
#endif
  for (; i < n; ++i) out[i] = f16_bits_to_f32(in[i]);
}

void narrow_f16_row(const f32* in, u16* out, u32 n) {
  u32 i = 0;
#if defined(__x86_64__)
  if (vector_float()) i = narrow_row_vector(in, out, n);
#endif
  for (; i < n; ++i) out[i] = f32_to_f16_bits(in[i]);
}

void widen_bf16_row(const u16* in, f32* out, u32 n) {
  for (u32 i = 0; i < n; ++i) out[i] = std::bit_cast<f32>(static_cast<u32>(in[i]) << 16);
}

void narrow_bf16_row(const f32* in, u16* out, u32 n) {
  for (u32 i = 0; i < n; ++i) {
    const u32 bits = std::bit_cast<u32>(in[i]);
    const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, nan = (bits >> 16) | 0x40u;
    out[i] = static_cast<u16>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

}  // namespace iron::exec
