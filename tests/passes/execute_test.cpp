// Every textual test is also executed: before and after each pass the interpreter gives the same bits (under fused, the
// same within the roundings that fma saves), reports nothing new, the pass has nothing left to do, and the text
// round-trips.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>

#include "exec/exec.h"
#include "ir/float_bits.h"
#include "ir/text.h"
#include "passes/pipeline.h"

namespace iron::passes {
namespace {
using namespace ir;

constexpr std::size_t elements = 4096;
constexpr u32 groups = 2, threads = 32;

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> out;
  for (const auto& e :
       std::filesystem::recursive_directory_iterator(std::filesystem::path(IRON_SOURCE_DIR) / "tests/passes"))
    if (e.path().extension() == ".iron" && !e.path().filename().string().starts_with("error_")) out.push_back(e.path());
  std::sort(out.begin(), out.end());
  return out;
}

struct Outcome {
  std::vector<std::vector<u8>> buffers;
  std::set<std::string> findings;
  bool wrote = false;  ///< it ran, and some output is no longer the poison that it held
};

u64 random_element(DType t, std::mt19937_64& random) {
  const f64 v = static_cast<f64>(static_cast<i64>(random() % 4001) - 2000) / 1000.0;
  if (is_float(t)) return ir::float_bits(t, v);
  return t == DType::boolean ? random() & 1 : random();
}

Outcome execute(const Kernel& k, u64 seed) {
  std::mt19937_64 random(seed);
  Outcome out;
  std::vector<LaunchArg> args;
  out.buffers.reserve(k.params.size());
  for (const auto& p : k.params) {
    if (!p.is_buffer()) {
      args.push_back({nullptr, 0,
                      is_float(p.elem)           ? random_element(p.elem, random)
                      : p.elem == DType::boolean ? 1
                                                 : 60 + 4 * (seed % 2)});
      continue;
    }
    const u32 size = dtype_size(p.elem);
    std::vector<u8> bytes(elements * size, 0xcd);
    if (p.kind != ParamKind::out)
      for (std::size_t i = 0; i < elements; ++i) {
        const u64 bits = random_element(p.elem, random);
        std::memcpy(bytes.data() + i * size, &bits, size);
      }
    out.buffers.push_back(std::move(bytes));
    args.push_back({out.buffers.back().data(), out.buffers.back().size(), 0});
  }
  const auto result = exec::run(k, exec::geometry(groups, threads, groups * threads), args);
  for (const auto& f : result.findings) out.findings.insert(f.code);
  out.wrote =
      result.statistics.lane_ops > 0 && std::any_of(out.buffers.begin(), out.buffers.end(), [](const auto& bytes) {
        return std::count(bytes.begin(), bytes.end(), u8{0xcd}) != static_cast<std::ptrdiff_t>(bytes.size());
      });
  return out;
}

f64 number(DType t, const u8* at) {
  u64 bits = 0;
  std::memcpy(&bits, at, dtype_size(t));
  return is_float(t) ? ir::float_value(t, bits) : 0;
}

// Where two outcomes differ by more than the policy allows, in words.
std::string difference(const Kernel& k, const Outcome& a, const Outcome& b, BitPolicy policy) {
  std::size_t n = 0;
  for (const auto& p : k.params) {
    if (!p.is_buffer()) continue;
    const auto &x = a.buffers[n], &y = b.buffers[n];
    ++n;
    const u32 size = dtype_size(p.elem);
    for (std::size_t i = 0; i < elements; ++i) {
      const u8 *u = x.data() + i * size, *v = y.data() + i * size;
      if (std::memcmp(u, v, size) == 0) continue;
      const f64 s = number(p.elem, u), t = number(p.elem, v);
      if (is_float(p.elem) && std::isnan(s) && std::isnan(t)) continue;
      if (policy == BitPolicy::fused && is_float(p.elem) && std::abs(s - t) <= 1e-5 * std::max(1.0, std::abs(s)))
        continue;
      return p.name + "[" + std::to_string(i) + "]: " + std::to_string(s) + " became " + std::to_string(t);
    }
  }
  return {};
}

class Executed : public ::testing::TestWithParam<std::filesystem::path> {
 protected:
  static std::vector<Kernel> kernels() {
    std::ifstream file(GetParam(), std::ios::binary);
    return parse_all(std::string(std::istreambuf_iterator<char>(file), {}), GetParam().filename().string());
  }
};

void expect_round_trip(const Kernel& k, std::string_view where) {
  const auto text = print(k);
  EXPECT_EQ(print(parse(text)), text) << where;
}

TEST_P(Executed, EachPassKeepsTheResult) {
  const auto all = kernels();
  KernelRegistry registry;
  for (const auto& k : all) registry[k.name] = &k;
  for (const auto& k : all) {
    for (const auto policy : {Numerics::exact, Numerics::fused}) {
      PassOptions options;
      options.policy = policy, options.kernels = &registry, options.verify = true;
      const std::string inline_only[] = {"kernel_inline"};
      Kernel start = k;
      run_passes(start, inline_only, options);
      for (const auto& pass : optimise_passes()) {
        const std::string only[] = {std::string(pass.name)};
        const std::string where = k.name + " after " + only[0] + " under " + std::string(name(policy));
        Kernel once = start;
        run_passes(once, only, options);
        expect_round_trip(once, where);
        Kernel twice = once;
        run_passes(twice, only, options);
        EXPECT_EQ(print(twice), print(once)) << where << ": the pass finds more to do in its own result";
        if (print(once) == print(start)) continue;
        const BitPolicy bits = policy == Numerics::exact ? BitPolicy::exact : pass.bits;
        for (const u64 seed : {u64{1}, u64{2}}) {
          const auto before = execute(start, seed), after = execute(once, seed);
          EXPECT_EQ(difference(k, before, after, bits), "") << where << "\n" << print(once);
          for (const auto& code : after.findings)
            EXPECT_TRUE(before.findings.count(code)) << where << " reports " << code << "\n" << print(once);
        }
      }
    }
  }
}

TEST_P(Executed, ThePipelineKeepsTheResultAfterEveryPass) {
  const auto all = kernels();
  KernelRegistry registry;
  for (const auto& k : all) registry[k.name] = &k;
  for (const auto& k : all) {
    for (const auto policy : {Numerics::exact, Numerics::fused}) {
      PassOptions options;
      options.policy = policy, options.kernels = &registry, options.verify = true;
      std::optional<Outcome> first;
      options.after_each = [&](const Kernel& now, const PassEntry& pass) {
        expect_round_trip(now, pass.name);
        const auto outcome = execute(now, 1);
        if (!first) first = outcome;
        EXPECT_TRUE(outcome.wrote) << k.name;
        EXPECT_EQ(difference(now, *first, outcome, policy == Numerics::exact ? BitPolicy::exact : BitPolicy::fused), "")
            << k.name << " after " << pass.name << "\n"
            << print(now);
        for (const auto& code : outcome.findings)
          EXPECT_TRUE(first->findings.count(code)) << k.name << " after " << pass.name << " reports " << code;
      };
      Kernel work = k;
      const auto result = run_pipeline(work, options);
      EXPECT_EQ(result.stats.size(), optimise_passes().size());
      expect_round_trip(work, k.name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Text, Executed, ::testing::ValuesIn(files()), [](const auto& info) {
  std::string n = info.param.parent_path().filename().string() + "_" + info.param.stem().string();
  return n;
});

}  // namespace
}  // namespace iron::passes
