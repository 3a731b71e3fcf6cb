// Device values: Val (immutable), Var (assignable), and the operators between them.
#pragma once

#include <memory>
#include <utility>

#include "iron/dsl/detail.h"

namespace iron {

template <class T>
class Val;
template <class T>
class Var;
template <class T>
class Scalar;
template <class T>
class Elem;
template <class T>
class OutElem;
template <class T>
struct Use;
template <class T>
struct Operand;

template <class T>
concept DeviceFloat = is_float(dtype_of<T>);
template <class T>
concept DeviceInt = is_int(dtype_of<T>);
template <class T>
concept DeviceIntOrIndex = DeviceInt<T> || std::same_as<T, Index>;
template <class T>
concept DeviceNumber = DeviceFloat<T> || DeviceIntOrIndex<T>;
template <class T>
concept DeviceType = dtype_of<T> != DType::none;

/// Anything that is an operand of element type T by itself: Val, Var, Scalar, an element of a writable buffer.
template <class V>
concept DeviceValue = requires { typename std::remove_cvref_t<V>::device_type; };
template <class V>
using device_type_of = typename std::remove_cvref_t<V>::device_type;

namespace detail {
template <class T, class H>
concept HostConstant = (std::same_as<H, bool> && std::same_as<T, bool>) ||
                       (!std::same_as<H, bool> &&
                        ((DeviceFloat<T> && std::is_arithmetic_v<H>) || (DeviceIntOrIndex<T> && std::integral<H>)));
// u32 data widens to Index by itself; nothing else converts.
template <class To, class From>
inline constexpr bool widens = std::same_as<To, Index> && std::same_as<From, u32>;
template <class A, class B>
inline constexpr bool compatible = std::same_as<A, B> || widens<A, B> || widens<B, A>;
}  // namespace detail

namespace detail {
// Its name is the message where a bool value meets a host condition.
template <class T>
concept d28_no_truth_on_the_host_use_if_or_select = !std::same_as<T, bool>;
// A type that waits for T: the classes of bool and Index operands are complete only further down.
template <class R, class>
struct Later {
  using type = R;
};
}  // namespace detail

/// The operators of element type T, found through their operands. All are recorded at the line that writes them.
template <class T>
struct Operand {
  using device_type = T;
  using ValBool = Val<typename detail::Later<bool, T>::type>;
  using UseBool = Use<typename detail::Later<bool, T>::type>;
  using UseIndex = Use<typename detail::Later<Index, T>::type>;
  using UseI32 = Use<typename detail::Later<i32, T>::type>;

