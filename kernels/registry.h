// The explicit list of registration functions: no static initialisers, so the linker cannot drop a family.
#pragma once

#include "iron/library.h"

namespace iron::kernels {

// One declaration a file of kernels/<family>/.
void register_rms_norm(Registry& r);
// gemm
void register_steel_gemm(Registry& r);
void register_segmented_gemm(Registry& r);
void register_masked_gemm(Registry& r);
void register_gather_gemm(Registry& r);
void register_split_k_gemm(Registry& r);
void register_fused_gemm(Registry& r);
void register_gemm_tma(Registry& r);
void register_gemm_tma_blocks(Registry& r);
void register_split_k_tma(Registry& r);
void register_attention_tma(Registry& r);
void register_attention_decode_tma(Registry& r);
void register_gemv(Registry& r);
// quant, moe
void register_affine(Registry& r);
void register_qmv(Registry& r);
void register_qmv_stream(Registry& r);
void register_qmv_fixed(Registry& r);
void register_qvm(Registry& r);
void register_qmm_tile(Registry& r);
void register_dequant_gemv(Registry& r);
void register_norm_qgemv(Registry& r);
void register_batched_projections(Registry& r);
void register_small_floats(Registry& r);
void register_moe_down_swiglu(Registry& r);
void register_moe_gather_qmm(Registry& r);
void register_moe_router(Registry& r);
void register_moe_gather_qmm_tile(Registry& r);

// softmax
void register_softmax(Registry& r);
void register_softmax_staged(Registry& r);
void register_logsumexp(Registry& r);
// reduce
void register_arg_reduce(Registry& r);
void register_row_reduce(Registry& r);
void register_col_reduce(Registry& r);
// norm
void register_layer_norm(Registry& r);
void register_rms_norm_fused(Registry& r);
void register_rms_norm_rope(Registry& r);
// scan
void register_scan(Registry& r);
void register_scan_lookback(Registry& r);
// sort
void register_sort(Registry& r);
void register_merge(Registry& r);
// transform
void register_hadamard(Registry& r);
void register_fft(Registry& r);
void register_hadamard_m(Registry& r);
void register_bluestein(Registry& r);
// gemv

// unary
void register_unary_exact(Registry& r);
void register_unary_transcendental(Registry& r);
void register_scalar_fused(Registry& r);
// binary
void register_binary_arithmetic(Registry& r);
void register_data_movement(Registry& r);
void register_gates(Registry& r);
// rope
void register_rope(Registry& r);
void register_rope_scaled(Registry& r);
// index
void register_gather(Registry& r);
void register_scatter(Registry& r);
// sampling
void register_sampling(Registry& r);
void register_logits(Registry& r);
// language models
void register_gguf(Registry& r);
void register_gguf_int8(Registry& r);
void register_gguf_k(Registry& r);
void register_cached_attention(Registry& r);
void register_sdpa_decode(Registry& r);
void register_sdpa_several(Registry& r);
void register_sdpa_prefill(Registry& r);
void register_flash_quantized(Registry& r);
void register_kv_cache(Registry& r);
void register_swiglu_rows(Registry& r);
void register_sample_greedy(Registry& r);

}  // namespace iron::kernels
