// The CUDA device as a Backend.
#pragma once

#include <memory>

#include "runtime/backend.h"

namespace iron::runtime::cuda {

/// The GPU with that number. Throws iron::Error: CUDA10-CUDA12 for the driver, CUDA13 for no such device.
std::unique_ptr<Backend> open_device(int ordinal = 0);

/// Whether a driver and at least one device are here; `why` receives the reason if not.
bool device_available(std::string* why = nullptr);

}  // namespace iron::runtime::cuda
