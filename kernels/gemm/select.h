// Which member of the GEMM family a product gets on a device, and why the others do not.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>

#include "gemm/members.h"

namespace iron::kernels {

/// C[m, n] = A[m, k] * B, packed rows.
struct GemmProblem {
  u32 m = 0, n = 0, k = 0;
  DType input = DType::f32, output = DType::f32;
  bool e4m3 = false;         ///< A and B are bytes in E4M3: `input` is u8
  bool weight_major = true;  ///< B is [n, k]
  bool aligned = true;       ///< A, B and C start at multiples of 16 bytes
};

struct GemmSelection {
  const GemmMember* member = nullptr;
  const KernelEntry* entry = nullptr;
  std::string spec;  ///< for KernelInstance::specialise(); empty: as registered
  std::string why;
  struct Passed {
    std::string kernel, why;
  };
  std::vector<Passed>
      passed;  ///< members for these types and layouts that would come before it, and what is in their way
};

/// The member for a device with these capabilities (DeviceInfo::features) and multiprocessors. Throws iron::Error:
/// LIB03 for an empty product, LIB05 where no member has these types and this layout on the device.
GemmSelection select_gemm(const GemmProblem& problem, std::span<const std::string> features, u32 units = 1);

/// Sets buffers and scalars of a member: A at `a`, B at `b`, C at `c`, addresses of whatever device; the scale becomes
/// 1. Throws iron::Error (LIB05) if the member multiplies one row and m is another.
void bind_gemm(KernelInstance& kernel, const ProductForm& form, u32 m, u32 n, u32 k, void* a, void* b, void* c);

/// What a launch of a member computes, from its arguments.
struct GemmOperands {
  GemmProblem problem;
  void *a = nullptr, *b = nullptr, *c = nullptr;
};
/// Absent for a kernel that is no member.
std::optional<GemmOperands> gemm_operands(const KernelEntry& entry, std::span<const BoundArg> arguments);

/// Launches of the family's own kernel, `iron_gemm`, given to the member for their product: choices are made once a
/// shape and alignment, members kept. One object serves one thread at a time.
class GemmDispatch {
 public:
  GemmDispatch(std::vector<std::string> features, u32 units) : features_(std::move(features)), units_(units) {}
  struct Chosen {
    GemmSelection selection;
    std::unique_ptr<KernelInstance> kernel;  ///< null where the kernel that was launched is the choice
  };
  /// The choice for a launch with these arguments, bound to its operands. Lives as long as this object.
  Chosen& choose(const KernelEntry& launched, std::span<const BoundArg> arguments);

 private:
  std::vector<std::string> features_;
  u32 units_;
  std::map<std::array<u32, 4>, std::unique_ptr<Chosen>> chosen_;
};

}  // namespace iron::kernels
