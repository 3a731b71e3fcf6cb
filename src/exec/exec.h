// The reference interpreter: runs a kernel exactly as specified (R1-R9) and reports what it does wrong.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/kernel.h"
#include "ir/launch.h"

namespace iron::exec {

/// In which order the simdgroups of the resident threadgroups run. All orders are legal; a right kernel gives one
/// result.
enum class Schedule : u8 {
  program,     ///< each runs to its next barrier, in order
  reverse,     ///< the same from the last to the first; else-branches first; lanes from the last
  random,      ///< random order and random stretches between memory ops, from the seed
  interleave,  ///< one memory op each in turn
};
inline constexpr Schedule all_schedules[] = {Schedule::program, Schedule::reverse, Schedule::random,
                                             Schedule::interleave};

struct Options {
  Schedule schedule = Schedule::program;
  u64 seed = 1;
  u32 width = 32;    ///< lanes of a simdgroup; other than 32 (4, 8, 16, 64) for kernels generic over the width
  u32 resident = 8;  ///< threadgroups in flight when the kernel waits or the schedule mixes them; 0: all
  u64 max_trips = u64{1} << 24;    ///< a loop that runs more trips is a runaway
  u64 max_instructions = ~u64{0};  ///< a launch that runs more of them, once a simdgroup, is a runaway
  bool index32 = false;            ///< the launch uses 32-bit addresses: report an index that leaves i32
  u32 max_findings = 64;
  bool stop_at_error = false;  ///< nothing runs on after the first error
  u32 max_prints = 1000;
  /// Asked of the granules of memory that a threadgroup has written, once it has ended: false ends the run. By then
  /// they hold what they will hold in the end, since a second threadgroup that writes them is a finding (R7); nothing
  /// is asked of kernels whose threadgroups order each other, nor of atomic writes.
  std::function<bool(u32 param, u64 byte, u32 bytes)> accepts = {};
};

struct Statistics {
  u64 lane_ops = 0;      ///< ops executed, once an active lane
  u64 instructions = 0;  ///< ops executed, once a simdgroup
  u64 accesses = 0;      ///< memory ops, once a simdgroup
  u64 barriers = 0;      ///< barriers, once a threadgroup
};

struct Result {
  std::vector<Diagnostic> findings;  ///< each once a pair of source lines; errors, and warnings where the result stands
  std::vector<std::string> prints;   ///< lines of print(...), in order within each thread
  Statistics statistics;
  bool rejected = false;  ///< Options::accepts ended the run
  bool clean() const { return findings.empty(); }
  /// True if a finding has that code.
  bool has(std::string_view code) const;
  /// All findings as a compiler would print them.
  std::string render() const;
};

/// Codes of findings.
namespace code {
inline constexpr std::string_view out_of_bounds = "EXEC01", uninitialised = "EXEC02", race = "EXEC03",
                                  divergent = "EXEC04", barrier_mismatch = "EXEC05", misaligned = "EXEC06",
                                  runaway = "EXEC07", index_overflow = "EXEC08", deadlock = "EXEC09",
                                  clamped = "EXEC10", assumption = "EXEC11", check = "EXEC12", not_uniform = "EXEC13",
                                  bad_step = "EXEC14", nan_bits = "EXEC15", missing_lane = "EXEC16", overlap = "EXEC17",
                                  in_flight = "EXEC18", pipeline = "EXEC19", turn = "EXEC20";
}  // namespace code

/// Runs a kernel on host memory; transcendental functions by their expansions. Throws iron::Error (EXEC8x) for a launch
/// or kernel that cannot be run at all.
Result run(const ir::Kernel& kernel, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
           const Options& options = {});

/// A buffer argument over a vector's elements. Inputs may be const: they are not written.
template <class T>
LaunchArg buffer(std::vector<T>& v) {
  return {v.data(), v.size() * sizeof(T), 0};
}
template <class T>
LaunchArg buffer(const std::vector<T>& v) {
  return {const_cast<T*>(v.data()), v.size() * sizeof(T), 0};
}
/// A scalar argument, as its bits zero-extended.
template <class T>
LaunchArg scalar(T value) {
  static_assert(sizeof(T) <= 8);
  LaunchArg a;
  std::memcpy(&a.scalar, &value, sizeof(T));
  return a;
}
/// A grid of x threadgroups of x threads.
inline LaunchGeometry geometry(u32 groups, u32 threads, u64 items = 0) {
  return {{groups, 1, 1}, {threads, 1, 1}, items};
}

}  // namespace iron::exec
