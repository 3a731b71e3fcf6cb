// `iron tune --prebuild`: the kernels of a plan as cubins, with all that a launch of them needs beside.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>

#include "bench/session.h"
#include "core/hash.h"
#include "iron/error.h"
#include "runtime/compile.h"
#include "runtime/cuda/cache.h"
#include "runtime/cuda/offline.h"
#include "terminal.h"
#include "tune_plan.h"

namespace iron::tool {

namespace {

using runtime::cuda::OfflineJob;
using runtime::cuda::OfflineResult;

Json dims(const Dim3& d) { return {d.x, d.y, d.z}; }

// Parameters in the order of the launch, with the box and swizzle of each tensor map.
Json arguments_json(const ir::Kernel& k, const emit::Source& source) {
  constexpr const char* kinds[] = {"pointer", "scalar", "length", "items", "tensor"};
  Json out = Json::array();
  for (const auto& slot : source.args) {
    Json one{{"kind", kinds[slot.kind]}};
    if (slot.kind != emit::ArgSlot::items && slot.param < k.params.size())
      one["param"] = k.params[slot.param].name, one["dtype"] = dtype_name(k.params[slot.param].elem);
    one["tensor"] = slot.kind == emit::ArgSlot::tensor;
    for (const auto& b : source.boxes)
      if (slot.kind == emit::ArgSlot::tensor && b.param == slot.param)
        one["box"] = std::vector<u32>(b.box.begin(), b.box.begin() + b.rank),
        one["swizzle"] = static_cast<int>(b.swizzle);
    out.push_back(std::move(one));
  }
  return out;
}

Json kernel_json(const PlannedLaunch& l, const OfflineJob& job, const OfflineResult& r, const std::string& stem) {
  const auto& source = r.kernel.source;
  Json j{{"name", stem}, {"cubin", stem + ".cubin"}, {"entry", source.entry}, {"arch", job.arch}};
  if (l.item) {
    j["kernel"] = l.item->entry->full_name(), j["family"] = l.item->entry->family;
    j["dtype"] = dtype_name(l.item->entry->dtype), j["spec"] = l.item->spec, j["specialisation"] = l.spec;
  }
  j["text"] = hash128(source.text).hex();
  j["threads"] = dims(job.threads);
  j["shared"] = source.dynamic_shared_bytes, j["static_shared"] = source.static_shared_bytes;
  j["cluster"] = source.cluster, j["items_per_thread"] = r.kernel.items_per_thread;
  j["registers"] = r.report.registers;
  j["spill_bytes"] = std::max(r.report.spill_store_bytes, 0) + std::max(r.report.spill_load_bytes, 0);
  j["args"] = arguments_json(*job.optimised, source);
  j["launches"] = Json::array();
  return j;
}

Json launch_json(const PlannedLaunch& l) {
  Json j;
  if (l.shape)
    j = {{"m", l.shape->m}, {"n", l.shape->n}, {"k", l.shape->k}};
  else
    j = {{"bench", l.bench}, {"step", l.step}};
  j["grid"] = dims(l.geometry.groups), j["items"] = l.geometry.items;
  j["bytes"] = l.bytes, j["flops"] = l.flops;
  return j;
}

}  // namespace

std::size_t prebuild(const Plan& plan, const std::string& folder, const Globals& globals) {
  const auto launches = launches_of(plan);
  // One job a kernel, threadgroup and architecture, whatever the number of shapes; an oracle for each architecture.
  std::vector<OfflineJob> jobs;
  std::vector<std::vector<const PlannedLaunch*>> uses;
  std::map<std::string, std::size_t> known;
  const auto job_of = [&](const std::string& name, const std::shared_ptr<const ir::Kernel>& k, Dim3 threads,
                          const std::string& arch, const std::string& key) {
    const auto full = fmt::format("{} {} {}x{}x{}", key, arch, threads.x, threads.y, threads.z);
    const auto [it, fresh] = known.emplace(full, jobs.size());
    if (fresh) jobs.push_back({name, k, threads, arch}), uses.emplace_back();
    return it->second;
  };
  bool products = false;
  for (const auto& l : launches) {
    const auto& e = *l.item->entry;
    const auto key = l.shape ? fmt::format("{} {}", e.full_name(), l.spec)
                             : fmt::format("{} bench {} step {}", e.full_name(), l.bench, l.step);
    uses[job_of(e.full_name(), l.optimised, l.geometry.threads, l.item->arch, key)].push_back(&l);
    products |= l.shape.has_value();
  }
  if (products) {
    const auto oracle = runtime::compile_for("cuda", record_product_oracle())->optimised;
    std::vector<std::string> archs;
    for (const auto& i : plan.items)
      if (std::find(archs.begin(), archs.end(), i.arch) == archs.end()) archs.push_back(i.arch);
    for (const auto& arch : archs) job_of("product_oracle", oracle, product_oracle_threads, arch, "product_oracle");
  }
  const auto cache = runtime::cuda::cubin_cache();
  Progress progress(jobs.size(), !globals.json && !globals.quiet);
  const auto results =
      runtime::cuda::compile_offline(jobs, &cache, static_cast<u32>(std::max(0, globals.threads)), [&](std::size_t i) {
        progress.show(jobs[i].name);
        progress.advance();
      });
  progress.clear();
  std::vector<Diagnostic> problems;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (results[i].ok()) continue;
    const auto& why = results[i].refused.empty() ? results[i].error : results[i].refused;
    Diagnostic d;
    d.code = "TUNE07";
    d.message = fmt::format("{}: {} for {}: {}", uses[i].empty() ? "the oracle" : uses[i].front()->item->place,
                            jobs[i].name, jobs[i].arch, why);
    d.fix = results[i].refused.empty() ? "see the compiler's words above"
                                       : "leave the architecture out of this entry's 'arch'";
    problems.push_back(std::move(d));
  }
  if (!problems.empty()) throw Error(std::move(problems));
  Json all{{"iron_tune", 1},
           {"iron_version", IRON_VERSION},
           {"build_id", build_id()},
           {"timestamp", bench::timestamp()},
           {"environment", bench::environment_overrides()},
           {"seed", plan.seed},
           {"kernels", Json::array()},
           {"oracles", Json::array()}};
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& r = results[i];
    const auto stem =
        fmt::format("{}-{}-{}", jobs[i].name, hash128(r.kernel.source.text).hex().substr(0, 8), jobs[i].arch);
    write_file(fmt::format("{}/{}.cubin", folder, stem),
               std::string(r.kernel.binary.cubin.begin(), r.kernel.binary.cubin.end()));
    write_file(fmt::format("{}/{}.cu", folder, stem), r.kernel.source.text);
    auto j = kernel_json(uses[i].empty() ? PlannedLaunch{} : *uses[i].front(), jobs[i], r, stem);
    for (const auto* l : uses[i]) j["launches"].push_back(launch_json(*l));
    all[uses[i].empty() ? "oracles" : "kernels"].push_back(std::move(j));
  }
  write_file(folder + "/plan.json", all.dump(1) + "\n");
  return jobs.size();
}

}  // namespace iron::tool
