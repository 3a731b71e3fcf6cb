// Every op on every type through NVRTC to a cubin: the compile gate that needs no GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "ir/text.h"
#include "op_matrix.h"
#include "runtime/cuda/compile.h"

namespace iron {
namespace {

using runtime::cuda::compile_cubin;

class CudaCompile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!runtime::cuda::Nvrtc::available(&why)) GTEST_SKIP() << "skipped: NVRTC not found (" << why << ")";
  }
};

// NVRTC costs some 20 ms a program, so kernels are compiled many at a time; names are made unique in their texts.
struct Batch {
  std::string text, names;
  std::set<std::string> seen;
};

TEST(OpMatrix, CoversEveryOpThatEmissionTakes) {
  std::set<ir::Opcode> covered;
  for (const auto& c : testing::op_cases()) {
    const auto k = ir::parse(c.text, c.name);
    k.walk([&](ir::OpId id) { covered.insert(k.op(id).code); });
    covered.insert(c.code);
  }
  for (int i = 0; i < ir::opcode_count; ++i) {
    const auto code = static_cast<ir::Opcode>(i);
    const auto& row = emit::cuda_dialect().table()[code];
    if (row.refused || code == ir::Opcode::Arg) continue;
    const auto& info = ir::info(code);  // tier_compile_test.cpp has the Hopper tier's
    if (info.has(ir::TierOp) || info.rule == ir::TypeRule::Tier || code == ir::Opcode::Roles ||
        code == ir::Opcode::ClusterRank)
      continue;
    EXPECT_TRUE(covered.count(code)) << ir::info(code).text << " has a row but no case";
  }
}

TEST_F(CudaCompile, EveryOpAndType) {
  const auto& nvrtc = runtime::cuda::Nvrtc::get();
  const auto cases = testing::op_cases();
  EXPECT_GT(cases.size(), 700u);
  std::string text, names;
  int pending = 0, failures = 0;
  const auto flush = [&] {
    if (!pending) return;
    try {
      nvrtc.compile(text, "batch.cu", "sm_90a", runtime::cuda::nvrtc_options());
    } catch (const Error& e) {
      if (++failures < 3) ADD_FAILURE() << names << "\n" << std::string(e.what()).substr(0, 6000);
    }
    text.clear(), names.clear(), pending = 0;
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto& c = cases[i];
    emit::Source s;
    try {
      s = emit::emit_cuda(ir::parse(c.text, c.name), {c.threads, 1, 1}, target::profile("sm_90a"));
    } catch (const Error& e) {
      ADD_FAILURE() << c.name << ": " << e.what() << "\n" << c.text;
      continue;
    }
    // Each kernel in a namespace of its own; typedefs repeat without harm.
    const std::string entry = fmt::format("void __launch_bounds__({}) {}(", c.threads, s.entry);
    std::string body = s.text;
    const auto at = body.find(entry);
    ASSERT_NE(at, std::string::npos) << body;
    body.replace(at, entry.size(), fmt::format("void __launch_bounds__({}) {}_{}(", c.threads, s.entry, i));
    text += fmt::format("namespace k{} {{  // {}\n{}}}\n", i, c.name, body);
    names += c.name + " ";
    if (++pending == 100) flush();
  }
  flush();
  EXPECT_EQ(failures, 0);
}

TEST_F(CudaCompile, OneKernelForEveryArchitecture) {
  const auto k = ir::parse(
      "kernel @axpy(%x: in bf16, %y: inout f32, %a: scalar f32) elementwise exact {\n  %0 = grid_thread_id : index\n  "
      "%1 = load %x[%0] : bf16\n"
      "  %2 = cast %1 : f32\n  %3 = load %y[%0] : f32\n  %4 = fma %a, %2, %3 : f32\n  store %y[%0], %4\n}\n");
  for (const auto& p : target::profiles()) {
    if (p.name == "generic") continue;
    const auto compiled = compile_cubin(k, {256, 1, 1}, p.name);
    EXPECT_FALSE(compiled.binary.cubin.empty()) << p.name;
    EXPECT_NE(compiled.binary.ptx.find(".entry axpy"), std::string::npos);
    const auto report = runtime::cuda::ptxas_report(compiled.binary.log);
    EXPECT_GT(report.registers, 0) << compiled.binary.log;
    EXPECT_EQ(report.spill_store_bytes, 0);
  }
}

TEST_F(CudaCompile, AlignedVectorsAreSingleTransactions) {
  const auto ptx = [&](std::string_view align) {
    return compile_cubin(ir::parse(fmt::format("kernel @copy(%x: in f16, %y: out f16) elementwise exact {{\n  %0 = "
                                               "grid_thread_id : index\n  %1 = mul %0, 8 : index\n"
                                               "  %2 = load{0} %x[%1] : f16x8\n  store{0} %y[%1], %2\n}}\n",
                                               align)),
                         {64, 1, 1}, "sm_90a")
        .binary.ptx;
  };
  const auto wide = ptx("<align 16>"), narrow = ptx("");
  EXPECT_TRUE(
      wide.find("ld.global.nc.v4.u32") != std::string::npos || wide.find("ld.global.nc.v4.b32") != std::string::npos ||
      wide.find("ld.global.nc.v2.u64") != std::string::npos || wide.find("ld.global.nc.v2.b64") != std::string::npos)
      << wide;
  EXPECT_TRUE(wide.find("st.global.v4") != std::string::npos || wide.find("st.global.v2.b64") != std::string::npos ||
              wide.find("st.global.v2.u64") != std::string::npos)
      << wide;
  EXPECT_EQ(narrow.find(".v4"), std::string::npos);
}

