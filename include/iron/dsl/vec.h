// Vectors: 2, 4 or 8 elements of one type that a thread holds and moves together.
#pragma once

#include <array>
#include <bit>

#include "iron/dsl/memory.h"

namespace iron {

template <class T, u32 N>
class Vec;

/// A vector on its way into an op: remembers the line that wrote it and whether it has a name.
template <class T, u32 N>
struct VecUse {
  detail::Arg arg;
  detail::Loc loc;
  VecUse(const Vec<T, N>& v, detail::Loc l = detail::Loc::here());  // NOLINT(google-explicit-constructor)
  VecUse(Vec<T, N>&& v, detail::Loc l = detail::Loc::here());       // NOLINT(google-explicit-constructor)
};

/// A host index and the line that wrote it.
struct VecIndex {
  u32 value;
  detail::Loc loc;
  VecIndex(u32 i, detail::Loc l = detail::Loc::here()) : value(i), loc(l) {}  // NOLINT(google-explicit-constructor)
};

/// An immutable vector of N elements. Arithmetic is element by element; a scalar operand stands for N of itself.
/// Elements are reached by host indices; a vector with another element is a new one.
template <class T, u32 N>
class Vec {
  static_assert(N == 2 || N == 4 || N == 8, "iron D16: a vector has 2, 4 or 8 elements");
  static_assert(DeviceType<T> && !std::same_as<T, Index>,
                "iron D17: a vector holds stored types: keep indices as scalars, or cast them to u32 or u64");

 public:
  using element = T;
  static constexpr u32 size() { return N; }
  static ir::Type type() { return ir::Type::value(dtype_of<T>, static_cast<u8>(N)); }

  explicit Vec(detail::Id id) : id_(id) {}
  /// From its N elements.
  template <class... V>
    requires(sizeof...(V) == N && (std::convertible_to<V &&, Use<T>> && ...))
  explicit Vec(V&&... elements) : Vec(std::array<Use<T>, N>{Use<T>(std::forward<V>(elements))...}) {}
  explicit Vec(const std::array<Use<T>, N>& elements) : id_(detail::no_id) {
    std::array<detail::Arg, N> args;
    for (u32 i = 0; i < N; ++i) args[i] = elements[i].arg;
    id_ = detail::emit(detail::Opcode::VecMake, elements[0].loc, args);
  }
  /// N copies of one value.
  static Vec splat(Use<T> value) {
    std::array<detail::Arg, N> args;
    args.fill(value.arg);
    return Vec(detail::emit(detail::Opcode::VecMake, value.loc, args));
  }

  Val<T> operator[](VecIndex i) const {
    return Val<T>(detail::emit(detail::Opcode::VecExtract, i.loc, {{id_}}, check(i)), i.loc);
  }
  /// This vector with element i replaced.
  Vec with(VecIndex i, Use<T> value) const {
    return Vec(detail::emit(detail::Opcode::VecInsert, i.loc, {{id_}, value.arg}, check(i)));
  }
  detail::Id id() const { return id_; }

  using Operand = VecUse<T, N>;
#define IRON_VEC_BINARY(name, Code, Constraint)                                      \
  friend Vec name(Operand a, Operand b)                                              \
    requires Constraint                                                              \
  {                                                                                  \
    return Vec(detail::emit(detail::Opcode::Code, a.loc, {a.arg, b.arg}));           \
  }                                                                                  \
  friend Vec name(Operand a, Use<T> b)                                               \
    requires Constraint                                                              \
  {                                                                                  \
    return Vec(detail::emit(detail::Opcode::Code, a.loc, {a.arg, {splat(b).id()}})); \
  }                                                                                  \
  friend Vec name(Use<T> a, Operand b)                                               \
    requires Constraint                                                              \
  {                                                                                  \
    return Vec(detail::emit(detail::Opcode::Code, a.loc, {{splat(a).id()}, b.arg})); \
  }
  IRON_VEC_BINARY(operator+, Add, DeviceNumber<T>)
  IRON_VEC_BINARY(operator-, Sub, DeviceNumber<T>)
  IRON_VEC_BINARY(operator*, Mul, DeviceNumber<T>)
  IRON_VEC_BINARY(operator/, Div, DeviceNumber<T>)
  IRON_VEC_BINARY(operator%, Rem, DeviceInt<T>)
  IRON_VEC_BINARY(operator&, And, DeviceInt<T>)
  IRON_VEC_BINARY(operator|, Or, DeviceInt<T>)
  IRON_VEC_BINARY(operator^, Xor, DeviceInt<T>)
  IRON_VEC_BINARY(operator<<, Shl, DeviceInt<T>)
  IRON_VEC_BINARY(operator>>, Shr, DeviceInt<T>)
  IRON_VEC_BINARY(min, Min, DeviceNumber<T>)
  IRON_VEC_BINARY(max, Max, DeviceNumber<T>)
#undef IRON_VEC_BINARY
#define IRON_VEC_UNARY(name, Code, Constraint)                      \
  friend Vec name(Operand a)                                        \
    requires Constraint                                             \
  {                                                                 \
    return Vec(detail::emit(detail::Opcode::Code, a.loc, {a.arg})); \
  }
  IRON_VEC_UNARY(operator-, Neg, DeviceNumber<T>)
  IRON_VEC_UNARY(operator~, Not, DeviceInt<T>)
  IRON_VEC_UNARY(abs, Abs, DeviceNumber<T>)
  IRON_VEC_UNARY(sqrt, Sqrt, DeviceFloat<T>)
  IRON_VEC_UNARY(exp, Exp, DeviceFloat<T>)
#undef IRON_VEC_UNARY
  friend Vec fma(Operand a, Operand b, Operand c)
    requires DeviceFloat<T>
  {
    return Vec(detail::emit(detail::Opcode::Fma, a.loc, {a.arg, b.arg, c.arg}));
  }
  friend Vec select(Use<bool> condition, Operand a, Operand b) {
    return Vec(detail::emit(detail::Opcode::Select, condition.loc, {condition.arg, a.arg, b.arg}));
  }

