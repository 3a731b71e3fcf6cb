// One matrix product as a problem of its own, whichever kernel solves it: data, oracle, judgement, arguments.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <vector>

#include "gemm/select.h"
#include "iron/library.h"
#include "runtime/backend.h"

namespace iron::tool {

struct ProductShape {
  u32 m = 0, n = 0, k = 0;
  auto operator<=>(const ProductShape&) const = default;
};
std::string to_string(const ProductShape& s);  ///< "4096x4096x4096"
inline f64 flops(const ProductShape& s) { return 2.0 * s.m * s.n * s.k; }

/// What products must share to be compared with each other.
struct ProductKind {
  DType input = DType::none, output = DType::none;
  bool e4m3 = false, weight_major = false;
  auto operator<=>(const ProductKind&) const = default;
  u64 a_bytes(const ProductShape& s) const { return u64{s.m} * s.k * dtype_size(input); }
  u64 b_bytes(const ProductShape& s) const { return u64{s.n} * s.k * dtype_size(input); }
  u64 c_bytes(const ProductShape& s) const { return u64{s.m} * s.n * dtype_size(output); }
  u64 bytes(const ProductShape& s) const { return a_bytes(s) + b_bytes(s) + c_bytes(s); }
};
ProductKind kind_of(KernelInstance& kernel, const kernels::ProductForm& form);
std::string to_string(const ProductKind& k);  ///< "bf16", "e4m3 to bf16"; " [K, N]" where B is not weight-major

/// kernels::bind_gemm() for a shape.
void bind_product(KernelInstance& kernel, const kernels::ProductForm& form, const ProductShape& shape, void* a, void* b,
                  void* c);

/// A and B by their seed: each element the sum of four uniform numbers, scaled to deviation 1 (E4M3: 0.5), rounded to
/// the input's type. The same on every machine, whatever the number of host threads.
struct ProductData {
  ProductKind kind;
  ProductShape shape;
  std::vector<std::byte> a, b;
};
ProductData make_product(const ProductKind& kind, const ProductShape& shape, u64 seed, u32 threads);

/// C in f64, k ascending, one fma a term: a naive kernel of its own on that device, which must have f64.
std::vector<f64> product_oracle(runtime::Backend& device, const ProductData& data, u32 threads);
/// What product_oracle() runs, and its threads: for compilation ahead.
std::shared_ptr<ir::Kernel> record_product_oracle();
inline constexpr Dim3 product_oracle_threads{128, 1, 1};

/// The verdict over the full length. An error counts relative to the larger of |expected| and the root mean square of
/// all expected values: sums of K terms err with the size of their terms, not with what is left of them.
struct ProductVerdict {
  bool passed = false;
  f64 max_error = 0, cosine = 1;
  std::string message;
};
ProductVerdict judge_product(const ProductData& data, std::span<const std::byte> got, std::span<const f64> expected,
                             f64 limit, u32 threads);

/// Calls work(from, to) for parts of [0, count) on that many threads (0: one a core).
void in_parallel(u64 count, u32 threads, const std::function<void(u64 from, u64 to)>& work);

}  // namespace iron::tool
