// Ids of the thread, its simdgroup and its threadgroup. All are Index values.
#pragma once

#include "iron/dsl/value.h"

namespace iron {

enum class Axis : u8 { x, y, z };

#define IRON_ID(name, Code)                                              \
  inline Val<Index> name(detail::Loc loc = detail::Loc::here()) {        \
    return Val<Index>(detail::emit(detail::Opcode::Code, loc, {}), loc); \
  }
#define IRON_AXIS_ID(name, Code)                                                                 \
  inline Val<Index> name(Axis axis = Axis::x, detail::Loc loc = detail::Loc::here()) {           \
    return Val<Index>(detail::emit(detail::Opcode::Code, loc, {}, static_cast<u64>(axis)), loc); \
  }
IRON_ID(thread_id, ThreadId)           ///< linear id in the threadgroup, in every mode
IRON_ID(threads, GroupSize)            ///< threads in the threadgroup
IRON_ID(grid_thread_id, GridThreadId)  ///< flat id in the grid
IRON_ID(lane_id, LaneId)               ///< 0 to 31
IRON_ID(simdgroup_id, SimdgroupId)
IRON_ID(simdgroups, SimdgroupCount)       ///< simdgroups in the threadgroup, rounded up
IRON_ID(simd_width, SimdWidth)            ///< 32; another value only in kernels generic over the width
IRON_ID(item_count, ItemCount)            ///< items of an elementwise launch
IRON_AXIS_ID(thread_position, ThreadPos)  ///< in the threadgroup
IRON_AXIS_ID(threadgroup_id, GroupId)     ///< in the grid
IRON_AXIS_ID(threadgroups, GroupCount)    ///< in the grid
IRON_AXIS_ID(threads_along, GroupDim)
IRON_AXIS_ID(grid_position, GridPos)  ///< of the thread in the grid
#undef IRON_ID
#undef IRON_AXIS_ID

/// (a + b - 1) / b.
inline Val<Index> ceil_div(Use<Index> a, Use<Index> b) {
  using detail::Opcode;
  const detail::Id one = detail::constant_of(DType::index, i64{1}, false, a.loc);
  const detail::Id sum = detail::emit(Opcode::Add, a.loc, {a.arg, {detail::emit(Opcode::Sub, a.loc, {b.arg, {one}})}});
  return Val<Index>(detail::emit(Opcode::Div, a.loc, {{sum}, b.arg}), a.loc);
}

}  // namespace iron
