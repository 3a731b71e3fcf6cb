// The choice of a GEMM blocking, and of a member of the family.
#define IRON_NO_IF_MACRO  // the IR has functions of that name
#include <gtest/gtest.h>

#include <set>

#include "analysis/contract.h"
#include "gemm/gemm.h"
#include "gemm/select.h"
#include "iron/library.h"
#include "runtime/compile.h"
#include "runtime/cuda/tensor_map.h"
#include "target/profile.h"

namespace iron::kernels {
namespace {

TEST(SteelGemmFor, NamesRegisteredKernels) {
  std::set<std::string> names;
  for (const auto& e : standard_library().entries()) names.insert(e.name);
  for (const auto& member : steel_gemm_members()) EXPECT_TRUE(names.contains("iron_" + member.name)) << member.name;
}

TEST(SteelGemmFor, LargeShapesGetLargeTiles) {
  const auto choice = steel_gemm_for(4096, 4096, 4096, DType::f16, 132);
  EXPECT_EQ(choice.spec.bm, 64u);
  EXPECT_EQ(choice.spec.bn, 64u);
}

TEST(SteelGemmFor, SmallSidesGetSmallBlocks) {
  EXPECT_EQ(steel_gemm_for(32, 4096, 1024, DType::f32).spec.bm, 32u);
  EXPECT_EQ(steel_gemm_for(4096, 32, 1024, DType::f32).spec.bn, 32u);
  EXPECT_EQ(steel_gemm_for(1, 1, 1, DType::bf16).spec.bm, 32u);
}

TEST(SteelGemmFor, ManyCoresGetMoreThreadgroups) {
  EXPECT_EQ(steel_gemm_for(64, 64, 1024, DType::f32, 4).spec.bm, 32u);
  EXPECT_EQ(steel_gemm_for(64, 64, 1024, DType::f32, 1).spec.bm, 64u);
}

TEST(CpuGemmFor, SharesRowsEvenlyAndFeedsEveryWorker) {
  const auto large = cpu_gemm_for(1024, 1024, 1024);
  EXPECT_EQ(large.bm, 516u);  // two even parts of 512 rows, up to a multiple of 6
  EXPECT_EQ(large.bn, 512u);
  EXPECT_EQ(large.bk, 256u);
  const auto shared = cpu_gemm_for(512, 512, 512, 4);
  EXPECT_GE((512 + shared.bm - 1) / shared.bm, 8u);
  EXPECT_EQ(shared.bm % 6, 0u);
  const auto tiny = cpu_gemm_for(1, 3, 2, 8);
  EXPECT_EQ(tiny.bm, 6u);
  EXPECT_EQ(tiny.bn, 16u);
  EXPECT_THROW(cpu_gemm_for(0, 1, 1), Error);
}

TEST(SteelGemmFor, RefusesEmptyProducts) {
  try {
    steel_gemm_for(4, 0, 4, DType::f32);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "LIB03");
  }
}

// --- the family's selector

std::vector<std::string> features(const char* arch) {
  std::vector<std::string> out;
  for (const auto a : target::profile(arch).atoms.atoms()) out.emplace_back(target::name(a));
  return out;
}
GemmProblem problem(u32 m, u32 n, u32 k, DType type = DType::bf16) {
  return {.m = m, .n = n, .k = k, .input = type, .output = type};
}
std::string chosen(const GemmProblem& p, const char* arch = "sm_90a", u32 units = 132) {
  return select_gemm(p, features(arch), units).entry->full_name();
}
std::string passed(const GemmSelection& s, std::string_view kernel) {
  for (const auto& p : s.passed)
    if (p.kernel == kernel) return p.why;
  return "not passed over";
}

TEST(SelectGemm, HopperWhereTheDeviceAndTheRowsAllowIt) {
  EXPECT_EQ(chosen(problem(4096, 4096, 4096)), "iron_gemm_tma_cluster2_bf16");
  EXPECT_EQ(chosen(problem(4096, 4096, 4096, DType::f16)), "iron_gemm_tma_cluster2_f16");
  EXPECT_EQ(chosen(problem(129, 8192, 8), "sm_90a", 1), "iron_gemm_tma_cluster2_bf16");
  const auto one_row_of_tiles = select_gemm(problem(128, 8192, 8192), features("sm_90a"), 132);
  EXPECT_EQ(one_row_of_tiles.entry->full_name(), "iron_gemm_tma_bf16");
  EXPECT_EQ(one_row_of_tiles.member->rung, Rung::hopper);
  EXPECT_NE(passed(one_row_of_tiles, "iron_gemm_tma_cluster2_bf16").find("128 rows"), std::string::npos);
  GemmProblem bytes{.m = 4096, .n = 4096, .k = 4096, .input = DType::u8, .output = DType::bf16, .e4m3 = true};
  EXPECT_EQ(chosen(bytes), "iron_gemm_tma_e4m3_cluster2_bf16");
}

TEST(SelectGemm, PortableOtherwiseAndSaysWhy) {
  const auto old = select_gemm(problem(4096, 4096, 4096), features("sm_80"), 108);
  EXPECT_EQ(old.entry->full_name(), "iron_gemm_wide_128x256_bf16");
  EXPECT_EQ(old.member->rung, Rung::portable);
  EXPECT_NE(passed(old, "iron_gemm_tma_bf16").find("no roles"), std::string::npos);
  const auto ragged = select_gemm(problem(4096, 4096, 4095), features("sm_90a"), 132);
  EXPECT_EQ(ragged.entry->full_name(), "iron_gemm_bf16");
  EXPECT_NE(passed(ragged, "iron_gemm_tma_bf16").find("8190 bytes"), std::string::npos);
  const auto columns = select_gemm(problem(4096, 4100, 4096), features("sm_90a"), 132);
  EXPECT_NE(passed(columns, "iron_gemm_tma_cluster2_bf16").find("rows of C have 8200 bytes"), std::string::npos);
  auto shifted = problem(4096, 4096, 4096);
  shifted.aligned = false;
  EXPECT_EQ(chosen(shifted), "iron_gemm_bf16");
  EXPECT_NE(passed(ragged, "iron_gemm_wide_128x256_bf16").find("16 bytes"), std::string::npos);
  EXPECT_EQ(chosen(problem(4096, 4096, 4096, DType::f32)), "iron_gemm_wide_128x128_f32");
  for (const char* arch : {"sm_89", "sm_120a"})
    EXPECT_EQ(chosen(problem(64, 64, 64), arch), "iron_gemm_wide_64x64_bf16") << arch;
  const auto bare = select_gemm(problem(64, 64, 64), features("generic"), 132);
  EXPECT_EQ(bare.entry->full_name(), "iron_gemm_bf16");
  EXPECT_NE(passed(bare, "iron_gemm_wide_64x64_bf16").find("no matrix unit"), std::string::npos);
}

TEST(SelectGemm, OtherLayoutsAndSingleRows) {
  EXPECT_EQ(chosen(problem(1, 8192, 8192)), "iron_gemv_stream_bf16");
  EXPECT_EQ(chosen(problem(1, 10240, 320)), "iron_gemv_warp_rows_bf16");
  EXPECT_EQ(chosen(problem(1, 8192, 8192), "generic", 1), "iron_gemv_bf16");
  auto columns = problem(4096, 4096, 4096);
  columns.weight_major = false;
  EXPECT_EQ(chosen(columns), "iron_steel_gemm_wide_128x256_bf16");
  columns.n = 4095;  // rows of B are not whole accesses of 16 bytes
  EXPECT_EQ(chosen(columns), "iron_" + steel_gemm_for(4096, 4095, 4096, DType::bf16, 132).name + "_bf16");
  columns.n = 4096;
  EXPECT_EQ(chosen(columns, "generic"), "iron_" + steel_gemm_for(4096, 4096, 4096, DType::bf16, 132).name + "_bf16");
}

TEST(SelectGemm, GridsFollowTheDevice) {
  EXPECT_EQ(select_gemm(problem(4096, 4096, 4096), features("sm_90a"), 132).spec, "");
  const auto small = select_gemm(problem(4096, 4096, 4096), features("sm_90a"), 114);
  const auto kernel = small.entry->instance();
  kernel->specialise(small.spec);
  bind_gemm(*kernel, small.member->form, 4096, 4096, 4096, nullptr, nullptr, nullptr);
  EXPECT_EQ(kernel->grid().groups.x, 114u);
}

// Few tiles: narrower ones, as long as each still has a multiprocessor of its own.
TEST(SelectGemm, NarrowBlocksFeedMoreMultiprocessors) {
  const auto few = select_gemm(problem(1024, 1024, 1024), features("sm_90a"), 132);
  EXPECT_EQ(few.entry->full_name(), "iron_gemm_tma_bf16");
  EXPECT_EQ(few.spec, "spec={bn=64,stages=8}");
  EXPECT_NE(passed(few, "iron_gemm_tma_cluster2_bf16").find("idle"), std::string::npos);
  const auto kernel = few.entry->instance();
  kernel->specialise(few.spec);
  bind_gemm(*kernel, few.member->form, 1024, 1024, 1024, nullptr, nullptr, nullptr);
  EXPECT_EQ(kernel->grid().groups.x, 128u);
  EXPECT_EQ(select_gemm(problem(128, 8192, 8192), features("sm_90a"), 132).spec, "spec={bn=64,stages=8}");
  EXPECT_EQ(select_gemm(problem(128, 8192, 8192), features("sm_90a"), 114).spec, "spec={bn=128,stages=6,units=114}");
  EXPECT_EQ(select_gemm(problem(2048, 2048, 2048), features("sm_90a"), 132).spec, "");
  GemmProblem bytes{.m = 16, .n = 8192, .k = 8192, .input = DType::u8, .output = DType::bf16, .e4m3 = true};
  EXPECT_EQ(select_gemm(bytes, features("sm_90a"), 132).spec, "spec={bn=64,stages=8}");
}

TEST(SelectGemm, FewTilesShareTheDepth) {
  EXPECT_EQ(chosen(problem(128, 4096, 4096)), "iron_gemm_splitk_tma_cluster2_bf16");
  EXPECT_EQ(select_gemm(problem(128, 4096, 4096), features("sm_90a"), 132).spec, "spec={bm=128,bn=64,stages=7}");
  EXPECT_EQ(chosen(problem(96, 512, 2048)), "iron_gemm_splitk_tma_cluster4_bf16");
  EXPECT_EQ(chosen(problem(256, 96, 5120, DType::f16)), "iron_gemm_splitk_tma_cluster8_f16");
  EXPECT_EQ(chosen(problem(256, 97, 5120)), "iron_gemm_splitk_tma_cluster8_bf16");  // rows of C need no alignment there
  const auto shallow = select_gemm(problem(64, 64, 512), features("sm_90a"), 132);
  EXPECT_EQ(shallow.entry->full_name(), "iron_gemm_tma_bf16");
  EXPECT_NE(passed(shallow, "iron_gemm_splitk_tma_cluster8_bf16").find("512 terms"), std::string::npos);
  const auto large = select_gemm(problem(4096, 4096, 4096), features("sm_90a"), 132);
  EXPECT_NE(passed(large, "iron_gemm_splitk_tma_cluster8_bf16").find("tiles enough"), std::string::npos);
}

// Rows of B become those of the products; two threadgroups share the depth where all pairs run at once.
TEST(SelectGemm, FewRowsAreColumnsOfTheProducts) {
  const auto spec = [](u32 m, u32 n) { return select_gemm(problem(m, n, 8192), features("sm_90a"), 132).spec; };
  EXPECT_EQ(chosen(problem(16, 8192, 8192)), "iron_gemm_tma_rows16_bf16");
  EXPECT_EQ(chosen(problem(17, 8192, 8192)), "iron_gemm_tma_rows32_bf16");
  EXPECT_EQ(chosen(problem(64, 8192, 8192, DType::f16)), "iron_gemm_tma_rows64_f16");
  EXPECT_EQ(spec(16, 8192), "");
  EXPECT_EQ(spec(16, 4096), "spec={cluster=2}");
  EXPECT_EQ(spec(64, 4096), "");
  EXPECT_EQ(spec(32, 2048), "spec={cluster=2}");
  EXPECT_EQ(chosen(problem(64, 64, 16384)), "iron_gemm_splitk_tma_cluster8_bf16");
  const auto many = select_gemm(problem(65, 8192, 8192), features("sm_90a"), 132);
  EXPECT_NE(passed(many, "iron_gemm_tma_rows64_bf16").find("64 rows"), std::string::npos);
}

TEST(SelectGemm, RefusesWhatNobodyComputes) {
  const auto code = [](const GemmProblem& p, const char* arch) {
    try {
      select_gemm(p, features(arch), 1);
      return std::string("accepted");
    } catch (const Error& e) {
      return e.code();
    }
  };
  GemmProblem bytes{.m = 64, .n = 64, .k = 64, .input = DType::u8, .output = DType::bf16, .e4m3 = true};
  EXPECT_EQ(code(bytes, "sm_80"), "LIB05");
  EXPECT_EQ(code(problem(64, 64, 64, DType::i32), "sm_90a"), "LIB05");
  EXPECT_EQ(code(problem(0, 64, 64), "sm_90a"), "LIB03");
}

// Whatever is chosen accepts the launch: its contract and, for tensors, the tensor memory unit.
TEST(SelectGemm, EveryChoiceIsAccepted) {
  for (const char* arch : {"sm_90a", "sm_80"})
    for (const DType type : {DType::bf16, DType::f16, DType::f32})
      for (const u32 m : {1u, 7u, 128u, 129u, 300u})
        for (const u32 n : {8u, 100u, 264u, 333u})
          for (const u32 k : {8u, 72u, 77u, 4096u})
            for (const bool weight_major : {true, false}) {
              auto p = problem(m, n, k, type);
              p.weight_major = weight_major;
              const auto s = select_gemm(p, features(arch), 132);
              const auto kernel = s.entry->instance();
              if (!s.spec.empty()) kernel->specialise(s.spec);
              void* const at = reinterpret_cast<void*>(std::uintptr_t{1} << 20);
              bind_gemm(*kernel, s.member->form, m, n, k, at, static_cast<std::byte*>(at) + (1 << 26),
                        static_cast<std::byte*>(at) + (1 << 27));
              const auto compiled = runtime::compile_for("cuda", kernel->record(s.entry->full_name()));
              std::vector<LaunchArg> args;
              for (const auto& a : kernel->arguments()) args.push_back(a.launch_arg(a.buffer.data));
              const Grid g = kernel->grid();
              const LaunchGeometry geometry{
                  {g.groups.x, g.groups.y, g.groups.z}, {g.threads.x, g.threads.y, g.threads.z}, g.items};
              EXPECT_TRUE(analysis::check(compiled->contract, geometry, args).empty()) << s.entry->full_name();
              if (s.member->rung != Rung::hopper) continue;
              for (const auto& box : ir::tensor_boxes(*compiled->optimised))
                EXPECT_NO_THROW(runtime::cuda::plan_map(box, args[box.param], "operand")) << m << 'x' << n << 'x' << k;
            }
}

TEST(GemmDispatch, GivesALaunchToItsMember) {
  const auto& gemm = *std::find_if(standard_library().entries().begin(), standard_library().entries().end(),
                                   [](const auto& e) { return e.full_name() == "iron_gemm_bf16"; });
  const auto launched = gemm.instance();
  const auto& form = find_gemm_member("iron_gemm")->form;
  std::byte* const at = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 20);
  GemmDispatch hopper(features("sm_90a"), 132), portable(features("sm_80"), 108);
  GemmDispatch one_unit(features("sm_90a"), 1);
  bind_gemm(*launched, form, 256, 512, 64, at, at + (1 << 18), at + (1 << 20));
  const auto arguments = launched->arguments();
  auto& chosen = hopper.choose(gemm, arguments);
  EXPECT_EQ(chosen.selection.entry->full_name(), "iron_gemm_tma_bf16");
  EXPECT_EQ(one_unit.choose(gemm, arguments).selection.entry->full_name(), "iron_gemm_tma_cluster2_bf16");
  ASSERT_TRUE(chosen.kernel);
  EXPECT_NE(chosen.kernel->specialisation().find("bn=64"), std::string::npos);
  const auto args = chosen.kernel->arguments();
  ASSERT_EQ(args.size(), 6u);
  EXPECT_EQ(args[0].buffer.data, at);
  EXPECT_EQ(args[1].buffer.data, at + (1 << 18));
  EXPECT_EQ(args[2].buffer.data, at + (1 << 20));
  EXPECT_EQ(args[2].tensor.dims[0], 512u);
  EXPECT_EQ(args[2].tensor.dims[1], 256u);
  // The same shape elsewhere in memory: the same member, bound anew.
  bind_gemm(*launched, form, 256, 512, 64, at + 256, at + (1 << 18), at + (1 << 20));
  EXPECT_EQ(&hopper.choose(gemm, launched->arguments()), &chosen);
  EXPECT_EQ(chosen.kernel->arguments()[0].buffer.data, at + 256);
  bind_gemm(*launched, form, 256, 512, 64, at + 2, at + (1 << 18), at + (1 << 20));
  EXPECT_FALSE(hopper.choose(gemm, launched->arguments()).kernel);  // not aligned: the kernel itself
  EXPECT_EQ(portable.choose(gemm, arguments).selection.entry->full_name(), "iron_gemm_wide_64x64_bf16");
  GemmDispatch bare(features("generic"), 108);
  EXPECT_FALSE(bare.choose(gemm, arguments).kernel);
}

// A launch's arguments give back the problem that they were made for.
TEST(SelectGemm, ReadsOperandsFromALaunch) {
  for (const auto& e : standard_library().entries()) {
    const auto* member = find_gemm_member(e.name);
    if (!member) continue;
    const auto kernel = e.instance();
    void* const at = reinterpret_cast<void*>(std::uintptr_t{4096});
    const u32 m = member->form.m.empty() || e.name == "iron_gemv_warp_rows" || e.name == "iron_gemv_stream" ? 1 : 48;
    bind_gemm(*kernel, member->form, m, 32, 64, at, static_cast<std::byte*>(at) + 8192,
              static_cast<std::byte*>(at) + 65544);
    const auto o = gemm_operands(e, kernel->arguments());
    ASSERT_TRUE(o) << e.full_name();
    EXPECT_EQ(o->problem.m, m) << e.full_name();
    EXPECT_EQ(o->problem.n, 32u) << e.full_name();
    EXPECT_EQ(o->problem.k, 64u) << e.full_name();
    EXPECT_EQ(o->problem.output, e.dtype);
    EXPECT_FALSE(o->problem.aligned);
    EXPECT_EQ(o->a, at);
  }
}

}  // namespace
}  // namespace iron::kernels
