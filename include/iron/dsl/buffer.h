// Buffers and launch scalars: the fields of a kernel, and its arguments at the same time.
#pragma once

#include <optional>
#include <span>

#include "iron/dsl/value.h"

namespace iron {

/// Where a buffer's bytes are: on the host (tests upload it) or on a device.
struct BufferRef {
  void* data = nullptr;
  u64 bytes = 0;
  bool on_device = false;
};

enum class Cache : u8 { normal, stream, keep };  ///< reuse expected: some, none, much

namespace detail {
enum class Access : u8 { in, out, inout };

/// A field of buffer kind: its bytes for the launch, its id while recording. No default constructor: an argument that
/// is left out is a C++ error.
template <class T, Access access>
class BufferField {
  static_assert(DeviceType<T>,
                "iron D17: this is no element type of a buffer: use bool, i8 to u64, f16, bf16, f32 or f64");

 public:
  using element = T;
  static constexpr Access kind = access;
  constexpr BufferField(BufferRef ref) : ref_(ref) {}  // NOLINT(google-explicit-constructor)
  /// Contiguous host or device memory that knows its elements: Buffer<T>, Array<T>, std::vector<T>, std::span<T>.
  template <class C>
    requires(!std::derived_from<std::remove_cvref_t<C>, BufferField> &&
             requires(C& c) {
               { c.data() } -> std::convertible_to<const T*>;
               { c.size() } -> std::convertible_to<u64>;
             })
  constexpr BufferField(C&& c)
      : ref_{const_cast<T*>(static_cast<const T*>(c.data())), c.size() * sizeof(T), on_device(c)} {}  // NOLINT
  template <class C>
    requires(
        !std::derived_from<std::remove_cvref_t<C>, BufferField> &&
        requires(C& c) {
          typename std::remove_cvref_t<C>::value_type;
          c.data();
        } &&
        !requires(C& c) {
          { c.data() } -> std::convertible_to<const T*>;
        })
  constexpr BufferField(C&&) {  // NOLINT(google-explicit-constructor)
    static_assert(always_false<C>, "iron D25: the buffer holds another element type than the kernel's parameter");
  }
  /// An argument of call(): memory of the calling kernel that the callee may use so. An input stays one; what the
  /// callee writes is an output, state, threadgroup memory or a thread's own array.
  template <class M>
    requires(!std::derived_from<M, BufferField> && std::same_as<typename M::element, T> &&
             requires(const M& m) { m.memory(Loc{}); })
  BufferField(const M& caller, Loc loc = Loc::here())
      : id_(caller.memory(loc)) {  // NOLINT(google-explicit-constructor)
    if constexpr (requires { M::kind; })
      static_assert(access == Access::out && M::kind == Access::inout,
                    "iron D24: the callee's parameter reads or writes what the argument does not allow: pass In<T> for "
                    "In<T>, InOut<T> for InOut<T>, Out<T> or InOut<T> for Out<T>");
    else
      static_assert(access != Access::in, "iron D24: a callee reads threadgroup memory through an InOut<T> parameter");
  }
  constexpr const BufferRef& ref() const { return ref_; }
  u64 size() const { return ref_.bytes / sizeof(T); }
  /// Elements, as a device value.
  Val<Index> length(Loc loc = Loc::here()) const { return Val<Index>(emit(Opcode::Length, loc, {{memory(loc)}}), loc); }
  void bind(Id id) { id_ = id; }
  Id memory(Loc loc) const {
    if (id_ == no_id)
      refuse("D17", "a buffer is used outside a recording", loc, "use kernel fields only inside operator()()");
    return id_;
  }

