// Products as problems: data, oracle, judgement, the family's table; and how the vendor's library is opened.
#include "product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <set>

#include "iron/dsl/hopper/fp8.h"
#include "iron/error.h"
#include "reference.h"
#include "runtime/compile.h"
#include "runtime/cuda/cublaslt.h"
#include "runtime/cuda/nvml.h"
#include "runtime/cuda/places.h"

namespace iron::tool {
namespace {

constexpr ProductKind bf16_rows{DType::bf16, DType::bf16, false, true},
    f32_columns{DType::f32, DType::f32, false, false}, fp8{DType::u8, DType::bf16, true, true};
constexpr ProductShape odd{17, 19, 23};

template <class T>
f64 at(const std::vector<std::byte>& bytes, u64 i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof v, sizeof v);
  return static_cast<f64>(v);
}
template <class T>
std::vector<f64> by_hand(const ProductData& d) {
  const auto [m, n, k] = d.shape;
  std::vector<f64> c(u64{m} * n);
  for (u64 i = 0; i < m; ++i)
    for (u64 j = 0; j < n; ++j)
      for (u64 t = 0; t < k; ++t)
        c[i * n + j] =
            std::fma(at<T>(d.a, i * k + t), at<T>(d.b, d.kind.weight_major ? j * k + t : t * n + j), c[i * n + j]);
  return c;
}
template <class T>
std::vector<std::byte> rounded_to(const std::vector<f64>& values) {
  std::vector<std::byte> out(values.size() * sizeof(T));
  for (u64 i = 0; i < values.size(); ++i) {
    const T v(static_cast<std::conditional_t<std::is_same_v<T, f32>, f32, f64>>(values[i]));
    std::memcpy(out.data() + i * sizeof v, &v, sizeof v);
  }
  return out;
}

TEST(ProductData, IsTheSameWhateverTheThreads) {
  const auto one = make_product(bf16_rows, odd, 7, 1), many = make_product(bf16_rows, odd, 7, 5);
  EXPECT_EQ(one.a, many.a);
  EXPECT_EQ(one.b, many.b);
  EXPECT_NE(make_product(bf16_rows, odd, 8, 1).a, one.a);
}

TEST(ProductData, HasMeanZeroAndItsDeviation) {
  const ProductShape s{200, 8, 200};
  f64 sum = 0, squares = 0;
  const auto d = make_product(f32_columns, s, 3, 0);
  for (u64 i = 0; i < 40000; ++i) sum += at<f32>(d.a, i), squares += at<f32>(d.a, i) * at<f32>(d.a, i);
  EXPECT_NEAR(sum / 40000, 0, 0.02);
  EXPECT_NEAR(squares / 40000, 1, 0.03);
  const auto e = make_product(fp8, s, 3, 0);
  for (u64 i = 0; i < 40000; ++i) ASSERT_LE(std::abs(at<e4m3>(e.a, i)), 2.0);
}

TEST(ProductOracle, IsTheSumInF64) {
  auto& device = runtime::backend("interpreter");
  const auto rows = make_product(bf16_rows, odd, 1, 2), columns = make_product(f32_columns, odd, 2, 2),
             bytes = make_product(fp8, odd, 3, 2);
  EXPECT_EQ(product_oracle(device, rows, 2), by_hand<bf16>(rows));
  EXPECT_EQ(product_oracle(device, columns, 2), by_hand<f32>(columns));
  EXPECT_EQ(product_oracle(device, bytes, 2), by_hand<e4m3>(bytes));
}

TEST(ProductJudge, SeesEveryElement) {
  const auto d = make_product(bf16_rows, odd, 1, 1);
  const auto want = by_hand<bf16>(d);
  const auto good = rounded_to<bf16>(want);
  EXPECT_TRUE(judge_product(d, good, want, 5e-2, 3).passed);
  for (u64 i = 0; i < want.size(); ++i) {
    auto bad = good;
    const bf16 wrong(want[i] + 2.0);
    std::memcpy(bad.data() + i * 2, &wrong, 2);
    const auto v = judge_product(d, bad, want, 5e-2, 3);
    ASSERT_FALSE(v.passed) << i;
    EXPECT_NE(v.message.find("c[" + std::to_string(i / odd.n) + ", " + std::to_string(i % odd.n) + "]"),
              std::string::npos)
        << v.message;
    std::memset(bad.data() + i * 2, 0xff, 2);  // what was never written
    ASSERT_FALSE(judge_product(d, bad, want, 5e-2, 3).passed) << i;
  }
}

TEST(ProductJudge, RefusesAnotherLengthAndZeros) {
  const auto d = make_product(bf16_rows, odd, 1, 1);
  const auto want = by_hand<bf16>(d);
  auto c = rounded_to<bf16>(want);
  c.pop_back();
  EXPECT_FALSE(judge_product(d, c, want, 5e-2, 1).passed);
  EXPECT_FALSE(judge_product(d, std::vector<std::byte>(want.size() * 2), want, 1e9, 1).passed);  // the cosine
}

TEST(GemmMembers, AreRegisteredWithTheirOperands) {
  std::set<std::string> seen;
  for (const auto& e : standard_library().entries()) {
    const auto* member = kernels::find_gemm_member(e.name);
    if (!member) continue;
    seen.insert(e.name);
    EXPECT_EQ(member->rung == kernels::Rung::hopper, e.needs == "roles") << e.full_name();
    const auto kernel = e.instance();
    const auto& f = member->form;
    for (const auto& name : {f.a, f.b, f.c}) ASSERT_TRUE(kernel->find(name)) << e.full_name() << ' ' << name;
    for (const auto& name : {f.m, f.n, f.k, f.scale})
      if (!name.empty()) ASSERT_TRUE(kernel->find(name)) << e.full_name() << ' ' << name;
    EXPECT_EQ(kind_of(*kernel, f).output, e.dtype) << e.full_name();
  }
  EXPECT_EQ(seen.size(), kernels::gemm_members().size());
}

// A member bound by name gives the product that the oracle gives.
TEST(GemmMembers, ComputeTheProblem) {
  auto& device = runtime::backend("interpreter");
  for (const std::string name : {"iron_gemm", "iron_steel_gemm_32x32x16_1x2", "iron_gemv", "iron_gemv_warp_rows"}) {
    const auto& library = standard_library().entries();
    const auto entry = std::find_if(library.begin(), library.end(),
                                    [&](const auto& e) { return e.name == name && e.dtype == DType::f16; });
    ASSERT_NE(entry, library.end());
    const auto& form = kernels::find_gemm_member(name)->form;
    const auto kernel = entry->instance();
    const auto kind = kind_of(*kernel, form);
    const ProductShape s = form.m.empty() ? ProductShape{1, 19, 23} : odd;
    auto data = make_product(kind, s, 5, 1);
    std::vector<std::byte> c(kind.c_bytes(s), std::byte{0xff});
    bind_product(*kernel, form, s, data.a.data(), data.b.data(), c.data());
    std::vector<LaunchArg> args;
    for (const auto& a : kernel->arguments()) args.push_back(a.launch_arg(a.buffer.data));
    const auto g = kernel->grid();
    const LaunchGeometry geometry{{g.groups.x, g.groups.y, g.groups.z}, {g.threads.x, g.threads.y, g.threads.z}, 0};
    const auto compiled = runtime::compile_for("interpreter", kernel->record(name));
    ASSERT_TRUE(analysis::check(compiled->contract, geometry, args).empty());
    device.launch(device.prepare(*compiled->optimised, geometry.threads), geometry, args);
    device.synchronize();
    const auto v = judge_product(data, c, product_oracle(device, data, 1), 1e-2, 1);
    EXPECT_TRUE(v.passed) << name << ": " << v.message;
  }
}

TEST(GemmMembers, OneRowOnly) {
  const auto& library = standard_library().entries();
  const auto entry =
      std::find_if(library.begin(), library.end(), [](const auto& e) { return e.full_name() == "iron_gemv_f16"; });
  ASSERT_NE(entry, library.end());
  const auto kernel = entry->instance();
  try {
    bind_product(*kernel, kernels::find_gemm_member("iron_gemv")->form, odd, nullptr, nullptr, nullptr);
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "LIB05");
  }
}

