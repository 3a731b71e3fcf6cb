// What the ops of the Hopper tier share: roles, the layout of swizzled memory, the boxes in which tensors are copied.
#pragma once

#include <array>

#include "ir/builder.h"

namespace iron::ir {

/// One role: its warpgroups of 128 threads, the registers a thread of theirs may use (0: as launched), and whether one
/// elected thread runs it.
struct RoleSpec {
  std::string name;
  u32 warpgroups = 1, registers = 0;
  bool one_thread = false;
  bool operator==(const RoleSpec&) const = default;
};

/// The roles that the text of a `roles` op lists: "load 1 40 one; mma 2 232 all". Empty, with a sentence in `problem`,
/// if it is no such list.
std::vector<RoleSpec> parse_roles(std::string_view text, std::string* problem = nullptr);
std::string roles_text(std::span<const RoleSpec> roles);
/// The roles of a `roles` op.
std::vector<RoleSpec> roles_of(const Kernel& k, OpId roles);
/// The `roles` op of the kernel, none if it has no roles.
OpId find_roles(const Kernel& k);
/// The region of the role that holds an op, none outside roles.
RegionId role_region(const Kernel& k, OpId id);

/// The kernel has ops of the Hopper tier.
bool uses_tier(const Kernel& k);
/// Threadgroups of a cluster: 1 without clusters.
u32 cluster_size(const Kernel& k);

/// Bytes after which a swizzle repeats along a row; 0 for none.
u32 swizzle_bytes(Swizzle swizzle);
/// Columns of one panel: those that the swizzle spans, all without one.
u32 panel_cols(Type shared2d);
/// Bytes between the panels of a slot, and between slots.
u64 panel_bytes(Type shared2d);
u64 slot_bytes(Type shared2d);

/// How a tensor parameter is copied: one box for all copies, which the tensor map fixes.
struct TensorBox {
  u32 param = 0, rank = 0;
  std::array<u32, 5> box{};  ///< elements, innermost first
  Swizzle swizzle = Swizzle::none;
  DType elem = DType::none;
  bool operator==(const TensorBox&) const = default;
};
/// The boxes of all tensor parameters, in parameter order. Throws iron::Error (D11) where two copies of one tensor
/// differ in box or rank.
std::vector<TensorBox> tensor_boxes(const Kernel& k);

/// Bytes that a full barrier of the pipeline expects for the copies that name one acquired slot.
u64 expected_bytes(const Kernel& k, OpId acquire);

/// Types of the tier's ops: operands as the table's words say.
Inferred infer_tier(const Kernel& k, Opcode code, std::span<const OpId> operands, u64 imm, Type stated);

}  // namespace iron::ir