 private:
  template <class C>
  static constexpr bool on_device(const C& c) {
    if constexpr (requires { c.on_device(); })
      return c.on_device();
    else
      return false;
  }
  BufferRef ref_;
  Id id_ = no_id;
};
inline u64 memory_imm(Cache cache) { return ir::pack(ir::MemoryImm{0, static_cast<ir::CachePolicy>(cache)}); }
}  // namespace detail

/// An element of a writable buffer or of threadgroup memory. It reads where it is used: give it a name as `Val v =
/// y[i];`.
template <class T>
class Elem : public Operand<T> {
 public:
  Elem(detail::Id memory, detail::Arg index, detail::Loc loc) : memory_(memory), index_(index), loc_(loc) {}
  Elem(const Elem&) = default;
  void operator=(Use<T> v) const { detail::emit(detail::Opcode::Store, v.loc, {{memory_}, index_, v.arg}); }
  void operator=(const Elem& e) const {
    *this = Val<T>(detail::emit(detail::Opcode::Load, e.loc_, {{e.memory_}, e.index_}), e.loc_);
  }
  template <DeviceValue V>
    requires(!detail::compatible<T, device_type_of<V>>)
  void operator=(const V&) const {
    static_assert(detail::always_false<V>, "iron D29: the stored value has another element type: write cast<T>(value)");
  }
  void operator+=(Use<T> v) const { update(detail::Opcode::Add, v); }
  void operator-=(Use<T> v) const { update(detail::Opcode::Sub, v); }
  void operator*=(Use<T> v) const { update(detail::Opcode::Mul, v); }
  detail::Id memory() const { return memory_; }
  detail::Arg index() const { return index_; }
  detail::Id load(detail::Loc l) const { return detail::emit(detail::Opcode::Load, l, {{memory_}, index_}); }

 private:
  void update(detail::Opcode code, Use<T> v) const {
    const detail::Id old = load(v.loc);
    detail::emit(detail::Opcode::Store, v.loc, {{memory_}, index_, {detail::emit(code, v.loc, {{old}, v.arg})}});
  }
  detail::Id memory_;
  detail::Arg index_;
  detail::Loc loc_;
};

template <class T>
Use<T>::Use(Elem<T>&& e, detail::Loc l) : arg{e.load(l), true}, loc(l) {}

/// An element of an output: it can be set, not read (D24).
template <class T>
class OutElem {
 public:
  OutElem(detail::Id memory, detail::Arg index) : memory_(memory), index_(index) {}
  void operator=(Use<T> v) const { detail::emit(detail::Opcode::Store, v.loc, {{memory_}, index_, v.arg}); }
  template <DeviceValue V>
    requires(!detail::compatible<T, device_type_of<V>>)
  void operator=(const V&) const {
    static_assert(detail::always_false<V>, "iron D29: the stored value has another element type: write cast<T>(value)");
  }
  detail::Id memory() const { return memory_; }
  detail::Arg index() const { return index_; }

 private:
  detail::Id memory_;
  detail::Arg index_;
};
/// Reading one: said where it is tried, in an operation or by giving it a name.
#define IRON_NO_READ(symbol)                                                                        \
  template <class T, class B>                                                                       \
  void operator symbol(const OutElem<T>&, const B&) {                                               \
    static_assert(detail::always_false<T>, "iron D24: an output is not read: declare it InOut<T>"); \
  }                                                                                                 \
  template <class T, DeviceValue A>                                                                 \
  void operator symbol(const A&, const OutElem<T>&) {                                               \
    static_assert(detail::always_false<T>, "iron D24: an output is not read: declare it InOut<T>"); \
  }
// clang-format off
IRON_NO_READ(+) IRON_NO_READ(-) IRON_NO_READ(*) IRON_NO_READ(/)
// clang-format on
#undef IRON_NO_READ
    template <class T>
    Val(OutElem<T>) -> Val<T>;

/// A read-only buffer of T. A subscript loads at once.
template <class T>
class In : public detail::BufferField<T, detail::Access::in> {
  using Base = detail::BufferField<T, detail::Access::in>;