TEST(ProductCase, OfRegisteredCases) {
  for (const auto& e : standard_library().entries()) {
    if (e.full_name() != "iron_gemm_f16" && e.full_name() != "iron_softmax_f32") continue;
    Gen gen(1);
    const auto c = e.tests.front().make(gen);
    const auto p = product_case(e, c);
    ASSERT_EQ(p.has_value(), e.name == "iron_gemm");
    if (p) EXPECT_EQ(to_string(p->shape), "35x41x23");
  }
}

struct Variable {
  Variable(const char* n, const char* value) : name(n) { setenv(n, value, 1); }
  ~Variable() { unsetenv(name); }
  Variable(const Variable&) = delete;
  const char* name;
};
std::string code_of(const std::function<void()>& f) {
  try {
    f();
    return {};
  } catch (const Error& e) {
    return e.code();
  }
}

TEST(Vendor, OptionsAreStrict) {
  EXPECT_FALSE(runtime::cuda::vendor_options().atomics);
  EXPECT_FALSE(runtime::cuda::vendor_options().algorithm);
  {
    const Variable atomics("IRON_GEMM_ATOMICS", "1"), algorithm("IRON_GEMM_ALGO", "3");
    EXPECT_TRUE(runtime::cuda::vendor_options().atomics);
    EXPECT_EQ(runtime::cuda::vendor_options().algorithm, 3u);
  }
  for (const char* word : {"yes", "2", "01"}) {
    const Variable atomics("IRON_GEMM_ATOMICS", word);
    EXPECT_EQ(code_of([] { runtime::cuda::vendor_options(); }), "CUDA06") << word;
  }
  for (const char* word : {"-1", "3x", "first", "99999999999"}) {
    const Variable algorithm("IRON_GEMM_ALGO", word);
    EXPECT_EQ(code_of([] { runtime::cuda::vendor_options(); }), "CUDA06") << word;
  }
}

