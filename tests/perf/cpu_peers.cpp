// Peers found at run time, so that the program builds where they are not installed.
#include "cpu_peers.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace iron::perf {

namespace {
template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(dlsym(library, name));
}

// --- OpenCL 1.2, as far as it is needed
using Handle = void*;
struct OpenCl {
  int (*platforms)(u32, Handle*, u32*);
  int (*devices)(Handle, u64, u32, Handle*, u32*);
  int (*device_info)(Handle, u32, std::size_t, void*, std::size_t*);
  Handle (*context)(const std::intptr_t*, u32, const Handle*, void*, void*, int*);
  Handle (*queue)(Handle, Handle, u64, int*);
  Handle (*program)(Handle, u32, const char**, const std::size_t*, int*);
  int (*build)(Handle, u32, const Handle*, const char*, void*, void*);
  Handle (*kernel)(Handle, const char*, int*);
  Handle (*buffer)(Handle, u64, std::size_t, void*, int*);
  int (*argument)(Handle, u32, std::size_t, const void*);
  int (*enqueue)(Handle, Handle, u32, const std::size_t*, const std::size_t*, const std::size_t*, u32, const Handle*,
                 Handle*);
  int (*finish)(Handle);
};
constexpr u64 every_device = 0xffffffff, use_host_memory = 1 << 3;
constexpr u32 name_of_device = 0x102b;

class PoclDevice final : public Pocl {
 public:
  PoclDevice(OpenCl cl, std::string name, Handle context, Handle queue, Handle program)
      : cl_(cl), name_(std::move(name)), context_(context), queue_(queue), program_(program) {}
  std::string name() const override { return name_; }
  std::function<void()> launch(const std::string& kernel, const std::vector<std::pair<void*, u64>>& buffers,
                               const std::vector<u32>& numbers, u64 groups) override {
    int error = 0;
    Handle k = cl_.kernel(program_, kernel.c_str(), &error);
    if (!k) return {};
    u32 at = 0;
    for (const auto& [data, bytes] : buffers) {
      Handle b = cl_.buffer(context_, use_host_memory, bytes, data, &error);
      error |= cl_.argument(k, at++, sizeof b, &b);
    }
    for (const u32 n : numbers) error |= cl_.argument(k, at++, sizeof n, &n);
    if (error) return {};
    return [this, k, groups] {
      const std::size_t local = 256, all = groups * local;
      cl_.enqueue(queue_, k, 1, nullptr, &all, &local, 0, nullptr, nullptr);
      cl_.finish(queue_);
    };
  }

 private:
  OpenCl cl_;
  std::string name_;
  Handle context_, queue_, program_;
};
}  // namespace

std::shared_ptr<Pocl> Pocl::open(const std::string& source, std::string& why) {
  setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return why = "libOpenCL.so.1 is not installed (ocl-icd-libopencl1, pocl-opencl-icd)", nullptr;
  OpenCl cl{symbol<decltype(OpenCl::platforms)>(library, "clGetPlatformIDs"),
            symbol<decltype(OpenCl::devices)>(library, "clGetDeviceIDs"),
            symbol<decltype(OpenCl::device_info)>(library, "clGetDeviceInfo"),
            symbol<decltype(OpenCl::context)>(library, "clCreateContext"),
            symbol<decltype(OpenCl::queue)>(library, "clCreateCommandQueue"),
            symbol<decltype(OpenCl::program)>(library, "clCreateProgramWithSource"),
            symbol<decltype(OpenCl::build)>(library, "clBuildProgram"),
            symbol<decltype(OpenCl::kernel)>(library, "clCreateKernel"),
            symbol<decltype(OpenCl::buffer)>(library, "clCreateBuffer"),
            symbol<decltype(OpenCl::argument)>(library, "clSetKernelArg"),
            symbol<decltype(OpenCl::enqueue)>(library, "clEnqueueNDRangeKernel"),
            symbol<decltype(OpenCl::finish)>(library, "clFinish")};
  Handle platform = nullptr, device = nullptr;
  u32 found = 0;
  if (cl.platforms(1, &platform, &found) || !found || cl.devices(platform, every_device, 1, &device, &found) || !found)
    return why = "OpenCL has no device (pocl-opencl-icd)", nullptr;
  char name[256] = {};
  cl.device_info(device, name_of_device, sizeof name - 1, name, nullptr);
  int error = 0;
  Handle context = cl.context(nullptr, 1, &device, nullptr, nullptr, &error);
  Handle queue = cl.queue(context, device, 0, &error);
  const char* text = source.c_str();
  Handle program = cl.program(context, 1, &text, nullptr, &error);
  if (error || cl.build(program, 1, &device, "", nullptr, nullptr))
    return why = fmt::format("{} does not build the peer kernels", name), nullptr;
  return std::make_shared<PoclDevice>(cl, name, context, queue, program);
}

