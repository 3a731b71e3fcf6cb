// CUDA text: snapshots of emission paths, determinism, refusals, and the scan for empty constructs.
#include <gtest/gtest.h>

#include <regex>

#include "emit/cuda/cuda.h"
#include "ir/text.h"
#include "op_matrix.h"

namespace iron {
namespace {

emit::Source cuda(std::string_view text, Dim3 threads = {64, 1, 1}, std::string_view profile = "sm_90a") {
  return emit::emit_cuda(ir::parse(text), threads, target::profile(profile));
}
// The text from the kernel's signature on.
std::string kernel_text(const emit::Source& s) { return s.text.substr(s.text.find("extern \"C\" __global__")); }

TEST(CudaText, ReadsLikeHandWrittenCode) {
  const auto s =
      cuda(R"(kernel @rms(%x: in f16, %w: in f16, %y: out f16, %n: scalar u32, %eps: scalar f32) threadgroup exact {
  file 0 "kernels/rms.cpp"
  %0 = group_id<x> : index !12
  %1 = cast %n : index !12
  %2 = mul %0, %1 : index !12
  %3 = thread_id : index !14
  %4 = group_size : index !14
  %5 = for %6 = %3 to %1 step %4 carry(%7 = 0.0:f32) : f32 { !14
    %8 = add %2, %6 : index !15
    %9 = load %x[%8] : f16 !15
    %10 = cast %9 : f32 !15
    %11 = fma %10, %10, %7 : f32 !16
    yield %11 !16
  }
  %12 = group.reduce<sum> %5 : f32 !18
  %13 = cast %n : f32 !18
  %14 = div %12, %13 : f32 !18
  %15 = add %14, %eps : f32 !18
  %16 = rsqrt %15 : f32 !18
  for %17 = %3 to %1 step %4 { !19
    %18 = add %2, %17 : index !20
    %19 = load %x[%18] : f16 !20
    %20 = cast %19 : f32 !20
    %21 = mul %20, %16 : f32 !20
    %22 = cast %21 : f16 !20
    store %y[%18], %22 !20
  }
}
)",
           {256, 1, 1});
  EXPECT_EQ(
      kernel_text(s),
      R"(extern "C" __global__ void __launch_bounds__(256) rms(const f16* __restrict__ x, const f16* __restrict__ w, f16* __restrict__ y, u32 n, f32 eps) {
  __shared__ alignas(16) u64 partials[32];
  // kernels/rms.cpp:12
  const index_t t = (index_t)n;
  const index_t t_1 = (index_t)blockIdx.x * t;
  // kernels/rms.cpp:14
  const index_t thread_id = (index_t)threadIdx.x;
  f32 acc = 0.0f;
  for (index_t i = thread_id; i < t; i += 256) {
    // kernels/rms.cpp:15
    const f16 x_at = x[t_1 + i];
    const f32 t_2 = widen(x_at);
    // kernels/rms.cpp:16
    acc = fma_f32(t_2, t_2, acc);
  }
  // kernels/rms.cpp:18
  const f32 group_sum = group_sum_f32(acc, threadIdx.x, partials);
  const f32 t_3 = rsqrt_f32(group_sum / (f32)n + eps);
  // kernels/rms.cpp:19
  for (index_t i_1 = thread_id; i_1 < t; i_1 += 256) {
    // kernels/rms.cpp:20
    const index_t t_4 = t_1 + i_1;
    const f16 x_at_1 = x[t_4];
    y[t_4] = narrow_f16(widen(x_at_1) * t_3);
  }
}
)");
  EXPECT_EQ(s.static_shared_bytes, 256u);
  EXPECT_EQ(s.dynamic_shared_bytes, 0u);
}

TEST(CudaText, SameBytesForTheSameKernel) {
  for (const auto& c : testing::op_cases()) {
    const auto k = ir::parse(c.text, c.name);
    const auto once = emit::emit_cuda(k, {c.threads, 1, 1}, target::profile("sm_90a")).text;
    const auto again = emit::emit_cuda(ir::parse(ir::print(k)), {c.threads, 1, 1}, target::profile("sm_90a")).text;
    ASSERT_EQ(once, again) << c.name;
  }
}

