// Copies from inputs into threadgroup memory that a thread starts and waits for later, past its registers. A ring of
// stages: each step waits for the oldest stage, passes a barrier, starts the copies of a later one, closes them, then
// works on the oldest.
#pragma once

#include "iron/dsl/vec.h"

namespace iron {

namespace detail {
template <u32 N, class T, class M>
constexpr void check_copy() {
  static_assert(is_kind<M>(Access::in), "iron D24: copies come from an In<T>, which nothing writes");
  static_assert(std::same_as<T, typename M::element>, "iron D29: a copy changes no types: load, cast and store");
  static_assert(N * sizeof(T) == 4 || N * sizeof(T) == 8 || N * sizeof(T) == 16,
                "iron D16: a copy has 4, 8 or 16 bytes");
}
template <class T, u32 N>
ir::Type copied_type() {
  return ir::Type::value(dtype_of<T>, static_cast<u8>(N));
}
}  // namespace detail

/// Starts a copy of N elements, 4, 8 or 16 bytes together, from `source` into `target`; both firsts are multiples of N.
/// Until wait_copies() nobody reads or writes what it fills, and other threads not before a barrier() after that. It
/// belongs to the group that the thread's next commit_copies() closes. A device without such copies stores at once.
template <u32 N, class T, class M>
void copy_async(const Shared<T>& target, Use<Index> at, const M& source, Use<Index> first) {
  detail::check_copy<N, T, M>();
  const auto imm = detail::vector_imm<T, N>();
  const auto value = detail::emit(detail::Opcode::Load, first.loc, {{source.memory(first.loc)}, first.arg}, imm,
                                  detail::copied_type<T, N>());
  detail::emit(detail::Opcode::CopyAsync, first.loc, {{target.memory()}, at.arg, {value}}, imm);
}
/// The same where `inside` holds; else N zeros fill the place, nothing is read, and `first` may be anything.
template <u32 N, class T, class M>
void copy_async_or_zeros(const Shared<T>& target, Use<Index> at, const M& source, Use<bool> inside, Use<Index> first) {
  detail::check_copy<N, T, M>();
  const auto imm = detail::vector_imm<T, N>();
  const Use<T> zero(T{}, first.loc);
  detail::Id zeros = zero.arg.id;
  if constexpr (N > 1) zeros = Vec<T, N>::splat(zero).id();
  const auto value =
      detail::emit(detail::Opcode::LoadOr, first.loc, {{source.memory(first.loc)}, first.arg, inside.arg, {zeros}}, imm,
                   detail::copied_type<T, N>());
  detail::emit(detail::Opcode::CopyAsync, first.loc, {{target.memory()}, at.arg, {value}}, imm);
}
/// Closes the thread's open group of copies. It may be empty: then steps without copies count like the others.
inline void commit_copies(detail::Loc loc = detail::Loc::here()) { detail::emit(detail::Opcode::CopyCommit, loc, {}); }
/// Waits until all closed groups of this thread but the newest `in_flight` have arrived.
inline void wait_copies(u32 in_flight = 0, detail::Loc loc = detail::Loc::here()) {
  detail::emit(detail::Opcode::CopyWait, loc, {}, in_flight);
}

}  // namespace iron
