// Memory, compiled kernels, launches and time on one NVIDIA GPU.
#include "runtime/cuda/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>

#include "ir/text.h"
#include "iron/error.h"
#include "runtime/cuda/compile.h"
#include "runtime/cuda/driver.h"

namespace iron::runtime::cuda {

namespace {
/// The disassembly of a cubin by nvdisasm or cuobjdump where one is on the PATH, else empty.
std::string disassemble(const std::vector<char>& cubin) {
  const auto file = std::filesystem::temp_directory_path() /
                    fmt::format("iron-{}-{:x}.cubin", getpid(), reinterpret_cast<std::uintptr_t>(cubin.data()));
  std::ofstream(file, std::ios::binary).write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
  std::string out;
  for (const char* tool : {"nvdisasm -c", "cuobjdump -sass"}) {
    FILE* pipe = popen(fmt::format("{} '{}' 2>/dev/null", tool, file.string()).c_str(), "r");
    if (!pipe) continue;
    char buffer[4096];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    if (pclose(pipe) == 0 && !out.empty()) break;
    out.clear();
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return out;
}

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(const Driver& d, const ir::Kernel& k, Dim3 threads, CompiledKernel compiled)
      : driver_(d), kernel_(k), threads_(threads), compiled_(std::move(compiled)) {
    d.check(d.ModuleLoadData(&module_, compiled_.binary.cubin.data()), fmt::format("loading kernel {}", k.name));
    d.check(d.ModuleGetFunction(&function_, module_, compiled_.source.entry.c_str()),
            fmt::format("finding kernel {}", k.name));
    const u64 dynamic = compiled_.source.dynamic_shared_bytes;
    if (dynamic > 0)
      d.check(d.FuncSetAttribute(function_, attribute::function_max_dynamic_shared, static_cast<int>(dynamic)),
              fmt::format("kernel {} asks for {} bytes of threadgroup memory", k.name, dynamic));
  }
  ~CudaExecutable() override { driver_.ModuleUnload(module_); }
  CudaExecutable(const CudaExecutable&) = delete;
  CudaExecutable& operator=(const CudaExecutable&) = delete;

  const ir::Kernel& kernel() const override { return kernel_; }
  std::string stage(std::string_view name) const override {
    if (name == "cuda") return compiled_.source.text;
    if (name == "ptx") return compiled_.binary.ptx;
    if (name == "sass") return disassemble(compiled_.binary.cubin);
    if (name == "log") return compiled_.binary.log;
    return {};
  }
  std::vector<std::pair<std::string, double>> resources() const override {
    const auto value = [&](int which) {
      int v = 0;
      driver_.check(driver_.FuncGetAttribute(&v, which, function_), "reading a kernel's attributes");
      return v;
    };
    int groups = 0;
    const int n = static_cast<int>(threads_.count());
    driver_.check(driver_.Occupancy(&groups, function_, n, compiled_.source.dynamic_shared_bytes),
                  "asking for occupancy");
    const auto report = ptxas_report(compiled_.binary.log);
    return {{"registers", value(attribute::function_registers)},
            {"local_bytes", value(attribute::function_local)},
            {"spill_bytes", std::max(report.spill_store_bytes, 0) + std::max(report.spill_load_bytes, 0)},
            {"shared_bytes",
             static_cast<double>(compiled_.source.static_shared_bytes + compiled_.source.dynamic_shared_bytes)},
            {"groups_per_unit", groups},
            {"occupancy", groups * n / 2048.0}};
  }

  CUfunction function() const { return function_; }
  Dim3 threads() const { return threads_; }
  const emit::Source& source() const { return compiled_.source; }
  bool from_cache() const { return compiled_.from_cache; }

 private:
  const Driver& driver_;
  ir::Kernel kernel_;
  Dim3 threads_;
  CompiledKernel compiled_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

/// Values of a kernel's parameters and the addresses that the driver wants.
class Arguments {
 public:
  Arguments(const CudaExecutable& exe, const LaunchGeometry& geometry, std::span<const LaunchArg> args) {
    const auto& k = exe.kernel();
    if (args.size() != k.params.size())
      throw Error("D25", fmt::format("kernel {} takes {} arguments, not {}", k.name, k.params.size(), args.size()));
    for (const auto& slot : exe.source().args) {
      switch (slot.kind) {
        case emit::ArgSlot::pointer:
          values_.push_back(reinterpret_cast<std::uintptr_t>(args[slot.param].data));
          break;
        case emit::ArgSlot::scalar:
          values_.push_back(args[slot.param].scalar);
          break;
        case emit::ArgSlot::length:
          values_.push_back(args[slot.param].bytes / dtype_size(k.params[slot.param].elem));
          break;
        case emit::ArgSlot::items:
          values_.push_back(geometry.items);
          break;
      }
    }
    // Little-endian: a narrower parameter is the value's first bytes.
    for (auto& v : values_) pointers_.push_back(&v);
  }
  Arguments(const Arguments&) = delete;
  void** data() { return pointers_.data(); }

 private:
  std::vector<u64> values_;
  std::vector<void*> pointers_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int ordinal) : driver_(Driver::get()) {
    int count = 0;
    driver_.check(driver_.DeviceGetCount(&count), "counting devices");
    if (ordinal < 0 || ordinal >= count)
      throw Error("CUDA13", fmt::format("there is no CUDA device {}: {} are here", ordinal, count),
                  "check CUDA_VISIBLE_DEVICES");
    CUdevice device = 0;
    driver_.check(driver_.DeviceGet(&device, ordinal), "opening a device");
    driver_.check(driver_.PrimaryCtxRetain(&context_, device), "starting the device");
    enter();
    driver_.check(driver_.StreamCreate(&stream_, 1), "creating a stream");  // 1: does not wait for the default stream
    describe(device);
  }

  const DeviceInfo& info() const override { return info_; }

  void* allocate(u64 bytes) override {
    enter();
    CUdeviceptr data = 0;
    driver_.check(driver_.MemAllocAsync(&data, bytes ? bytes : 1, stream_),
                  fmt::format("allocating {} bytes on {}", bytes, info_.name));
    return reinterpret_cast<void*>(static_cast<std::uintptr_t>(data));
  }
  void release(void* data) override {
    enter();
    if (data) driver_.check(driver_.MemFreeAsync(address(data), stream_), "releasing memory");
  }
  void upload(void* to, const void* from, u64 bytes) override {
    enter();
    if (!bytes) return;
    driver_.check(driver_.MemcpyHtoDAsync(address(to), from, bytes, stream_), "copying to the device");
    synchronize();  // the caller may reuse its memory at once
  }
  void download(void* to, const void* from, u64 bytes) override {
    enter();
    if (!bytes) return;
    driver_.check(driver_.MemcpyDtoHAsync(to, address(from), bytes, stream_), "copying from the device");
    synchronize();
  }
  void fill(void* to, u8 byte, u64 bytes) override {
    enter();
    if (bytes) driver_.check(driver_.MemsetD8Async(address(to), byte, bytes, stream_), "filling memory");
  }

  std::shared_ptr<Executable> prepare(const ir::Kernel& optimised, Dim3 threads) override {
    enter();
    const Hash128 key = hash128(fmt::format("{} {} {}\n{}", threads.x, threads.y, threads.z, ir::print(optimised)));
    const std::lock_guard lock(mutex_);
    if (const auto it = prepared_.find(key); it != prepared_.end()) return it->second;
    auto exe = std::make_shared<CudaExecutable>(driver_, optimised, threads,
                                                compile_cubin(optimised, threads, info_.architecture, &cache_));
    prepared_.emplace(key, exe);
    return exe;
  }

  void launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
              std::span<const LaunchArg> args) override {
    enter();
    const auto& e = own(exe);
    Arguments arguments(e, geometry, args);
    start(e, geometry, arguments);
  }