TEST(CudaText, NoEmptyBodyLoopOrBranch) {
  const std::regex empty(R"(\{\s*\}|\belse\s*\{\s*\}|\)\s*;\s*//|for \([^)]*\)\s*;)");
  for (const auto& c : testing::op_cases()) {
    const auto text =
        kernel_text(emit::emit_cuda(ir::parse(c.text, c.name), {c.threads, 1, 1}, target::profile("sm_90a")));
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, empty)) << c.name << ": " << found.str() << "\n" << text;
  }
  // A loop and a branch that compute nothing vanish; a branch with only an else turns around.
  const auto s = kernel_text(cuda(R"(kernel @k(%y: out f32, %p: scalar bool) elementwise exact {
  %i = grid_thread_id : index
  for %j = 0 to 4 step 1 {
    %0 = add %j, 1 : index
    if %p {
      %1 = add %0, 1 : index
    }
  }
  if %p {
  } else {
    store %y[%i], 1.0:f32
  }
}
)"));
  EXPECT_EQ(s.find("for ("), std::string::npos) << s;
  EXPECT_NE(s.find("if (!p) {"), std::string::npos) << s;
}

// A shuffle behind &&, || or ?: would run on some lanes only, and hang or lie.
TEST(CudaText, NoSimdOpStandsBehindAShortCircuit) {
  for (const auto& c : testing::op_cases())
    if (c.name.starts_with("simd.") || c.name.starts_with("group.")) {
      const auto text = cuda(c.text, {c.threads, 1, 1}).text;
      EXPECT_FALSE(std::regex_search(text, std::regex("(&&|\\|\\|)[^;]*(shuffle|_sync)"))) << c.name << text;
    }
  const auto text = kernel_text(cuda(R"(kernel @k(%a: in bool, %x: in f32, %y: out f32) threadgroup exact {
  %i = thread_id : index
  %p = load %a[%i] : bool
  %v = load %x[%i] : f32
  %q = simd.any %p : bool
  %r = and %p, %q : bool
  %s = simd.shuffle_xor<1> %v : f32
  %t = select %r, %s, %v : f32
  store %y[%i], %t
}
)"));
  EXPECT_FALSE(std::regex_search(text, std::regex("(&&|\\|\\||\\?)[^;]*(shuffle|any)"))) << text;
}

TEST(CudaText, SwapsGoThroughAConstant) {
  const auto s = kernel_text(cuda(R"(kernel @k(%y: out f32) elementwise exact {
  %i = grid_thread_id : index
  %1, %2 = for %j = 0 to 5 step 1 carry(%3 = 0.0:f32, %4 = 1.0:f32) : f32, f32 {
    yield %4, %3
  }
  store %y[%i], %1
}
)"));
  EXPECT_NE(s.find("const f32 next = acc;"), std::string::npos) << s;
  EXPECT_NE(s.find("acc_1 = next;"), std::string::npos) << s;
}

TEST(CudaText, ParenthesesFollowTheGrammar) {
  const auto s = kernel_text(
      cuda(R"(kernel @k(%a: scalar u32, %b: scalar u32, %c: scalar f32, %y: out u32, %z: out f32) elementwise exact {
  %0 = add %a, %b : u32
  %1 = mul %0, %a : u32
  %2 = and %1, %b : u32
  %3 = shl %2, 3:u32 : u32
  store %y[0], %3
  %4 = sub %c, 1.0:f32 : f32
  %5 = sub %c, %4 : f32
  %6 = neg %5 : f32
  %7 = neg %6 : f32
  store %z[0], %7
}
)"));
  EXPECT_NE(s.find("y[0] = ((a + b) * a & b) << 3u;"), std::string::npos) << s;
  EXPECT_NE(s.find("z[0] = -(-(c - (c - 1.0f)));"), std::string::npos) << s;
}

