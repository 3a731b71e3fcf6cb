// What differs between the C-like languages: words, not grammar.
#pragma once

#include "emit/c_like/helper.h"
#include "emit/c_like/table.h"

namespace iron::emit {

struct Source;

/// How a kernel's parameters arrive, in order; the launch fills them by this list.
struct ArgSlot {
  enum Kind : u8 { pointer, scalar, length, items, tensor } kind = pointer;
  u32 param = 0;  ///< index into the kernel's parameters; unused for items
  bool operator==(const ArgSlot&) const = default;
};

struct MatrixShape;
struct TileLayout;

class Dialect {
 public:
  virtual ~Dialect() = default;
  virtual std::string_view name() const = 0;
  virtual const Table& table() const = 0;
  virtual std::span<const Helper> helpers() const = 0;  ///< primitives; looked up before the shared ones
  virtual std::string_view function_words() const = 0;  ///< in front of a helper: "__device__ __forceinline__"
  virtual std::string_view type_name(DType type) const = 0;
  /// A pointer to elements of a space: "const f32*", "threadgroup f32*".
  virtual std::string pointer(ir::Space space, DType elem, bool constant) const = 0;
  /// Text before all helpers: typedefs.
  virtual std::string preamble(bool index_is_32) const = 0;
  /// The line(s) that open the kernel, up to and with the brace.
  virtual std::string signature(const Emitter& e, std::span<const ArgSlot> args) const = 0;

  virtual std::string thread_pos(int axis) const = 0;
  virtual std::string group_id(int axis) const = 0;
  virtual std::string group_count(int axis) const = 0;
  /// First statement of a kernel that may be set up while the one before it ends: it waits for that one, or is empty.
  virtual std::string await_predecessor() const { return {}; }
  /// The matrix unit's product for an input and an accumulator; all zero where it has none.
  virtual MatrixShape matrix_unit(DType input, DType acc) const;
  /// The product `tile.mma` of a tile in fragments, by that unit.
  virtual void matrix_product(Emitter& e, ir::OpId mma, const TileLayout& tile) const;
  virtual std::string barrier() const = 0;
  virtual std::string simd_barrier() const = 0;
  virtual std::string unroll_pragma() const = 0;
  /// In front of a loop that must stay one.
  virtual std::string keep_loop_pragma() const { return {}; }
  /// Hooks of the Hopper tier: where a region begins, where the kernel's body ends, and ops on packed fragments.
  virtual void enter_region(Emitter&, ir::RegionId) const {}
  virtual void leave_kernel(Emitter&) const {}
  virtual void packed_op(Emitter& e, ir::OpId id) const;
  /// A declaration of threadgroup memory in the kernel's body: fixed, or one block whose size the launch gives.
  virtual std::string shared_array(std::string_view type, std::string_view name, u64 count, u32 align) const = 0;
  virtual std::string shared_block(std::string_view name) const = 0;
};

}  // namespace iron::emit
