// The rows that every C-like dialect shares, as a constant that dialects extend and check when they are compiled.
#pragma once

#include "emit/c_like/rows.h"

namespace iron::emit {

/// What needs a dialect's own words is absent: atomics, waits, tickets, fences, prefetch, print, check.
constexpr Table make_shared_table() {
  using enum ir::Opcode;
  using namespace rows;
  Table t;
  const auto values = [&](Row::Lane f, std::initializer_list<ir::Opcode> codes) {
    for (const auto c : codes) t[c] = value_row(f);
  };
  const auto statements = [&](Row::Statement f, std::initializer_list<ir::Opcode> codes, bool operands_once = false) {
    for (const auto c : codes) t[c] = statement_row(f, operands_once);
  };
  const auto refuse = [&](const char* why, std::initializer_list<ir::Opcode> codes) {
    for (const auto c : codes) t[c] = refused_row(why);
  };

  statements(nothing, {Param, Arg, Result, Assume});
  statements(nothing, {Yield}, true);
  statements(constant, {Const});
  statements(loop, {For});
  statements(branch, {If}, true);
  refuse("roles need the tier that has warpgroups (capability roles)", {Roles});
  refuse("ops of the Hopper tier need the tier (capabilities roles, tma, wgmma, mbarrier)",
         {RoleIndex,  RoleBarrier, ClusterRank, ClusterSync, PeerLoad, SharedView,  TmaLoad,  TmaStore,
          Reclaim,    PipeNew,     PipeAcquire, PipeExpect,  PipeWait, PipeRelease, AccNew,   AccMma,
          AccSettle,  AccValue,    AccSet,      AccScale,    AccClear, FragRow,     FragCol,  FragSplat,
          FragSpread, FragCols,    FragFold,    FragPut,     TurnNew,  TurnEnter,   TurnLeave});
  refuse("slots are promoted to values before emission", {SlotNew, SlotLoad, SlotStore});
  refuse("calls are inlined before emission", {Call});

  t[ThreadId] = value_row(thread_id), t[ThreadPos] = value_row(thread_pos), t[GroupId] = value_row(group_id);
  t[GroupCount] = value_row(group_count), t[GroupSize] = value_row(group_size), t[GroupDim] = value_row(group_dim);
  t[GridThreadId] = value_row(grid_thread_id), t[GridPos] = value_row(grid_pos), t[LaneId] = value_row(lane_id);
  t[SimdgroupId] = value_row(simdgroup_id), t[SimdgroupCount] = value_row(simdgroup_count),
  t[SimdWidth] = value_row(simd_width);
  t[ItemCount] = value_row(item_count);
  statements(length, {Length});

  statements(shared_new, {SharedNew});
  statements(array_new, {ArrayNew});
  statements(view, {View, SharedAlias});
  statements(load, {Load}, true);
  statements(load_or, {LoadOr}, true);
  statements(store, {Store, CopyAsync}, true);
  statements(nothing, {CopyCommit, CopyWait});  // stores have arrived

  values(add_sub_mul, {Add, Sub, Mul});
  values(divide, {Div});
  values(remainder, {Rem});
  values(min_max, {Min, Max});
  values(fma, {Fma});
  values(negate, {Neg});
  values(absolute, {Abs});
  values(sign, {Sign});
  values(mul_hi, {MulHi});
  values(bitwise, {And, Or, Xor});
  values(complement, {Not});
  values(shift, {Shl, Shr});
  values(count_bits, {Popcount, Clz, Ctz, BitReverse});
  values(funnel, {FunnelShl, FunnelShr});
  values(bit_field, {BitExtract, BitInsert});
  values(dot4, {Dot4I8});
  values(compare, {Eq, Ne, Lt, Le, Gt, Ge});
  values(is_nan, {IsNan});
  values(select, {Select});
  values(float_function, {Sqrt, Rsqrt, Recip, Floor, Ceil, Trunc, Round, FastExp, FastExp2, FastLog, FastLog2, FastSin,
                          FastCos, FastTanh, FastSqrt, FastRsqrt, FastRecip});
  values(ldexp, {Ldexp});
  refuse("transcendental functions are expanded before emission (expand_math)",
         {Exp,  Exp2, Expm1, Log,  Log2,  Log10, Log1p, Sin, Cos,    Tan, Asin, Acos,
          Atan, Sinh, Cosh,  Tanh, Asinh, Acosh, Atanh, Erf, Erfinv, Pow, Atan2});

  values(cast, {Cast});
  statements(bitcast, {Bitcast});
  values(decode, {DecodeE2M1, DecodeE4M3, DecodeE5M2, DecodeE8M0});
  statements(vec_make, {VecMake});
  statements(vec_extract, {VecExtract});
  statements(vec_insert, {VecInsert});

  statements(simd_reduce, {SimdReduce}, true);
  statements(simd_scan, {SimdScan}, true);
  statements(simd_shuffle, {SimdShuffle, SimdShuffleXor, SimdShuffleUp, SimdShuffleDown, SimdBroadcast});
  statements(simd_vote, {SimdBallot, SimdAny, SimdAll}, true);
  statements(group_reduce, {GroupReduce}, true);
  statements(group_scan, {GroupScan}, true);
  statements(group_vote, {GroupAny, GroupAll}, true);
  statements(group_broadcast, {GroupBroadcast}, true);
  statements(barrier, {Barrier});
  statements(simd_barrier, {SimdBarrier});

  values(bounded, {Bounded});
  values(same_value, {AssumeUniform});

  statements(tile_new, {TileNew});
  statements(tile_zero, {TileZero});
  statements(tile_mma, {TileMma});
  statements(tile_load, {TileLoad});
  statements(tile_store, {TileStore});
  statements(tile_get, {TileGet});
  statements(tile_set, {TileSet});
  t[TileRow] = value_row(tile_row), t[TileCol] = value_row(tile_col), t[TileElems] = value_row(tile_elems);
  return t;
}

}  // namespace iron::emit