  // Not for T = bool, where it would compete with the recorded && and ||.
  template <class X = void>
  explicit operator bool() const
    requires(detail::d28_no_truth_on_the_host_use_if_or_select<T>)
  {
    static_assert(detail::always_false<X>,
                  "iron D28: a device value has no truth on the host: use if_(...), select(...) or range(...)");
    return false;
  }

#define IRON_BINARY(symbol, Code, Result, Constraint)                                \
  friend Result operator symbol(Use<T> a, Use<T> b)                                  \
    requires Constraint                                                              \
  {                                                                                  \
    return Result(detail::emit(detail::Opcode::Code, a.loc, {a.arg, b.arg}), a.loc); \
  }
  IRON_BINARY(+, Add, Val<T>, DeviceNumber<T>)
  IRON_BINARY(-, Sub, Val<T>, DeviceNumber<T>)
  IRON_BINARY(*, Mul, Val<T>, DeviceNumber<T>)
  IRON_BINARY(/, Div, Val<T>, DeviceNumber<T>)
  IRON_BINARY(%, Rem, Val<T>, DeviceIntOrIndex<T>)
  IRON_BINARY(&, And, Val<T>, (DeviceIntOrIndex<T> || std::same_as<T, bool>))
  IRON_BINARY(|, Or, Val<T>, (DeviceIntOrIndex<T> || std::same_as<T, bool>))
  IRON_BINARY(^, Xor, Val<T>, (DeviceIntOrIndex<T> || std::same_as<T, bool>))
  IRON_BINARY(<<, Shl, Val<T>, DeviceIntOrIndex<T>)
  IRON_BINARY(>>, Shr, Val<T>, DeviceIntOrIndex<T>)
  IRON_BINARY(<, Lt, ValBool, DeviceNumber<T>)
  IRON_BINARY(<=, Le, ValBool, DeviceNumber<T>)
  IRON_BINARY(>, Gt, ValBool, DeviceNumber<T>)
  IRON_BINARY(>=, Ge, ValBool, DeviceNumber<T>)
  IRON_BINARY(==, Eq, ValBool, DeviceType<T>)
  IRON_BINARY(!=, Ne, ValBool, DeviceType<T>)
#undef IRON_BINARY

#define IRON_UNARY_OPERATOR(symbol, Code, Constraint)                         \
  friend Val<T> operator symbol(Use<T> a)                                     \
    requires Constraint                                                       \
  {                                                                           \
    return Val<T>(detail::emit(detail::Opcode::Code, a.loc, {a.arg}), a.loc); \
  }
  IRON_UNARY_OPERATOR(-, Neg, DeviceNumber<T>)
  IRON_UNARY_OPERATOR(~, Not, DeviceIntOrIndex<T>)
#undef IRON_UNARY_OPERATOR

#define IRON_UNARY(name, Code, Constraint)                                    \
  friend Val<T> name(Use<T> a)                                                \
    requires Constraint                                                       \
  {                                                                           \
    return Val<T>(detail::emit(detail::Opcode::Code, a.loc, {a.arg}), a.loc); \
  }
  IRON_UNARY(abs, Abs, DeviceNumber<T>)
  IRON_UNARY(sign, Sign, DeviceNumber<T>)
  IRON_UNARY(sqrt, Sqrt, DeviceFloat<T>)
  IRON_UNARY(rsqrt, Rsqrt, DeviceFloat<T>)
  IRON_UNARY(recip, Recip, DeviceFloat<T>)
  IRON_UNARY(floor, Floor, DeviceFloat<T>)
  IRON_UNARY(ceil, Ceil, DeviceFloat<T>)
  IRON_UNARY(trunc, Trunc, DeviceFloat<T>)
  IRON_UNARY(round, Round, DeviceFloat<T>)
  IRON_UNARY(exp, Exp, DeviceFloat<T>)
  IRON_UNARY(exp2, Exp2, DeviceFloat<T>)
  IRON_UNARY(expm1, Expm1, DeviceFloat<T>)
  IRON_UNARY(log, Log, DeviceFloat<T>)
  IRON_UNARY(log2, Log2, DeviceFloat<T>)
  IRON_UNARY(log10, Log10, DeviceFloat<T>)
  IRON_UNARY(log1p, Log1p, DeviceFloat<T>)
  IRON_UNARY(sin, Sin, DeviceFloat<T>)
  IRON_UNARY(cos, Cos, DeviceFloat<T>)
  IRON_UNARY(tan, Tan, DeviceFloat<T>)
  IRON_UNARY(asin, Asin, DeviceFloat<T>)
  IRON_UNARY(acos, Acos, DeviceFloat<T>)
  IRON_UNARY(atan, Atan, DeviceFloat<T>)
  IRON_UNARY(sinh, Sinh, DeviceFloat<T>)
  IRON_UNARY(cosh, Cosh, DeviceFloat<T>)
  IRON_UNARY(tanh, Tanh, DeviceFloat<T>)
  IRON_UNARY(asinh, Asinh, DeviceFloat<T>)
  IRON_UNARY(acosh, Acosh, DeviceFloat<T>)
  IRON_UNARY(atanh, Atanh, DeviceFloat<T>)
  IRON_UNARY(erf, Erf, DeviceFloat<T>)
  IRON_UNARY(erfinv, Erfinv, DeviceFloat<T>)
  IRON_UNARY(fast_exp, FastExp, DeviceFloat<T>)
  IRON_UNARY(fast_exp2, FastExp2, DeviceFloat<T>)
  IRON_UNARY(fast_log, FastLog, DeviceFloat<T>)
  IRON_UNARY(fast_log2, FastLog2, DeviceFloat<T>)
  IRON_UNARY(fast_sin, FastSin, DeviceFloat<T>)
  IRON_UNARY(fast_cos, FastCos, DeviceFloat<T>)
  IRON_UNARY(fast_tanh, FastTanh, DeviceFloat<T>)
  IRON_UNARY(fast_sqrt, FastSqrt, DeviceFloat<T>)
  IRON_UNARY(fast_rsqrt, FastRsqrt, DeviceFloat<T>)
  IRON_UNARY(fast_recip, FastRecip, DeviceFloat<T>)
  IRON_UNARY(popcount, Popcount, DeviceInt<T>)
  IRON_UNARY(clz, Clz, DeviceInt<T>)
  IRON_UNARY(ctz, Ctz, DeviceInt<T>)
  IRON_UNARY(bit_reverse, BitReverse, DeviceInt<T>)
#undef IRON_UNARY

#define IRON_NARY(name, Code, Constraint, params, args)                    \
  friend Val<T> name params                                                \
    requires Constraint                                                    \
  {                                                                        \
    return Val<T>(detail::emit(detail::Opcode::Code, a.loc, args), a.loc); \
  }
#define IRON_ARGS(...) {__VA_ARGS__}
  IRON_NARY(min, Min, DeviceNumber<T>, (Use<T> a, Use<T> b), IRON_ARGS(a.arg, b.arg))
  IRON_NARY(max, Max, DeviceNumber<T>, (Use<T> a, Use<T> b), IRON_ARGS(a.arg, b.arg))
  IRON_NARY(pow, Pow, DeviceFloat<T>, (Use<T> a, Use<T> b), IRON_ARGS(a.arg, b.arg))
  IRON_NARY(atan2, Atan2, DeviceFloat<T>, (Use<T> a, Use<T> b), IRON_ARGS(a.arg, b.arg))
  IRON_NARY(remainder, Rem, DeviceFloat<T>, (Use<T> a, Use<T> b), IRON_ARGS(a.arg, b.arg))
  IRON_NARY(mulhi, MulHi, DeviceInt<T>, (Use<T> a, Use<T> b), IRON_ARGS(a.arg, b.arg))
  IRON_NARY(fma, Fma, DeviceFloat<T>, (Use<T> a, Use<T> b, Use<T> c), IRON_ARGS(a.arg, b.arg, c.arg))
  IRON_NARY(funnel_shl, FunnelShl, DeviceInt<T>, (Use<T> a, Use<T> b, Use<T> c), IRON_ARGS(a.arg, b.arg, c.arg))
  IRON_NARY(funnel_shr, FunnelShr, DeviceInt<T>, (Use<T> a, Use<T> b, Use<T> c), IRON_ARGS(a.arg, b.arg, c.arg))
  IRON_NARY(bit_extract, BitExtract, DeviceInt<T>, (Use<T> a, Use<T> offset, Use<T> count),
            IRON_ARGS(a.arg, offset.arg, count.arg))
  IRON_NARY(bit_insert, BitInsert, DeviceInt<T>, (Use<T> a, Use<T> value, Use<T> offset, Use<T> count),
            IRON_ARGS(a.arg, value.arg, offset.arg, count.arg))
  IRON_NARY(ldexp, Ldexp, DeviceFloat<T>, (Use<T> a, UseI32 exponent), IRON_ARGS(a.arg, exponent.arg))
  IRON_NARY(bounded, Bounded, DeviceIntOrIndex<T>, (Use<T> a, Use<T> low, Use<T> high),
            IRON_ARGS(a.arg, low.arg, high.arg))
#undef IRON_NARY
#undef IRON_ARGS
  friend ValBool is_nan(Use<T> a)
    requires DeviceFloat<T>
  {
    return ValBool(detail::emit(detail::Opcode::IsNan, a.loc, {a.arg}), a.loc);
  }
  /// Both values are evaluated: a select cannot guard a load (D08), load_or can.
  friend Val<T> select(UseBool condition, Use<T> a, Use<T> b) {
    return Val<T>(detail::emit(detail::Opcode::Select, condition.loc, {condition.arg, a.arg, b.arg}), condition.loc);
  }

