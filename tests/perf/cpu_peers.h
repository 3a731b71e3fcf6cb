// What the CPU bars are measured against: OpenBLAS, oneDNN and PoCL where they are installed, plain C, memory's speed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "iron/types.h"

namespace iron::perf {

/// c[m, n] = a[m, k] * b[k, n], row-major f32, on one thread.
using Sgemm = std::function<void(u32 m, u32 n, u32 k, const f32* a, const f32* b, f32* c)>;
struct Library {
  std::string name;  ///< with version or kernel set
  Sgemm sgemm;
};
/// The matrix libraries found here by dlopen (libopenblas.so.0, libdnnl.so.2 and later).
std::vector<Library> matrix_libraries();

/// PoCL's CPU device with one thread, through libOpenCL.so.1.
class Pocl {
 public:
  /// Nothing where there is no OpenCL device; `why` says so.
  static std::shared_ptr<Pocl> open(const std::string& source, std::string& why);
  virtual ~Pocl() = default;
  virtual std::string name() const = 0;
  /// A launch of `groups` work-groups of 256 on host memory that OpenCL uses in place: buffers, then u32 numbers.
  virtual std::function<void()> launch(const std::string& kernel, const std::vector<std::pair<void*, u64>>& buffers,
                                       const std::vector<u32>& numbers, u64 groups) = 0;
};
/// softmax(x, y, n), rms_norm(x, w, y, n), layer_norm(x, w, b, y, n): a work-group of 256 a row, trees in local memory.
extern const char* const pocl_source;

/// Copies past the caches (256-bit streaming stores), bytes a multiple of 128, both 32-byte aligned.
void nontemporal_copy(void* to, const void* from, u64 bytes);
/// The sum of n f32 (n a multiple of 64): read bandwidth.
f32 read_all(const f32* from, u64 n);
/// Runs 12 independent chains of 256-bit fma for `rounds` rounds; returns the flops done.
f64 fma_chains(u64 rounds);

/// One query over a cache, as a person writes it in C, compiled at -O3: q, out: [heads, d], k, v: [kv heads, n, d].
void plain_attention(const f32* q, const f32* k, const f32* v, f32* out, u32 heads, u32 heads_per_kv, u32 n, u32 d,
                     f32 scale, f32* scores);

}  // namespace iron::perf
