// Strided tensors, and loops in which the threads of a threadgroup take an element each in turn.
#pragma once

#include <array>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "iron/dsl.h"

namespace iron {

/// A buffer seen as a tensor: shape, strides and offset in elements, host numbers or launch scalars (R10).
/// `const Strided a(x, {rows, cols}, {row_stride, 1});  a[{r, c}]`. A stride of 0 repeats. The launch contract checks
/// what a subscript reaches in the buffer, as for any other.
template <class B, std::size_t N>
class Strided {
 public:
  using element = typename B::element;
  using Place = const Use<Index> (&)[N];

  Strided(const B& buffer, const Use<Index> (&shape)[N], const Use<Index> (&strides)[N], Use<Index> offset = 0)
      : buffer_(buffer), offset_(offset) {
    for (std::size_t d = 0; d < N; ++d) {
      shape_.emplace_back(shape[d]), strides_.emplace_back(strides[d]);
      order_[d] = d;
    }
  }

  /// The element there: read at once from an In, to be stored to an Out, either for an InOut.
  auto operator[](Place at) const { return buffer_[element_at(at)]; }
  /// The element there, or `other` outside the shape: nothing is read then.
  Val<element> load_or(Place at, Use<element> other) const {
    const auto inside = contains(at);
    return buffer_.load_or(Use<bool>(inside, at[0].loc), element_at(at), other);  // the author's line
  }
  /// Whether the shape has that place.
  Val<bool> contains(Place at) const {
    std::vector<Val<bool>> inside;
    for (std::size_t d = 0; d < N; ++d) {
      const Val<Index> i = at[d];
      inside.emplace_back(i >= 0 && i < extent(d));
    }
    return all_of(inside);
  }
  const Val<Index>& extent(std::size_t axis) const { return shape_[order_.at(axis)]; }
  const Val<Index>& stride(std::size_t axis) const { return strides_[order_.at(axis)]; }

  /// The same elements with two axes exchanged.
  Strided transposed(std::size_t a = N - 2, std::size_t b = N - 1) const {
    Strided t = *this;
    std::swap(t.order_.at(a), t.order_.at(b));
    return t;
  }

 private:
  Use<Index> element_at(Place at) const {
    std::vector<Val<Index>> sums{offset_};
    for (std::size_t d = 0; d < N; ++d) {
      const Val<Index> i = at[d];
      sums.emplace_back(sums.back() + i * stride(d));
    }
    return Use<Index>(sums.back(), at[0].loc);  // the author's line
  }
  static Val<bool> all_of(const std::vector<Val<bool>>& conditions) {
    std::vector<Val<bool>> joined{conditions.front()};
    for (std::size_t d = 1; d < N; ++d) joined.emplace_back(joined.back() && conditions[d]);
    return joined.back();
  }

