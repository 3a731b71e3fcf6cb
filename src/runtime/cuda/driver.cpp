// Opening the driver and turning its codes into errors.
#include "runtime/cuda/driver.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "iron/error.h"

namespace iron::runtime::cuda {

Driver::Driver() {
  std::string why;
  const std::vector<std::string> names{"libcuda.so.1"};
  library_ = DynamicLibrary::open(names, &why);
  if (!library_) throw Error("CUDA10", "no NVIDIA driver: " + why, "install the driver, or run on another device");
#define F(member, text, parameters)                                                        \
  member = reinterpret_cast<CUresult(*) parameters>(library_.symbol(text));                \
  if (!member)                                                                             \
    throw Error("CUDA11", fmt::format("the NVIDIA driver is too old: it has no {}", text), \
                "install a driver for CUDA 12 or newer");
  IRON_CUDA_FUNCTIONS(F)
#undef F
  DriverGetVersion(&version);
  if (const CUresult r = Init(0); r != 0) {
    const char* text = nullptr;
    GetErrorString(r, &text);
    throw Error("CUDA12", fmt::format("the NVIDIA driver does not start: {}", text ? text : "unknown error"),
                "check nvidia-smi");
  }
}

const Driver& Driver::get() {
  static const Driver driver;
  return driver;
}

bool Driver::available(std::string* why) { return opens<Driver>(why); }

void Driver::check(CUresult result, std::string_view what) const {
  if (result == 0) return;
  const char *name = nullptr, *text = nullptr;
  GetErrorName(result, &name);
  GetErrorString(result, &text);
  throw Error("CUDA20", fmt::format("{}: {} ({})", what, text ? text : "unknown error", name ? name : "?"));
}

}  // namespace iron::runtime::cuda
