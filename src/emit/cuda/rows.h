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
void check(Emitter&, ir::OpId);
void print(Emitter&, ir::OpId);

}  // namespace iron::emit::cuda
