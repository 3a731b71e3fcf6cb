// The plain loops beside which kernels are timed; compiled at -O3 for the processor at hand.
#include <immintrin.h>

#include <cmath>

#include "cpu_peers.h"

namespace iron::perf {

__attribute__((target("avx2"), noinline)) void nontemporal_copy(void* to, const void* from, u64 bytes) {
  auto* d = static_cast<__m256i*>(to);
  const auto* s = static_cast<const __m256i*>(from);
  for (u64 i = 0; i < bytes / 32; i += 4)
    for (u64 j = 0; j < 4; ++j) _mm256_stream_si256(d + i + j, _mm256_load_si256(s + i + j));
  _mm_sfence();
}

__attribute__((target("avx2"), noinline)) f32 read_all(const f32* from, u64 n) {
  __m256 sum[8];
  for (auto& s : sum) s = _mm256_setzero_ps();
  for (u64 i = 0; i < n; i += 64)
    for (u64 j = 0; j < 8; ++j) sum[j] = _mm256_add_ps(sum[j], _mm256_loadu_ps(from + i + 8 * j));
  f32 out[8], total = 0;
  for (u64 j = 1; j < 8; ++j) sum[0] = _mm256_add_ps(sum[0], sum[j]);
  _mm256_storeu_ps(out, sum[0]);
  for (const f32 x : out) total += x;
  return total;
}

__attribute__((target("avx2,fma"), noinline)) f64 fma_chains(u64 rounds) {
  __m256 a0 = _mm256_set1_ps(1), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0, a8 = a0, a9 = a0,
         a10 = a0, a11 = a0;
  const __m256 b = _mm256_set1_ps(0.5f);
  for (u64 i = 0; i < rounds; ++i) {
    a0 = _mm256_fmadd_ps(a0, b, b), a1 = _mm256_fmadd_ps(a1, b, b), a2 = _mm256_fmadd_ps(a2, b, b);
    a3 = _mm256_fmadd_ps(a3, b, b), a4 = _mm256_fmadd_ps(a4, b, b), a5 = _mm256_fmadd_ps(a5, b, b);
    a6 = _mm256_fmadd_ps(a6, b, b), a7 = _mm256_fmadd_ps(a7, b, b), a8 = _mm256_fmadd_ps(a8, b, b);
    a9 = _mm256_fmadd_ps(a9, b, b), a10 = _mm256_fmadd_ps(a10, b, b), a11 = _mm256_fmadd_ps(a11, b, b);
    asm volatile(""
                 : "+x"(a0), "+x"(a1), "+x"(a2), "+x"(a3), "+x"(a4), "+x"(a5), "+x"(a6), "+x"(a7), "+x"(a8), "+x"(a9),
                   "+x"(a10), "+x"(a11));
  }
  volatile f32 keep = _mm256_cvtss_f32(a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 +
                                       a11);  // NOLINT(clang-analyzer-deadcode.DeadStores)
  (void)keep;
  return static_cast<f64>(rounds) * 12 * 16;
}

void plain_attention(const f32* q, const f32* k, const f32* v, f32* out, u32 heads, u32 heads_per_kv, u32 n, u32 d,
                     f32 scale, f32* scores) {
  for (u32 h = 0; h < heads; ++h) {
    const f32* keys = k + u64{h / heads_per_kv} * n * d;
    const f32* values = v + u64{h / heads_per_kv} * n * d;
    f32 top = -INFINITY, total = 0;
    for (u32 j = 0; j < n; ++j) {
      f32 dot = 0;
      for (u32 i = 0; i < d; ++i) dot += q[h * d + i] * keys[u64{j} * d + i];
      scores[j] = dot * scale;
      top = std::fmax(top, scores[j]);
    }
    for (u32 j = 0; j < n; ++j) {
      scores[j] = std::exp(scores[j] - top);
      total += scores[j];
    }
    f32* o = out + u64{h} * d;
    for (u32 i = 0; i < d; ++i) o[i] = 0;
    for (u32 j = 0; j < n; ++j)
      for (u32 i = 0; i < d; ++i) o[i] += scores[j] * values[u64{j} * d + i];
    for (u32 i = 0; i < d; ++i) o[i] /= total;
  }
}

}  // namespace iron::perf