  // Over the simdgroup of 32 lanes and over the threadgroup: all their threads must arrive (R5), orders are fixed (R4).
#define IRON_REDUCE(name, Code, Kind, Constraint)                                                             \
  friend Val<T> name(Use<T> a)                                                                                \
    requires Constraint                                                                                       \
  {                                                                                                           \
    return Val<T>(detail::emit(detail::Opcode::Code, a.loc, {a.arg}, ir::pack(ir::ReduceKind::Kind)), a.loc); \
  }
  IRON_REDUCE(simd_sum, SimdReduce, sum, DeviceNumber<T>)
  IRON_REDUCE(simd_product, SimdReduce, prod, DeviceNumber<T>)
  IRON_REDUCE(simd_min, SimdReduce, min, DeviceNumber<T>)
  IRON_REDUCE(simd_max, SimdReduce, max, DeviceNumber<T>)
  IRON_REDUCE(simd_and, SimdReduce, and_, DeviceInt<T>)
  IRON_REDUCE(simd_or, SimdReduce, or_, DeviceInt<T>)
  IRON_REDUCE(simd_xor, SimdReduce, xor_, DeviceInt<T>)
  IRON_REDUCE(threadgroup_sum, GroupReduce, sum, DeviceNumber<T>)
  IRON_REDUCE(threadgroup_product, GroupReduce, prod, DeviceNumber<T>)
  IRON_REDUCE(threadgroup_min, GroupReduce, min, DeviceNumber<T>)
  IRON_REDUCE(threadgroup_max, GroupReduce, max, DeviceNumber<T>)
#undef IRON_REDUCE
#define IRON_SCAN(name, Code, Kind, Exclusive)                                                                      \
  friend Val<T> name(Use<T> a)                                                                                      \
    requires DeviceNumber<T>                                                                                        \
  {                                                                                                                 \
    return Val<T>(                                                                                                  \
        detail::emit(detail::Opcode::Code, a.loc, {a.arg}, ir::pack(ir::ScanImm{ir::ReduceKind::Kind, Exclusive})), \
        a.loc);                                                                                                     \
  }
  IRON_SCAN(simd_scan_sum, SimdScan, sum, false)
  IRON_SCAN(simd_scan_sum_exclusive, SimdScan, sum, true)
  IRON_SCAN(simd_scan_product, SimdScan, prod, false)
  IRON_SCAN(simd_scan_min, SimdScan, min, false)
  IRON_SCAN(simd_scan_max, SimdScan, max, false)
  IRON_SCAN(simd_scan_product_exclusive, SimdScan, prod, true)
  IRON_SCAN(simd_scan_min_exclusive, SimdScan, min, true)
  IRON_SCAN(simd_scan_max_exclusive, SimdScan, max, true)
  IRON_SCAN(threadgroup_scan_sum, GroupScan, sum, false)
  IRON_SCAN(threadgroup_scan_sum_exclusive, GroupScan, sum, true)
  IRON_SCAN(threadgroup_scan_product, GroupScan, prod, false)
  IRON_SCAN(threadgroup_scan_min, GroupScan, min, false)
  IRON_SCAN(threadgroup_scan_max, GroupScan, max, false)
  IRON_SCAN(threadgroup_scan_product_exclusive, GroupScan, prod, true)
  IRON_SCAN(threadgroup_scan_min_exclusive, GroupScan, min, true)
  IRON_SCAN(threadgroup_scan_max_exclusive, GroupScan, max, true)
#undef IRON_SCAN
  /// The mask and deltas are host values: they are part of the instruction (D16).
  friend Val<T> simd_shuffle_xor(Use<T> a, u32 mask) { return shuffle(detail::Opcode::SimdShuffleXor, a, mask); }
  friend Val<T> simd_shuffle_up(Use<T> a, u32 delta) { return shuffle(detail::Opcode::SimdShuffleUp, a, delta); }
  friend Val<T> simd_shuffle_down(Use<T> a, u32 delta) { return shuffle(detail::Opcode::SimdShuffleDown, a, delta); }
  template <DeviceValue V>
  friend void simd_shuffle_xor(const Val<T>&, const V&) {
    static_assert(detail::always_false<V>, "iron D16: the mask is part of the instruction: a host number from 0 to 31");
  }
  template <DeviceValue V>
  friend void simd_shuffle_up(const Val<T>&, const V&) {
    static_assert(detail::always_false<V>, "iron D16: a fixed delta is a host number: or write simd_shuffle(v, lane)");
  }
  template <DeviceValue V>
  friend void simd_shuffle_down(const Val<T>&, const V&) {
    static_assert(detail::always_false<V>, "iron D16: a fixed delta is a host number: or write simd_shuffle(v, lane)");
  }
  friend Val<T> simd_shuffle(Use<T> a, UseIndex lane) {
    return Val<T>(detail::emit(detail::Opcode::SimdShuffle, a.loc, {a.arg, lane.arg}), a.loc);
  }
  friend Val<T> simd_broadcast(Use<T> a, UseIndex lane) {
    return Val<T>(detail::emit(detail::Opcode::SimdBroadcast, a.loc, {a.arg, lane.arg}), a.loc);
  }
  /// The value of the thread with that linear id, for all threads of the threadgroup.
  friend Val<T> threadgroup_broadcast(Use<T> a, u32 thread) {
    return Val<T>(detail::emit(detail::Opcode::GroupBroadcast, a.loc, {a.arg}, thread), a.loc);
  }
  friend Val<T> assume_uniform(Use<T> a, ir::Scope scope) {
    return Val<T>(detail::emit(detail::Opcode::AssumeUniform, a.loc, {a.arg}, ir::pack(scope)), a.loc);
  }

