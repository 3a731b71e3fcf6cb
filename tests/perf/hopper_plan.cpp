// Compiles the Hopper tier's kernels to cubins without a GPU and writes what a launch needs beside them:
//   hopper_plan DIR     DIR/plan.json and one cubin a kernel, for tests/perf/hopper.py
#define IRON_NO_IF_MACRO  // the IR has functions of that name
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attention/attention_tma.h"
#include "gemm/gemm_tma.h"
#include "runtime/compile.h"
#include "runtime/cuda/compile.h"

namespace {
using namespace iron;
using Json = nlohmann::ordered_json;

class Plan {
 public:
  explicit Plan(std::filesystem::path dir) : dir_(std::move(dir)) { std::filesystem::create_directories(dir_); }

  template <class K>
  void add(std::string name, const K& kernel, Json facts) {
    const auto recorded = std::make_shared<ir::Kernel>(*record(kernel, name));
    const auto compiled = runtime::compile_for("cuda", recorded);
    const auto made = runtime::cuda::compile_cubin(*compiled->optimised, {kernel.spec.threads, 1, 1}, "sm_90a");
    const auto& source = made.source;
    std::ofstream(dir_ / (name + ".cubin"), std::ios::binary)
        .write(made.binary.cubin.data(), static_cast<std::streamsize>(made.binary.cubin.size()));
    std::ofstream(dir_ / (name + ".cu")) << source.text;
    Json args = Json::array();
    for (const auto& slot : source.args) {
      const auto& p = compiled->optimised->params[slot.param];
      Json one{{"param", p.name}, {"dtype", dtype_name(p.elem)}, {"tensor", slot.kind == emit::ArgSlot::tensor}};
      for (const auto& b : source.boxes)
        if (b.param == slot.param && p.tensor)
          one["box"] = std::vector<u32>(b.box.begin(), b.box.begin() + b.rank),
          one["swizzle"] = static_cast<int>(b.swizzle);
      args.push_back(one);
    }
    const auto report = runtime::cuda::ptxas_report(made.binary.log);
    facts["name"] = name, facts["entry"] = source.entry, facts["threads"] = kernel.spec.threads;
    facts["shared"] = source.dynamic_shared_bytes, facts["cluster"] = source.cluster, facts["args"] = args;
    facts["registers"] = report.registers;
    kernels_.push_back(facts);
    fmt::print("{}: {} registers at entry, {} bytes of threadgroup memory\n", name, report.registers,
               source.dynamic_shared_bytes);
  }
  void write() const { std::ofstream(dir_ / "plan.json") << Json{{"kernels", kernels_}}.dump(1) << "\n"; }

 private:
  std::filesystem::path dir_;
  Json kernels_ = Json::array();
};

template <class T>
void gemm(Plan& plan, std::string_view dtype, kernels::GemmTmaSpec spec) {
  auto k = unbound<kernels::GemmTma<T>>();
  k.spec = spec;
  plan.add(fmt::format("gemm_{}_{}x{}_s{}_c{}_g{}", dtype, spec.bm, spec.bn, spec.stages, spec.cluster, spec.group), k,
           {{"kind", "gemm"}, {"dtype", dtype}, {"bm", spec.bm}, {"bn", spec.bn}, {"group", spec.group}});
}
void gemm_e4m3(Plan& plan, kernels::GemmTmaSpec spec) {
  auto k = unbound<kernels::GemmTmaE4M3<bf16>>();
  k.spec = spec;
  plan.add(fmt::format("gemm_e4m3_{}x{}_s{}_c{}_g{}", spec.bm, spec.bn, spec.stages, spec.cluster, spec.group), k,
           {{"kind", "gemm"}, {"dtype", "e4m3"}, {"bm", spec.bm}, {"bn", spec.bn}, {"group", spec.group}});
}
template <class T>
void attention(Plan& plan, std::string_view dtype, bool causal) {
  auto k = unbound<kernels::AttentionTma<T>>();
  k.spec.causal = causal;
  plan.add(fmt::format("attention_{}_{}", dtype, causal ? "causal" : "full"), k,
           {{"kind", "attention"}, {"dtype", dtype}, {"causal", causal}});
}
}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) {
    fmt::print(stderr, "usage: hopper_plan DIR\n");
    return 2;
  }
  Plan plan(argv[1]);
  for (const u32 group : {4u, 8u}) gemm<bf16>(plan, "bf16", {.cluster = 2, .group = group});
  gemm<bf16>(plan, "bf16", {.cluster = 1});
  gemm<f16>(plan, "f16", {.cluster = 2});
  gemm<f16>(plan, "f16", {.cluster = 1});
  gemm_e4m3(plan, {.cluster = 2});
  gemm_e4m3(plan, {.cluster = 1});
  for (const bool causal : {true, false}) attention<bf16>(plan, "bf16", causal);
  attention<f16>(plan, "f16", true);
  plan.write();
  return 0;
} catch (const iron::Error& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
