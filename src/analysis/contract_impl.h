// What derive() keeps of a kernel, shared by the contract's files.
#pragma once

#include <mutex>

#include "analysis/contract.h"

namespace iron::analysis {

/// An op that touches memory at a subscript.
struct AccessOf {
  ir::OpId memory = ir::none, index = ir::none;
  u32 lanes = 1;
  u32 align = 1;  ///< bytes to which the access itself is aligned
  bool writes = false;
};
/// The access of an op, or memory == none for ops without one (tiles and prefetches included).
AccessOf access_of(const ir::Kernel& k, ir::OpId id);
/// Byte offset of a memory value inside its root.
u64 byte_offset(const ir::Kernel& k, ir::OpId memory);
/// The kernel makes use of simdgroups: simd and group ops, lane and simdgroup ids, tiles.
bool uses_simdgroups(const ir::Kernel& k);
/// Threadgroup memory of all arrays, each aligned to 16 bytes.
u64 shared_bytes(const ir::Kernel& k);

/// Arguments as the memo knows them: scalars for scalars, sizes for buffers.
struct MemoEntry {
  LaunchGeometry geometry;
  u32 simd_width = 32;
  std::vector<u64> numbers;  ///< scalar and bytes of each argument
  std::shared_ptr<const Verdict> verdict;
};

struct Contract::Impl {
  ir::Kernel kernel;
  std::vector<std::vector<ir::OpId>> steps;    ///< per region: the ops that the evaluation visits
  std::vector<char> needed;                    ///< per op: an integer or bool that a check depends on
  std::vector<std::vector<ir::OpId>> results;  ///< per op: its Result ops
  std::vector<u32> alignments;                 ///< per parameter
  u64 shared_bytes = 0;
  bool uses_simdgroups = false, uses_items = false, uses_group_count = false;

  static constexpr std::size_t memo_size = 8;
  mutable std::mutex memo_lock;
  mutable std::vector<MemoEntry> memo;
  mutable std::size_t memo_next = 0;
};

/// Every access, trip count and step of the kernel, for one launch (contract_eval.cpp).
Verdict evaluate_body(const Contract::Impl& c, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                      u32 simd_width);

}  // namespace iron::analysis