 private:
  static Val<T> shuffle(detail::Opcode code, Use<T> a, u32 amount) {
    if (amount >= 32) detail::refuse("D16", "a shuffle by " + std::to_string(amount) + " lanes", a.loc, "use 0 to 31");
    return Val<T>(detail::emit(code, a.loc, {a.arg}, amount), a.loc);
  }
};

// Two operands of different element types: the first line of the error says what to write.
#define IRON_MIXED(symbol)                                                                             \
  template <DeviceValue A, DeviceValue B>                                                              \
    requires(!detail::compatible<device_type_of<A>, device_type_of<B>>)                                \
  void operator symbol(const A&, const B&) {                                                           \
    static_assert(detail::always_false<A>,                                                             \
                  "iron: the operands have different element types: convert one with cast<T>(value)"); \
  }
// clang-format off
IRON_MIXED(+) IRON_MIXED(-) IRON_MIXED(*) IRON_MIXED(/) IRON_MIXED(%) IRON_MIXED(&) IRON_MIXED(|) IRON_MIXED(^)
IRON_MIXED(<) IRON_MIXED(<=) IRON_MIXED(>) IRON_MIXED(>=) IRON_MIXED(==) IRON_MIXED(!=)
// clang-format on
#undef IRON_MIXED

    /// An immutable device value. Copying it copies the name, not the computation; there is no assignment: that is a
    /// Var.
    template <class T>
    class [[nodiscard]] Val : public Operand<T> {
 public:
  explicit Val(detail::Id id, detail::Loc loc, bool named = false) : id_(id), named_(named), loc_(loc) {}
  Val(const Val&) = default;
  Val(Elem<T>&& e, detail::Loc l = detail::Loc::here())
      : Val(Use<T>(std::move(e), l)) {}  // NOLINT(google-explicit-constructor)
  Val(const Var<T>& v, detail::Loc l = detail::Loc::here())
      : Val(Use<T>(v, l)) {}  // NOLINT(google-explicit-constructor)
  Val(const Scalar<T>& s, detail::Loc l = detail::Loc::here())
      : Val(Use<T>(s, l)) {}  // NOLINT(google-explicit-constructor)
  template <class X>
    requires std::same_as<X, OutElem<T>>
  Val(const X&) {  // NOLINT(google-explicit-constructor)
    static_assert(detail::always_false<X>, "iron D24: an output is not read: declare it InOut<T>");
  }
  Val(Use<T> u)
      : id_(u.arg.id),
        named_(!u.arg.unnamed),
        loc_(u.loc) {}  // NOLINT(google-explicit-constructor): elements of buffers and constants become values
  Val& operator=(const Val&) = delete;
  template <class X>
  void operator=(const X&) const {
    static_assert(detail::always_false<X>,
                  "iron D24: an element of an input or a computed value cannot be set: use an Out or InOut, or a Var");
  }
  detail::Id id() const { return id_; }
  detail::Loc loc() const { return loc_; }
  bool named() const { return named_; }  ///< it stands for a value that has a name: its place in the order is written