// Pairs of bf16 are read as words, a mask and bits under it are one instruction, and so is a clamp.
TEST(CudaText, FewInstructionsAnElement) {
  const auto s = kernel_text(cuda(R"(kernel @k(%x: in bf16, %w: in u32, %y: out f32, %z: out u32) elementwise exact {
  %i = grid_thread_id : index
  %0 = mul %i, 2 : index
  %1 = load<align 4> %x[%0] : bf16x2
  %2 = vec.extract<1> %1 : bf16
  %3 = cast %2 : f32
  %4 = lt %3, 89.0:f32 : bool
  %5 = select %4, %3, 89.0:f32 : f32
  %6 = gt %5, 0.0:f32 : bool
  %7 = select %6, %5, 0.0:f32 : f32
  store %y[%i], %7
  %8 = load %w[%i] : u32
  %9 = and %8, 491520:u32 : u32
  %10 = or %9, 1065353216:u32 : u32
  store %z[%i], %10
}
)"));
  EXPECT_NE(s.find("const Vec<u32, 1, 4> x_vec = *(const Vec<u32, 1, 4>*)(x + t);"), std::string::npos) << s;
  EXPECT_NE(s.find("widen(bf16{(u16)(x_vec.e[0] >> 16)})"), std::string::npos) << s;
  EXPECT_NE(s.find("min_f32("), std::string::npos) << s;
  EXPECT_EQ(s.find("max_f32("), std::string::npos) << s;  // the zero of either sign would differ
  EXPECT_NE(s.find("and_or(w_at, 491520u, 1065353216u)"), std::string::npos) << s;
}

TEST(CudaText, LargeThreadgroupMemoryIsDynamic) {
  const auto s = cuda(R"(kernel @k(%y: out f32) threadgroup exact {
  %s = shared.new<20000> : shared f32
  %t = thread_id : index
  store %s[%t], 1.0:f32
  barrier
  %0 = load %s[0] : f32
  store %y[%t], %0
}
)");
  EXPECT_EQ(s.static_shared_bytes, 0u);
  EXPECT_EQ(s.dynamic_shared_bytes, 80000u);
  EXPECT_NE(s.text.find("extern __shared__"), std::string::npos);
}

TEST(CudaText, ADependentKernelWaitsBeforeItsFirstAccess) {
  const auto k = ir::parse(R"(kernel @k(%x: in f32, %y: out f32) elementwise exact {
  %i = grid_thread_id : index
  %0 = load %x[%i] : f32
  store %y[%i], %0
}
)");
  const auto emitted = [&](std::string_view profile, bool dependent) {
    return emit::emit_cuda(k, {64, 1, 1}, target::profile(profile), {.dependent_launch = dependent});
  };
  const auto s = emitted("sm_90a", true);
  EXPECT_TRUE(s.awaits_predecessor);
  EXPECT_NE(
      s.text.find(
          "f32* __restrict__ y) {\n  asm volatile(\"griddepcontrol.launch_dependents;\\n\\tgriddepcontrol.wait;\" "
          "::: \"memory\");\n"),
      std::string::npos)
      << s.text;
  for (const auto& plain : {emitted("sm_90a", false), emitted("sm_89", true)}) {
    EXPECT_FALSE(plain.awaits_predecessor);
    EXPECT_EQ(plain.text.find("griddepcontrol"), std::string::npos);
  }
}

constexpr std::string_view tile_product = R"(kernel @k(%x: in T, %y: out f32) threadgroup exact {
  %a = shared.new<4096> : shared T
  %b = shared.new<4096> : shared T
  %i = thread_id : index
  %v = load %x[%i] : T
  store %a[%i], %v
  store %b[%i], %v
  barrier
  %c = tile.new<T, threadgroup> : tile f32[64 x 64]
  tile.zero %c
  tile.mma<16> %c, %a, 0, 24, %b, 0, 72
  tile.store %c, %y, 0, 64, 64, 64
}
)";
std::string tile_text(std::string_view type, emit::MatrixUse matrix, std::string_view more = {}) {
  std::string text(tile_product);
  for (std::size_t at; (at = text.find(" T")) != std::string::npos;) text.replace(at + 1, 1, type);
  for (std::size_t at; (at = text.find("<T")) != std::string::npos;) text.replace(at + 1, 1, type);
  if (!more.empty()) text.insert(text.find("  tile.store"), more);
  return emit::emit_cuda(ir::parse(text), {128, 1, 1}, target::profile("sm_90a"), {.matrix = matrix}).text;
}

