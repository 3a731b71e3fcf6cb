// What a launch says in numbers: geometry and arguments, in the kernel's parameter order.
#pragma once

#include <vector>

#include "iron/types.h"

namespace iron {

struct Dim3 {
  u32 x = 1, y = 1, z = 1;
  u64 count() const { return u64{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

/// Grid in threadgroups, threadgroup in threads, and the item count of elementwise kernels.
struct LaunchGeometry {
  Dim3 groups, threads;
  u64 items = 0;
  bool operator==(const LaunchGeometry&) const = default;
};

/// How a tensor lies in a buffer: dimensions in elements and distances in bytes, innermost first. Rank 0: no tensor.
struct TensorShape {
  u32 rank = 0;
  u64 dims[5] = {}, strides[5] = {};
  bool operator==(const TensorShape&) const = default;
};

/// A buffer (address on the device that runs the kernel, size in bytes) or a scalar (its bits, zero-extended).
struct LaunchArg {
  void* data = nullptr;
  u64 bytes = 0;
  u64 scalar = 0;
  TensorShape tensor = {};  ///< of a buffer that the kernel reaches as a tensor
};

}  // namespace iron
