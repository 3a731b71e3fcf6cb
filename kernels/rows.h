// Launch geometry that row kernels share.
#pragma once

#include "iron/dsl.h"

namespace iron::kernels {

/// One threadgroup for each row of `n` elements; none where rows have no elements.
inline Grid row_groups(u64 elements, u32 n, u32 threads = 256) {
  return {Threadgroups{n == 0 ? 0 : static_cast<u32>(elements / n)}, Threads{threads}};
}

}  // namespace iron::kernels