// Staging: halves that nobody computes with are not taken apart; what is not read stays the other value.
TEST(CudaText, CopiesOf16BitVectorsMoveWords) {
  const auto s = kernel_text(cuda(R"(kernel @k(%x: in bf16, %y: out bf16) threadgroup exact {
  %i = thread_id : index
  %j = mul %i, 4 : index
  %p = lt %i, 7 : bool
  %z = vec.make 0.0:bf16, 0.0:bf16, 0.0:bf16, 0.0:bf16 : bf16x4
  %v = load.or<align 8> %x[%j], %p, %z : bf16x4
  store<align 8> %y[%j], %v
}
)"));
  EXPECT_NE(s.find("Vec<u32, 2, 8> x_vec = {"), std::string::npos) << s;
  EXPECT_NE(s.find("x_vec = *(const Vec<u32, 2, 8>*)(x + "), std::string::npos) << s;
  EXPECT_NE(s.find("= Vec<u32, 2, 8>{x_vec.e[0], x_vec.e[1]};"), std::string::npos) << s;
  EXPECT_EQ(s.find(">> 16"), std::string::npos) << s;
}

// A ring of two stages: no register holds what is copied, and a device without such copies stores it.
constexpr std::string_view staged = R"(kernel @k(%x: in f16, %y: out f32, %n: scalar u32) threadgroup exact {
  %s = shared.new<512> : shared f16
  %t = thread_id : index
  %j = mul %t, 8 : index
  %e = cast %n : index
  %p = lt %j, %e : bool
  %z = vec.make 0.0:f16, 0.0:f16, 0.0:f16, 0.0:f16, 0.0:f16, 0.0:f16, 0.0:f16, 0.0:f16 : f16x8
  %v = load.or<align 16> %x[%j], %p, %z : f16x8
  copy.async<align 16> %s[%j], %v
  copy.commit
  copy.wait<0>
  barrier
  %u = sub 511, %t : index
  %r = load %s[%u] : f16
  %w = cast %r : f32
  store %y[%t], %w
}
)";
TEST(CudaText, CopiesPassTheRegisters) {
  const auto source = cuda(staged);
  const auto s = kernel_text(source);
  EXPECT_NE(source.text.find("cp.async.cg.shared.global [%0], [%1], 16, %2;"), std::string::npos) << source.text;
  EXPECT_NE(s.find("copy_async_16_or_zeros(&tile"), std::string::npos) << s;
  const auto copy = s.find("copy_async_16"), commit = s.find("cp.async.commit_group;"),
             wait = s.find("cp.async.wait_group 0;"), barrier = s.find("__syncthreads();");
  EXPECT_LT(copy, commit) << s;
  EXPECT_LT(commit, wait) << s;
  EXPECT_LT(wait, barrier) << s;
  EXPECT_EQ(s.find("x_vec"), std::string::npos) << s;  // the load itself is not written
  const auto four = cuda(R"(kernel @k(%x: in f32, %y: out f32) threadgroup exact {
  %s = shared.new<64> : shared f32
  %t = thread_id : index
  %v = load<align 4> %x[%t] : f32
  copy.async<align 4> %s[%t], %v
  copy.commit
  copy.wait<0>
  barrier
  %u = sub 63, %t : index
  %r = load %s[%u] : f32
  store %y[%t], %r
}
)");
  EXPECT_NE(four.text.find("cp.async.ca.shared.global [%0], [%1], 4;"), std::string::npos) << four.text;
}

TEST(CudaText, CopiesAreStoresWithoutTheCapability) {
  auto text = std::string(staged);
  for (std::size_t at; (at = text.find("f16x8")) != std::string::npos;) text.replace(at, 5, "f32x4");
  for (std::size_t at; (at = text.find("f16")) != std::string::npos;) text.replace(at, 3, "f32");
  text.replace(text.find("0.0:f32, 0.0:f32, 0.0:f32, 0.0:f32, "), 36, "");
  text.replace(text.find("  %w = cast %r : f32\n"), 21, "");
  text.replace(text.find("%y[%t], %w"), 10, "%y[%t], %r");
  const auto s = cuda(text, {64, 1, 1}, "generic");
  EXPECT_EQ(s.text.find("cp.async"), std::string::npos) << s.text;
  EXPECT_NE(s.text.find("x_vec"), std::string::npos) << s.text;
}

