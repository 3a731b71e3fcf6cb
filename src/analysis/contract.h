// The launch contract: what a kernel demands of a launch, checked on the host with every scalar, grid and group size
// known (R7).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/launch.h"

namespace iron::analysis {

/// What the device allows. The defaults allow what every backend could; a device states its own.
struct DeviceLimits {
  u32 max_threads_per_group = 1024;
  Dim3 max_threads{1024, 1024, 1024};
  Dim3 max_groups{0xffffffffu, 0xffffffffu, 0xffffffffu};
  u64 shared_bytes = ~u64{0};
  u32 simd_width = 32;
  u64 max_trips = 0;  ///< loop trips of one thread that its watchdog tolerates; 0: there is no watchdog
  bool operator==(const DeviceLimits&) const = default;
};

/// How `index` values may be materialised for a launch.
enum class IndexWidth : u8 { i32, u32, i64 };

/// What an accepted launch needs, in numbers.
struct Requirements {
  bool index64 = false;                      ///< some index value fits neither i32 nor u32
  IndexWidth index_width = IndexWidth::i32;  ///< narrowest type that holds every index value of the kernel
  u64 max_trips = 0;         ///< bound on the trips of one thread through its deepest loop nest, saturated
  u64 shared_bytes = 0;      ///< threadgroup memory that the kernel's arrays take
  u32 threads_multiple = 1;  ///< the group size is a multiple of this
  std::vector<u64> extents;  ///< per parameter: bytes from its start that accesses may touch; 0 for scalars
};

struct Verdict {
  std::vector<Diagnostic> problems;  ///< empty: the launch is accepted
  Requirements needs;
};

/// Derived once a kernel; cheap to copy; safe to use from several threads.
class Contract {
 public:
  Contract() = default;
  const ir::Kernel& kernel() const;
  u64 shared_bytes() const;
  bool uses_simdgroups() const;  ///< the group size must be whole simdgroups (D02, keyed on real use)
  /// Bytes to which each parameter's buffer must be aligned: the widest access made; 1 for scalars.
  std::span<const u32> alignments() const;

  struct Impl;
  explicit Contract(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  const Impl& impl() const { return *impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

/// The contract of a kernel without calls (after kernel_inline); throws iron::Error (LAUNCH05) where one is left.
Contract derive(const ir::Kernel& k);

/// Everything that refuses this launch, empty if it is accepted. Repeated checks with the same scalars, geometry and
/// buffer sizes are answered from a memo; pointers (aliasing, alignment) are checked each time.
std::vector<Diagnostic> check(const Contract& contract, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                              const DeviceLimits& limits = {});
/// The same with what the launch needs.
Verdict evaluate(const Contract& contract, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                 const DeviceLimits& limits = {});

/// Element types of the caller's arguments against the kernel's (D25): arguments are bytes once they reach a launch, so
/// whoever knows their types asks here.
std::vector<Diagnostic> check_dtypes(const ir::Kernel& k, std::span<const DType> given);

}  // namespace iron::analysis