const char* const pocl_source = R"(
#define TREE(op) for (uint s = 128; s; s >>= 1) { if (t < s) p[t] = op; barrier(CLK_LOCAL_MEM_FENCE); }
kernel void softmax(global const float* x, global float* y, uint n) {
  local float p[256]; local float e[8192];
  uint t = get_local_id(0); size_t r = get_group_id(0) * (size_t)n;
  float m = -INFINITY; for (uint i = t; i < n; i += 256) m = fmax(m, x[r + i]);
  p[t] = m; barrier(CLK_LOCAL_MEM_FENCE); TREE(fmax(p[t], p[t + s])) m = p[0]; barrier(CLK_LOCAL_MEM_FENCE);
  float a = 0; for (uint i = t; i < n; i += 256) { float v = exp(x[r + i] - m); e[i] = v; a += v; }
  p[t] = a; barrier(CLK_LOCAL_MEM_FENCE); TREE(p[t] + p[t + s])
  float k = 1.0f / p[0]; for (uint i = t; i < n; i += 256) y[r + i] = e[i] * k;
}
kernel void rms_norm(global const float* x, global const float* w, global float* y, uint n) {
  local float p[256];
  uint t = get_local_id(0); size_t r = get_group_id(0) * (size_t)n;
  float a = 0; for (uint i = t; i < n; i += 256) a += x[r + i] * x[r + i];
  p[t] = a; barrier(CLK_LOCAL_MEM_FENCE); TREE(p[t] + p[t + s])
  float k = 1.0f / sqrt(p[0] / n + 1e-5f); for (uint i = t; i < n; i += 256) y[r + i] = x[r + i] * k * w[i];
}
kernel void layer_norm(global const float* x, global const float* w, global const float* b, global float* y, uint n) {
  local float p[256];
  uint t = get_local_id(0); size_t r = get_group_id(0) * (size_t)n;
  float a = 0; for (uint i = t; i < n; i += 256) a += x[r + i];
  p[t] = a; barrier(CLK_LOCAL_MEM_FENCE); TREE(p[t] + p[t + s]) float m = p[0] / n; barrier(CLK_LOCAL_MEM_FENCE);
  a = 0; for (uint i = t; i < n; i += 256) { float d = x[r + i] - m; a += d * d; }
  p[t] = a; barrier(CLK_LOCAL_MEM_FENCE); TREE(p[t] + p[t + s])
  float k = 1.0f / sqrt(p[0] / n + 1e-5f); for (uint i = t; i < n; i += 256) y[r + i] = (x[r + i] - m) * k * w[i] + b[i];
}
)";

std::vector<Library> matrix_libraries() {
  std::vector<Library> out;
  for (const char* file : {"libopenblas.so.0", "libopenblas.so"}) {
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    using Gemm = void (*)(int, int, int, int, int, int, f32, const f32*, int, const f32*, int, f32, f32*, int);
    const auto gemm = symbol<Gemm>(library, "cblas_sgemm");
    const auto threads = symbol<void (*)(int)>(library, "openblas_set_num_threads");
    const auto core = symbol<char* (*)()>(library, "openblas_get_corename");
    if (!gemm) continue;
    if (threads) threads(1);
    out.push_back({fmt::format("OpenBLAS ({})", core ? core() : "?"),
                   [gemm](u32 m, u32 n, u32 k, const f32* a, const f32* b, f32* c) {
                     constexpr int row_major = 101, plain = 111;
                     const int w = static_cast<int>(n), d = static_cast<int>(k);
                     gemm(row_major, plain, plain, static_cast<int>(m), w, d, 1, a, d, b, w, 0, c, w);
                   }});
    break;
  }
  setenv("OMP_NUM_THREADS", "1", 1);
  for (const char* file : {"libdnnl.so.3", "libdnnl.so.2"}) {
    void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    using Gemm = int (*)(char, char, i64, i64, i64, f32, const f32*, i64, const f32*, i64, f32, f32*, i64);
    const auto gemm = symbol<Gemm>(library, "dnnl_sgemm");
    struct Version {
      int major, minor, patch;
    };
    const auto version = symbol<const Version* (*)()>(library, "dnnl_version");
    if (!gemm || !version) continue;
    out.push_back({fmt::format("oneDNN {}.{}", version()->major, version()->minor),
                   [gemm](u32 m, u32 n, u32 k, const f32* a, const f32* b, f32* c) {
                     gemm('N', 'N', m, n, k, 1, a, k, b, n, 0, c, n);
                   }});
    break;
  }
  return out;
}

}  // namespace iron::perf