  void synchronize() override {
    enter();
    driver_.check(driver_.StreamSynchronize(stream_), "waiting for the device");
  }

  double time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                       std::span<const std::vector<LaunchArg>> rotating_args, u32 count) override {
    enter();
    if (rotating_args.empty() || count == 0) return 0;
    const auto& e = own(exe);
    std::vector<std::unique_ptr<Arguments>> sets;
    for (const auto& args : rotating_args) sets.push_back(std::make_unique<Arguments>(e, geometry, args));
    const auto all = [&] {
      for (u32 i = 0; i < count; ++i) start(e, geometry, *sets[i % sets.size()]);
    };
    // Below 20 us a launch, the host's submissions would be what is timed: then one graph holds them all.
    const double direct = timed(all);
    if (direct > count * 20e-6) return direct;
    CUgraph graph = nullptr;
    CUgraphExec replay = nullptr;
    driver_.check(driver_.StreamBeginCapture(stream_, 1), "recording a graph");  // 1: this thread's calls only
    all();
    driver_.check(driver_.StreamEndCapture(stream_, &graph), "recording a graph");
    driver_.check(driver_.GraphInstantiate(&replay, graph, 0), "building a graph");
    const auto once = [&] { driver_.check(driver_.GraphLaunch(replay, stream_), "replaying a graph"); };
    once();  // the first replay uploads it
    const double seconds = timed(once);
    driver_.GraphExecDestroy(replay);
    driver_.GraphDestroy(graph);
    return seconds;
  }

