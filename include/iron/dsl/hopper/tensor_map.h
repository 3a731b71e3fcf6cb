// Tensors as kernel fields: global memory with dimensions and strides, copied in boxes by the tensor memory unit.
#pragma once

#include <array>
#include <vector>

#include "ir/launch.h"
#include "iron/dsl/buffer.h"

namespace iron {

template <class T>
class View;
class LoadSlot;
class Cluster;

/// Says that a copy goes to the same place of every threadgroup of the cluster: `Multicast{pair}`.
struct Multicast {
  Multicast() = default;
  explicit Multicast(const Cluster& cluster);
  u32 threadgroups = 1;
};

/// Dimensions in elements, innermost first; with them the distances between rows, planes, ... in elements, if they are
/// not packed.
struct TensorDims {
  TensorDims() = default;
  TensorDims(std::initializer_list<u64> d, std::initializer_list<u64> s = {}) : dims(d), strides(s) {}
  std::vector<u64> dims, strides;
};

namespace detail {
/// A field of tensor kind. The box in which it is copied comes from the views; the device encodes and caches the map.
template <class T, Access access>
class TensorField {
 public:
  using element = T;
  static constexpr Access kind = access;
  TensorField(BufferRef ref, const TensorDims& d, Loc loc = Loc::here()) : ref_(ref), shape_(shape_of(d, loc)) {}
  template <class C>
    requires requires(C& c) {
      { c.data() } -> std::convertible_to<const T*>;
      { c.size() } -> std::convertible_to<u64>;
    }
  TensorField(C&& c, const TensorDims& d, Loc loc = Loc::here())
      : TensorField(BufferField<T, access>(std::forward<C>(c)).ref(), d, loc) {}

  const BufferRef& ref() const { return ref_; }
  const TensorShape& shape() const { return shape_; }
  void bind(Id id) { id_ = id; }
  Id memory(Loc loc) const {
    if (id_ == no_id)
      refuse("D17", "a tensor is used outside a recording", loc, "use kernel fields only inside operator()()");
    return id_;
  }
  /// Starts a copy into a view of the pipeline's slot, which the pipeline waits for. Coordinates name the box's first
  /// element, innermost first; what lies outside the tensor reads as zero.
  void load(const LoadSlot& slot, const View<T>& to, std::initializer_list<Use<Index>> at, Multicast multicast = {},
            Cache cache = Cache::normal) const
    requires(access != Access::out);
  /// Starts a copy from a view that the warpgroup has written; what lies outside the tensor is not written. The view is
  /// free again after reclaim().
  void store(const View<T>& from, std::initializer_list<Use<Index>> at) const
    requires(access != Access::in);

 private:
  static TensorShape shape_of(const TensorDims& d, Loc loc) {
    TensorShape s;
    s.rank = static_cast<u32>(d.dims.size());
    if (s.rank > 5 || (!d.strides.empty() && d.strides.size() + 1 != d.dims.size()))
      refuse("TIER05", "a tensor of rank " + std::to_string(s.rank), loc,
             "give 1 to 5 dimensions, and a stride for each but the innermost");
    u64 packed = sizeof(T);
    for (u32 i = 0; i < s.rank; ++i) {
      s.dims[i] = d.dims[i];
      s.strides[i] = i == 0 || d.strides.empty() ? packed : d.strides[i - 1] * sizeof(T);
      packed *= d.dims[i];
    }
    return s;
  }
  BufferRef ref_;
  TensorShape shape_;
  Id id_ = no_id;
};
}  // namespace detail

/// A tensor that a kernel loads from.
template <class T>
using TensorMap = detail::TensorField<T, detail::Access::in>;
/// A tensor that a kernel stores to: wholly written by the launch.
template <class T>
using TensorMapOut = detail::TensorField<T, detail::Access::out>;

}  // namespace iron
