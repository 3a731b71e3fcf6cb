// The shared row functions, by theme; each file of rows says how its ops are written.
#pragma once

#include "emit/c_like/emitter.h"

namespace iron::emit::rows {

// structure.cpp
void nothing(Emitter&, ir::OpId);
void constant(Emitter&, ir::OpId);
void loop(Emitter&, ir::OpId);
void branch(Emitter&, ir::OpId);
Expr thread_id(Emitter&, const LaneCall&);
Expr thread_pos(Emitter&, const LaneCall&);
Expr group_id(Emitter&, const LaneCall&);
Expr group_count(Emitter&, const LaneCall&);
Expr group_size(Emitter&, const LaneCall&);
Expr group_dim(Emitter&, const LaneCall&);
Expr grid_thread_id(Emitter&, const LaneCall&);
Expr grid_pos(Emitter&, const LaneCall&);
Expr lane_id(Emitter&, const LaneCall&);
Expr simdgroup_id(Emitter&, const LaneCall&);
Expr simdgroup_count(Emitter&, const LaneCall&);
Expr simd_width(Emitter&, const LaneCall&);
Expr item_count(Emitter&, const LaneCall&);
void length(Emitter&, ir::OpId);
void vec_make(Emitter&, ir::OpId);
void vec_extract(Emitter&, ir::OpId);
void vec_insert(Emitter&, ir::OpId);
Expr bounded(Emitter&, const LaneCall&);
Expr same_value(Emitter&, const LaneCall&);

// arithmetic.cpp
Expr add_sub_mul(Emitter&, const LaneCall&);
Expr divide(Emitter&, const LaneCall&);
Expr remainder(Emitter&, const LaneCall&);
Expr min_max(Emitter&, const LaneCall&);
Expr fma(Emitter&, const LaneCall&);
Expr negate(Emitter&, const LaneCall&);
Expr absolute(Emitter&, const LaneCall&);
Expr sign(Emitter&, const LaneCall&);
Expr bitwise(Emitter&, const LaneCall&);
Expr complement(Emitter&, const LaneCall&);
Expr shift(Emitter&, const LaneCall&);
Expr count_bits(Emitter&, const LaneCall&);
Expr mul_hi(Emitter&, const LaneCall&);
Expr funnel(Emitter&, const LaneCall&);
Expr bit_field(Emitter&, const LaneCall&);
Expr dot4(Emitter&, const LaneCall&);
Expr compare(Emitter&, const LaneCall&);
Expr is_nan(Emitter&, const LaneCall&);
Expr select(Emitter&, const LaneCall&);
Expr float_function(Emitter&, const LaneCall&);
Expr ldexp(Emitter&, const LaneCall&);

// convert.cpp
Expr cast(Emitter&, const LaneCall&);
void bitcast(Emitter&, ir::OpId);
Expr decode(Emitter&, const LaneCall&);
/// A 16-bit float as f32; anything else unchanged.
Expr widen(Emitter&, const Expr&, DType);
/// An f32 (or f64) as the float type, rounded once.
Expr narrow(Emitter&, const Expr&, DType);
Expr convert(Emitter&, const Expr&, DType from, DType to);
/// A scalar as the unsigned integer of its size, and back.
Expr to_bits(Emitter&, const Expr&, DType);
Expr from_bits(Emitter&, const Expr&, DType);

// memory.cpp
void shared_new(Emitter&, ir::OpId);
void array_new(Emitter&, ir::OpId);
void view(Emitter&, ir::OpId);
void load(Emitter&, ir::OpId);
void load_or(Emitter&, ir::OpId);
void store(Emitter&, ir::OpId);
/// mem[index], through the swizzle of a shared array.
Expr element(Emitter&, ir::OpId mem, const Expr& index);

// simd.cpp
void simd_reduce(Emitter&, ir::OpId);
void simd_scan(Emitter&, ir::OpId);
void simd_shuffle(Emitter&, ir::OpId);
void simd_vote(Emitter&, ir::OpId);
void group_reduce(Emitter&, ir::OpId);
void group_scan(Emitter&, ir::OpId);
void group_vote(Emitter&, ir::OpId);
void group_broadcast(Emitter&, ir::OpId);
void barrier(Emitter&, ir::OpId);
void simd_barrier(Emitter&, ir::OpId);

// tile.cpp
void tile_new(Emitter&, ir::OpId);
void tile_zero(Emitter&, ir::OpId);
void tile_mma(Emitter&, ir::OpId);
void tile_load(Emitter&, ir::OpId);
void tile_store(Emitter&, ir::OpId);
void tile_get(Emitter&, ir::OpId);
void tile_set(Emitter&, ir::OpId);
Expr tile_row(Emitter&, const LaneCall&);
Expr tile_col(Emitter&, const LaneCall&);
Expr tile_elems(Emitter&, const LaneCall&);

}  // namespace iron::emit::rows
