// The members of the GEMM family: how each of them calls its operands, and which of them a product gets on a device.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "iron/library.h"

namespace iron::kernels {

/// The rungs of a family: one text for every device, or a kernel of its own for tensor copies and warpgroup products.
enum class Rung : u8 { portable, hopper };
std::string_view name(Rung rung);

/// What a kernel calls the operands of C[M, N] = scale * A[M, K] * B, all rows packed. B is [K, N], or [N, K] where its
/// rows run along k. A scalar is empty where the kernel has none; without `m` there is one row.
struct ProductForm {
  std::string a{}, b{}, c{}, m{}, n{}, k{}, scale{};
  bool weight_major = false;
  bool e4m3 = false;  ///< A and B are bytes in E4M3
};

struct GemmMember {
  std::string kernel;  ///< "iron_gemm_tma", without element type
  Rung rung = Rung::portable;
  ProductForm form;
};

/// All members, the selector's preference first within a rung.
std::span<const GemmMember> gemm_members();
/// The member of that name ("iron_gemm_tma"), null for any other kernel.
const GemmMember* find_gemm_member(std::string_view kernel);

}  // namespace iron::kernels
