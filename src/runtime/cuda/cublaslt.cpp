// Search, declarations and use of cuBLASLt.
#include "runtime/cuda/cublaslt.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "iron/error.h"
#include "runtime/cuda/backend.h"
#include "runtime/cuda/places.h"

namespace iron::runtime::cuda {

namespace {
using Status = int;
// Numbers of the library's ABI.
constexpr int compute_32f = 68, real_32f = 0;
constexpr int desc_transpose_a = 3, desc_fast_accumulation = 25;
constexpr int preference_workspace = 1, preference_reductions = 3;
constexpr int config_split_k = 2, config_reduction = 3;
constexpr u32 reduce_in_place = 1, reduce_any = 7;

int data_type(DType t, bool e4m3) {
  switch (t) {
    case DType::f32:
      return real_32f;
    case DType::f16:
      return 2;
    case DType::bf16:
      return 14;
    case DType::u8:
      if (e4m3) return 28;
      break;
    default:
      break;
  }
  throw Error("CUDA07", fmt::format("cuBLASLt's product is not compared for {}", dtype_name(t)),
              "use f32, f16, bf16 or E4M3");
}
}  // namespace

struct CublasLt::Api {
  std::size_t (*version)();
  const char* (*status_string)(Status);
  Status (*create)(void**);
  Status (*destroy)(void*);
  Status (*desc_create)(void**, int, int);
  Status (*desc_destroy)(void*);
  Status (*desc_set)(void*, int, const void*, std::size_t);
  Status (*layout_create)(void**, int, u64, u64, i64);
  Status (*layout_destroy)(void*);
  Status (*preference_create)(void**);
  Status (*preference_destroy)(void*);
  Status (*preference_set)(void*, int, const void*, std::size_t);
  Status (*heuristic)(void*, void*, void*, void*, void*, void*, void*, int, void*, int*);
  Status (*config_get)(const void*, int, void*, std::size_t, std::size_t*);
  Status (*matmul)(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*,
                   void*, void*, const void*, void*, std::size_t, CUstream);
};

CublasLt::CublasLt() {
  static constexpr const char *files[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                              *packages[] = {"cublas", "cu13"};
  std::string why;
  const auto places = library_places("IRON_CUBLASLT", files, packages);
  library_ = DynamicLibrary::open(places, &why);
  if (!library_)
    throw Error("CUDA05", "cuBLASLt, which products are compared with, was not found: " + why,
                "install the CUDA toolkit or `pip install nvidia-cublas`, or set IRON_CUBLASLT to the path of "
                "libcublasLt.so");
  auto api = std::make_unique<Api>();
  const auto bind = [&](auto& function, const char* symbol) {
    void* address = library_.symbol(symbol);
    if (!address) throw Error("CUDA05", fmt::format("{} has no {}", path(), symbol), "use cuBLASLt 12 or newer");
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(address);
  };
  bind(api->version, "cublasLtGetVersion");
  bind(api->status_string, "cublasLtGetStatusString");
  bind(api->create, "cublasLtCreate");
  bind(api->destroy, "cublasLtDestroy");
  bind(api->desc_create, "cublasLtMatmulDescCreate");
  bind(api->desc_destroy, "cublasLtMatmulDescDestroy");
  bind(api->desc_set, "cublasLtMatmulDescSetAttribute");
  bind(api->layout_create, "cublasLtMatrixLayoutCreate");
  bind(api->layout_destroy, "cublasLtMatrixLayoutDestroy");
  bind(api->preference_create, "cublasLtMatmulPreferenceCreate");
  bind(api->preference_destroy, "cublasLtMatmulPreferenceDestroy");
  bind(api->preference_set, "cublasLtMatmulPreferenceSetAttribute");
  bind(api->heuristic, "cublasLtMatmulAlgoGetHeuristic");
  bind(api->config_get, "cublasLtMatmulAlgoConfigGetAttribute");
  bind(api->matmul, "cublasLtMatmul");
  api_ = api.release();  // lives as long as the process, like the library
}

const CublasLt& CublasLt::get() {
  static const CublasLt library;
  return library;
}

bool CublasLt::available(std::string* why) { return opens<CublasLt>(why); }

std::string CublasLt::version() const {
  const auto v = api_->version();
  return fmt::format("{}.{}.{}", v / 10000, v % 10000 / 100, v % 100);
}

VendorOptions vendor_options() {
  const auto word = [](const char* variable) {
    const char* text = std::getenv(variable);
    return std::string_view(text ? text : "");
  };
  VendorOptions o;
  const auto atomics = word("IRON_GEMM_ATOMICS");
  if (!atomics.empty() && atomics != "0" && atomics != "1")
    throw Error("CUDA06", fmt::format("IRON_GEMM_ATOMICS is '{}'", atomics), "use 0 or 1");
  o.atomics = atomics == "1";
  if (const auto text = word("IRON_GEMM_ALGO"); !text.empty()) {
    u32 number = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (problem != std::errc{} || end != text.data() + text.size())
      throw Error("CUDA06", fmt::format("IRON_GEMM_ALGO is '{}'", text),
                  "use the number of an algorithm in cuBLASLt's list for the shape, from 0");
    o.algorithm = number;
  }
  return o;
}

void VendorGemm::check(int status, std::string_view what) const {
  if (status == 0) return;
  const char* text = library_.api().status_string(status);
  throw Error("CUDA07", fmt::format("cuBLASLt: {}, product of {} x {} by {} x {}: {}", what, problem_.m, problem_.k,
                                    problem_.k, problem_.n, text ? text : std::to_string(status)));
}

VendorGemm::VendorGemm(CudaBackend& device, const VendorProblem& problem, const VendorOptions& options)
    : device_(device), library_(CublasLt::get()), problem_(problem) {
  if (problem.e4m3 && !problem.weight_major)
    throw Error("CUDA07", "cuBLASLt multiplies E4M3 only where both operands run along k", "give B as [N, K]");
  device_.enter();
  try {
    check(library_.api().create(&handle_), "starting");
    make_layouts();
    ask_heuristic(options);
    workspace_ = device_.allocate(workspace_bytes);
  } catch (...) {
    destroy();
    throw;
  }
}

// Column-major sees the transposes: C^T [N, M] = B^T [N, K] * A^T [K, M].
void VendorGemm::make_layouts() {
  const auto& api = library_.api();
  const auto& p = problem_;
  check(api.desc_create(&operation_, compute_32f, real_32f), "making the operation");
  if (p.weight_major) {
    const int transposed = 1;
    check(api.desc_set(operation_, desc_transpose_a, &transposed, sizeof transposed), "transposing B");
  }
  if (p.e4m3) {
    const i8 fast = 1;
    check(api.desc_set(operation_, desc_fast_accumulation, &fast, sizeof fast), "choosing the accumulation");
  }
  const int in = data_type(p.input, p.e4m3), out = data_type(p.output, false);
  const u64 b_rows = p.weight_major ? p.k : p.n, b_columns = p.weight_major ? p.n : p.k;
  check(api.layout_create(&layouts_[0], in, b_rows, b_columns, static_cast<i64>(b_rows)), "describing B");
  check(api.layout_create(&layouts_[1], in, p.k, p.m, p.k), "describing A");
  check(api.layout_create(&layouts_[2], out, p.n, p.m, p.n), "describing C");
}

void VendorGemm::ask_heuristic(const VendorOptions& options) {
  const auto& api = library_.api();
  void* preference = nullptr;
  check(api.preference_create(&preference), "making preferences");
  const u32 reductions = options.atomics ? reduce_any : reduce_any & ~reduce_in_place;
  std::vector<Result> found(most_algorithms);
  int count = 0;
  Status status = api.preference_set(preference, preference_workspace, &workspace_bytes, sizeof workspace_bytes);
  if (status == 0) status = api.preference_set(preference, preference_reductions, &reductions, sizeof reductions);
  if (status == 0)
    status = api.heuristic(handle_, operation_, layouts_[0], layouts_[1], layouts_[2], layouts_[2], preference,
                           most_algorithms, found.data(), &count);
  api.preference_destroy(preference);
  check(status, "asking for algorithms");
  listed_ = static_cast<u32>(count);
  for (u32 i = 0; i < listed_; ++i)
    if (found[i].state == 0 && (!options.algorithm || *options.algorithm == i))
      results_.push_back(found[i]), numbers_.push_back(i);
  if (results_.empty() && options.algorithm)
    throw Error("CUDA07",
                fmt::format("IRON_GEMM_ALGO is {}, cuBLASLt proposes {} algorithms for {} x {} x {}",
                            *options.algorithm, listed_, problem_.m, problem_.n, problem_.k),
                "use a smaller number, from 0");
  if (results_.empty())
    throw Error("CUDA07",
                fmt::format("cuBLASLt has no algorithm for {} x {} x {}", problem_.m, problem_.n, problem_.k));
}

void VendorGemm::destroy() {
  const auto& api = library_.api();
  if (workspace_) device_.release(workspace_);
  for (void* layout : layouts_)
    if (layout) api.layout_destroy(layout);
  if (operation_) api.desc_destroy(operation_);
  if (handle_) api.destroy(handle_);
}

VendorGemm::~VendorGemm() { destroy(); }

std::string VendorGemm::describe(u32 which) const {
  const auto& api = library_.api();
  const auto config = [&](int key) {
    u32 value = 0;
    std::size_t written = 0;
    return api.config_get(results_[which].algorithm.data(), key, &value, sizeof value, &written) == 0 ? value : 0;
  };
  std::string text = fmt::format("cuBLASLt {}, algorithm {} of {}", library_.version(), numbers_[which], listed_);
  if (const u32 splits = config(config_split_k); splits > 1)
    text += fmt::format(", split-k {} {}", splits,
                        config(config_reduction) == reduce_in_place ? "in place" : "in the workspace");
  return text;
}

bool VendorGemm::launch(u32 which, const void* a, const void* b, void* c, CUstream stream) const {
  const f32 beta = 0;
  return library_.api().matmul(handle_, operation_, &problem_.scale, b, layouts_[0], a, layouts_[1], &beta, c,
                               layouts_[2], c, layouts_[2], results_[which].algorithm.data(), workspace_,
                               workspace_bytes, stream) == 0;
}

}  // namespace iron::runtime::cuda
