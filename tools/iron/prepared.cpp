#include "prepared.h"

#include <fmt/format.h>

#include <algorithm>

#include "app.h"
#include "ir/text.h"
#include "iron/error.h"
#include "messages.h"
#include "runtime/cuda/compile.h"
#include "runtime/cuda/device.h"

namespace iron::tool {

namespace {
constexpr Stage all_stages[] = {{"ir", "", "iron"},     {"llvm", "cpu", "ll"},  {"asm", "cpu", "s"},
                                {"cuda", "cuda", "cu"}, {"ptx", "cuda", "ptx"}, {"sass", "cuda", "sass"}};
}  // namespace

Dim3 threads_of(const KernelEntry& e) {
  if (e.tests.empty()) return {256, 1, 1};
  Gen gen(1);
  const auto c = e.tests.front().make(gen);
  // Of several launches, that of this very kernel; else of its type, specialised otherwise.
  const auto key = e.instance()->key();
  const auto type = [](const std::string& k) { return std::string_view(k).substr(0, k.find('{')); };
  const auto find = [&](auto matches) { return std::find_if(c.steps.rbegin(), c.steps.rend(), matches); };
  auto step = find([&](const Step& s) { return s.key == key; });
  if (step == c.steps.rend()) step = find([&](const Step& s) { return type(s.key) == type(key); });
  const auto& t = (step == c.steps.rend() ? c.steps.back() : *step).grid.threads;
  return {t.x, t.y, t.z};
}

PreparedEntry prepare(runtime::Backend& backend, const KernelEntry& e) {
  PreparedEntry p;
  p.compiled = runtime::compile_for(backend.info().backend, e.record(false));
  p.exe = backend.prepare(*p.compiled->optimised, threads_of(e));
  return p;
}

std::vector<Stage> stages() {
  const auto built = runtime::backend_names();
  std::vector<Stage> out;
  for (const auto& s : all_stages)
    if (s.backend.empty() || std::find(built.begin(), built.end(), s.backend) != built.end()) out.push_back(s);
  return out;
}

Stage find_stage(const std::string& name) {
  std::string known;
  for (const auto& s : stages()) {
    if (s.name == name) return s;
    known += (known.empty() ? "" : ", ") + std::string(s.name);
  }
  throw UsageError(fmt::format("this build has no stage '{}', only {}", name, known));
}

Stage final_stage(const std::string& backend) {
  const auto built = runtime::backend_names();
  if (std::find(built.begin(), built.end(), backend) == built.end())
    throw UsageError(fmt::format("--backend: this build has no backend '{}', only {}", backend, backend_help()));
  return find_stage(backend == "cuda" ? "cuda" : backend == "cpu" ? "llvm" : "ir");
}

std::string stage_text(const Stage& stage, const KernelEntry& e, const std::string& arch) {
  if (stage.backend.empty()) return ir::print(*runtime::compile_for("interpreter", e.record(false))->optimised);
  if (stage.name == "cuda" || stage.name == "ptx")
    if (!arch.empty() || !runtime::cuda::device_available()) {
      const auto compiled = runtime::compile_for("cuda", e.record(false));
      const std::string target = arch.empty() ? "sm_90a" : arch;
      if (stage.name == "cuda")
        return emit::emit_cuda(*compiled->optimised, threads_of(e), target::profile(target)).text;
      return runtime::cuda::compile_cubin(*compiled->optimised, threads_of(e), target).binary.ptx;
    }
  auto text = prepare(runtime::backend(stage.backend), e).exe->stage(stage.name);
  if (text.empty())
    throw Error("TOOL04", fmt::format("the {} device gives no {} for {}", stage.backend, stage.name, e.full_name()));
  return text;
}

}  // namespace iron::tool
