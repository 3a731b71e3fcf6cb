// Compilation of kernels through the cache.
#include "runtime/cuda/compile.h"

#include <fmt/format.h>

#include <cstdlib>

namespace iron::runtime::cuda {

std::vector<std::string> nvrtc_options() {
  return {"--std=c++17", "--fmad=false", "--prec-div=true", "--prec-sqrt=true", "--ftz=false", "--ptxas-options=-v"};
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

CompiledKernel compile_cubin(const ir::Kernel& optimised, Dim3 threads, std::string_view arch, const DiskCache* cache,
                             const emit::CudaOptions& options) {
  CompiledKernel out;
  out.source = emit::emit_cuda(optimised, threads, target::profile(arch), options);
  const Nvrtc& nvrtc = Nvrtc::get();
  const auto flags = nvrtc_options();
  std::string key =
      fmt::format("iron cuda {}\nnvrtc {}.{}\n{}\n", emit::cuda_emitter_version, nvrtc.major(), nvrtc.minor(), arch);
  for (const auto& f : flags) key += f + "\n";
  key += out.source.text;
  const Hash128 hash = hash128(std::string_view(key));
  if (cache)
    if (auto found = cache->read(hash)) {
      out.binary = std::move(*found);
      out.from_cache = true;
      return out;
    }
  out.binary = nvrtc.compile(out.source.text, out.source.entry + ".cu", std::string(arch), flags);
  if (cache) cache->write(hash, out.binary);
  return out;
}

}  // namespace iron::runtime::cuda
