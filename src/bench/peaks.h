// Peaks of this machine's CPU, measured once and kept: what shares of peak are shares of.
#pragma once

#include <string>

#include "bench/verdict.h"

namespace iron::bench {

/// Best of several repeats. Reading rates are of working sets that fit each level, all threads together.
struct CpuPeaks {
  std::string cpu;  ///< the processor's name and the vector set used
  u32 threads = 1;
  u64 l1_bytes = 0, l2_bytes = 0, llc_bytes = 0;  ///< a core's own L1 and L2, the shared last level
  f64 read_gbps = 0;                              ///< out of cache
  f64 copy_gbps = 0;                              ///< bytes read and written, out of cache, by non-temporal stores
  f64 l1_gbps = 0, l2_gbps = 0, llc_gbps = 0;
  f64 fma_gflops = 0;      ///< f32, all threads
  f64 fma_gflops_one = 0;  ///< f32, one thread
};

/// Measures with that many threads; about two seconds on an idle machine.
CpuPeaks measure_cpu_peaks(u32 threads);

/// The kept peaks of this machine and thread count (0: all cores), measured on first use. `remeasure` measures again
/// and keeps the better of each figure: a peak only grows.
CpuPeaks cpu_peaks(u32 threads = 0, bool remeasure = false);

/// What bounds a kernel whose working set has so many bytes.
Peaks peaks_of(const CpuPeaks& cpu, u64 working_set, bool cold);

}  // namespace iron::bench