TEST(CudaText, TilesOf16BitsTakeTheMatrixUnit) {
  const auto unit = tile_text("bf16", emit::MatrixUse::automatic);
  EXPECT_NE(unit.find("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), std::string::npos) << unit;
  EXPECT_NE(unit.find("ldmatrix.sync.aligned.m8n8.x4.shared.b16"), std::string::npos);
  EXPECT_NE(unit.find("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"), std::string::npos);
  for (const auto& plain : {tile_text("bf16", emit::MatrixUse::software), tile_text("f32", emit::MatrixUse::automatic)})
    EXPECT_EQ(plain.find("mma.sync"), std::string::npos);
  // Who looks at own elements sees the map that every device has.
  const auto shown = tile_text("bf16", emit::MatrixUse::automatic,
                               "  %q = tile.get %c, 0 : f32\n  %w = add %q, %q : f32\n  tile.set %c, 0, %w\n");
  EXPECT_EQ(shown.find("mma.sync"), std::string::npos);
  try {
    tile_text("f32", emit::MatrixUse::required);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "EMIT01");
    EXPECT_NE(std::string(e.what()).find("matrix unit"), std::string::npos);
  }
}

TEST(CudaText, TilesOfF32AreOuterProductsInRegisters) {
  const auto s = tile_text("f32", emit::MatrixUse::automatic);
  EXPECT_NE(s.find("a_own[8][4]"), std::string::npos) << s;
  EXPECT_NE(s.find("b_own[4]"), std::string::npos) << s;
  EXPECT_NE(s.find("Vec<f32, 4, 16>*)(tile_1 + "), std::string::npos) << s;
}

TEST(CudaText, NamesNeverCollide) {
  const auto s = kernel_text(cuda(R"(kernel @float(%int: in f32, %t: out f32, %fma_f32: scalar f32) elementwise exact {
  %i = grid_thread_id : index
  %0 = load %int[%i] : f32
  %1 = fma %0, %fma_f32, %0 : f32
  store %t[%i], %1
}
)"));
  EXPECT_NE(s.find("float_1("), std::string::npos) << s;
  EXPECT_NE(s.find("int_1"), std::string::npos) << s;
  EXPECT_NE(s.find("fma_f32(int_1_at, fma_f32_1, int_1_at)"), std::string::npos) << s;
}

struct Refusal {
  std::string_view body, code, word;
  std::string_view profile = "sm_90a";
  Dim3 threads = {64, 1, 1};
};
class CudaRefusals : public ::testing::TestWithParam<Refusal> {};
TEST_P(CudaRefusals, NameTheCapability) {
  const auto& r = GetParam();
  try {
    cuda("kernel @k(%x: in f32, %y: out f32, %s: inout u32, %b: inout u8) threadgroup exact {\n" + std::string(r.body) +
             "\n}\n",
         r.threads, r.profile);
    FAIL() << "accepted: " << r.body;
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), r.code) << e.what();
    EXPECT_NE(std::string(e.what()).find(r.word), std::string::npos) << e.what();
  }
}
INSTANTIATE_TEST_SUITE_P(
    Text, CudaRefusals,
    ::testing::Values(
        Refusal{"  %0 = load %x[0] : f32\n  %1 = exp %0 : f32\n  store %y[0], %1", "EMIT01", "expand_math"},
        Refusal{"  %0 = atomic.rmw<add, relaxed, grid> %b[0], 1:u8 : u8", "D20", "atomic.8"},
        Refusal{"  fence<exchange, acq_rel, cluster>\n  store %y[0], 1.0:f32", "D20", "cluster", "sm_80"},
        Refusal{"  %0 = cast 1.0:f64 : f32\n  store %y[0], %0", "D20", "f64", "generic"},
        Refusal{"  %0 = slot.new : f32\n  slot.store %0, 1.0:f32\n  store %y[0], 1.0:f32", "EMIT01", "promoted"},
        Refusal{"  %0 = load %x[0] : f32\n  %1 = simd.reduce<sum> %0 : f32\n  store %y[0], %1",
                "D02",
                "32",
                "sm_90a",
                {33, 1, 1}},
        Refusal{"  store %y[0], 1.0:f32", "D02", "2048", "sm_90a", {2048, 1, 1}},
        Refusal{"  %s1 = shared.new<100000> : shared f32\n  store %s1[0], 1.0:f32", "D27", "bytes"},
        Refusal{"  %0 = add 1.0:f32, 2.0:f32 : f32", "D04", "nothing"}));

}  // namespace
}  // namespace iron