 private:
  static CUdeviceptr address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
  void enter() const { driver_.check(driver_.CtxSetCurrent(context_), "entering the device"); }

  void describe(CUdevice device) {
    const auto value = [&](int which) {
      int v = 0;
      driver_.check(driver_.DeviceGetAttribute(&v, which, device), "reading a device's attributes");
      return v;
    };
    char name[256] = {};
    driver_.check(driver_.DeviceGetName(name, sizeof name - 1, device), "reading a device's name");
    std::size_t memory = 0;
    driver_.check(driver_.DeviceTotalMem(&memory, device), "reading a device's memory");
    const auto& profile = target::cuda_profile(value(attribute::compute_major), value(attribute::compute_minor));
    info_.backend = "cuda";
    info_.name = name;
    info_.api = fmt::format("CUDA driver {}.{}", driver_.version / 1000, driver_.version % 1000 / 10);
    info_.architecture = profile.name;
    info_.units = static_cast<u32>(value(attribute::multiprocessor_count));
    info_.max_threads_per_group = static_cast<u32>(value(attribute::max_threads_per_block));
    info_.shared_bytes = static_cast<u64>(value(attribute::shared_optin));
    info_.memory_bytes = memory;
    info_.cache_bytes = static_cast<u64>(value(attribute::l2_bytes));
    for (const auto a : profile.atoms.atoms()) info_.features.emplace_back(target::name(a));
  }

  static const CudaExecutable& own(const std::shared_ptr<Executable>& exe) {
    const auto* e = dynamic_cast<const CudaExecutable*>(exe.get());
    if (!e)
      throw Error("CUDA14", "a kernel that was not prepared for a CUDA device is launched on one",
                  "prepare it on this device");
    return *e;
  }

  void start(const CudaExecutable& e, const LaunchGeometry& g, Arguments& arguments) const {
    if (g.threads != e.threads())
      throw Error("D02",
                  fmt::format("kernel {} was prepared for threadgroups of {} x {} x {} threads, not {} x {} x {}",
                              e.kernel().name, e.threads().x, e.threads().y, e.threads().z, g.threads.x, g.threads.y,
                              g.threads.z));
    if (g.groups.count() == 0) return;
    driver_.check(driver_.LaunchKernel(e.function(), g.groups.x, g.groups.y, g.groups.z, g.threads.x, g.threads.y,
                                       g.threads.z, static_cast<unsigned>(e.source().dynamic_shared_bytes), stream_,
                                       arguments.data(), nullptr),
                  fmt::format("launching kernel {}", e.kernel().name));
  }

  template <class F>
  double timed(F&& work) const {
    CUevent begin = nullptr, end = nullptr;
    driver_.check(driver_.EventCreate(&begin, 0), "creating an event");
    driver_.check(driver_.EventCreate(&end, 0), "creating an event");
    driver_.check(driver_.EventRecord(begin, stream_), "recording an event");
    work();
    driver_.check(driver_.EventRecord(end, stream_), "recording an event");
    driver_.check(driver_.EventSynchronize(end), "waiting for an event");
    float ms = 0;
    driver_.check(driver_.EventElapsedTime(&ms, begin, end), "reading the device's clock");
    driver_.EventDestroy(begin);
    driver_.EventDestroy(end);
    return ms * 1e-3;
  }

  const Driver& driver_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  DeviceInfo info_;
  DiskCache cache_;
  std::mutex mutex_;
  std::map<Hash128, std::shared_ptr<Executable>> prepared_;
};
}  // namespace

std::unique_ptr<Backend> open_device(int ordinal) { return std::make_unique<CudaBackend>(ordinal); }

bool device_available(std::string* why) {
  if (!Driver::available(why)) return false;
  int count = 0;
  if (Driver::get().DeviceGetCount(&count) == 0 && count > 0) return true;
  if (why) *why = "the driver sees no device";
  return false;
}

}  // namespace iron::runtime::cuda
