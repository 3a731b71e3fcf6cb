#include "registry.h"

namespace iron {

const Registry& standard_library() {
  static const Registry registry = [] {
    Registry r;
    kernels::register_rms_norm(r);
    // gemm
    kernels::register_steel_gemm(r);
    kernels::register_segmented_gemm(r);
    kernels::register_masked_gemm(r);
    kernels::register_gather_gemm(r);
    kernels::register_split_k_gemm(r);
    kernels::register_fused_gemm(r);
    kernels::register_gemm_tma(r);
    kernels::register_gemm_tma_blocks(r);
    kernels::register_split_k_tma(r);
    kernels::register_attention_tma(r);
    kernels::register_attention_decode_tma(r);
    kernels::register_gemv(r);
    // quant, moe
    kernels::register_affine(r);
    kernels::register_qmv(r);
    kernels::register_qmv_stream(r);
    kernels::register_qmv_fixed(r);
    kernels::register_qvm(r);
    kernels::register_qmm_tile(r);
    kernels::register_dequant_gemv(r);
    kernels::register_norm_qgemv(r);
    kernels::register_batched_projections(r);
    kernels::register_small_floats(r);
    kernels::register_moe_down_swiglu(r);
    kernels::register_moe_gather_qmm(r);
    kernels::register_moe_router(r);
    kernels::register_moe_gather_qmm_tile(r);

    kernels::register_softmax(r);
    kernels::register_softmax_staged(r);
    kernels::register_logsumexp(r);

    kernels::register_arg_reduce(r);
    kernels::register_row_reduce(r);
    kernels::register_col_reduce(r);

    kernels::register_layer_norm(r);
    kernels::register_rms_norm_fused(r);
    kernels::register_rms_norm_rope(r);

    kernels::register_scan(r);
    kernels::register_scan_lookback(r);

    kernels::register_sort(r);
    kernels::register_merge(r);

    kernels::register_hadamard(r);
    kernels::register_fft(r);
    kernels::register_hadamard_m(r);
    kernels::register_bluestein(r);

    // unary
    kernels::register_unary_exact(r);
    kernels::register_unary_transcendental(r);
    kernels::register_scalar_fused(r);
    // binary
    kernels::register_binary_arithmetic(r);
    kernels::register_data_movement(r);
    kernels::register_gates(r);
    // rope
    kernels::register_rope(r);
    kernels::register_rope_scaled(r);
    // index
    kernels::register_gather(r);
    kernels::register_scatter(r);
    // sampling
    kernels::register_sampling(r);
    kernels::register_logits(r);
    // language models
    kernels::register_gguf(r);
    kernels::register_gguf_int8(r);
    kernels::register_gguf_k(r);
    kernels::register_cached_attention(r);
    kernels::register_sdpa_decode(r);
    kernels::register_sdpa_several(r);
    kernels::register_sdpa_prefill(r);
    kernels::register_flash_quantized(r);
    kernels::register_kv_cache(r);
    kernels::register_swiglu_rows(r);
    kernels::register_sample_greedy(r);
    return r;
  }();
  return registry;
}

}  // namespace iron
