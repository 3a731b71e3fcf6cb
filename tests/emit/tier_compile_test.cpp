// The Hopper tier through NVRTC: kernels of the library keep the form that ptxas keeps fast, and the gate notices when
// a rule of emission is left out.
#define IRON_NO_IF_MACRO  // the IR has functions of that name
#include <gtest/gtest.h>

#include "attention/decode_tma.h"
#include "gemm/split_k_tma.h"
#include "runtime/cuda/compile.h"
#include "tier_texts.h"

namespace iron {
namespace {
using namespace tier_texts;

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
  Built b;
  b.source = emitted(kernel, leave_out);
  b.log = runtime::cuda::Nvrtc::get().compile(b.source.text, "kernel.cu", "sm_90a", runtime::cuda::nvrtc_options()).log;
  b.findings = runtime::cuda::tier_findings(b.log);
  return b;
}
std::string body_of(const Built& b) { return from_signature(b.source.text); }

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

TEST_F(TierCompile, SplitDepthHasNoBarrierInItsLoop) {
  const auto check = [](const Built& b, u32 bn) {
    EXPECT_TRUE(b.findings.empty()) << b.findings[0] << "\n" << b.log;
    const std::string body = body_of(b);
    const auto loop = body.find("// load"), end = body.find("store_pair(", loop);
    ASSERT_NE(end, std::string::npos);
    const auto roles = body.substr(loop, end - loop);
    EXPECT_EQ(count(roles, "__syncthreads"), 0u);
    EXPECT_EQ(count(roles, "named_barrier("), 0u);
    EXPECT_EQ(count(roles, "load_box_2d("), 2u);
    EXPECT_EQ(count(roles, "wgmma_m64n" + std::to_string(bn) + "k16_bf16("), 4u);
  };
  const auto slices = build(unbound<kernels::GemmSplitKTma<bf16>>());
  check(slices, 128);
  // Two threadgroups share a multiprocessor: registers and threadgroup memory.
  const auto at = slices.log.find("Used ");
  ASSERT_NE(at, std::string::npos);
  EXPECT_LE(2 * 256 * std::atoi(slices.log.c_str() + at + 5), 65536) << slices.log;
  EXPECT_LE(2 * (slices.source.dynamic_shared_bytes + 1024), 228u * 1024);
  for (const u32 cluster : {2u, 4u, 8u}) {
    auto k = unbound<kernels::GemmSplitKCluster<bf16>>();
    k.spec = kernels::split_k_spec(cluster);
    const auto b = build(k);
    check(b, k.spec.bn);
    const std::string body = body_of(b);
    EXPECT_EQ(b.source.cluster, cluster);
    EXPECT_EQ(count(body, "cluster_barrier();"), 2u);  // barriers of the pipeline are ready; the sums are there
    EXPECT_EQ(count(body, "peer_load_4(") % cluster, 0u);
    EXPECT_GE(count(body, "peer_load_4("), cluster);
    EXPECT_EQ(count(body, "leave_read_cluster();"), 1u);
    EXPECT_EQ(count(body, "leave_cluster();"), 0u);
  }
  EXPECT_TRUE(build(unbound<kernels::GemmSplitKTma<f16>>()).findings.empty());
}

TEST_F(TierCompile, BlockScalesArePromotedBetweenTheWaits) {
  for (const u32 cluster : {1u, 2u}) {
    const auto b = build(gemm<kernels::GemmTmaE4M3Blocks<bf16>>(cluster));
    EXPECT_TRUE(b.findings.empty()) << b.findings[0] << "\n" << b.log;
    const std::string body = body_of(b);
    EXPECT_EQ(count(body, "wgmma_m64n128k32_e4m3("), 16u);  // a trip of four blocks of 128 terms
    EXPECT_EQ(count(body, "products_settle<1>"), 3u);
    EXPECT_EQ(count(body, "products_settle<0>"), 1u);
    EXPECT_EQ(count(body, "load_box_2d_multicast("), cluster == 2 ? 4u : 0u);
  }
}

TEST_F(TierCompile, DecodeReadsItsPeersAfterTheClusterMeets) {
  for (const u32 splits : {2u, 4u, 8u}) {
    auto k = unbound<kernels::AttentionDecodeCluster<bf16>>();
    k.spec.splits = splits;
    const auto b = build(k);
    EXPECT_TRUE(b.findings.empty()) << b.findings[0] << "\n" << b.log;
    const std::string body = body_of(b);
    const auto first = body.find("peer_load_4("), meet = body.rfind("cluster_barrier();");
    ASSERT_NE(first, std::string::npos);
    EXPECT_LT(meet, first);
    EXPECT_GT(meet, body.rfind("store_pair("));
    EXPECT_GT(body.find("leave_read_cluster();"), body.rfind("peer_load_4("));  // nobody ends while it is read
    EXPECT_NE(b.source.text.find("mapa.shared::cluster.u32"), std::string::npos);
    EXPECT_NE(b.source.text.find("ld.shared::cluster.u32"), std::string::npos);
    EXPECT_NE(b.source.text.find("barrier.cluster.arrive.release.aligned"), std::string::npos);
    EXPECT_NE(b.source.text.find("barrier.cluster.wait.acquire.aligned"), std::string::npos);
  }
  auto alone = unbound<kernels::AttentionDecodeCluster<f16>>();
  alone.spec.splits = 1;
  EXPECT_TRUE(build(alone).findings.empty());
  EXPECT_TRUE(build(unbound<kernels::AttentionDecodeSplit<bf16>>()).findings.empty());
}

// Threads read what copies brought, in slots, panels and rows other than the first ones.
struct ReadsPanels {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<f16> x;
  Out<f32> y;
  struct Spec {
    u32 threads = 256;
  } spec;

