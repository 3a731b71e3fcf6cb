// A kernel with everything that its launch needs, as one text, and what it leaves in memory.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exec/exec.h"
#include "ir/kernel.h"
#include "ir/launch.h"

namespace iron::fuzz {

/// Contents of buffers follow from the data seed and the parameter's name, so that they survive shrinking.
struct Subject {
  ir::Kernel kernel;
  LaunchGeometry geometry;
  std::vector<u64> sizes;  ///< per parameter: bytes of a buffer, bits of a scalar
  u64 data_seed = 1;
};

/// Buffers of one launch, aligned to 64 bytes.
class Memory {
 public:
  explicit Memory(const Subject& s);
  std::span<const LaunchArg> args() const { return args_; }
  const u8* bytes(std::size_t param) const { return static_cast<const u8*>(args_[param].data); }

 private:
  struct alignas(64) Line {
    u8 bytes[64];
  };
  std::vector<std::vector<Line>> lines_;
  std::vector<LaunchArg> args_;
};

/// The first element that differs between two memories, in words; empty if none does. NaNs are one class (R2).
std::string difference(const ir::Kernel& k, const Subject& s, const Memory& a, const Memory& b);

/// Numbers worth trying, as bits of the type.
std::span<const u64> interesting(DType t);

/// "// LAUNCH groups=2,1,1 ..." and the kernel: what a failing case is kept as.
std::string to_text(const Subject& s);
/// Reads it back; throws iron::Error (FUZZ01) where the launch line is missing or does not fit the kernel.
Subject from_text(std::string_view text, std::string_view file);

}  // namespace iron::fuzz
