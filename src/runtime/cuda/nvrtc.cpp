// Search, declarations and use of NVRTC.
#include "runtime/cuda/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "iron/error.h"
#include "runtime/cuda/places.h"

namespace iron::runtime::cuda {

namespace {
using Program = struct OpaqueProgram*;
using Result = int;
}  // namespace

struct Nvrtc::Api {
  Result (*version)(int*, int*);
  Result (*arch_count)(int*);
  Result (*archs)(int*);
  Result (*create)(Program*, const char*, const char*, int, const char* const*, const char* const*);
  Result (*compile)(Program, int, const char* const*);
  Result (*log_size)(Program, std::size_t*);
  Result (*log)(Program, char*);
  Result (*cubin_size)(Program, std::size_t*);
  Result (*cubin)(Program, char*);
  Result (*ptx_size)(Program, std::size_t*);
  Result (*ptx)(Program, char*);
  Result (*destroy)(Program*);
  const char* (*error_string)(Result);
};

Nvrtc::Nvrtc() {
  std::string why;
  static constexpr const char *files[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"},
                              *packages[] = {"cuda_nvrtc", "cu13"};
  const auto names = library_places("IRON_NVRTC", files, packages);
  library_ = DynamicLibrary::open(names, &why);
  if (!library_)
    throw Error(
        "CUDA01", "NVRTC, the run-time compiler of CUDA, was not found: " + why,
        "install the CUDA toolkit or `pip install nvidia-cuda-nvrtc`, or set IRON_NVRTC to the path of libnvrtc.so");
  auto api = std::make_unique<Api>();
  const auto bind = [&](auto& function, const char* symbol) {
    void* address = library_.symbol(symbol);
    if (!address) throw Error("CUDA01", fmt::format("{} has no {}", library_.path(), symbol), "use NVRTC 12 or newer");
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  bind(api->version, "nvrtcVersion");
  bind(api->arch_count, "nvrtcGetNumSupportedArchs");
  bind(api->archs, "nvrtcGetSupportedArchs");
  bind(api->create, "nvrtcCreateProgram");
  bind(api->compile, "nvrtcCompileProgram");
  bind(api->log_size, "nvrtcGetProgramLogSize");
  bind(api->log, "nvrtcGetProgramLog");
  bind(api->cubin_size, "nvrtcGetCUBINSize");
  bind(api->cubin, "nvrtcGetCUBIN");
  bind(api->ptx_size, "nvrtcGetPTXSize");
  bind(api->ptx, "nvrtcGetPTX");
  bind(api->destroy, "nvrtcDestroyProgram");
  bind(api->error_string, "nvrtcGetErrorString");
  api->version(&major_, &minor_);
  int count = 0;
  if (api->arch_count(&count) == 0 && count > 0) {
    architectures_.resize(static_cast<std::size_t>(count));
    api->archs(architectures_.data());
  }
  api_ = api.release();  // lives as long as the process, like the library
}

const Nvrtc& Nvrtc::get() {
  static const Nvrtc library;
  return library;
}

bool Nvrtc::available(std::string* why) { return opens<Nvrtc>(why); }

namespace {
std::string numbered(const std::string& text) {
  std::string out;
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    out += fmt::format("{:4} {}\n", line++, text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// Owns a program; NVRTC's own reference is dropped on every path.
struct ProgramGuard {
  Program program = nullptr;
  Result (*destroy)(Program*);
  ~ProgramGuard() {
    if (program) destroy(&program);
  }
};
}  // namespace

Compiled Nvrtc::compile(const std::string& text, const std::string& name, const std::string& arch,
                        const std::vector<std::string>& options) const {
  const int number = arch.starts_with("sm_") ? std::atoi(arch.c_str() + 3) : 0;
  if (std::find(architectures_.begin(), architectures_.end(), number) == architectures_.end())
    throw Error("CUDA02",
                fmt::format("NVRTC {}.{} ({}) does not know the architecture {}", major_, minor_, path(), arch),
                "install a newer CUDA toolkit");
  ProgramGuard guard{nullptr, api_->destroy};
  if (const Result r = api_->create(&guard.program, text.c_str(), name.c_str(), 0, nullptr, nullptr); r != 0)
    throw Error("CUDA03", fmt::format("NVRTC could not take {}: {}", name, api_->error_string(r)));
  std::vector<std::string> all{"--gpu-architecture=" + arch};
  all.insert(all.end(), options.begin(), options.end());
  std::vector<const char*> pointers;
  for (const auto& o : all) pointers.push_back(o.c_str());
  const Result compiled = api_->compile(guard.program, static_cast<int>(pointers.size()), pointers.data());

  const auto read_text = [&](Result (*size_of)(Program, std::size_t*), Result (*read)(Program, char*)) {
    std::size_t size = 0;
    std::string out;
    if (size_of(guard.program, &size) != 0 || size == 0) return out;
    out.resize(size);
    if (read(guard.program, out.data()) != 0) return std::string{};
    while (!out.empty() && out.back() == '\0') out.pop_back();
    return out;
  };
  Compiled out;
  out.log = read_text(api_->log_size, api_->log);
  if (compiled != 0)
    throw Error("CUDA03", fmt::format("{} does not compile for {}: {}\n{}\n{}", name, arch,
                                      api_->error_string(compiled), out.log, numbered(text)));
  std::size_t size = 0;
  if (api_->cubin_size(guard.program, &size) != 0 || size == 0)
    throw Error("CUDA03", fmt::format("NVRTC gave no cubin for {} on {}", name, arch));
  out.cubin.resize(size);
  api_->cubin(guard.program, out.cubin.data());
  out.ptx = read_text(api_->ptx_size, api_->ptx);
  return out;
}

}  // namespace iron::runtime::cuda