TEST(Vendor, ALibraryThatIsNotThereIsNamed) {
  const Variable path("IRON_CUBLASLT", "/nowhere/libcublasLt.so");
  std::string why;
  EXPECT_FALSE(runtime::cuda::CublasLt::available(&why));
  EXPECT_NE(why.find("/nowhere/libcublasLt.so"), std::string::npos) << why;
  EXPECT_NE(why.find("IRON_CUBLASLT"), std::string::npos) << why;
}

// Every function that we declare is in the library.
TEST(Vendor, OpensWhereItIs) {
  std::string why;
  if (!runtime::cuda::CublasLt::available(&why)) GTEST_SKIP() << "skipped: " << why;
  EXPECT_TRUE(std::isdigit(static_cast<unsigned char>(runtime::cuda::CublasLt::get().version()[0])));
}

TEST(Places, AVariableStandsForAllOthers) {
  static constexpr const char *files[] = {"libx.so.2", "libx.so"}, *packages[] = {"x"};
  EXPECT_EQ(runtime::cuda::library_places("IRON_X", files, packages).front(), "libx.so.2");
  const Variable path("IRON_X", "/opt/libx.so");
  EXPECT_EQ(runtime::cuda::library_places("IRON_X", files, packages), std::vector<std::string>{"/opt/libx.so"});
}

TEST(Sampler, SaysWhatIsAbsent) {
  const runtime::cuda::GpuSampler sampler("ffff:ff:1f.0");  // no such device, with or without NVML
  EXPECT_FALSE(sampler.absent().empty());
  const auto now = runtime::cuda::GpuSampler::Clock::now();
  EXPECT_FALSE(sampler.between(now - std::chrono::seconds(1), now).mhz);
}

}  // namespace
}  // namespace iron::tool
