// Compilation of kernels through the cache.
#include "runtime/cuda/compile.h"

#include <fmt/format.h>

#include <cstdlib>

#include "iron/error.h"
#include "passes/widen_items.h"

namespace iron::runtime::cuda {

std::vector<std::string> nvrtc_options() {
  return {"--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "--ptxas-options=-v"};
}

emit::MatrixUse matrix_use() {
  const char* set = std::getenv("IRON_CUDA_MMA");
  const std::string_view word = set ? set : "";
  if (word.empty() || word == "auto") return emit::MatrixUse::automatic;
  if (word == "software") return emit::MatrixUse::software;
  if (word == "mma_sync" || word == "required") return emit::MatrixUse::required;
  if (word == "wmma")
    throw Error("CUDA04",
                "IRON_CUDA_MMA is 'wmma', which no tile can use: PTX does not say which lane holds which element of a "
                "wmma fragment, and a tile rounds and stores its elements lane by lane",
                "use mma_sync: every architecture that Iron compiles for has it, with the same inputs and f32 sums");
  throw Error("CUDA04", fmt::format("IRON_CUDA_MMA is '{}'", word),
              "use auto, software, mma_sync or required (the same as mma_sync)");
}

PtxasReport ptxas_report(const std::string& log) {
  PtxasReport r;
  const auto number_before = [&](std::string_view words) {
    const auto at = log.find(words);
    if (at == std::string::npos) return -1;
    std::size_t start = at;
    while (start > 0 && std::isdigit(static_cast<unsigned char>(log[start - 1]))) --start;
    return start == at ? -1 : std::atoi(log.c_str() + start);
  };
  r.registers = number_before(" registers");
  r.stack_bytes = number_before(" bytes stack frame");
  r.spill_store_bytes = number_before(" bytes spill stores");
  r.spill_load_bytes = number_before(" bytes spill loads");
  return r;
}

std::vector<std::string> tier_findings(const std::string& log) {
  std::vector<std::string> found;
  const auto r = ptxas_report(log);
  if (r.spill_store_bytes > 0 || r.spill_load_bytes > 0)
    found.push_back(
        fmt::format("registers spill: {} bytes stored, {} loaded", r.spill_store_bytes, r.spill_load_bytes));
  if (r.stack_bytes > 0) found.push_back(fmt::format("a stack frame of {} bytes", r.stack_bytes));
  for (std::size_t at = log.find("(C75"); at != std::string::npos; at = log.find("(C75", at + 1)) {
    const auto start = log.rfind('\n', at) + 1;  // npos + 1 is 0
    found.push_back(log.substr(start, log.find('\n', at) - start));
  }
  return found;
}

CompiledKernel emit_kernel(const ir::Kernel& optimised, Dim3 threads, std::string_view arch,
                           const emit::CudaOptions& options) {
  CompiledKernel out;
  const auto wide = passes::widen_items(optimised);
  out.items_per_thread = wide.items_per_thread;
  const ir::Kernel& lowered = wide.items_per_thread > 1 ? wide.kernel : optimised;
  out.source = emit::emit_cuda(lowered, threads, target::profile(arch), options);
  return out;
}

CompiledKernel compile_cubin(const ir::Kernel& optimised, Dim3 threads, std::string_view arch, const DiskCache* cache,
                             const emit::CudaOptions& options) {
  CompiledKernel out = emit_kernel(optimised, threads, arch, options);
  const Nvrtc& nvrtc = Nvrtc::get();
  const auto flags = nvrtc_options();
  std::string key =
      fmt::format("iron cuda {}\nnvrtc {}.{}\n{}\n", emit::cuda_emitter_version, nvrtc.major(), nvrtc.minor(), arch);
  for (const auto& f : flags) key += f + "\n";
  key += out.source.text;
  const Hash128 hash = hash128(std::string_view(key));
  if (cache)
    if (auto found = read_compiled(*cache, hash)) {
      out.binary = std::move(*found);
      out.from_cache = true;
      return out;
    }
  out.binary = nvrtc.compile(out.source.text, out.source.entry + ".cu", std::string(arch), flags);
  if (out.source.tier)
    if (const auto found = tier_findings(out.binary.log); !found.empty())
      throw Error("CUDA04", fmt::format("kernel {} is not what its emission promises: {}", optimised.name, found[0]),
                  "keep registers of accumulators and fragments within the role's budget");
  if (cache) write_compiled(*cache, hash, out.binary);
  return out;
}

}  // namespace iron::runtime::cuda
