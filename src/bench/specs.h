// Published peaks of known GPUs: what a share of peak is a share of, where nothing is measured.
#pragma once

#include <optional>
#include <string_view>

#include "bench/verdict.h"

namespace iron::bench {

struct DeviceSpecs {
  std::string_view name;  ///< part of the device's own name
  f64 gbps;
  std::optional<f64> f32_tflops, f16_tflops;  ///< of the ordinary units
  std::optional<f64> tensor_tflops;           ///< of the matrix units at f16 and bf16, dense
};

/// The entry with the longest name inside `device`, or nullptr: an unknown device has blanks, never a failure.
const DeviceSpecs* find_specs(std::string_view device);

/// The peaks that hold for an element type: matrix units for f16 and bf16 where the device has them.
Peaks peaks_of(const DeviceSpecs& specs, DType dtype);

}  // namespace iron::bench
