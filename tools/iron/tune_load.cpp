#include "tune_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "filters.h"
#include "iron/error.h"
#include "runtime/compile.h"

namespace iron::tool {

Json read_prebuilt(const std::string& folder) {
  const std::string path = folder + "/plan.json";
  const char* fix = "make it with 'iron tune --prebuild DIR'";
  std::string text;
  try {
    text = read_file(path);
  } catch (const Error& e) {
    throw Error("TUNE10", fmt::format("{} holds no prebuilt plan: {}", folder, e.diagnostics().front().message), fix);
  }
  const auto j = Json::parse(text, nullptr, false);
  if (j.is_discarded() || !j.is_object()) throw Error("TUNE10", fmt::format("{} is not JSON", path), fix);
  if (j.contains("iron_plan"))
    throw Error("TUNE10", fmt::format("{} is a plan, not what is prebuilt from one", path),
                "'iron tune --prebuild DIR --plan FILE', then '--run DIR'");
  if (!j.contains("iron_tune") || j["iron_tune"] != 1 || !j.contains("kernels") || !j["kernels"].is_array())
    throw Error("TUNE10", fmt::format("{} was prebuilt by another version of Iron, or is something else", path), fix);
  return j;
}

namespace {

using runtime::cuda::CudaBackend;

// What the plan says must be what this program would launch.
void adopt(CudaBackend& device, const Json& k, const std::string& folder, const ir::Kernel& optimised) {
  const auto& t = k.at("threads");
  const Dim3 threads{t.at(0).get<u32>(), t.at(1).get<u32>(), t.at(2).get<u32>()};
  auto compiled =
      runtime::cuda::emit_kernel(optimised, threads, k.at("arch").get<std::string>(), CudaBackend::options());
  const auto name = k.at("name").get<std::string>();
  if (hash128(compiled.source.text).hex() != k.at("text").get<std::string>())
    throw Error("TUNE11",
                fmt::format("{}/{} was prebuilt from another text than this build of Iron emits now", folder, name),
                "prebuild the plan again with this build, under the same IRON_CUDA_MMA");
  const auto cubin = read_file(fmt::format("{}/{}", folder, k.at("cubin").get<std::string>()));
  compiled.binary.cubin.assign(cubin.begin(), cubin.end());
  device.adopt(optimised, threads, std::move(compiled));
}

LoadedKernel load(CudaBackend& device, const Json& k, const std::string& folder, u64 seed,
                  std::map<std::string, Case>& cases) {
  LoadedKernel l;
  l.json = k;
  l.entry = &find_kernel(standard_library(), k.at("kernel").get<std::string>(), "");
  l.spec = k.at("spec").get<std::string>();
  for (const auto& launch : k.at("launches")) {
    if (launch.contains("bench"))
      l.benches.push_back(launch["bench"].get<std::string>());
    else
      l.shapes.push_back({launch.at("m").get<u32>(), launch.at("n").get<u32>(), launch.at("k").get<u32>()});
  }
  if (!l.benches.empty()) {
    const auto& name = l.benches.front();
    const auto bench =
        std::find_if(l.entry->benches.begin(), l.entry->benches.end(), [&](const auto& b) { return b.shape == name; });
    if (bench == l.entry->benches.end())
      throw Error("TUNE11", fmt::format("{} has no bench '{}' in this build", l.entry->full_name(), name),
                  "prebuild the plan again with this build");
    const auto key = l.entry->full_name() + " " + name;
    if (!cases.contains(key)) {
      Gen gen(seed);
      cases.emplace(key, bench->make(gen));
    }
    const auto& step = cases.at(key).steps.at(k.at("launches").at(0).at("step").get<std::size_t>());
    adopt(device, k, folder, *runtime::compile_for("cuda", step.record())->optimised);
    return l;
  }
  l.kernel = l.entry->instance();
  if (!l.spec.empty()) l.kernel->specialise(l.spec);
  adopt(device, k, folder, *runtime::compile_for("cuda", l.kernel->record(l.entry->full_name()))->optimised);
  return l;
}

}  // namespace

LoadedPlan load_prebuilt(const Json& plan, const std::string& folder, CudaBackend& device) {
  LoadedPlan out;
  std::string archs;
  std::map<std::string, Case> cases;
  const auto mine = [&](const Json& k) {
    const auto arch = k.at("arch").get<std::string>();
    if (archs.find(arch) == std::string::npos) archs += (archs.empty() ? "" : ", ") + arch;
    return arch == device.info().architecture;
  };
  try {
    out.seed = plan.at("seed").get<u64>();
    for (const auto& k : plan.at("kernels")) {
      if (mine(k))
        out.kernels.push_back(load(device, k, folder, out.seed, cases));
      else
        ++out.other_architectures;
    }
    for (const auto& k : plan.at("oracles"))
      if (mine(k)) adopt(device, k, folder, *runtime::compile_for("cuda", record_product_oracle())->optimised);
  } catch (const Json::exception& e) {
    throw Error("TUNE10", fmt::format("{}/plan.json lacks something: {}", folder, e.what()),
                "make it with 'iron tune --prebuild DIR'");
  }
  if (out.kernels.empty())
    throw Error("TUNE12",
                fmt::format("{} holds kernels for {}, this device is {}", folder, archs, device.info().architecture),
                fmt::format("prebuild with --arch {}", device.info().architecture));
  return out;
}

}  // namespace iron::tool
