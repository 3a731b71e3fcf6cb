#include "bench/specs.h"

namespace iron::bench {

namespace {
constexpr std::optional<f64> unknown = std::nullopt;

// Vendors' data sheets. Apple: f16 is twice f32; matrix figures of the M5 are those of its neural accelerators.
constexpr DeviceSpecs table[] = {
    {"H200", 4800, 66.9, 133.8, 989.4},
    {"H100 PCIe", 2039, 51.2, 102.4, 756.0},
    {"H100", 3352, 66.9, 133.8, 989.4},
    {"A100-SXM4-80GB", 2039, 19.5, 78.0, 312.0},
    {"A100", 1555, 19.5, 78.0, 312.0},
    {"L40S", 864, 91.6, 91.6, 362.1},
    {"RTX 4090", 1008, 82.6, 82.6, 165.2},
    {"RTX 3090", 936, 35.6, 35.6, 71.0},
    {"GB10", 250, unknown, unknown, unknown},
    {"Apple M1", 68, 2.6, 5.2, unknown},
    {"Apple M1 Pro", 200, 5.3, 10.6, unknown},
    {"Apple M1 Max", 400, 10.6, 21.2, unknown},
    {"Apple M1 Ultra", 800, 21.2, 42.4, unknown},
    {"Apple M2", 100, 3.6, 7.2, unknown},
    {"Apple M2 Pro", 200, 6.8, 13.6, unknown},
    {"Apple M2 Max", 400, 13.6, 27.2, unknown},
    {"Apple M2 Ultra", 800, 27.2, 54.4, unknown},
    {"Apple M3", 100, 3.5, 7.0, unknown},
    {"Apple M3 Pro", 150, 7.1, 14.2, unknown},
    {"Apple M3 Max", 400, 12.8, 25.6, unknown},
    {"Apple M3 Ultra", 800, 28.4, 56.8, unknown},
    {"Apple M4", 120, 4.3, 8.6, unknown},
    {"Apple M4 Pro", 273, 8.6, 17.2, unknown},
    {"Apple M4 Max", 546, 17.2, 34.4, unknown},
    {"Apple M5", 153.6, 4.2, 8.4, 16.8},
    {"Apple M5 Pro", 307, 8.3, 16.6, 33.2},
    {"Apple M5 Max", 614, 16.6, 33.2, 66.4},
};
}  // namespace

const DeviceSpecs* find_specs(std::string_view device) {
  const DeviceSpecs* best = nullptr;
  for (const auto& s : table)
    if (device.find(s.name) != std::string_view::npos && (!best || s.name.size() > best->name.size())) best = &s;
  return best;
}

Peaks peaks_of(const DeviceSpecs& s, DType dtype) {
  Peaks p;
  p.gbps = s.gbps;
  const bool half = dtype == DType::f16 || dtype == DType::bf16;
  const auto tflops = half ? (s.tensor_tflops ? s.tensor_tflops : s.f16_tflops) : s.f32_tflops;
  if (tflops) p.gflops = *tflops * 1e3;
  p.engine = !half ? "f32" : s.tensor_tflops ? "matrix f16" : "f16";
  return p;
}

}  // namespace iron::bench
