// Fragments: what the threads of a warpgroup hold of a matrix, and a value for each of its rows. Elementwise arithmetic
// mixes fragments, rows and scalars.
#pragma once

#include <type_traits>
#include <utility>

#include "iron/dsl/hopper/view.h"

namespace iron {

/// The value of a fragment of rows x cols elements, spread over a warpgroup.
template <class T>
class [[nodiscard]] Frag {
 public:
  using frag_element = T;
  Frag(detail::Id id, u32 rows, u32 cols, detail::Loc loc) : id_(id), rows_(rows), cols_(cols), loc_(loc) {}
  detail::Id id() const { return id_; }
  ir::Type type() const { return ir::Type::frag(dtype_of<T>, static_cast<u16>(rows_), static_cast<u16>(cols_)); }
  detail::Loc loc() const { return loc_; }
  /// `n` columns from `at` on, both multiples of 8.
  Frag cols(u32 at, u32 n, detail::Loc loc = detail::Loc::here()) const {
    return Frag(detail::emit(detail::Opcode::FragCols, loc, {{id_}}, at,
                             ir::Type::frag(dtype_of<T>, static_cast<u16>(rows_), static_cast<u16>(n))),
                rows_, n, loc);
  }
  u32 row_count() const { return rows_; }
  u32 col_count() const { return cols_; }

 private:
  detail::Id id_;
  u32 rows_, cols_;
  detail::Loc loc_;
};

/// A value for each row of a fragment.
template <class T>
class [[nodiscard]] Rows {
 public:
  using rows_element = T;
  Rows(detail::Id id, u32 rows, detail::Loc loc) : id_(id), rows_(rows), loc_(loc) {}
  detail::Id id() const { return id_; }
  ir::Type type() const { return ir::Type::row_values(dtype_of<T>, static_cast<u16>(rows_)); }
  detail::Loc loc() const { return loc_; }
  u32 row_count() const { return rows_; }

 private:
  detail::Id id_;
  u32 rows_;
  detail::Loc loc_;
};

/// A fragment that is assigned: in a loop it carries its value to the next trip.
template <class T>
class FragVar {
 public:
  using frag_element = T;
  FragVar(u32 rows, u32 cols, detail::Loc loc = detail::Loc::here())
      : rows_(rows),
        cols_(cols),
        slot_(detail::slot_new(ir::Type::frag(dtype_of<T>, static_cast<u16>(rows), static_cast<u16>(cols)), loc)),
        loc_(loc) {}
  FragVar(const FragVar&) = delete;
  void operator=(const Frag<T>& v) { detail::slot_store(slot_, {v.id()}, v.loc()); }
  Frag<T> value() const { return Frag<T>(id(), rows_, cols_, loc_); }
  detail::Id id() const { return detail::slot_load(slot_, loc_); }
  ir::Type type() const { return ir::Type::frag(dtype_of<T>, static_cast<u16>(rows_), static_cast<u16>(cols_)); }
  detail::Loc loc() const { return loc_; }

 private:
  u32 rows_, cols_;
  detail::Id slot_;
  detail::Loc loc_;
};
template <class T>
class RowsVar {
 public:
  using rows_element = T;
  explicit RowsVar(const Rows<T>& init) : rows_(init.row_count()), slot_(make(init)), loc_(init.loc()) {}
  /// The same value for every row.
  RowsVar(u32 rows, Use<T> value)
      : RowsVar(Rows<T>(detail::emit(detail::Opcode::FragSplat, value.loc, {value.arg}, 0,
                                     ir::Type::row_values(dtype_of<T>, static_cast<u16>(rows))),
                        rows, value.loc)) {}
  RowsVar(const RowsVar&) = delete;
  void operator=(const Rows<T>& v) { detail::slot_store(slot_, {v.id(), false}, v.loc()); }
  Rows<T> value() const { return Rows<T>(id(), rows_, loc_); }
  detail::Id id() const { return detail::slot_load(slot_, loc_); }
  ir::Type type() const { return ir::Type::row_values(dtype_of<T>, static_cast<u16>(rows_)); }
  detail::Loc loc() const { return loc_; }

