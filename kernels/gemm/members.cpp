// The table of the GEMM family.
#include "gemm/members.h"

#include <algorithm>

#include "gemm/gemm.h"

namespace iron::kernels {

std::string_view name(Rung rung) { return rung == Rung::hopper ? "hopper" : "portable"; }

std::span<const GemmMember> gemm_members() {
  static const auto members = [] {
    const ProductForm rows{.a = "a", .b = "b", .c = "c", .m = "m", .n = "n", .k = "k"};
    ProductForm tma = rows;
    tma.weight_major = true;
    ProductForm tma_e4m3 = tma;
    tma_e4m3.e4m3 = true, tma_e4m3.scale = "scale";
    const ProductForm weights{
        .a = "input", .b = "weight", .c = "out", .m = "rows", .n = "n", .k = "k", .weight_major = true};
    const ProductForm vector{.a = "vec", .b = "mat", .c = "out", .k = "k", .weight_major = true};
    ProductForm vector_rows = vector;
    vector_rows.n = "m";
    std::vector<GemmMember> all{{"iron_gemm_tma_rows16", Rung::hopper, tma},
                                {"iron_gemm_tma_rows32", Rung::hopper, tma},
                                {"iron_gemm_tma_rows64", Rung::hopper, tma},
                                {"iron_gemm_splitk_tma_cluster8", Rung::hopper, tma},
                                {"iron_gemm_splitk_tma_cluster4", Rung::hopper, tma},
                                {"iron_gemm_splitk_tma_cluster2", Rung::hopper, tma},
                                {"iron_gemm_tma_cluster2", Rung::hopper, tma},
                                {"iron_gemm_tma", Rung::hopper, tma},
                                {"iron_gemm_tma_e4m3_cluster2", Rung::hopper, tma_e4m3},
                                {"iron_gemm_tma_e4m3", Rung::hopper, tma_e4m3},
                                {"iron_gemv_warp_rows", Rung::portable, vector_rows},
                                {"iron_gemv_stream", Rung::portable, vector_rows},
                                {"iron_gemv", Rung::portable, vector}};
    for (const auto& w : wide_gemm_members())
      all.push_back({"iron_" + w.name, Rung::portable, w.weight_major ? weights : rows});
    all.push_back({"iron_gemm", Rung::portable, weights});
    for (const auto& c : steel_gemm_members()) all.push_back({"iron_" + c.name, Rung::portable, rows});
    return all;
  }();
  return members;
}

const GemmMember* find_gemm_member(std::string_view kernel) {
  const auto members = gemm_members();
  const auto it = std::find_if(members.begin(), members.end(), [&](const auto& m) { return m.kernel == kernel; });
  return it == members.end() ? nullptr : &*it;
}

}  // namespace iron::kernels
