// Slots of threadgroup memory and rectangles of them: what copies write and products read.
#pragma once

#include "iron/dsl/memory.h"

namespace iron {

/// A place in a ring, or a warpgroup's number: an index that selects a slot by itself, `tiles[slot]`.
class Slot : public Val<Index> {
 public:
  Slot(detail::Id id, detail::Loc loc) : Val<Index>(id, loc, true) {}
};
/// A slot that a loading role has acquired: copies that name it are waited for.
class LoadSlot : public Slot {
 public:
  LoadSlot(detail::Id id, detail::Id pipe, detail::Id expect, detail::Loc loc)
      : Slot(id, loc), pipe_(pipe), expect_(expect) {}
  detail::Id pipe() const { return pipe_; }
  detail::Id expect() const { return expect_; }

 private:
  detail::Id pipe_, expect_;
};

/// A view whose rows and columns a product exchanges.
template <class T>
struct Flipped {
  detail::Id id;
  u32 rows, cols;  ///< as the product sees them
};

/// A rectangle of one slot. Rows start at a multiple of 8, columns at a multiple of the swizzle's width.
template <class T>
class View {
 public:
  View(detail::Id memory, ir::Type array, detail::Arg slot, detail::Loc loc)
      : memory_(memory), array_(array), slot_(slot), rows_(array.rows), cols_(array.cols), loc_(loc) {
    row_.id = col_.id = detail::constant_of(DType::index, i64{0}, true, loc);
  }
  /// `n` rows from `at` on.
  View rows(Use<Index> at, u32 n) const {
    View v = *this;
    v.row_.id = detail::emit(detail::Opcode::Add, at.loc, {row_, at.arg});
    v.rows_ = n, v.loc_ = at.loc;
    return v;
  }
  /// `n` columns from `at` on.
  View cols(u32 at, u32 n, detail::Loc loc = detail::Loc::here()) const {
    View v = *this;
    v.col_.id = detail::emit(detail::Opcode::Add, loc, {col_, {detail::constant_of(DType::index, i64{at}, true, loc)}});
    v.cols_ = n, v.loc_ = loc;
    return v;
  }
  /// Rows as columns, for a product.
  Flipped<T> t() const { return {id(), cols_, rows_}; }
  u32 row_count() const { return rows_; }
  u32 col_count() const { return cols_; }
  /// An element of it, in the generic proxy.
  Elem<T> operator()(Use<Index> row, Use<Index> col) const {
    using detail::Opcode;
    const auto number = [&](u64 n) {
      return detail::Arg{detail::constant_of(DType::index, static_cast<i64>(n), true, row.loc), false};
    };
    const auto op = [&](Opcode code, detail::Arg a, detail::Arg b) {
      return detail::Arg{detail::emit(code, row.loc, {a, b}), false};
    };
    const auto r = op(Opcode::Add, op(Opcode::Mul, slot_, number(array_.rows)), op(Opcode::Add, row_, row.arg));
    const auto at = op(Opcode::Add, op(Opcode::Mul, r, number(array_.cols)), op(Opcode::Add, col_, col.arg));
    return Elem<T>(memory_, at, row.loc);
  }
  detail::Id id() const {
    if (rows_ > array_.rows || cols_ > array_.cols)
      detail::refuse("D16",
                     "a view of " + std::to_string(rows_) + " x " + std::to_string(cols_) + " in a slot of " +
                         std::to_string(array_.rows) + " x " + std::to_string(array_.cols),
                     loc_, "keep the view inside its slot");
    return detail::emit(detail::Opcode::SharedView, loc_, {{memory_}, slot_, row_, col_}, 0,
                        ir::Type::view(dtype_of<T>, static_cast<u16>(rows_), static_cast<u16>(cols_), array_.swizzle));
  }

 private:
  detail::Id memory_;
  ir::Type array_;
  detail::Arg slot_, row_, col_;
  u32 rows_, cols_;
  detail::Loc loc_;
};

/// Threadgroup memory of another threadgroup of the cluster: read it between two cluster syncs.
template <class T>
class Peer {
 public:
  Peer(detail::Id memory, u32 cols, detail::Arg rank) : memory_(memory), cols_(cols), rank_(rank) {}
  Val<T> operator[](Use<Index> i) const {
    return Val<T>(detail::emit(detail::Opcode::PeerLoad, i.loc, {{memory_}, i.arg, rank_}), i.loc, true);
  }
  Val<T> operator()(Use<Index> row, Use<Index> col) const {
    const detail::Id width = detail::constant_of(DType::index, i64{cols_}, true, row.loc);
    const detail::Id start = detail::emit(detail::Opcode::Mul, row.loc, {row.arg, {width}});
    const detail::Id at = detail::emit(detail::Opcode::Add, row.loc, {{start}, col.arg});
    return Val<T>(detail::emit(detail::Opcode::PeerLoad, row.loc, {{memory_}, {at}, rank_}), row.loc, true);
  }

 private:
  detail::Id memory_;
  u32 cols_;
  detail::Arg rank_;
};

template <class T>
View<T> Shared<T>::operator[](const Slot& at) const {
  return View<T>(id_, type_, {at.id(), false}, at.loc());
}
template <class T>
View<T> Shared<T>::slot(Use<Index> at) const {
  return View<T>(id_, type_, {at.arg.id, false}, at.loc);
}
template <class T>
Peer<T> Shared<T>::peer(Use<Index> rank) const {
  return Peer<T>(id_, cols_, {rank.arg.id, false});
}

}  // namespace iron
