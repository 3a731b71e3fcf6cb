// What the CPU lowering needs to know of a processor: packet width and the instructions that change the code.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "iron/types.h"

namespace iron::cpu {

struct CpuTarget {
  std::string name;      ///< of known_targets()
  std::string cpu;       ///< LLVM's name of the processor
  std::string features;  ///< LLVM's feature string
  u32 lanes = 4;         ///< 32-bit lanes of a packet
  u32 registers = 16;    ///< vector registers
  bool fma = false;      ///< fused multiply-add in hardware
  bool f16c = false;     ///< conversions between f16 and f32
  bool sse41 = false;    ///< directed rounding, blends
  bool avx512 = false;
  bool dot_bytes = false;  ///< sums of four products of bytes (VNNI)
  bool dot_bf16 = false;   ///< sums of two products of bf16
  /// What two targets must share for their code to be exchangeable.
  std::string key() const { return name + "/" + cpu + "/" + features; }
};

/// Names from the widest down: avx512bf16 (with VNNI), avx512vnni, avx512, avx2vnni, avx2, sse2.
std::span<const std::string_view> known_targets();
/// The widest target that this machine runs; IRON_CPU_TARGET chooses another by its name.
const CpuTarget& host_target();
/// A target by name, whether or not this machine runs it; throws iron::Error (CPU01) for another name.
CpuTarget named_target(std::string_view name);
/// True if this machine has every feature of the target.
bool runs_here(const CpuTarget& target);

}  // namespace iron::cpu
