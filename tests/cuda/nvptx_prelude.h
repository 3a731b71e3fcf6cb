// What NVRTC declares by itself and Iron's CUDA text uses, in words of clang's NVPTX back end. Only for the compile
// gate: it shows that the text is well formed and can be selected, not that these words round like the CUDA ones.
#include <__clang_cuda_builtin_vars.h>

// clang takes alignas() only before, NVRTC also after __shared__.
#define alignas(bytes) __attribute__((aligned(bytes)))
#define __cluster_dims__(...)
#define __device__ __attribute__((device))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __global__ __attribute__((global))
#define __grid_constant__ __attribute__((grid_constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __restrict__ __restrict
#define __shared__ __attribute__((shared))

#define IRON_WORD static __device__ __forceinline__
IRON_WORD float __uint_as_float(unsigned a) { return __builtin_bit_cast(float, a); }
IRON_WORD unsigned __float_as_uint(float a) { return __builtin_bit_cast(unsigned, a); }
IRON_WORD float __fmaf_rn(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
IRON_WORD float __fsqrt_rn(float a) { return __nvvm_sqrt_rn_f(a); }
IRON_WORD float fabsf(float a) { return __nvvm_fabs_f(a); }
IRON_WORD float fmaxf(float a, float b) { return __nvvm_fmax_f(a, b); }
IRON_WORD float fminf(float a, float b) { return __nvvm_fmin_f(a, b); }
IRON_WORD float floorf(float a) { return __nvvm_floor_f(a); }
IRON_WORD float ceilf(float a) { return __nvvm_ceil_f(a); }
IRON_WORD float truncf(float a) { return __nvvm_trunc_f(a); }
IRON_WORD float rintf(float a) { return __builtin_rintf(a); }
IRON_WORD float fmodf(float a, float b) { return a - b * __nvvm_trunc_f(a / b); }
IRON_WORD int __float2int_rz(float a) { return __nvvm_f2i_rz(a); }
IRON_WORD unsigned __float2uint_rz(float a) { return __nvvm_f2ui_rz(a); }
IRON_WORD long long __float2ll_rz(float a) { return __nvvm_f2ll_rz(a); }
IRON_WORD unsigned __brev(unsigned a) { return __builtin_bitreverse32(a); }
IRON_WORD int __clz(unsigned a) { return a ? __builtin_clz(a) : 32; }
IRON_WORD void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
IRON_WORD int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
IRON_WORD unsigned __ballot_sync(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p); }
IRON_WORD int __shfl_sync(unsigned mask, int v, int lane) { return __nvvm_shfl_sync_idx_i32(mask, v, lane, 31); }
IRON_WORD int __shfl_xor_sync(unsigned mask, int v, int by) { return __nvvm_shfl_sync_bfly_i32(mask, v, by, 31); }
IRON_WORD int __shfl_up_sync(unsigned mask, int v, int by) { return __nvvm_shfl_sync_up_i32(mask, v, by, 0); }
IRON_WORD unsigned long long __cvta_generic_to_shared(const void* p) {
  return (unsigned long long)(__attribute__((address_space(3))) const void*)p;
}
extern "C" __device__ int printf(const char*, ...);
