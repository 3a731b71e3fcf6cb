// Memory, compiled kernels, launches and time on one NVIDIA GPU.
#include "runtime/cuda/device.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/text.h"
#include "iron/error.h"
#include "runtime/cuda/backend.h"

namespace iron::runtime::cuda {

namespace {
CUdeviceptr address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

CUdevice find_device(const Driver& d, int ordinal) {
  int count = 0;
  d.check(d.DeviceGetCount(&count), "counting devices");
  if (ordinal < 0 || ordinal >= count)
    throw Error("CUDA13", fmt::format("there is no CUDA device {}: {} are here", ordinal, count),
                "check CUDA_VISIBLE_DEVICES");
  CUdevice device = 0;
  d.check(d.DeviceGet(&device, ordinal), "opening a device");
  return device;
}
CUcontext start_device(const Driver& d, CUdevice device) {
  CUcontext context = nullptr;
  d.check(d.PrimaryCtxRetain(&context, device), "starting the device");
  d.check(d.CtxSetCurrent(context), "entering the device");
  return context;
}
}  // namespace

CudaBackend::CudaBackend(int ordinal)
    : driver_(Driver::get()),
      device_(find_device(driver_, ordinal)),
      context_(start_device(driver_, device_)),
      pool_(driver_, device_) {
  driver_.check(driver_.StreamCreate(&stream_, 1), "creating a stream");  // 1: does not wait for the default stream
  describe(device_);
  info_.ordinal = static_cast<u32>(ordinal);
}

// --- memory

void* CudaBackend::allocate(u64 bytes) {
  enter();
  ++allocations_;
  return pool_.allocate(bytes, stream_);
}

void CudaBackend::release(void* data) {
  if (!data) return;
  enter();
  // Other streams may still use it: the device's own stream, in whose order it is given away, waits for them.
  {
    const std::lock_guard lock(mutex_);
    for (CudaStream* s : streams_)
      if (s->take_used()) order(s->get(), stream_);
  }
  pool_.release(data, stream_);
}
PoolUse CudaBackend::pool_use() {
  enter();
  return pool_.use();
}
void CudaBackend::trim_pool() {
  synchronize();
  pool_.trim();
}

void CudaBackend::order(CUstream from, CUstream to) const {
  CUevent event = nullptr;
  driver_.check(driver_.EventCreate(&event, 2), "creating an event");  // 2: without a time
  driver_.check(driver_.EventRecord(event, from), "recording an event");
  driver_.check(driver_.StreamWaitEvent(to, event, 0), "waiting for an event");
  driver_.check(driver_.EventDestroy(event), "ending an event");  // the driver keeps it until it has passed
}

void CudaBackend::upload(void* to, const void* from, u64 bytes) {
  enter();
  if (!bytes) return;
  driver_.check(driver_.MemcpyHtoDAsync(address(to), from, bytes, stream_), "copying to the device");
  driver_.check(driver_.StreamSynchronize(stream_),
                "copying to the device");  // the caller may reuse its memory at once
}
void CudaBackend::download(void* to, const void* from, u64 bytes) {
  enter();
  if (!bytes) return;
  driver_.check(driver_.MemcpyDtoHAsync(to, address(from), bytes, stream_), "copying from the device");
  driver_.check(driver_.StreamSynchronize(stream_), "copying from the device");
}
void CudaBackend::fill(void* to, u8 byte, u64 bytes) {
  enter();
  if (bytes) driver_.check(driver_.MemsetD8Async(address(to), byte, bytes, stream_), "filling memory");
}

// --- kernels

namespace {
Hash128 prepared_key(const ir::Kernel& optimised, Dim3 threads) {
  return hash128(fmt::format("{} {} {}\n{}", threads.x, threads.y, threads.z, ir::print(optimised)));
}
}  // namespace

std::shared_ptr<Executable> CudaBackend::prepare(const ir::Kernel& optimised, Dim3 threads) {
  enter();
  const Hash128 key = prepared_key(optimised, threads);
  const std::lock_guard lock(mutex_);
  if (const auto it = prepared_.find(key); it != prepared_.end()) return it->second;
  auto exe = std::make_shared<CudaExecutable>(
      driver_, optimised, threads, compile_cubin(optimised, threads, info_.architecture, &cache_, options()));
  prepared_.emplace(key, exe);
  return exe;
}

void CudaBackend::adopt(const ir::Kernel& optimised, Dim3 threads, CompiledKernel compiled) {
  enter();
  auto exe = std::make_shared<CudaExecutable>(driver_, optimised, threads, std::move(compiled));
  const std::lock_guard lock(mutex_);
  prepared_.insert_or_assign(prepared_key(optimised, threads), std::move(exe));
}

const CudaExecutable& CudaBackend::own_kernel(const std::shared_ptr<Executable>& exe) {
  const auto* e = dynamic_cast<const CudaExecutable*>(exe.get());
  if (!e)
    throw Error("CUDA14", "a kernel that was not prepared for a CUDA device is launched on one",
                "prepare it on this device");
  return *e;
}

void CudaBackend::start(const CudaExecutable& e, const LaunchGeometry& g, Arguments& arguments, CUstream stream,
                        bool overlap) const {
  if (g.threads != e.threads())
    throw Error("D02", fmt::format("kernel {} was prepared for threadgroups of {} x {} x {} threads, not {} x {} x {}",
                                   e.kernel().name, e.threads().x, e.threads().y, e.threads().z, g.threads.x,
                                   g.threads.y, g.threads.z));
  if (g.groups.count() == 0) return;
  LaunchConfig config;
  const Dim3 grid = e.grid(g.groups);
  config.grid[0] = grid.x, config.grid[1] = grid.y, config.grid[2] = grid.z;
  config.block[0] = g.threads.x, config.block[1] = g.threads.y, config.block[2] = g.threads.z;
  config.shared_bytes = static_cast<unsigned>(e.source().dynamic_shared_bytes);
  config.stream = stream;
  LaunchAttribute attributes[1];
  config.attributes = attributes;
  if (overlap && e.source().awaits_predecessor)
    attributes[config.attribute_count++] = {LaunchAttribute::programmatic_serialization, {}, {1}};
  driver_.check(driver_.LaunchKernelEx(&config, e.function(), arguments.data(), nullptr),
                fmt::format("launching kernel {}", e.kernel().name));
}

void CudaBackend::launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                         std::span<const LaunchArg> args) {
  enter();
  const auto& e = own_kernel(exe);
  Arguments arguments(e, geometry, args);
  start(e, geometry, arguments, stream_);
}

