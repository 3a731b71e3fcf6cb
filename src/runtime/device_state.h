// What lies behind the public device and prepared kernels.
#pragma once

#include <map>
#include <mutex>

#include "analysis/contract.h"
#include "iron/runtime/device.h"
#include "runtime/backend.h"
#include "runtime/compile.h"

namespace iron {

namespace detail {
struct DeviceState {
  runtime::Backend* backend = nullptr;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<PreparedKernel::State>> prepared;
};
}  // namespace detail

struct PreparedKernel::State {
  runtime::Backend* backend = nullptr;
  std::shared_ptr<const runtime::Compiled> compiled;
  std::shared_ptr<runtime::Executable> exe;
  analysis::DeviceLimits limits;

  /// Throws every finding of the launch contract, before the device is touched.
  void check(std::span<const LaunchArg> args, const LaunchGeometry& geometry) const {
    auto problems = analysis::check(compiled->contract, geometry, args, limits);
    if (!problems.empty()) throw Error(std::move(problems));
  }
};

}  // namespace iron