  void operator()() const {
    Shared<f16> ring{2, {8, 128}, Swizzle::b128};
    const Pipeline pipe{2, "load", "use"};
    for (auto& role : roles({{"load", 1, {}, Issue::one}, {"use", 1}})) {
      if (role.is("load")) {
        auto to = pipe.producer();
        for (auto i : range(2u)) {
          const auto s = to.acquire();
          x.load(s, ring[s], {0u, i * 8u});
        }
      } else {
        auto from = pipe.consumer();
        const auto t = thread_id() - 128u;
        for (auto i : range(2u)) {
          const auto s = from.wait();
          y[i * 128u + t] = cast<f32>(Val<f16>(ring[s](3u, t)));
          from.release();
        }
      }
    }
  }
};
// One helper of an emitted text, made a constant function.
std::string constant_function(const std::string& text, std::string_view name) {
  const auto call = text.find(" " + std::string(name) + "(");
  const auto begin = text.rfind("template", call), end = text.find("\n}", call);
  std::string out = text.substr(begin, end + 2 - begin) + "\n";
  const std::string_view words = "__device__ __forceinline__";
  out.replace(out.find(words), words.size(), "constexpr __device__");
  return out;
}

// D13: rows, columns, slots and panels are added before the swizzle, in plain accesses and in fragments that are put:
// both routines are evaluated by the compiler at every place and compared with what the copy unit does, which permutes
// the 16-byte chunks of a 128-byte line by the line's number.
TEST_F(TierCompile, D13SwizzlesAfterOffsetsAreAdded) {
  const auto read = build(unbound<ReadsPanels>());
  const std::string body = body_of(read);
  EXPECT_GE(count(body, "swizzled<2, 8>(in_panels<8, 128, 64>("), 1u) << body;
  EXPECT_EQ(count(body, "swizzled<2, 8>(in_panels<8, 128, 64>("), count(body, "swizzled<"));
  const auto written = build(gemm<kernels::GemmTma<bf16>>(1));
  const auto text = [&](std::string_view claim) {
    return "typedef unsigned int u32;\ntypedef long long index_t;\n" +
           constant_function(read.source.text, "in_panels") + constant_function(read.source.text, "swizzled") +
           constant_function(written.source.text, "chunk_at") +
           R"(constexpr __device__ u32 copied_to(u32 slot, u32 row, u32 col) {  // a byte of slots of 8 x 128, 16 bits each
  const u32 line = (slot * 2 + col / 64) * 8 + row;
  return line * 128 + (col % 64 / 8 ^ line % 8) * 16 + col % 8 * 2;
}
constexpr __device__ bool plain_agrees(u32 add) {
  for (u32 slot = 0; slot < 2; ++slot)
    for (u32 row = 0; row < 8; ++row)
      for (u32 col = 0; col < 128; ++col)
        if (swizzled<2, 8>(in_panels<8, 128, 64>((slot * 8 + row) * 128 + col)) * 2 + add != copied_to(slot, row, col))
          return false;
  return true;
}
constexpr __device__ bool put_agrees() {
  for (u32 view = 0; view < 4096; view += 1024)  // a panel of a slot
    for (u32 row = 0; row < 8; ++row)
      for (u32 chunk = 0; chunk < 8; ++chunk)
        if (chunk_at<128>(view, row, chunk) != copied_to(view / 2048, row, view % 2048 / 1024 * 64 + chunk * 8)) return false;
  return true;
}
static_assert()" +
           std::string(claim) + ", \"the routines agree\");\nextern \"C\" __global__ void nothing() {}\n";
  };
  const auto& nvrtc = runtime::cuda::Nvrtc::get();
  const auto options = runtime::cuda::nvrtc_options();
  EXPECT_NO_THROW(nvrtc.compile(text("plain_agrees(0)"), "d13.cu", "sm_90a", options));
  EXPECT_NO_THROW(nvrtc.compile(text("put_agrees()"), "d13.cu", "sm_90a", options));
  EXPECT_THROW(nvrtc.compile(text("plain_agrees(16)"), "d13.cu", "sm_90a", options), Error);  // it can say no
}

// D14: every wait is one loop without an end of its own, and acquires what arrived.
TEST(TierEmit, D14WaitsAreUnbounded) {
  const auto check = [](const std::string& text) {
    EXPECT_EQ(count(text, "mbarrier.try_wait"), 1u);
    EXPECT_EQ(count(text, "mbarrier.test_wait"), 0u);
    const auto at = text.find("wait_barrier(u32 barrier, u32 parity) {"), end = text.find("\n}", at);
    ASSERT_NE(at, std::string::npos);
    const std::string wait = text.substr(at, end - at);
    EXPECT_NE(wait.find("try_wait.parity.acquire.cta"), std::string::npos);
    EXPECT_NE(wait.find("AGAIN:"), std::string::npos);
    EXPECT_NE(wait.find("@done bra DONE;\\nbra AGAIN;"), std::string::npos);  // nothing else leaves it
    EXPECT_EQ(count(wait, "bra "), 2u);
    const std::string body = text.substr(text.find("extern \"C\""));
    EXPECT_GE(count(body, "wait_barrier("), 2u);
  };
  check(emitted(gemm<kernels::GemmTma<bf16>>(2)).text);
  check(emitted(attention<bf16>(true)).text);
  check(emitted(unbound<kernels::GemmSplitKTma<bf16>>()).text);
  check(emitted(unbound<kernels::AttentionDecodeCluster<bf16>>()).text);
  check(emitted(gemm<kernels::GemmTmaE4M3Blocks<bf16>>(1)).text);
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
