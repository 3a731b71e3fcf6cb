// Declarations of NVML and the sampling thread.
#include "runtime/cuda/nvml.h"

#include <fmt/format.h>

#include <memory>

namespace iron::runtime::cuda {

namespace {
using Result = int;
// Numbers of the library's ABI.
constexpr int clock_of_multiprocessors = 1;
constexpr unsigned field_instant_power = 186;
/// nvmlFieldValue_t: the value is a union of 8 bytes, here an unsigned int of milliwatts.
struct FieldValue {
  unsigned field = 0, scope = 0;
  i64 timestamp = 0, latency = 0;
  int type = 0;
  Result result = 0;
  u64 value = 0;
};
static_assert(sizeof(FieldValue) == 40);
}  // namespace

struct GpuSampler::Api {
  Result (*init)() = nullptr;
  Result (*shutdown)() = nullptr;
  Result (*by_pci)(const char*, void**) = nullptr;
  Result (*clock)(void*, int, unsigned*) = nullptr;
  Result (*power)(void*, unsigned*) = nullptr;          ///< a mean over a second on newer GPUs
  Result (*fields)(void*, int, FieldValue*) = nullptr;  ///< optional: has the power of now
  const char* (*error_string)(Result) = nullptr;
};

GpuSampler::GpuSampler(const std::string& pci) : api_(std::make_unique<Api>()) {
  open(pci);
  if (absent_.empty()) thread_ = std::thread([this] { run(); });
}

void GpuSampler::open(const std::string& pci) {
  std::string why;
  const std::vector<std::string> names{"libnvidia-ml.so.1"};
  library_ = DynamicLibrary::open(names, &why);
  if (!library_) {
    absent_ = "NVML was not found: " + why;
    return;
  }
  const auto bind = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library_.symbol(symbol));
    if (!function && absent_.empty()) absent_ = fmt::format("NVML has no {}", symbol);
  };
  bind(api_->init, "nvmlInit_v2");
  bind(api_->shutdown, "nvmlShutdown");
  bind(api_->by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
  bind(api_->clock, "nvmlDeviceGetClockInfo");
  bind(api_->power, "nvmlDeviceGetPowerUsage");
  bind(api_->error_string, "nvmlErrorString");
  if (!absent_.empty()) return;
  api_->fields = reinterpret_cast<decltype(api_->fields)>(library_.symbol("nvmlDeviceGetFieldValues"));
  const auto failed = [&](Result r, const char* what) {
    if (r != 0) absent_ = fmt::format("NVML {}: {}", what, api_->error_string(r));
    return r != 0;
  };
  if (failed(api_->init(), "does not start")) return;
  if (failed(api_->by_pci(pci.c_str(), &device_), ("does not know the device at " + pci).c_str())) api_->shutdown();
}

GpuSampler::~GpuSampler() {
  if (!thread_.joinable()) return;
  stop_ = true;
  thread_.join();
  api_->shutdown();
}

void GpuSampler::run() {
  while (!stop_) {
    Sample s;
    unsigned mhz = 0, milliwatts = 0;
    if (api_->clock(device_, clock_of_multiprocessors, &mhz) == 0) s.mhz = mhz;
    FieldValue instant;
    instant.field = field_instant_power;
    if (api_->fields && api_->fields(device_, 1, &instant) == 0 && instant.result == 0)
      s.watts = static_cast<f64>(instant.value & 0xffffffffu) * 1e-3;
    else if (api_->power(device_, &milliwatts) == 0)
      s.watts = milliwatts * 1e-3;
    s.at = Clock::now();
    {
      const std::lock_guard lock(mutex_);
      samples_.push_back(s);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

GpuSampler::Mean GpuSampler::between(Clock::time_point from, Clock::time_point to) const {
  const std::lock_guard lock(mutex_);
  f64 mhz = 0, watts = 0;
  int clocks = 0, powers = 0;
  for (const auto& s : samples_) {
    if (s.at < from || s.at > to) continue;
    if (s.mhz) mhz += *s.mhz, ++clocks;
    if (s.watts) watts += *s.watts, ++powers;
  }
  Mean m;
  if (clocks) m.mhz = mhz / clocks;
  if (powers) m.watts = watts / powers;
  return m;
}

}  // namespace iron::runtime::cuda