  B buffer_;
  std::vector<Val<Index>> shape_, strides_;
  std::array<std::size_t, N> order_;  ///< the axes as they are subscripted; values cannot be assigned, so these move
  Val<Index> offset_;
};
template <class B, std::size_t N>
Strided(const B&, const Use<Index> (&)[N], const Use<Index> (&)[N]) -> Strided<B, N>;
template <class B, std::size_t N, class O>
Strided(const B&, const Use<Index> (&)[N], const Use<Index> (&)[N], const O&) -> Strided<B, N>;

namespace detail {
/// The device type of what a function gives for an index.
template <class F>
using type_at_index = device_type_of<std::invoke_result_t<F&, Val<Index>>>;

template <class T>
T sum_identity() {
  return is_float(dtype_of<T>) ? static_cast<T>(-0.0f) : static_cast<T>(0);
}
template <class T>
T extreme(bool smallest) {
  if constexpr (is_float(dtype_of<T>))
    return static_cast<T>(smallest ? -std::numeric_limits<f32>::infinity() : std::numeric_limits<f32>::infinity());
  else
    return smallest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
}
}  // namespace detail

/// f(i) for i = thread_id(), thread_id() + threads(), ... below n.
template <class F>
void strided_each(Use<Index> n, F f, detail::Loc loc = detail::Loc::here()) {
  const Val<Index> end = n;
  for (auto i : range(thread_id(), end, threads(), loc)) f(i);
}

// Over all i below n: each thread folds its own in ascending order, then the threadgroup folds the threads (R4).
// Every thread arrives and gets the result. f may do anything with i: `exp(x[i] - m)`, `a[i] * b[i]`.
#define IRON_STRIDED(name, reduce, identity, step)                      \
  template <class F>                                                    \
  auto name(Use<Index> n, F f, detail::Loc loc = detail::Loc::here()) { \
    using T = detail::type_at_index<F>;                                 \
    const Val<Index> end = n;                                           \
    Var<T> own{identity};                                               \
    for (auto i : range(thread_id(), end, threads(), loc)) {            \
      const Val<T> v = f(i);                                            \
      const Val<T> old = own;                                           \
      own = step;                                                       \
    }                                                                   \
    return reduce(Val<T>(own));                                         \
  }
IRON_STRIDED(strided_sum, threadgroup_sum, detail::sum_identity<T>(), old + v)
IRON_STRIDED(strided_product, threadgroup_product, static_cast<T>(1), old* v)
IRON_STRIDED(strided_min, threadgroup_min, detail::extreme<T>(false), min(old, v))
IRON_STRIDED(strided_max, threadgroup_max, detail::extreme<T>(true), max(old, v))
#undef IRON_STRIDED

namespace detail {
template <class F>
Val<u32> strided_arg(Use<Index> n, F f, bool smallest, Loc loc) {
  using T = type_at_index<F>;
  constexpr u32 none = 0xffffffffu;
  const Val<Index> end = n;
  Var<T> own{extreme<T>(!smallest)};
  Var<u32> at{none};
  for (auto i : range(thread_id(), end, threads(), loc)) {
    const Val<T> v = f(i);
    const Val<T> best = own;
    const Val<u32> best_at = at;
    const Val<bool> beyond = smallest ? v < best : v > best;
    const Val<bool> better = beyond || (best_at == none && v == best);  // one that equals the start counts too
    own = select<T>(better, v, best);
    at = select<u32>(better, cast<u32>(i), best_at);
  }
  const Val<T> mine = own;
  const Val<u32> mine_at = at;
  const Val<T> best = smallest ? threadgroup_min(mine) : threadgroup_max(mine);
  const Val<u32> first = threadgroup_min(select<u32>(mine == best, mine_at, none));
  return select<u32>(first == none, 0u, first);
}
}  // namespace detail

/// The smallest i below n whose f(i) is largest or smallest; NaN is never chosen, 0 where there is nothing else.
template <class F>
Val<u32> strided_argmax(Use<Index> n, F f, detail::Loc loc = detail::Loc::here()) {
  return detail::strided_arg(n, f, false, loc);
}
template <class F>
Val<u32> strided_argmin(Use<Index> n, F f, detail::Loc loc = detail::Loc::here()) {
  return detail::strided_arg(n, f, true, loc);
}

/// store(i, f(0) + ... + f(i)) for every i below n, a threadgroup's width at a time. n is the same for all threads.
template <class F, class S>
void strided_scan(Use<Index> n, F f, S store, detail::Loc loc = detail::Loc::here()) {
  using T = detail::type_at_index<F>;
  const Val<Index> end = n;
  Var<T> carry{detail::sum_identity<T>()};
  for (auto base : range(0, end, threads(), loc)) {
    const Val<Index> i = base + thread_id();
    const Val<bool> inside = i < end;
    Var<T> own{detail::sum_identity<T>()};
    IRON_IF(inside) { own = f(i); }
    const Val<T> mine = own;
    const Val<T> before = carry;
    const Val<T> here = threadgroup_scan_sum(mine);
    const Val<T> all = threadgroup_sum(mine);
    IRON_IF(inside) { store(i, before + here); }
    carry = before + all;
  }
}

}  // namespace iron