 private:
  detail::Id id_;
  bool named_ = false;
  detail::Loc loc_;
};
template <class T>
Val(Elem<T>) -> Val<T>;
template <class T>
Val(const Var<T>&) -> Val<T>;
template <class T>
Val(Scalar<T>) -> Val<T>;

/// An operand on its way into an op: remembers the line that wrote it and whether it has a name.
template <class T>
struct Use {
  detail::Arg arg;
  detail::Loc loc;

  Use(const Val<T>& v, detail::Loc l = detail::Loc::here())
      : arg{v.id(), false}, loc(l) {}  // NOLINT(google-explicit-constructor)
  Use(Val<T>&& v, detail::Loc l = detail::Loc::here())
      : arg{v.id(), !v.named()}, loc(l) {}                       // NOLINT(google-explicit-constructor)
  Use(const Var<T>& v, detail::Loc l = detail::Loc::here());     // NOLINT(google-explicit-constructor)
  Use(const Scalar<T>& s, detail::Loc l = detail::Loc::here());  // NOLINT(google-explicit-constructor)
  Use(Elem<T>&& e, detail::Loc l = detail::Loc::here());         // NOLINT(google-explicit-constructor)
  /// A named element would read again at each use: write `Val v = y[i];`.
  Use(const Elem<T>&, detail::Loc = detail::Loc::here()) = delete;
  Use(Elem<T>&, detail::Loc = detail::Loc::here()) = delete;

