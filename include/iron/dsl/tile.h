// Tiles: matrix products into an m x n accumulator that a simdgroup or a threadgroup owns together.
#pragma once

#include "iron/dsl/buffer.h"
#include "iron/dsl/memory.h"

namespace iron {

/// The threads that own a tile together. All of them must arrive at its operations (R5).
enum class TileScope : u8 {
  simdgroup = static_cast<u8>(ir::Scope::simdgroup),
  threadgroup = static_cast<u8>(ir::Scope::threadgroup)
};

/// A matrix in memory: element (r, c) is at offset + r * row_stride + c. Offset and stride are the same for all threads
/// of the tile's scope.
template <class T>
class Block {
 public:
  Block(const Shared<T>& memory, Use<Index> offset, Use<Index> row_stride)
      : Block(memory.memory(), offset, row_stride, true) {}
  Block(const In<T>& memory, Use<Index> offset, Use<Index> row_stride)
      : Block(memory.memory(offset.loc), offset, row_stride, false) {}
  Block(const Out<T>& memory, Use<Index> offset, Use<Index> row_stride)
      : Block(memory.memory(offset.loc), offset, row_stride, true) {}
  Block(const InOut<T>& memory, Use<Index> offset, Use<Index> row_stride)
      : Block(memory.memory(offset.loc), offset, row_stride, true) {}
  detail::Arg memory() const { return memory_; }
  detail::Arg offset() const { return offset_; }
  detail::Arg row_stride() const { return row_stride_; }
  bool writable() const { return writable_; }

 private:
  Block(detail::Id memory, Use<Index> offset, Use<Index> row_stride, bool writable)
      : memory_{memory, false}, offset_(offset.arg), row_stride_(row_stride.arg), writable_(writable) {}
  detail::Arg memory_, offset_, row_stride_;
  bool writable_;
};

/// How the operands of a product lie in memory: `a` as [m, k], `b` as [k, n]; transposed as [k, m] and [n, k].
struct Transposed {
  bool a = false, b = false;
};

/// An m x n accumulator of type Acc for products of Input elements. A place, not a value: it neither copies nor moves,
/// and its contents are undefined until zero() or load(). One fma chain an element, k ascending, except on matrix
/// units, whose order is their own (R4). Each thread owns elements() of it, which get() and set() reach: that is where
/// a fused epilogue goes. Which ones is a fixed map, neighbouring threads in neighbouring columns; where the scope's
/// threads do not divide m * n the last element of some threads lies behind the tile: its row is m or more, it reads as
/// zero, and setting it does nothing.
template <class Input, class Acc>
class Tile {
 public:
  Tile(u32 m, u32 n, TileScope scope = TileScope::threadgroup, detail::Loc loc = detail::Loc::here())
      : m_(m), n_(n), id_(make(m, n, scope, loc)) {}
  Tile(const Tile&) = delete;
  Tile& operator=(const Tile&) = delete;

  u32 rows() const { return m_; }
  u32 cols() const { return n_; }

  void zero(detail::Loc loc = detail::Loc::here()) { detail::emit(detail::Opcode::TileZero, loc, {{id_}}); }
  /// Adds A * B with k terms an element; k is a host value, part of the instruction.
  void mma(const Block<Input>& a, const Block<Input>& b, u32 k, Transposed transposed = {},
           detail::Loc loc = detail::Loc::here()) {
    if (k == 0 || k > 0xffff)
      detail::refuse("D16", "a tile product over " + std::to_string(k) + " elements", loc, "use a k from 1 to 65535");
    detail::emit(detail::Opcode::TileMma, loc,
                 {{id_}, a.memory(), a.offset(), a.row_stride(), b.memory(), b.offset(), b.row_stride()},
                 ir::pack(ir::LayoutImm{static_cast<u16>(k), transposed.a, transposed.b}));
  }
  /// Sets the accumulator from memory. Only the valid rows and columns are read; the rest is zero.
  template <class T>
  void load(const Block<T>& from, Use<Index> valid_rows, Use<Index> valid_cols) {
    detail::emit(detail::Opcode::TileLoad, valid_rows.loc,
                 {{id_}, from.memory(), from.offset(), from.row_stride(), valid_rows.arg, valid_cols.arg});
  }
  /// Writes the valid rows and columns, each rounded once to T.
  template <class T>
  void store(const Block<T>& to, Use<Index> valid_rows, Use<Index> valid_cols) {
    if (!to.writable())
      detail::refuse("D24", "a tile is stored to an input", valid_rows.loc, "store to an Out, an InOut or a Shared");
    detail::emit(detail::Opcode::TileStore, valid_rows.loc,
                 {{id_}, to.memory(), to.offset(), to.row_stride(), valid_rows.arg, valid_cols.arg});
  }

  /// Elements that each thread owns: `for (auto e : range(tile.elements()))`.
  Val<Index> elements(detail::Loc loc = detail::Loc::here()) const {
    return Val<Index>(detail::emit(detail::Opcode::TileElems, loc, {{id_}}), loc);
  }
  Val<Acc> get(Use<Index> e) const {
    return Val<Acc>(detail::emit(detail::Opcode::TileGet, e.loc, {{id_}, e.arg}, 0, ir::Type::value(dtype_of<Acc>)),
                    e.loc);
  }
  void set(Use<Index> e, Use<Acc> value) { detail::emit(detail::Opcode::TileSet, e.loc, {{id_}, e.arg, value.arg}); }
  /// Where the thread's element e lies in the tile.
  Val<Index> row(Use<Index> e) const {
    return Val<Index>(detail::emit(detail::Opcode::TileRow, e.loc, {{id_}, e.arg}), e.loc);
  }
  Val<Index> col(Use<Index> e) const {
    return Val<Index>(detail::emit(detail::Opcode::TileCol, e.loc, {{id_}, e.arg}), e.loc);
  }

 private:
  static detail::Id make(u32 m, u32 n, TileScope scope, detail::Loc loc) {
    if (m == 0 || n == 0 || m > 0xffff || n > 0xffff)
      detail::refuse("D16", "a tile of " + std::to_string(m) + " x " + std::to_string(n), loc,
                     "give a tile 1 to 65535 rows and columns");
    return detail::emit(detail::Opcode::TileNew, loc, {},
                        ir::pack(ir::TileImm{dtype_of<Input>, static_cast<ir::Scope>(scope)}),
                        ir::Type::tile(dtype_of<Acc>, static_cast<u16>(m), static_cast<u16>(n)));
  }
  u32 m_, n_;
  detail::Id id_;
};

}  // namespace iron
