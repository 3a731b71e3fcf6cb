// Types of IR values: scalars and vectors, fragments, memory objects, tiles, and the objects of the Hopper tier.
#pragma once

#include <string>

#include "iron/types.h"

namespace iron::ir {

enum class TypeKind : u8 { none, value, memory, tile, view, acc, pipe, turn };
enum class Space : u8 { none, global, shared, priv };  ///< priv: a thread's own array
enum class Swizzle : u8 { none, b32, b64, b128 };

/// Eight bytes, compared as a whole. `lanes` is 1 for scalars. Memory and tiles give their element type; `rows` and
/// `cols` describe a two-dimensional shared array (of one slot), a view, a tile or an accumulator, else 0.
///
/// A fragment is a value too: the elements that each thread of a warpgroup holds of a rows x cols matrix, in the one
/// layout of the tier (`frag.row` in the op table). So elementwise ops, loops and branches carry fragments as they
/// carry vectors. `rows` is a value a row of a fragment: two a thread.
struct Type {
  TypeKind kind = TypeKind::none;
  DType elem = DType::none;
  u8 lanes = 1;
  Space space : 4 = Space::none;
  Swizzle swizzle : 4 = Swizzle::none;
  u16 rows = 0, cols = 0;

  constexpr Type() = default;
  bool operator==(const Type&) const = default;
  static Type value(DType elem, u8 lanes = 1) { return make(TypeKind::value, elem, lanes, Space::none); }
  static Type memory(Space space, DType elem) { return make(TypeKind::memory, elem, 1, space); }
  static Type shared2d(DType elem, u16 rows, u16 cols, Swizzle swizzle) {
    Type t = memory(Space::shared, elem);
    t.rows = rows, t.cols = cols, t.swizzle = swizzle;
    return t;
  }
  static Type tile(DType accumulator, u16 rows, u16 cols) {
    Type t = make(TypeKind::tile, accumulator, 1, Space::none);
    t.rows = rows, t.cols = cols;
    return t;
  }
  static Type view(DType elem, u16 rows, u16 cols, Swizzle swizzle) {
    Type t = make(TypeKind::view, elem, 1, Space::shared);
    t.rows = rows, t.cols = cols, t.swizzle = swizzle;
    return t;
  }
  static Type acc(DType elem, u16 rows, u16 cols) {
    Type t = make(TypeKind::acc, elem, 1, Space::none);
    t.rows = rows, t.cols = cols;
    return t;
  }
  static Type frag(DType elem, u16 rows, u16 cols) {
    Type t = make(TypeKind::value, elem, static_cast<u8>(rows * cols / warpgroup_threads), Space::none);
    t.rows = rows, t.cols = cols;
    return t;
  }
  static Type row_values(DType elem, u16 rows) {
    Type t = make(TypeKind::value, elem, static_cast<u8>(rows * 4 / warpgroup_threads), Space::none);
    t.rows = rows;
    return t;
  }
  static Type object(TypeKind kind) { return make(kind, DType::none, 1, Space::none); }
  bool is_frag() const { return kind == TypeKind::value && cols != 0; }
  bool is_row_values() const { return kind == TypeKind::value && rows != 0 && cols == 0; }
  bool is_value() const { return kind == TypeKind::value; }
  bool is_memory() const { return kind == TypeKind::memory; }
  bool is_scalar() const { return is_value() && lanes == 1; }
  bool is_index() const { return is_value() && elem == DType::index; }
  bool is_bool() const { return is_value() && elem == DType::boolean; }
  Type with_elem(DType e) const {
    Type t = *this;
    t.elem = e;
    return t;
  }
  u32 bytes() const { return dtype_size(elem) * lanes; }
  static constexpr u32 warpgroup_threads = 128;

 private:
  static Type make(TypeKind kind, DType elem, u8 lanes, Space space) {
    Type t;
    t.kind = kind, t.elem = elem, t.lanes = lanes, t.space = space;
    return t;
  }
};
static_assert(sizeof(Type) == 8);

/// "f32", "f16x4", "frag f32[64 x 128]", "rows f32[64]", "shared f32", "shared f16[64 x 64, b128]", "view f16[64 x 64,
/// b128]", "tile f32[32 x 32]", "acc f32[64 x 256]", "pipe", "turn".
std::string to_string(Type type);

inline const Type none_type{};
inline const Type index_type = Type::value(DType::index);
inline const Type bool_type = Type::value(DType::boolean);
inline const Type u32_type = Type::value(DType::u32);

}  // namespace iron::ir