 private:
  static detail::Id make(const Rows<T>& init) {
    const detail::Id slot = detail::slot_new(init.type(), init.loc());
    detail::slot_store(slot, {init.id(), false}, init.loc());
    return slot;
  }
  u32 rows_;
  detail::Id slot_;
  detail::Loc loc_;
};

namespace detail {
template <class X>
concept FragLike = requires { typename std::remove_cvref_t<X>::frag_element; };
template <class X>
concept RowsLike = requires { typename std::remove_cvref_t<X>::rows_element; };
template <class X>
concept Spread = FragLike<X> || RowsLike<X>;

template <class X>
struct SpreadElement {};
template <FragLike X>
struct SpreadElement<X> {
  using type = typename std::remove_cvref_t<X>::frag_element;
};
template <RowsLike X>
struct SpreadElement<X> {
  using type = typename std::remove_cvref_t<X>::rows_element;
};
// The element type that the operands share: that of the first one that is spread.
template <class A, class... Rest>
struct ElementOf : ElementOf<Rest...> {};
template <Spread A, class... Rest>
struct ElementOf<A, Rest...> {
  using type = typename SpreadElement<A>::type;
};

/// A fragment or rows as an operand: a temporary has no name.
template <Spread X>
Arg spread_arg(X&& x) {
  return {x.id(), !std::is_lvalue_reference_v<X>};
}
/// An operand in the shape of the op: rows spread over their fragment, scalars over either.
template <class T, class X>
Arg spread_to(ir::Type shape, X&& x, Loc loc) {
  const ir::Type type = shape.with_elem(dtype_of<T>);
  if constexpr (FragLike<X>) {
    return spread_arg(std::forward<X>(x));
  } else if constexpr (RowsLike<X>) {
    const Arg rows = spread_arg(std::forward<X>(x));
    return shape.is_frag() ? Arg{emit(Opcode::FragSpread, loc, {rows}, 0, type)} : rows;
  } else {
    const Use<T> u(std::forward<X>(x), loc);
    return {emit(Opcode::FragSplat, loc, {u.arg}, 0, type)};
  }
}
template <class A, class... Rest>
ir::Type shape_of(const A& a, const Rest&... rest) {
  if constexpr (FragLike<A>)
    return a.type();
  else if constexpr ((FragLike<Rest> || ...))
    return shape_of(rest...);
  else if constexpr (RowsLike<A>)
    return a.type();
  else
    return shape_of(rest...);
}
template <class A, class... Rest>
Loc loc_of(const A& a, const Rest&... rest) {
  if constexpr (Spread<A>)
    return a.loc();
  else
    return loc_of(rest...);
}
template <bool fragment, class R>
auto spread_result(Id id, ir::Type shape, Loc loc) {
  if constexpr (fragment)
    return Frag<R>(id, shape.rows, shape.cols, loc);
  else
    return Rows<R>(id, shape.rows, loc);
}
/// An elementwise op with result elements R.
template <class R, class... X>
auto spread_op(Opcode code, X&&... x) {
  using T = typename ElementOf<X...>::type;
  const ir::Type shape = shape_of(x...);
  const Loc loc = loc_of(x...);
  const std::array<Arg, sizeof...(X)> args{spread_to<T>(shape, std::forward<X>(x), loc)...};
  return spread_result<(FragLike<X> || ...), R>(emit(code, loc, args), shape, loc);
}
template <class... X>
using spread_element = typename ElementOf<X...>::type;
}  // namespace detail

#define IRON_SPREAD_BINARY(symbol, Code)                                                             \
  template <class A, class B>                                                                        \
    requires(detail::Spread<A> || detail::Spread<B>)                                                 \
  auto operator symbol(A&& a, B&& b) {                                                               \
    return detail::spread_op<detail::spread_element<A, B>>(detail::Opcode::Code, std::forward<A>(a), \
                                                           std::forward<B>(b));                      \
  }
#define IRON_SPREAD_COMPARE(symbol, Code)                                                         \
  template <class A, class B>                                                                     \
    requires(detail::Spread<A> || detail::Spread<B>)                                              \
  auto operator symbol(A&& a, B&& b) {                                                            \
    return detail::spread_op<bool>(detail::Opcode::Code, std::forward<A>(a), std::forward<B>(b)); \
  }
#define IRON_SPREAD_FUNCTION(name, Code)                                                                \
  template <class A, class... B>                                                                        \
    requires(detail::Spread<A> || (detail::Spread<B> || ...))                                           \
  auto name(A&& a, B&&... b) {                                                                          \
    return detail::spread_op<detail::spread_element<A, B...>>(detail::Opcode::Code, std::forward<A>(a), \
                                                              std::forward<B>(b)...);                   \
  }
IRON_SPREAD_BINARY(+, Add)
IRON_SPREAD_BINARY(-, Sub)
IRON_SPREAD_BINARY(*, Mul)
IRON_SPREAD_BINARY(/, Div)
IRON_SPREAD_COMPARE(<, Lt)
IRON_SPREAD_COMPARE(<=, Le)
IRON_SPREAD_COMPARE(>, Gt)
IRON_SPREAD_COMPARE(>=, Ge)
IRON_SPREAD_COMPARE(==, Eq)
IRON_SPREAD_COMPARE(!=, Ne)
IRON_SPREAD_FUNCTION(max, Max)
IRON_SPREAD_FUNCTION(min, Min)
IRON_SPREAD_FUNCTION(fma, Fma)
IRON_SPREAD_FUNCTION(abs, Abs)
IRON_SPREAD_FUNCTION(exp2, Exp2)
IRON_SPREAD_FUNCTION(fast_exp2, FastExp2)
IRON_SPREAD_FUNCTION(recip, Recip)
IRON_SPREAD_FUNCTION(fast_recip, FastRecip)
#undef IRON_SPREAD_BINARY
#undef IRON_SPREAD_COMPARE
#undef IRON_SPREAD_FUNCTION

template <detail::Spread X>
auto operator-(X&& x) {
  return detail::spread_op<detail::spread_element<X>>(detail::Opcode::Neg, std::forward<X>(x));
}

/// a where the condition holds, else b.
template <detail::Spread C, class A, class B>
auto where(C&& condition, A&& a, B&& b) {
  using T = detail::spread_element<A, B>;
  const ir::Type shape = condition.type();
  const detail::Loc loc = condition.loc();
  const detail::Arg args[] = {detail::spread_arg(std::forward<C>(condition)),
                              detail::spread_to<T>(shape, std::forward<A>(a), loc),
                              detail::spread_to<T>(shape, std::forward<B>(b), loc)};
  return detail::spread_result<detail::FragLike<C>, T>(detail::emit(detail::Opcode::Select, loc, args), shape, loc);
}
/// Numeric conversion, element by element.
template <DeviceType To, detail::Spread X>
auto cast(X&& x, detail::Loc loc = detail::Loc::here()) {
  const ir::Type type = x.type().with_elem(dtype_of<To>);
  return detail::spread_result<detail::FragLike<X>, To>(
      detail::emit(detail::Opcode::Cast, loc, {detail::spread_arg(std::forward<X>(x))}, 0, type), type, loc);
}

/// Folds each row onto a value: the part of it that a thread holds, columns ascending.
#define IRON_FOLD(name, Kind)                                                                                       \
  template <detail::FragLike F, detail::RowsLike R>                                                                 \
  auto name(F&& f, R&& onto, detail::Loc loc = detail::Loc::here()) {                                               \
    const u32 rows = f.type().rows;                                                                                 \
    const detail::Arg args[] = {detail::spread_arg(std::forward<F>(f)), detail::spread_arg(std::forward<R>(onto))}; \
    return Rows<detail::spread_element<F>>(                                                                         \
        detail::emit(detail::Opcode::FragFold, loc, args, ir::pack(ir::ReduceKind::Kind)), rows, loc);              \
  }
IRON_FOLD(fold_sum, sum)
IRON_FOLD(fold_max, max)
IRON_FOLD(fold_min, min)
#undef IRON_FOLD
/// Joins the parts that the four lanes of a row hold: all of them get the whole, lanes xor 1 first, then xor 2.
#define IRON_QUAD(name, Code)                                                                    \
  template <detail::RowsLike R>                                                                  \
  Rows<detail::spread_element<R>> name(const R& r, detail::Loc loc = detail::Loc::here()) {      \
    detail::Id v = r.id();                                                                       \
    for (const u64 lane : {1, 2})                                                                \
      v = detail::emit(detail::Opcode::Code, loc,                                                \
                       {{v}, {detail::emit(detail::Opcode::SimdShuffleXor, loc, {{v}}, lane)}}); \
    return {v, r.type().rows, loc};                                                              \
  }
IRON_QUAD(quad_sum, Add)
IRON_QUAD(quad_max, Max)
IRON_QUAD(quad_min, Min)
#undef IRON_QUAD

}  // namespace iron
