// Storage of a kernel: ops with 32-bit ids in one arena, structured regions that own their ops.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/op.h"
#include "ir/type.h"
#include "iron/error.h"

namespace iron::ir {

using OpId = u32;
using RegionId = u32;
using LocId = u32;
inline constexpr u32 none = 0xffffffffu;

/// One op. Its id is its position in the arena and names its value. Operands live in a side vector of the kernel.
struct Op {
  Opcode code = Opcode::Const;
  u16 operand_count = 0;
  u32 first_operand = 0;
  Type type;
  u64 imm = 0;
  RegionId region = none;        ///< the region that holds it; none once erased
  RegionId first_region = none;  ///< owned regions are consecutive
  u32 region_count = 0;
  LocId loc = 0;
};
static_assert(sizeof(Op) == 40);

/// A straight list of ops that ends in a yield, except the body of the kernel, which ends where it ends.
struct Region {
  OpId parent = none;      ///< the owning op; none for the kernel's body
  std::vector<OpId> args;  ///< Arg ops
  std::vector<OpId> ops;   ///< in program order, the Yield last
};

enum class Mode : u8 { Elementwise, Threadgroup, Grid3D, Tile2D, SimdGroup2D };
enum class Numerics : u8 { exact, fused, fast };
enum class ParamKind : u8 { in, out, inout, scalar };

struct Param {
  std::string name;
  ParamKind kind = ParamKind::in;
  DType elem = DType::none;
  OpId op = none;
  bool tensor = false;  ///< a tensor with dimensions and strides, reached by tma.load and tma.store alone
  bool is_buffer() const { return kind != ParamKind::scalar; }
  bool operator==(const Param&) const = default;
};

struct Location {
  std::string file;
  int line = 0;
};

std::string_view name(Mode);
std::string_view name(Numerics);
std::string_view name(ParamKind);

class Kernel {
 public:
  std::string name;
  Mode mode = Mode::Elementwise;
  Numerics numerics = Numerics::exact;
  bool width_generic = false;  ///< may run at another simd width than 32
  std::string spec;            ///< canonical text of the specialisation; part of the identity
  std::string file;            ///< source file of the kernel's body
  std::vector<Param> params;
  std::vector<std::string> texts;  ///< texts of assume, check, print, call
  /// Kernels that its calls name. A name ends in a hash of the callee's identity, so the caller's text identifies both.
  std::map<std::string, std::shared_ptr<const Kernel>, std::less<>> callees;

  Kernel();
  RegionId body() const { return 0; }

  // --- reading
  const Op& op(OpId id) const { return ops_[id]; }
  const OpInfo& info_of(OpId id) const { return info(ops_[id].code); }
  Type type(OpId id) const { return ops_[id].type; }
  std::span<const OpId> operands(OpId id) const {
    return {operands_.data() + ops_[id].first_operand, ops_[id].operand_count};
  }
  OpId operand(OpId id, u32 i) const { return operands_[ops_[id].first_operand + i]; }
  const Region& region(RegionId r) const { return regions_[r]; }
  /// The i-th owned region of an op.
  RegionId region_of(OpId id, u32 i) const { return ops_[id].first_region + i; }
  u32 op_capacity() const { return static_cast<u32>(ops_.size()); }
  u32 region_capacity() const { return static_cast<u32>(regions_.size()); }
  bool alive(OpId id) const { return ops_[id].region != none; }
  const Location& location(OpId id) const { return locations_[ops_[id].loc]; }
  const std::vector<Location>& locations() const { return locations_; }
  /// The Result ops of a region op, in order; they follow it directly.
  std::vector<OpId> results(OpId id) const;
  /// The Yield that ends a region.
  OpId terminator(RegionId r) const;
  /// Regions from the kernel's body down to the one holding the op; true if `outer` is `inner` or encloses it.
  bool encloses(RegionId outer, RegionId inner) const;
  OpId param(std::string_view param_name) const;  ///< none if absent

  // --- writing
  LocId intern_location(std::string_view file, int line);
  u64 intern_text(std::string_view text);
  Op& mutable_op(OpId id) { return ops_[id]; }
  Region& mutable_region(RegionId r) { return regions_[r]; }
  void set_operand(OpId id, u32 i, OpId value) { operands_[ops_[id].first_operand + i] = value; }
  void set_operands(OpId id, std::span<const OpId> values);
  /// A new op, not in any region yet.
  OpId create(Opcode code, Type type, std::span<const OpId> operands, u64 imm = 0, LocId loc = 0, u32 regions = 0);
  void insert(RegionId r, std::size_t at, OpId id);
  void append(RegionId r, OpId id) { insert(r, regions_[r].ops.size(), id); }
  OpId add_arg(RegionId r, Type type, LocId loc = 0);
  OpId add_param(std::string param_name, ParamKind kind, DType elem, LocId loc = 0, bool tensor = false);
  /// Takes an op (and what its regions hold) out of its region. Uses must be gone.
  void erase(OpId id);
  /// Every use of a key becomes a use of its value; chains are followed.
  void replace_uses(const std::unordered_map<OpId, OpId>& forward);

  /// Visits every op of a region and of the regions below it, an op before its regions.
  void walk(RegionId r, const std::function<void(OpId)>& visit) const;
  void walk(const std::function<void(OpId)>& visit) const { walk(body(), visit); }

 private:
  std::vector<Op> ops_;
  std::vector<OpId> operands_;
  std::vector<Region> regions_;
  std::vector<Location> locations_;
};

/// Users of each value: `users[id]` lists the ops that name it, once a use.
std::vector<std::vector<OpId>> use_lists(const Kernel& k);

/// A load of memory that nothing in the kernel may write: it may move freely inside its guard (R7).
bool reads_immutable(const Kernel& k, OpId id);
/// The memory object at the root of views and aliases: a Param, SharedNew or ArrayNew.
OpId memory_root(const Kernel& k, OpId mem);
/// An op that makes a fragment: a whole tile of arithmetic, which stays where the author put it, between what is in
/// flight.
bool fragment_op(const Kernel& k, OpId id);
/// An op that keeps its place: effects, region ops, reads of mutable memory (R8), arithmetic on fragments.
bool pinned(const Kernel& k, OpId id);

/// The kernel renumbered in canonical order (R8): pinned ops in program order, every other op in post-order before its
/// first need inside the region that holds it, unused pure ops dropped. Ids become dense.
Kernel canonical(const Kernel& k);

/// Shared helpers for constants.
bool is_const(const Kernel& k, OpId id);
bool const_index(const Kernel& k, OpId id, i64& value);  ///< constants of index or integer type

}  // namespace iron::ir
