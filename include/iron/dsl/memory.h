// Threadgroup memory, a thread's own arrays, barriers, atomics.
#pragma once

#include "iron/dsl/buffer.h"

namespace iron {

enum class Swizzle : u8 { none, b32, b64, b128 };

struct Shape {
  u32 rows, cols;
};
class Slot;
template <class T>
class View;
template <class T>
class Peer;

/// Threadgroup memory as a typed object: two of them cannot collide by name (D05). Lengths are host values; contents
/// are undefined until stored (D32).
template <class T>
class Shared {
 public:
  explicit Shared(u32 length, detail::Loc loc = detail::Loc::here())
      : length_(length),
        id_(detail::emit(detail::Opcode::SharedNew, loc, {}, length,
                         ir::Type::memory(ir::Space::shared, dtype_of<T>))) {}
  /// rows x cols, row-major; the swizzle is one layout for every access to it.
  Shared(u32 rows, u32 cols, Swizzle swizzle = Swizzle::none, detail::Loc loc = detail::Loc::here())
      : length_(rows * cols),
        cols_(cols),
        type_(ir::Type::shared2d(dtype_of<T>, static_cast<u16>(rows), static_cast<u16>(cols),
                                 static_cast<ir::Swizzle>(swizzle))),
        id_(detail::emit(detail::Opcode::SharedNew, loc, {}, u64{rows} * cols, type_)) {}
  /// `slots` matrices of one shape, one after another, each laid out as tensor copies and warpgroup products want it.
  Shared(u32 slots, Shape shape, Swizzle swizzle, detail::Loc loc = detail::Loc::here())
      : length_(slots * shape.rows * shape.cols), cols_(shape.cols) {
    if (slots == 0 || shape.rows == 0 || shape.cols == 0 || shape.rows > 0xffff || shape.cols > 0xffff)
      detail::refuse("D16", "threadgroup memory without elements", loc, "give slots, rows and columns of at least 1");
    type_ = ir::Type::shared2d(dtype_of<T>, static_cast<u16>(shape.rows), static_cast<u16>(shape.cols),
                               static_cast<ir::Swizzle>(swizzle));
    id_ = detail::emit(detail::Opcode::SharedNew, loc, {}, length_, type_);
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;

  /// Another typed view of the same bytes from an offset, a multiple of 16.
  template <class U>
  static Shared over(const Shared<U>& other, u32 byte_offset, u32 length, detail::Loc loc = detail::Loc::here()) {
    if (byte_offset % 16 ||
        byte_offset + u64{length} * dtype_size(dtype_of<T>) > u64{other.length()} * dtype_size(dtype_of<U>))
      detail::refuse("D16",
                     "an alias at byte " + std::to_string(byte_offset) + " of " + std::to_string(length) +
                         " elements does not fit",
                     loc, "keep the offset a multiple of 16 and the view inside the array");
    Shared s;
    s.length_ = length;
    s.id_ = detail::emit(detail::Opcode::SharedAlias, loc, {{other.memory()}}, byte_offset,
                         ir::Type::memory(ir::Space::shared, dtype_of<T>));
    return s;
  }

  Elem<T> operator[](Use<Index> i) const { return Elem<T>(id_, i.arg, i.loc); }
  Elem<T> operator()(Use<Index> row, Use<Index> col) const {
    const detail::Id width = detail::constant_of(DType::index, i64{cols_}, true, row.loc);
    const detail::Id start = detail::emit(detail::Opcode::Mul, row.loc, {row.arg, {width}});
    return Elem<T>(id_, {detail::emit(detail::Opcode::Add, row.loc, {{start}, col.arg})}, row.loc);
  }
  /// A slot, as copies and products take it (include iron/hopper.h).
  View<T> operator[](const Slot& slot) const;
  View<T> slot(Use<Index> slot) const;
  /// The same memory in another threadgroup of the cluster.
  Peer<T> peer(Use<Index> rank) const;
  u32 length() const { return length_; }
  ir::Type type() const { return type_; }
  u32 cols() const { return cols_; }
  using element = T;
  detail::Id memory(detail::Loc = {}) const { return id_; }

 private:
  Shared() = default;
  template <class U>
  friend class Shared;
  u32 length_ = 0, cols_ = 0;
  ir::Type type_;
  detail::Id id_ = detail::no_id;
};

/// A thread's own array with device indices; Vars is the one that stays in registers.
template <class T>
class Local {
 public:
  explicit Local(u32 length, detail::Loc loc = detail::Loc::here())
      : id_(detail::emit(detail::Opcode::ArrayNew, loc, {}, length, ir::Type::memory(ir::Space::priv, dtype_of<T>))) {}
  Local(const Local&) = delete;
  Local& operator=(const Local&) = delete;
  Elem<T> operator[](Use<Index> i) const { return Elem<T>(id_, i.arg, i.loc); }
  using element = T;
  detail::Id memory(detail::Loc = {}) const { return id_; }