TEST_F(CudaCompile, ContractionIsOff) {
  const auto k = ir::parse(
      "kernel @k(%x: in f32, %y: out f32) elementwise exact {\n  %0 = grid_thread_id : index\n  %1 = load %x[%0] : "
      "f32\n  %2 = mul %1, %1 : f32\n"
      "  %3 = add %2, %1 : f32\n  %4 = div %3, %1 : f32\n  store %y[%0], %4\n}\n");
  const auto ptx = compile_cubin(k, {64, 1, 1}, "sm_90a").binary.ptx;
  EXPECT_EQ(ptx.find("fma."), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("div.rn.f32"), std::string::npos) << ptx;
  EXPECT_EQ(ptx.find(".ftz"), std::string::npos) << ptx;
}

TEST_F(CudaCompile, CacheServesAndSurvivesDamage) {
  const auto folder = std::filesystem::path(::testing::TempDir()) / "iron-cuda-cache-test";
  std::filesystem::remove_all(folder);
  const DiskCache cache("cuda", folder);
  const auto k = ir::parse(
      "kernel @k(%y: out u32) elementwise exact {\n  %0 = grid_thread_id : index\n  %1 = cast %0 : u32\n  store "
      "%y[%0], %1\n}\n");
  const auto first = compile_cubin(k, {64, 1, 1}, "sm_90a", &cache);
  EXPECT_FALSE(first.from_cache);
  const auto second = compile_cubin(k, {64, 1, 1}, "sm_90a", &cache);
  EXPECT_TRUE(second.from_cache);
  EXPECT_EQ(first.binary.cubin, second.binary.cubin);
  EXPECT_EQ(first.binary.ptx, second.binary.ptx);
  EXPECT_FALSE(compile_cubin(k, {128, 1, 1}, "sm_90a", &cache).from_cache);
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::fstream f(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(200);
    f.put('\x5a');
    f.put('\xa5');
  }
  const auto rebuilt = compile_cubin(k, {64, 1, 1}, "sm_90a", &cache);
  EXPECT_FALSE(rebuilt.from_cache);
  EXPECT_EQ(rebuilt.binary.cubin, first.binary.cubin);
  EXPECT_TRUE(compile_cubin(k, {64, 1, 1}, "sm_90a", &cache).from_cache);
  std::filesystem::remove_all(folder);
}

// Set for one scope, then as it was.
class MatrixWord {
 public:
  explicit MatrixWord(const char* word) {
    if (const char* set = std::getenv(name)) before_ = set;
    word ? setenv(name, word, 1) : unsetenv(name);
  }
  ~MatrixWord() { before_ ? setenv(name, before_->c_str(), 1) : unsetenv(name); }
  MatrixWord(const MatrixWord&) = delete;
  MatrixWord& operator=(const MatrixWord&) = delete;

 private:
  static constexpr const char* name = "IRON_CUDA_MMA";
  std::optional<std::string> before_;
};

emit::MatrixUse use_of(const char* word) {
  const MatrixWord set(word);
  return runtime::cuda::matrix_use();
}

TEST(CudaMatrixUse, TakesTheWordsOfTheVariable) {
  EXPECT_EQ(use_of(nullptr), emit::MatrixUse::automatic);
  EXPECT_EQ(use_of(""), emit::MatrixUse::automatic);
  EXPECT_EQ(use_of("auto"), emit::MatrixUse::automatic);
  EXPECT_EQ(use_of("software"), emit::MatrixUse::software);
  EXPECT_EQ(use_of("mma_sync"), emit::MatrixUse::required);
  EXPECT_EQ(use_of("required"), emit::MatrixUse::required);
}

TEST(CudaMatrixUse, RefusesOtherWordsAndSaysWhy) {
  const auto refusal = [](const char* word) {
    try {
      use_of(word);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), "CUDA04");
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  const auto wmma = refusal("wmma");
  EXPECT_NE(wmma.find("which lane holds which element"), std::string::npos) << wmma;
  EXPECT_NE(wmma.find("use mma_sync"), std::string::npos) << wmma;
  for (const auto* word : {"mma", "MMA_SYNC", "tf32", "mma_sync "}) {
    const auto said = refusal(word);
    EXPECT_NE(said.find(word), std::string::npos) << said;
    EXPECT_NE(said.find("auto, software, mma_sync or required"), std::string::npos) << said;
  }
}

TEST_F(CudaCompile, ErrorsNameTheirCause) {
  try {
    runtime::cuda::Nvrtc::get().compile("extern \"C\" __global__ void k() {}", "k.cu", "sm_42", {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "CUDA02");
  }
  try {
    runtime::cuda::Nvrtc::get().compile("nonsense", "k.cu", "sm_90a", {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "CUDA03");
    EXPECT_NE(std::string(e.what()).find("nonsense"), std::string::npos);
  }
}

}  // namespace
}  // namespace iron