  template <class H>
    requires detail::HostConstant<T, H>
  Use(H h, detail::Loc l = detail::Loc::here()) : loc(l) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::same_as<H, bool>)
      arg.id = detail::constant(DType::boolean, h, l);
    else if constexpr (DeviceFloat<T>)
      arg.id = detail::constant_of(dtype_of<T>, static_cast<f64>(h), l);
    else
      arg.id = detail::constant_of(dtype_of<T>, static_cast<i64>(h), std::is_unsigned_v<H>, l);
  }
  Use(T h, detail::Loc l = detail::Loc::here())  // NOLINT(google-explicit-constructor)
    requires(std::same_as<T, f16> || std::same_as<T, bf16>)
      : arg{detail::constant(dtype_of<T>, h.bits, l), false}, loc(l) {}
  /// u32 data as an index.
  template <DeviceValue V>
    requires detail::widens<T, device_type_of<V>>
  Use(V&& v, detail::Loc l = detail::Loc::here()) : loc(l) {  // NOLINT(google-explicit-constructor)
    const Use<u32> narrow(std::forward<V>(v), l);
    arg = {detail::emit(detail::Opcode::Cast, l, {narrow.arg}, 0, ir::index_type), narrow.arg.unnamed};
  }
};

/// A variable of a thread: assignment is recorded. Neither copied nor moved; its value is a new Val.
template <class T>
class Var : public Operand<T> {
 public:
  explicit Var(Use<T> init) : slot_(detail::slot_new(dtype_of<T>, init.loc)) {
    detail::slot_store(slot_, init.arg, init.loc);
  }
  Var(const Var&) = delete;
  Var& operator=(const Var& v) { return *this = Use<T>(v); }
  Var& operator=(Use<T> v) {
    detail::slot_store(slot_, v.arg, v.loc);
    return *this;
  }
#define IRON_COMPOUND(symbol, Code, Constraint)                                                    \
  Var& operator symbol(Use<T> v)                                                                   \
    requires Constraint                                                                            \
  {                                                                                                \
    const detail::Id old = detail::slot_load(slot_, v.loc);                                        \
    detail::slot_store(slot_, {detail::emit(detail::Opcode::Code, v.loc, {{old}, v.arg})}, v.loc); \
    return *this;                                                                                  \
  }
  IRON_COMPOUND(+=, Add, DeviceNumber<T>)
  IRON_COMPOUND(-=, Sub, DeviceNumber<T>)
  IRON_COMPOUND(*=, Mul, DeviceNumber<T>)
  IRON_COMPOUND(/=, Div, DeviceNumber<T>)
  IRON_COMPOUND(%=, Rem, DeviceIntOrIndex<T>)
  IRON_COMPOUND(&=, And, (DeviceIntOrIndex<T> || std::same_as<T, bool>))
  IRON_COMPOUND(|=, Or, (DeviceIntOrIndex<T> || std::same_as<T, bool>))
  IRON_COMPOUND(^=, Xor, (DeviceIntOrIndex<T> || std::same_as<T, bool>))
  IRON_COMPOUND(<<=, Shl, DeviceIntOrIndex<T>)
  IRON_COMPOUND(>>=, Shr, DeviceIntOrIndex<T>)
#undef IRON_COMPOUND
  detail::Id slot() const { return slot_; }