 private:
  detail::Id id_;
};

/// All threads of the threadgroup arrive before any leaves; their earlier accesses are seen by all (D22 if some may not
/// arrive).
inline void barrier(detail::Loc loc = detail::Loc::here()) { detail::emit(detail::Opcode::Barrier, loc, {}); }
inline void simdgroup_barrier(detail::Loc loc = detail::Loc::here()) {
  detail::emit(detail::Opcode::SimdBarrier, loc, {});
}

enum class Order : u8 { relaxed, acquire, release, acq_rel };
enum class Within : u8 {
  threadgroup = static_cast<u8>(ir::Scope::threadgroup),
  grid = static_cast<u8>(ir::Scope::grid)
};

inline void fence(Order order, Within scope = Within::grid, detail::Loc loc = detail::Loc::here()) {
  detail::emit(detail::Opcode::Fence, loc, {},
               ir::pack(ir::AtomicImm{{}, static_cast<ir::MemoryOrder>(order), static_cast<ir::Scope>(scope)}));
}

/// What an atomic returns. It is no operand: name it, `Val old{atomic_add(n[0], 1u)};`, so that its place in the order
/// is written.
template <class T>
class Once {
 public:
  explicit Once(detail::Id id, detail::Loc loc) : id_(id), loc_(loc) {}
  Once(const Once&) = delete;
  operator Val<T>() && { return Val<T>(id_, loc_); }  // NOLINT(google-explicit-constructor)
  detail::Id id() const { return id_; }

 private:
  detail::Id id_;
  detail::Loc loc_;
};
template <class T>
Val(Once<T>) -> Val<T>;

#define IRON_ATOMIC(name, Kind)                                                                                   \
  template <class T>                                                                                              \
  Once<T> name(const Elem<T>& e, std::type_identity_t<Use<T>> v, Order order = Order::relaxed,                    \
               Within scope = Within::grid) {                                                                     \
    return Once<T>(detail::emit(detail::Opcode::AtomicRmw, v.loc, {{e.memory()}, e.index(), v.arg},               \
                                ir::pack(ir::AtomicImm{ir::AtomicKind::Kind, static_cast<ir::MemoryOrder>(order), \
                                                       static_cast<ir::Scope>(scope)})),                          \
                   v.loc);                                                                                        \
  }
IRON_ATOMIC(atomic_add, add)
IRON_ATOMIC(atomic_min, min)
IRON_ATOMIC(atomic_max, max)
IRON_ATOMIC(atomic_and, and_)
IRON_ATOMIC(atomic_or, or_)
IRON_ATOMIC(atomic_xor, xor_)
IRON_ATOMIC(atomic_exchange, exchange)
IRON_ATOMIC(atomic_inc_wrap, inc_wrap)  ///< old >= v ? 0 : old + 1
#undef IRON_ATOMIC

template <class T>
Once<T> atomic_compare_exchange(const Elem<T>& e, std::type_identity_t<Use<T>> expected,
                                std::type_identity_t<Use<T>> desired, Order order = Order::relaxed,
                                Within scope = Within::grid) {
  return Once<T>(
      detail::emit(detail::Opcode::AtomicCas, expected.loc, {{e.memory()}, e.index(), expected.arg, desired.arg},
                   ir::pack(ir::AtomicImm{ir::AtomicKind::exchange, static_cast<ir::MemoryOrder>(order),
                                          static_cast<ir::Scope>(scope)})),
      expected.loc);
}
template <class T>
Once<T> atomic_load(const Elem<T>& e, Order order = Order::relaxed, Within scope = Within::grid,
                    detail::Loc loc = detail::Loc::here()) {
  return Once<T>(detail::emit(detail::Opcode::AtomicLoad, loc, {{e.memory()}, e.index()},
                              ir::pack(ir::AtomicImm{ir::AtomicKind::exchange, static_cast<ir::MemoryOrder>(order),
                                                     static_cast<ir::Scope>(scope)})),
                 loc);
}
template <class T>
void atomic_store(const Elem<T>& e, std::type_identity_t<Use<T>> v, Order order = Order::relaxed,
                  Within scope = Within::grid) {
  detail::emit(detail::Opcode::AtomicStore, v.loc, {{e.memory()}, e.index(), v.arg},
               ir::pack(ir::AtomicImm{ir::AtomicKind::exchange, static_cast<ir::MemoryOrder>(order),
                                      static_cast<ir::Scope>(scope)}));
}
/// A number handed out once a threadgroup, in the order in which threadgroups start. The counter is zero before the
/// launch.
inline Val<Index> ticket(const Elem<u32>& counter, detail::Loc loc = detail::Loc::here()) {
  return Val<Index>(detail::emit(detail::Opcode::Ticket, loc, {{counter.memory()}, counter.index()}), loc);
}
/// Waits (acquire) until (element & mask) differs from `value`; returns the element. Progress must be proven (R6).
template <class T>
Once<T> wait_until_not(const Elem<T>& e, std::type_identity_t<Use<T>> mask, std::type_identity_t<Use<T>> value) {
  return Once<T>(detail::emit(detail::Opcode::WaitUntil, mask.loc, {{e.memory()}, e.index(), mask.arg, value.arg},
                              ir::pack(ir::WaitImm{ir::CompareKind::ne, ir::Scope::grid})),
                 mask.loc);
}

}  // namespace iron