void CudaBackend::synchronize() {
  enter();
  driver_.check(driver_.StreamSynchronize(stream_), "waiting for the device");
  const std::lock_guard lock(mutex_);
  for (CudaStream* s : streams_) driver_.check(driver_.StreamSynchronize(s->get()), "waiting for a stream");
}

// --- streams and graphs

std::unique_ptr<Stream> CudaBackend::make_stream() {
  auto s = std::make_unique<CudaStream>(*this);
  const std::lock_guard lock(mutex_);
  streams_.push_back(s.get());
  return s;
}
std::unique_ptr<Stream> CudaBackend::wrap_stream(void* native) {
  return std::make_unique<CudaStream>(*this, static_cast<CUstream>(native));
}
void CudaBackend::forget(CudaStream& stream) {
  enter();
  // What it has in flight stays ordered before memory that is given away later.
  if (stream.take_used()) order(stream.get(), stream_);
  const std::lock_guard lock(mutex_);
  std::erase(streams_, &stream);
}
std::unique_ptr<Graph> CudaBackend::build_graph(std::vector<Launch> launches) {
  return std::make_unique<CudaGraph>(*this, std::move(launches));
}

// --- time

double CudaBackend::time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                                  std::span<const std::vector<LaunchArg>> rotating_args, u32 count) {
  enter();
  if (rotating_args.empty() || count == 0) return 0;
  const auto timed = [&](const auto& work) {
    const CudaEvent begin(*this, stream_);
    work();
    return CudaEvent(*this, stream_).seconds_since(begin);
  };
  const double direct = timed([&] {
    for (u32 i = 0; i < count; ++i) launch(exe, geometry, rotating_args[i % rotating_args.size()]);
  });
  // Below 20 us a launch, the host's submissions would be what is timed: then one graph holds them all.
  if (direct > count * 20e-6) return direct;
  std::vector<Launch> launches;
  for (u32 i = 0; i < count; ++i) launches.push_back({exe, geometry, rotating_args[i % rotating_args.size()]});
  const CudaGraph graph(*this, std::move(launches));
  graph.replay(stream_);  // the first replay sets it up
  return timed([&] { graph.replay(stream_); });
}

// --- what the device is

std::string CudaBackend::pci() const {
  char text[32] = {};
  driver_.check(driver_.DeviceGetPCIBusId(text, sizeof text - 1, device_), "reading a device's place");
  return text;
}

void CudaBackend::describe(CUdevice device) {
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

std::unique_ptr<Backend> open_device(int ordinal) { return std::make_unique<CudaBackend>(ordinal); }

bool device_available(std::string* why) {
  if (!Driver::available(why)) return false;
  int count = 0;
  if (Driver::get().DeviceGetCount(&count) == 0 && count > 0) return true;
  if (why) *why = "the driver sees no device";
  return false;
}

}  // namespace iron::runtime::cuda
