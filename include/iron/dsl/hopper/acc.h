// Accumulators of warpgroup products: asynchronous, in registers.
#pragma once

#include "iron/dsl/hopper/fp8.h"
#include "iron/dsl/hopper/frag.h"

namespace iron {

/// An m x n accumulator of a warpgroup: a place, not a value. Products into it are in flight until settle(); in between
/// it can be neither read nor set. Contents are undefined before the first product that does not accumulate, clear() or
/// set().
template <class T>
class Acc {
  static_assert(std::same_as<T, f32>, "iron: accumulators hold f32");

 public:
  Acc(u32 m, u32 n, detail::Loc loc = detail::Loc::here()) : m_(m), n_(n) {
    if (m != 64 || n == 0 || n % 8 || n > 256)
      detail::refuse("D16", "an accumulator of " + std::to_string(m) + " x " + std::to_string(n), loc,
                     "use 64 rows and a multiple of 8 columns up to 256");
    id_ = detail::emit(detail::Opcode::AccNew, loc, {}, 0,
                       ir::Type::acc(dtype_of<T>, static_cast<u16>(m), static_cast<u16>(n)));
  }
  Acc(const Acc&) = delete;
  Acc& operator=(const Acc&) = delete;

  /// Starts this = a * b + (accumulate ? this : 0): one batch. `a` is a view or a fragment, `b` a view; `.t()`
  /// exchanges rows and columns of a view. All threads of the warpgroup take part.
  template <class A, class B>
  void mma(const A& a, const B& b, Use<bool> accumulate = true) {
    const Operand<A> left = operand(a);
    const Operand<B> right = operand(b);
    detail::emit(detail::Opcode::AccMma, accumulate.loc, {{id_}, {left.id}, {right.id}, accumulate.arg},
                 ir::pack(ir::MmaImm{static_cast<u16>(left.cols), left.format, left.flipped, right.flipped}));
  }
  /// The elements, as a value.
  Frag<T> value(detail::Loc loc = detail::Loc::here()) const {
    return Frag<T>(detail::emit(detail::Opcode::AccValue, loc, {{id_}}), m_, n_, loc);
  }
  void set(const Frag<T>& f, detail::Loc loc = detail::Loc::here()) {
    detail::emit(detail::Opcode::AccSet, loc, {{id_}, {f.id()}});
  }
  /// Multiplies each row by its value.
  template <detail::RowsLike R>
  void scale(const R& rows, detail::Loc loc = detail::Loc::here()) {
    detail::emit(detail::Opcode::AccScale, loc, {{id_}, {rows.id()}});
  }
  void clear(detail::Loc loc = detail::Loc::here()) { detail::emit(detail::Opcode::AccClear, loc, {{id_}}); }
  /// Row and column of each element.
  Frag<Index> row(detail::Loc loc = detail::Loc::here()) const { return place(detail::Opcode::FragRow, loc); }
  Frag<Index> col(detail::Loc loc = detail::Loc::here()) const { return place(detail::Opcode::FragCol, loc); }

 private:
  template <class X>
  struct Operand {
    detail::Id id;
    u32 cols;  ///< as the product sees it
    bool flipped;
    ir::MmaFormat format = ir::MmaFormat::native;
  };
  template <class E>
  static constexpr ir::MmaFormat format_of = std::same_as<E, e4m3> ? ir::MmaFormat::e4m3 : ir::MmaFormat::native;
  template <class E>
  static Operand<View<E>> operand(const View<E>& v) {
    return {v.id(), v.col_count(), false, format_of<E>};
  }
  template <class E>
  static Operand<Flipped<E>> operand(const Flipped<E>& v) {
    return {v.id, v.cols, true, format_of<E>};
  }
  template <detail::FragLike F>
  static Operand<F> operand(const F& f) {
    return {f.id(), f.type().cols, false};
  }
  Frag<Index> place(detail::Opcode code, detail::Loc loc) const {
    return Frag<Index>(
        detail::emit(code, loc, {}, 0, ir::Type::frag(DType::index, static_cast<u16>(m_), static_cast<u16>(n_))), m_,
        n_, loc);
  }
  u32 m_, n_;
  detail::Id id_ = detail::no_id;
};

/// Waits until at most `in_flight` batches of the warpgroup, the newest ones, are in flight.
inline void settle(u32 in_flight, detail::Loc loc = detail::Loc::here()) {
  detail::emit(detail::Opcode::AccSettle, loc, {}, in_flight);
}

/// Writes a fragment of 16-bit elements into a view, each thread its own part.
template <class T>
void put(const View<T>& to, const Frag<T>& f, detail::Loc loc = detail::Loc::here()) {
  detail::emit(detail::Opcode::FragPut, loc, {{to.id()}, {f.id()}});
}

}  // namespace iron