 private:
  static u32 check(VecIndex i) {
    if (i.value >= N)
      detail::refuse("D16", "element " + std::to_string(i.value) + " of a vector of " + std::to_string(N), i.loc,
                     "use 0 to " + std::to_string(N - 1));
    return i.value;
  }
  detail::Id id_;
};

template <class T, u32 N>
VecUse<T, N>::VecUse(const Vec<T, N>& v, detail::Loc l) : arg{v.id(), false}, loc(l) {}
template <class T, u32 N>
VecUse<T, N>::VecUse(Vec<T, N>&& v, detail::Loc l) : arg{v.id(), true}, loc(l) {}

/// Numeric conversion of each element, as cast of a scalar.
template <DeviceType To, class T, u32 N>
Vec<To, N> cast(const Vec<T, N>& v, detail::Loc loc = detail::Loc::here()) {
  if constexpr (std::same_as<To, T>)
    return v;
  else
    return Vec<To, N>(detail::emit(detail::Opcode::Cast, loc, {{v.id()}}, 0, Vec<To, N>::type()));
}
/// The elements added from the first to the last.
template <class T, u32 N>
Val<T> sum(const Vec<T, N>& v, detail::Loc loc = detail::Loc::here()) {
  detail::Id total = v[{0, loc}].id();
  for (u32 i = 1; i < N; ++i) total = detail::emit(detail::Opcode::Add, loc, {{total}, {v[{i, loc}].id()}});
  return Val<T>(total, loc);
}

namespace detail {
template <class T, u32 N>
u64 vector_imm() {
  return ir::pack(ir::MemoryImm{static_cast<u8>(std::countr_zero(dtype_size(dtype_of<T>) * N)), {}});
}
template <class M>
consteval bool is_kind(Access access) {
  if constexpr (requires { M::kind; })
    return M::kind == access;
  else
    return false;
}
}  // namespace detail

/// Elements first .. first + N - 1 of a readable buffer or threadgroup array in one access. `first` is a multiple of N:
/// by proof, or checked when the kernel is launched.
template <u32 N, class M>
auto load_vec(const M& memory, Use<Index> first) {
  using T = typename M::element;
  static_assert(!detail::is_kind<M>(detail::Access::out), "iron D24: an output cannot be read: declare it InOut<T>");
  return Vec<T, N>(detail::emit(detail::Opcode::Load, first.loc, {{memory.memory(first.loc)}, first.arg},
                                detail::vector_imm<T, N>(), Vec<T, N>::type()));
}
/// The same where `inside` holds, else N times `other`; nothing is read there, and `first` may be anything.
template <u32 N, class M>
auto load_vec_or(const M& memory, Use<bool> inside, Use<Index> first, Use<typename M::element> other) {
  using T = typename M::element;
  static_assert(!detail::is_kind<M>(detail::Access::out), "iron D24: an output cannot be read: declare it InOut<T>");
  const auto without = Vec<T, N>::splat(other);
  return Vec<T, N>(detail::emit(detail::Opcode::LoadOr, first.loc,
                                {{memory.memory(first.loc)}, first.arg, inside.arg, {without.id()}},
                                detail::vector_imm<T, N>(), Vec<T, N>::type()));
}
/// Sets elements first .. first + N - 1 of a writable buffer or threadgroup array in one access, aligned as load_vec.
template <class M, class T, u32 N>
void store_vec(const M& memory, Use<Index> first, const Vec<T, N>& v) {
  static_assert(std::same_as<T, typename M::element>,
                "iron D29: the stored vector has another element type: write cast<T>(vector)");
  static_assert(!detail::is_kind<M>(detail::Access::in),
                "iron D24: an input cannot be set: declare it Out<T> or InOut<T>");
  detail::emit(detail::Opcode::Store, first.loc, {{memory.memory(first.loc)}, first.arg, {v.id()}},
               detail::vector_imm<T, N>());
}

}  // namespace iron
