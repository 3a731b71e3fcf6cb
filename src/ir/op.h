// Opcodes and what the op table says of each.
#pragma once

#include <string_view>

#include "iron/types.h"

namespace iron::ir {

enum class Opcode : u16 {
#define OP(Name, ...) Name,
#include "ir/ops.def"
};
inline constexpr int opcode_count = 0
#define OP(Name, ...) +1
#include "ir/ops.def"
    ;

/// What the immediate holds. The packed forms are the structs below.
enum class ImmKind : u8 {
  None,
  Bits,
  U32,
  Param,
  Until,
  Roles,
  Axis,
  Length,
  Memory,
  Atomic,
  Wait,
  Signs,
  Reduce,
  Scan,
  ScopeOf,
  Text,
  Tile,
  Layout,
  Mma,
  Copy
};

/// How operand and result types relate; checked by the verifier, used by the builder to infer results.
enum class TypeRule : u8 {
  Given,
  NoResult,
  Same,
  SameFloat,
  SameInt,
  SameBits,
  Compare,
  IsNan,
  Select,
  Ldexp,
  Cast,
  Bitcast,
  Decode,
  VecMake,
  VecExtract,
  VecInsert,
  IndexResult,
  BoolResult,
  Ballot,
  ShuffleIndex,
  Load,
  LoadOr,
  Store,
  AtomicValue,
  AtomicLoad,
  AtomicStore,
  Tier  ///< of the Hopper tier: stated op by op in tier.cpp
};

/// Effect bits. An op without any is pure.
enum Effect : u32 {
  Terminator = 1u << 0,
  HasRegions = 1u << 1,  ///< owns regions; its effects are those of its body
  Alloc = 1u << 2,       ///< names memory; removable when unused, never duplicated or merged
  Reads = 1u << 3,
  Writes = 1u << 4,
  ReadsSlot = 1u << 5,
  WritesSlot = 1u << 6,
  AtomicOp = 1u << 7,
  Convergent = 1u << 8,  ///< needs control flow uniform over its scope; may not move into or out of a branch or loop
  Sync = 1u << 9,        ///< orders accesses: no access moves across
  Waits = 1u << 10,      ///< may wait for other threads
  Debug = 1u << 11,      ///< observed by the interpreter only; removable where its policy allows
  Fact = 1u << 12,       ///< a fact that analyses may use below it
  Report = 1u << 13,     ///< visible output: never removed, ordered
  Math = 1u << 14,       ///< pure; replaced by expand_math
  Fast = 1u << 15,       ///< pure; value is device-dependent within a stated error
  TileOp = 1u << 16,
  TierOp = 1u << 17,     ///< of the Hopper tier: an ordered effect that passes leave where it is
  OneThread = 1u << 18,  ///< issued by one elected thread: stands only in a role that one thread runs
};

/// Sets of threads, ordered by inclusion. `tile` in the op table stands for the scope that the tile names.
enum class Scope : u8 { lane, simdgroup, warpgroup, role, threadgroup, cluster, grid, tile };

struct OpInfo {
  std::string_view name;  ///< the enumerator
  std::string_view text;  ///< the word in IR text
  int operands;           ///< -1: variable
  ImmKind imm;
  TypeRule rule;
  u32 effects;
  Scope scope;
  std::string_view atom;
  std::string_view meaning;

  bool pure() const { return (effects & ~(Math | Fast)) == 0; }
  bool has(u32 bits) const { return (effects & bits) != 0; }
};

const OpInfo& info(Opcode op);
/// The opcode with that word, or false.
bool opcode_from_text(std::string_view text, Opcode& out);

enum class ReduceKind : u8 { sum, prod, min, max, and_, or_, xor_ };
enum class AtomicKind : u8 { add, min, max, and_, or_, xor_, exchange, inc_wrap };
enum class MemoryOrder : u8 { relaxed, acquire, release, acq_rel };
enum class CachePolicy : u8 { normal, stream, keep };
enum class CompareKind : u8 { eq, ne, lt, le, gt, ge };

// Packed immediates: plain structs of at most 8 bytes, stored by value.
struct MemoryImm {
  u8 align_log2 = 0;
  CachePolicy cache = CachePolicy::normal;
};  ///< align of the access in bytes; 0: of the element
struct AtomicImm {
  AtomicKind kind = AtomicKind::add;
  MemoryOrder order = MemoryOrder::relaxed;
  Scope scope = Scope::grid;
};
struct WaitImm {
  CompareKind compare = CompareKind::ne;
  Scope scope = Scope::grid;
};
struct ScanImm {
  ReduceKind kind = ReduceKind::sum;
  bool exclusive = false;
};
struct SignsImm {
  bool a_signed = true;
  bool b_signed = true;
};
struct TileImm {
  DType input = DType::f32;
  Scope scope = Scope::threadgroup;
};
struct LayoutImm {
  u16 k = 0;
  bool a_transposed = false;
  bool b_transposed = false;
};
/// Input format of an asynchronous product: that of the elements, or an 8-bit float stored as u8.
enum class MmaFormat : u8 { native, e4m3, e5m2 };
struct MmaImm {
  u16 k = 0;  ///< terms of each sum
  MmaFormat format = MmaFormat::native;
  bool a_transposed = false;  ///< A lies in memory as [k, m]
  bool b_transposed = false;  ///< B lies in memory as [n, k]
};
struct CopyImm {
  bool multicast = false;  ///< to the same place of every threadgroup of the cluster
  CachePolicy cache = CachePolicy::normal;
};
struct UntilImm {
  u32 carried_plus_one = 0;
};  ///< 0: no early exit; else the number of the carried bool + 1

template <class T>
u64 pack(const T& imm) {
  static_assert(sizeof(T) <= 8);
  u64 bits = 0;
  std::memcpy(&bits, &imm, sizeof(T));
  return bits;
}
template <class T>
T unpack(u64 bits) {
  T imm;
  std::memcpy(static_cast<void*>(&imm), &bits, sizeof(T));
  return imm;
}

std::string_view name(ReduceKind);
std::string_view name(AtomicKind);
std::string_view name(MemoryOrder);
std::string_view name(CachePolicy);
std::string_view name(CompareKind);
std::string_view name(Scope);
std::string_view name(MmaFormat);

}  // namespace iron::ir