 private:
  detail::Id slot_;
};

template <class T>
Use<T>::Use(const Var<T>& v, detail::Loc l) : arg{detail::slot_load(v.slot(), l), true}, loc(l) {}

/// `count` variables with host indices: they stay in registers. The count is a host value.
template <class T>
class Vars {
 public:
  Vars(u32 count, Use<T> init) : count_(count), vars_(static_cast<Var<T>*>(::operator new(sizeof(Var<T>) * count))) {
    for (u32 i = 0; i < count; ++i) new (vars_ + i) Var<T>(init);
  }
  Vars(const Vars&) = delete;
  Vars& operator=(const Vars&) = delete;
  ~Vars() { ::operator delete(vars_); }
  Var<T>& operator[](u32 i) { return vars_[check(i)]; }
  const Var<T>& operator[](u32 i) const { return vars_[check(i)]; }
  u32 size() const { return count_; }

 private:
  u32 check(u32 i) const {
    if (i >= count_)
      detail::refuse("D16", "variable " + std::to_string(i) + " of " + std::to_string(count_), detail::Loc{},
                     "index Vars with 0 to size() - 1");
    return i;
  }
  u32 count_;
  Var<T>* vars_;
};

// Logic of bool operands. Exact matches for their types: the refusal of host truth (D28) is a conversion to bool, which
// would tie with the conversion to Use and make !, && and || ambiguous.
namespace detail {
template <class V>
concept DeviceBool = DeviceValue<V> && std::same_as<device_type_of<V>, bool>;
template <class A, class B>
concept LogicOperands = (DeviceBool<A> && (DeviceBool<B> || std::same_as<std::remove_cvref_t<B>, bool>)) ||
                        (DeviceBool<B> && std::same_as<std::remove_cvref_t<A>, bool>);
template <class V>
Use<bool> logic_operand(V&& v) {
  if constexpr (requires { v.loc(); }) {
    const Loc loc = v.loc();
    return Use<bool>(std::forward<V>(v), loc);
  } else {
    return Use<bool>(std::forward<V>(v));
  }
}
inline Val<bool> logic(Opcode code, Use<bool> a, Use<bool> b) {
  return Val<bool>(emit(code, a.loc, {a.arg, b.arg}), a.loc);
}
}  // namespace detail
template <class A, class B>
  requires detail::LogicOperands<A, B>
Val<bool> operator&&(A&& a, B&& b) {
  return detail::logic(detail::Opcode::And, detail::logic_operand(std::forward<A>(a)),
                       detail::logic_operand(std::forward<B>(b)));
}
template <class A, class B>
  requires detail::LogicOperands<A, B>