 public:
  using Base::Base;
  Val<T> operator[](Use<Index> i) const {
    return Val<T>(detail::emit(detail::Opcode::Load, i.loc, {{this->memory(i.loc)}, i.arg}), i.loc);
  }
  Val<T> load(Use<Index> i, Cache cache) const {
    return Val<T>(detail::emit(detail::Opcode::Load, i.loc, {{this->memory(i.loc)}, i.arg}, detail::memory_imm(cache)),
                  i.loc);
  }
  /// x[i] where the condition holds, else `other`: nothing is read elsewhere.
  Val<T> load_or(Use<bool> condition, Use<Index> i, Use<T> other) const {
    return Val<T>(detail::emit(detail::Opcode::LoadOr, condition.loc,
                               {{this->memory(condition.loc)}, i.arg, condition.arg, other.arg}),
                  condition.loc);
  }
  /// The bytes from an offset on as elements of another type (packed blocks). The offset is a multiple of U's size.
  template <class U>
  In<U> view(u32 byte_offset, detail::Loc loc = detail::Loc::here()) const {
    In<U> v{BufferRef{}};
    v.bind(detail::emit(detail::Opcode::View, loc, {{this->memory(loc)}}, byte_offset,
                        ir::Type::memory(ir::Space::global, dtype_of<U>)));
    return v;
  }
};

/// A write-only output: wholly written by the launch, disjoint from every other buffer.
template <class T>
class Out : public detail::BufferField<T, detail::Access::out> {
  using Base = detail::BufferField<T, detail::Access::out>;

 public:
  using Base::Base;
  OutElem<T> operator[](Use<Index> i) const { return OutElem<T>(this->memory(i.loc), i.arg); }
  void store(Use<Index> i, Use<T> v, Cache cache) const {
    detail::emit(detail::Opcode::Store, i.loc, {{this->memory(i.loc)}, i.arg, v.arg}, detail::memory_imm(cache));
  }
};

/// State that is read and written in place.
template <class T>
class InOut : public detail::BufferField<T, detail::Access::inout> {
  using Base = detail::BufferField<T, detail::Access::inout>;

 public:
  using Base::Base;
  Elem<T> operator[](Use<Index> i) const { return Elem<T>(this->memory(i.loc), i.arg, i.loc); }
  Val<T> load_or(Use<bool> condition, Use<Index> i, Use<T> other) const {
    return Val<T>(detail::emit(detail::Opcode::LoadOr, condition.loc,
                               {{this->memory(condition.loc)}, i.arg, condition.arg, other.arg}),
                  condition.loc);
  }
};

/// A launch scalar: one number for all threads, bound at launch, no recompilation when it changes.
template <class T>
class Scalar : public Operand<T> {
  static_assert(DeviceType<T>,
                "iron D17: this is no type of a launch scalar: use bool, i8 to u64, f16, bf16, f32 or f64");

 public:
  using element = T;
  constexpr Scalar(T value) : value_(value) {}  // NOLINT(google-explicit-constructor)
  /// A value of the calling kernel: an argument of call().
  template <class V>
    requires(DeviceValue<V> && !std::same_as<std::remove_cvref_t<V>, Scalar> && std::same_as<device_type_of<V>, T>)
  Scalar(V&& v, detail::Loc loc = detail::Loc::here())  // NOLINT(google-explicit-constructor)
      : value_{}, id_(Use<T>(std::forward<V>(v), loc).arg.id) {}
  bool bound() const { return id_ != detail::no_id; }
  constexpr T value() const { return value_; }
  void bind(detail::Id id) { id_ = id; }
  detail::Id id(detail::Loc loc) const {
    if (id_ == detail::no_id)
      detail::refuse("D17", "a launch scalar is used outside a recording", loc, "use value() on the host");
    return id_;
  }

 private:
  T value_;
  detail::Id id_ = detail::no_id;
};

template <class T>
Use<T>::Use(const Scalar<T>& s, detail::Loc l) : arg{s.id(l), false}, loc(l) {}

/// A buffer that may be left out. Its presence is specialisation (R10): test it with a host `if (bias)`.
template <class B>
class Optional {
 public:
  using buffer = B;
  constexpr Optional() = default;
  constexpr Optional(std::nullopt_t) {}  // NOLINT(google-explicit-constructor)
  template <class C>
    requires(std::constructible_from<B, C> && !std::same_as<std::remove_cvref_t<C>, Optional> &&
             !requires { typename std::remove_cvref_t<C>::stands_for_a_field; })
  constexpr Optional(C&& c) : value_(std::in_place, std::forward<C>(c)) {}  // NOLINT(google-explicit-constructor)
  constexpr explicit operator bool() const { return value_.has_value(); }
  constexpr const B* operator->() const { return &*value_; }
  constexpr const B& operator*() const { return *value_; }
  constexpr B& operator*() { return *value_; }

 private:
  std::optional<B> value_;
};

}  // namespace iron
