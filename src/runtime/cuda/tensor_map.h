// Tensor maps: what the tensor memory unit knows of a tensor and the box in which it is copied.
#pragma once

#include <array>
#include <map>
#include <mutex>

#include "ir/launch.h"
#include "ir/tier.h"
#include "runtime/cuda/driver.h"

namespace iron::runtime::cuda {

struct alignas(64) EncodedMap {
  std::array<u64, 16> words{};
};

/// What the driver's encoder is given; the same numbers for the same tensor and box.
struct MapPlan {
  int dtype = 0;    ///< CUtensorMapDataType
  int swizzle = 0;  ///< CUtensorMapSwizzle
  u32 rank = 0;
  std::array<u64, 5> dims{}, strides{};  ///< strides in bytes, of the outer dimensions only
  std::array<u32, 5> box{};
  auto operator<=>(const MapPlan&) const = default;
};

/// The plan, checked: throws iron::Error (TIER05) naming what the tensor memory unit cannot do with this tensor.
MapPlan plan_map(const ir::TensorBox& box, const LaunchArg& arg, std::string_view param);

/// Encoded maps by plan and address. Thread-safe.
class TensorMaps {
 public:
  explicit TensorMaps(const Driver& driver) : driver_(driver) {}
  EncodedMap get(const ir::TensorBox& box, const LaunchArg& arg, std::string_view param);

 private:
  const Driver& driver_;
  std::mutex mutex_;
  std::map<std::pair<u64, MapPlan>, EncodedMap> maps_;
};

}  // namespace iron::runtime::cuda