Val<bool> operator||(A&& a, B&& b) {
  return detail::logic(detail::Opcode::Or, detail::logic_operand(std::forward<A>(a)),
                       detail::logic_operand(std::forward<B>(b)));
}
template <detail::DeviceBool V>
Val<bool> operator!(V&& v) {
  const Use<bool> u = detail::logic_operand(std::forward<V>(v));
  return Val<bool>(detail::emit(detail::Opcode::Not, u.loc, {u.arg}), u.loc);
}

/// Numeric conversion: one rounding to nearest even; float to integer truncates and saturates; integers wrap.
template <DeviceType To, DeviceValue V>
Val<To> cast(V&& v, detail::Loc loc = detail::Loc::here()) {
  const Use<device_type_of<V>> u(std::forward<V>(v), loc);
  if constexpr (std::same_as<To, device_type_of<V>>)
    return Val<To>(u.arg.id, loc, !u.arg.unnamed);
  else
    return Val<To>(detail::emit(detail::Opcode::Cast, loc, {u.arg}, 0, ir::Type::value(dtype_of<To>)), loc);
}
/// The same bits as another type of that size.
template <DeviceType To, DeviceValue V>
Val<To> bitcast(V&& v, detail::Loc loc = detail::Loc::here()) {
  static_assert(dtype_size(dtype_of<To>) == dtype_size(dtype_of<device_type_of<V>>), "iron: bitcast keeps the size");
  const Use<device_type_of<V>> u(std::forward<V>(v), loc);
  return Val<To>(detail::emit(detail::Opcode::Bitcast, loc, {u.arg}, 0, ir::Type::value(dtype_of<To>)), loc);
}
/// select with both values constants.
template <DeviceType T>
Val<T> select(Use<bool> condition, std::type_identity_t<Use<T>> a, std::type_identity_t<Use<T>> b) {
  return Val<T>(detail::emit(detail::Opcode::Select, condition.loc, {condition.arg, a.arg, b.arg}), condition.loc);
}
/// A named constant: `constant<f32>(0.5)`.
template <DeviceType T>
Val<T> constant(std::type_identity_t<Use<T>> value) {
  return Val<T>(value);
}

inline Val<bool> simd_any(Use<bool> a) {
  return Val<bool>(detail::emit(detail::Opcode::SimdAny, a.loc, {a.arg}), a.loc);
}
inline Val<bool> simd_all(Use<bool> a) {
  return Val<bool>(detail::emit(detail::Opcode::SimdAll, a.loc, {a.arg}), a.loc);
}
inline Val<u32> simd_ballot(Use<bool> a) {
  return Val<u32>(detail::emit(detail::Opcode::SimdBallot, a.loc, {a.arg}), a.loc);
}
inline Val<bool> threadgroup_any(Use<bool> a) {
  return Val<bool>(detail::emit(detail::Opcode::GroupAny, a.loc, {a.arg}), a.loc);
}
inline Val<bool> threadgroup_all(Use<bool> a) {
  return Val<bool>(detail::emit(detail::Opcode::GroupAll, a.loc, {a.arg}), a.loc);
}

#define IRON_DECODE(name, Code) \
  inline Val<f32> name(Use<u32> a) { return Val<f32>(detail::emit(detail::Opcode::Code, a.loc, {a.arg}), a.loc); }
IRON_DECODE(decode_e2m1, DecodeE2M1)
IRON_DECODE(decode_e4m3, DecodeE4M3)
IRON_DECODE(decode_e5m2, DecodeE5M2)
IRON_DECODE(decode_e8m0, DecodeE8M0)
#undef IRON_DECODE

/// c + the four products of the signed bytes of a and b.
inline Val<i32> dot4_i8(Use<i32> a, Use<i32> b, Use<i32> c) {
  return Val<i32>(detail::emit(detail::Opcode::Dot4I8, a.loc, {a.arg, b.arg, c.arg}, ir::pack(ir::SignsImm{})), a.loc);
}

}  // namespace iron
