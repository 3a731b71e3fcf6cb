// Several neighbouring items a thread for elementwise kernels, where that makes their accesses wide.
#pragma once

#include "ir/kernel.h"

namespace iron::passes {

/// A lowering for devices that need more than one element in flight a thread to keep their memory busy.
struct WideItems {
  ir::Kernel kernel;         ///< one scalar u32 more than the original: 1 where every buffer starts at 16 bytes
  u32 items_per_thread = 1;  ///< 1: nothing is gained, `kernel` is empty
};

/// Thread t of the result runs items t * n to t * n + n - 1 of the original, so it takes 1/n of the threads. Where all
/// n exist and the buffers are aligned, they run in step, op by op, and neighbouring loads and stores become one; else
/// one after another. Items are independent of each other in a kernel without races, so every result keeps its bits.
/// Only kernels whose body does nothing but guard its items, and that name no other id of a thread, are taken; and only
/// where all stores become wide.
WideItems widen_items(const ir::Kernel& optimised);

}  // namespace iron::passes
