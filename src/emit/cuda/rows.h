// The rows that CUDA writes in its own words, and its helpers.
#pragma once

#include "emit/c_like/rows.h"

namespace iron::emit::cuda {

std::span<const Helper> helpers();

void atomic_rmw(Emitter&, ir::OpId);
void atomic_cas(Emitter&, ir::OpId);
void atomic_load(Emitter&, ir::OpId);
void atomic_store(Emitter&, ir::OpId);
void wait_until(Emitter&, ir::OpId);
void ticket(Emitter&, ir::OpId);
void fence(Emitter&, ir::OpId);
void prefetch(Emitter&, ir::OpId);
void copy_async(Emitter&, ir::OpId);
void copy_commit(Emitter&, ir::OpId);
void copy_wait(Emitter&, ir::OpId);
void check(Emitter&, ir::OpId);
void print(Emitter&, ir::OpId);
Expr masked_or(Emitter&, const LaneCall&);
Expr clamping_select(Emitter&, const LaneCall&);

// tier.cpp
void roles(Emitter&, ir::OpId);
void leave_kernel(Emitter&);
void role_index(Emitter&, ir::OpId);
void role_barrier(Emitter&, ir::OpId);
void cluster_rank(Emitter&, ir::OpId);
void cluster_sync(Emitter&, ir::OpId);
void peer_load(Emitter&, ir::OpId);
void shared_view(Emitter&, ir::OpId);
void pipe_new(Emitter&, ir::OpId);
void pipe_acquire(Emitter&, ir::OpId);
void pipe_expect(Emitter&, ir::OpId);
void pipe_wait(Emitter&, ir::OpId);
void pipe_release(Emitter&, ir::OpId);
void tma_load(Emitter&, ir::OpId);
void tma_store(Emitter&, ir::OpId);
void reclaim(Emitter&, ir::OpId);
void turn_new(Emitter&, ir::OpId);
void turn_enter(Emitter&, ir::OpId);
void turn_leave(Emitter&, ir::OpId);

// tier_products.cpp
void enter_region(Emitter&, ir::RegionId);
void acc_mma(Emitter&, ir::OpId);
void acc_settle(Emitter&, ir::OpId);
void acc_value(Emitter&, ir::OpId);
void acc_set(Emitter&, ir::OpId);
void acc_scale(Emitter&, ir::OpId);
void acc_clear(Emitter&, ir::OpId);
void frag_place(Emitter&, ir::OpId);
void frag_splat(Emitter&, ir::OpId);
void frag_spread(Emitter&, ir::OpId);
void frag_cols(Emitter&, ir::OpId);
void frag_fold(Emitter&, ir::OpId);
void frag_put(Emitter&, ir::OpId);
void packed_op(Emitter&, ir::OpId);

// mma.cpp
void matrix_product(Emitter&, ir::OpId, const TileLayout&);

}  // namespace iron::emit::cuda
