// Checks of tensors against what the tensor memory unit takes, and the driver's encoding.
#include "runtime/cuda/tensor_map.h"

#include <fmt/format.h>

#include "iron/error.h"

namespace iron::runtime::cuda {

namespace {
int driver_type(DType t) {
  switch (t) {
    case DType::u8:
    case DType::i8:
      return 0;
    case DType::u16:
      return 1;
    case DType::u32:
      return 2;
    case DType::i32:
      return 3;
    case DType::f16:
      return 6;
    case DType::f32:
      return 7;
    case DType::bf16:
      return 9;
    default:
      throw Error("TIER05", fmt::format("tensors of {} are not copied", dtype_name(t)),
                  "use u8, u16, u32, i32, f16, bf16 or f32");
  }
}
// The driver numbers swizzles by width; descriptors of products do not.
int driver_swizzle(ir::Swizzle s) { return static_cast<int>(s); }
static_assert(static_cast<int>(ir::Swizzle::b32) == 1 && static_cast<int>(ir::Swizzle::b128) == 3);
}  // namespace

MapPlan plan_map(const ir::TensorBox& box, const LaunchArg& arg, std::string_view param) {
  const auto refuse = [&](const std::string& what, const std::string& fix) {
    throw Error("TIER05", fmt::format("tensor {}: {}", param, what), fix);
  };
  const auto& t = arg.tensor;
  if (t.rank != box.rank)
    refuse(fmt::format("it has {} dimensions, the kernel copies boxes of {}", t.rank, box.rank),
           "pass the dimensions that the kernel's coordinates name, innermost first");
  MapPlan p;
  p.dtype = driver_type(box.elem), p.swizzle = driver_swizzle(box.swizzle), p.rank = box.rank, p.box = box.box;
  const u64 size = dtype_size(box.elem);
  if (reinterpret_cast<std::uintptr_t>(arg.data) % 16 != 0) refuse("its address is no multiple of 16", "align it");
  u64 last = size;
  for (u32 i = 0; i < t.rank; ++i) {
    p.dims[i] = t.dims[i];
    if (t.dims[i] == 0 || t.dims[i] > 0x7fffffffu)
      refuse(fmt::format("dimension {} is {}", i, t.dims[i]), "use 1 to 2147483647 elements");
    if (box.box[i] > 256)
      refuse(fmt::format("the box has {} elements along dimension {}", box.box[i], i), "at most 256");
    last += (t.dims[i] - 1) * t.strides[i];
    if (i == 0) continue;
    p.strides[i - 1] = t.strides[i];
    if (t.strides[i] % 16 != 0 || t.strides[i] >= u64{1} << 40)
      refuse(fmt::format("the stride of dimension {} is {} bytes", i, t.strides[i]),
             "use strides that are multiples of 16 bytes below 2^40: pad the rows");
  }
  if (box.box[0] * size % 16 != 0)
    refuse(fmt::format("the box has rows of {} bytes", box.box[0] * size), "use multiples of 16 bytes");
  if (last > arg.bytes)
    refuse(fmt::format("it reaches {} bytes, the buffer holds {}", last, arg.bytes), "pass the whole buffer");
  return p;
}

EncodedMap TensorMaps::get(const ir::TensorBox& box, const LaunchArg& arg, std::string_view param) {
  const MapPlan plan = plan_map(box, arg, param);
  const std::pair<u64, MapPlan> key{reinterpret_cast<std::uintptr_t>(arg.data), plan};
  const std::lock_guard lock(mutex_);
  if (const auto it = maps_.find(key); it != maps_.end()) return it->second;
  constexpr std::size_t most = 4096;
  if (maps_.size() >= most) maps_.clear();
  EncodedMap map;
  const std::array<u32, 5> steps{1, 1, 1, 1, 1};
  constexpr int no_interleave = 0, promote_to_128_bytes = 2, zeros_outside = 0;
  driver_.check(driver_.TensorMapEncodeTiled(&map, plan.dtype, plan.rank, arg.data, plan.dims.data(),
                                             plan.strides.data(), plan.box.data(), steps.data(), no_interleave,
                                             plan.swizzle, promote_to_128_bytes, zeros_outside),
                fmt::format("encoding the tensor map of {}", param));
  return maps_.emplace(key, map).first->second;
}

}  // namespace iron::runtime::cuda
