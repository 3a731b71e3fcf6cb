// The Hopper tier through NVRTC: kernels of the library keep the form that ptxas keeps fast, and the gate notices when
// a rule of emission is left out.
#define IRON_NO_IF_MACRO  // the IR has functions of that name
#include <gtest/gtest.h>

#include "attention/attention_tma.h"
#include "gemm/gemm_tma.h"
#include "runtime/compile.h"
#include "runtime/cuda/compile.h"

namespace iron {
namespace {

class TierCompile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!runtime::cuda::Nvrtc::available(&why)) GTEST_SKIP() << "skipped: NVRTC not found (" << why << ")";
  }
};

struct Built {
  emit::Source source;
  std::string log;
  std::vector<std::string> findings;
};
template <class K>
Built build(const K& kernel, u32 leave_out = 0) {
  const auto compiled = runtime::compile_for("cuda", record(kernel, "kernel"));
  Built b;
  b.source = emit::emit_cuda(*compiled->optimised, {kernel.spec.threads, 1, 1}, target::profile("sm_90a"),
                             {.leave_out = leave_out});
  b.log = runtime::cuda::Nvrtc::get().compile(b.source.text, "kernel.cu", "sm_90a", runtime::cuda::nvrtc_options()).log;
  b.findings = runtime::cuda::tier_findings(b.log);
  return b;
}
template <class K>
K gemm(u32 cluster) {
  auto k = unbound<K>();
  k.spec.cluster = cluster;
  return k;
}
template <class T>
kernels::AttentionTma<T> attention(bool causal) {
  auto k = unbound<kernels::AttentionTma<T>>();
  k.spec.causal = causal;
  return k;
}
std::size_t count(const std::string& text, std::string_view word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

TEST_F(TierCompile, GemmKeepsItsForm) {
  for (const u32 cluster : {1u, 2u}) {
    const auto b = build(gemm<kernels::GemmTma<bf16>>(cluster));
    EXPECT_TRUE(b.findings.empty()) << b.findings[0] << "\n" << b.log;
    EXPECT_NE(b.log.find("Used 168 registers"), std::string::npos) << b.log;  // the entry's; roles share them out
    EXPECT_EQ(b.source.cluster, cluster);
    EXPECT_EQ(b.source.dynamic_shared_bytes, 229440u);
    EXPECT_EQ(b.source.boxes.size(), 3u);
    const auto& text = b.source.text;
    const std::string body = text.substr(text.find("extern \"C\""));
    EXPECT_EQ(count(body, "wgmma_m64n256k16_bf16("), 4u);                // one batch: 64 terms
    EXPECT_EQ(count(body, "#pragma unroll 1\n"), count(body, "for ("));  // every loop of the roles
    EXPECT_EQ(count(body, "products_begin();"), 1u);
    EXPECT_EQ(count(body, "setmaxnreg.dec.sync.aligned.u32 40"), 1u);
    EXPECT_EQ(count(body, "setmaxnreg.inc.sync.aligned.u32 232"), 1u);
    EXPECT_EQ(count(body, "arrive_at_peer("), cluster == 2 ? 2u : 0u);
    EXPECT_EQ(count(body, "leave_cluster();"), cluster == 2 ? 1u : 0u);
    EXPECT_EQ(count(body, "load_box_2d_multicast("), cluster == 2 ? 1u : 0u);
    EXPECT_EQ(text.find("release.cluster.shared"), std::string::npos);  // a fence a stage (rule 8)
  }
  EXPECT_TRUE(build(gemm<kernels::GemmTma<f16>>(2)).findings.empty());
  EXPECT_TRUE(build(gemm<kernels::GemmTmaE4M3<bf16>>(2)).findings.empty());
}

TEST_F(TierCompile, AttentionKeepsItsForm) {
  for (const bool causal : {true, false}) {
    const auto b = build(attention<bf16>(causal));
    EXPECT_TRUE(b.findings.empty()) << b.findings[0] << "\n" << b.log;
    const std::string body = b.source.text.substr(b.source.text.find("extern \"C\""));
    EXPECT_EQ(count(body, "wgmma_m64n128k16_bf16("), 16u);        // q k: the first block and the loop
    EXPECT_EQ(count(body, "wgmma_m64n128k16_bf16_ra_bn("), 16u);  // p v: the loop and the last block
    // The softmax stands between the two waits: hidden by the product with V.
    const auto loop = body.rfind("products_settle<1>");
    const auto softmax = body.find("fast_exp2_f32", loop), end = body.find("products_settle<0>", loop);
    EXPECT_LT(softmax, end);
  }
}

// A settled accumulator that a loop reads: what is computed from it must not leave the loop, past the wait.
template <class T>
struct SettledInALoop {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<T> a;
  TensorMapOut<T> c;
  Scalar<u32> trips;
  Scalar<f32> factor;
  struct Spec {
    u32 threads = 256;
  } spec;

  void operator()() const {
    Shared<T> tile{1, {64, 64}, Swizzle::b128}, out{1, {64, 64}, Swizzle::b128};
    const Pipeline pipe{1, "load", "mma"};
    for (auto& role : roles({{"load", 1, Regs{24}, Issue::one}, {"mma", 1, Regs{240}}})) {
      if (role.is("load")) {
        auto out_of = pipe.producer();
        for (auto i : range(Val<Index>(trips) + 1u)) {
          const auto s = out_of.acquire();
          a.load(s, tile[s], {i * 64u, 0u});
        }
      } else {
        auto in = pipe.consumer();
        const Val<f32> f(factor);
        Acc<f32> product{64, 64}, sum{64, 64};
        sum.clear();
        for ([[maybe_unused]] auto i : range(trips)) {
          const auto s = in.wait();
          product.mma(tile[s], tile[s].t(), false);
          settle(0);
          const auto scaled = product.value() * f;
          sum.set(scaled + sum.value());
          in.release();
        }
        const auto s = in.wait();
        product.mma(tile[s], tile[s].t(), false);
        for ([[maybe_unused]] auto i : range(trips)) {
          settle(0);
          const auto scaled = sum.value() * f, added = product.value() * f;
          sum.set(scaled + added);
        }
        settle(0);
        in.release();
        put(out.slot(0u), cast<T>(sum.value()));
        c.store(out.slot(0u), {0u, 0u});
      }
    }
  }
};

// Without the fence ptxas puts in its own; without the pin arithmetic leaves the loop, past the wait; with unrolled
// loops registers spill.
TEST_F(TierCompile, TheGateNoticesWhatIsLeftOut) {
  const auto settled = unbound<SettledInALoop<bf16>>();
  EXPECT_TRUE(build(settled).findings.empty());
  const auto found = [](const Built& b, std::string_view what) {
    for (const auto& f : b.findings)
      if (f.find(what) != std::string::npos) return true;
    return false;
  };
  EXPECT_TRUE(found(build(gemm<kernels::GemmTma<bf16>>(2), emit::no_fence), "C7519"));
  EXPECT_TRUE(found(build(settled, emit::no_pin), "C7514"));
  EXPECT_TRUE(found(build(attention<bf16>(true), emit::no_unroll_1), "spill"));
}

TEST(TierFindings, AreReadFromTheLog) {
  using runtime::cuda::tier_findings;
  EXPECT_TRUE(
      tier_findings("ptxas info    : Used 168 registers\n    0 bytes stack frame, 0 bytes spill stores, 0 bytes "
                    "spill loads\n")
          .empty());
  const auto found = tier_findings(
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized\n    16 bytes "
      "stack frame, 8 bytes spill stores, 12 bytes spill loads\n");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0], "registers spill: 8 bytes stored, 12 loaded");
  EXPECT_EQ(found[1], "a stack frame of 16 bytes");
  EXPECT_NE(found[2].find("C7510"), std::string::npos);
}

TEST(TierEmit, RefusesWhatTheProfileLacks) {
  const auto compiled = runtime::compile_for("cuda", record(gemm<kernels::GemmTma<bf16>>(2), "kernel"));
  try {
    emit::emit_cuda(*compiled->optimised, {384, 1, 1}, target::profile("sm_80"));
    ADD_FAILURE() << "sm_80 has no roles";
  } catch (const Error& e) {
    EXPECT_EQ(e.diagnostics()[0].code, "D20");
  }
  EXPECT_THROW(emit::emit_cuda(*compiled->optimised, {256, 1, 1}, target::profile("sm_90a")), Error);  // 3 warpgroups
}

}  // namespace
}  // namespace iron
