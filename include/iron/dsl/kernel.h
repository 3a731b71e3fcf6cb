// A kernel is an aggregate struct: its fields are the signature, the buffer names, the launch arguments and the
// specialisation at once. record() runs its body once and gives the IR.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/launch.h"
#include "iron/dsl/control.h"
#include "iron/dsl/fields.h"
#include "iron/dsl/hopper/tensor_map.h"
#include "iron/dsl/index.h"
#include "iron/dsl/math.h"
#include "iron/dsl/memory.h"
#include "iron/units.h"

namespace iron {

namespace ir {
class Kernel;
}

enum class Mode : u8 { Elementwise, Threadgroup, Grid3D, Tile2D, SimdGroup2D, Reduction = Threadgroup };
enum class Numerics : u8 { exact, fused, fast };

/// One argument of a launch with its declaration, in the order of the kernel's parameters.
struct BoundArg {
  std::string name;
  detail::Access access = detail::Access::in;
  bool scalar = false;
  DType dtype = DType::none;
  BufferRef buffer;
  u64 bits = 0;        ///< of a scalar
  TensorShape tensor;  ///< of a tensor, else rank 0

  LaunchArg launch_arg(void* data) const { return {data, buffer.bytes, bits, tensor}; }
};

namespace detail {

/// Opens a recording on this thread; finish() gives the kernel, verified. Recordings nest only through call().
class Recording {
 public:
  Recording(std::string name, Mode mode, Numerics numerics, bool width_generic, std::string spec, bool probe,
            bool callee);
  ~Recording();
  Recording(const Recording&) = delete;
  Id param(std::string_view name, ir::Type type, Access access, bool scalar, bool tensor = false);
  void guard_items();  ///< elementwise bodies run only for threads below the item count
  std::shared_ptr<ir::Kernel> finish();
  struct State;  ///< the recorder's own

 private:
  std::unique_ptr<State> state_;
};

/// For call(): whether the recording on this thread probes, and the call itself, with the callee as it was recorded.
bool probing(Loc loc);
void record_call(const std::shared_ptr<ir::Kernel>& callee, std::span<const Arg> arguments, Loc loc);

template <class F>
inline constexpr bool is_buffer_field = false;
template <class T>
inline constexpr bool is_buffer_field<In<T>> = true;
template <class T>
inline constexpr bool is_buffer_field<Out<T>> = true;
template <class T>
inline constexpr bool is_buffer_field<InOut<T>> = true;
template <class F>
inline constexpr bool is_scalar_field = false;
template <class T>
inline constexpr bool is_scalar_field<Scalar<T>> = true;
template <class F>
inline constexpr bool is_tensor_field = false;
template <class T, Access access>
inline constexpr bool is_tensor_field<TensorField<T, access>> = true;
template <class F>
inline constexpr bool is_optional_field = false;
template <class B>
inline constexpr bool is_optional_field<Optional<B>> = true;

template <class T>
u64 bits_of(T v) {
  u64 bits = 0;
  std::memcpy(&bits, &v, sizeof(T));
  return bits;
}

/// The canonical text of a specialisation value: numbers, enums, text, structs of these, or what spec_text() says.
template <class F>
std::string spec_text(const F& f) {
  if constexpr (requires {
                  { f.spec_text() } -> std::convertible_to<std::string>;
                })
    return f.spec_text();
  else if constexpr (std::same_as<F, bool>)
    return f ? "true" : "false";
  else if constexpr (std::is_enum_v<F>)
    return std::to_string(static_cast<i64>(f));
  else if constexpr (std::is_arithmetic_v<F>)
    return std::to_string(f);
  else if constexpr (std::convertible_to<F, std::string_view>)
    return std::string(std::string_view(f));
  else {
    static_assert(std::is_aggregate_v<F>,
                  "iron: a spec field is a number, an enum, a struct of these, or has spec_text()");
    std::string out = "{";
    for_each_field(f, [&](std::string_view name, const auto& member) {
      out += (out.size() > 1 ? "," : "") + std::string(name) + "=" + spec_text(member);
    });
    return out + "}";
  }
}

/// Stands for every field of a kernel that has no arguments yet.
struct Unbound {
  using stands_for_a_field = void;
  template <class F>
  operator F() const {  // NOLINT(google-explicit-constructor)
    if constexpr (is_buffer_field<F>)
      return F(BufferRef{});
    else if constexpr (is_tensor_field<F>)
      return F(BufferRef{}, {});
    else if constexpr (is_scalar_field<F>)
      return F(typename F::element{});
    else
      return F{};
  }
};

template <class F>
inline constexpr bool is_plain_spec = std::is_arithmetic_v<F> || std::is_enum_v<F>;
/// No plain spec field in front of the last field that has to be given: its default would not be used.
template <class K>
constexpr bool defaults_survive() {
  using Fields = decltype(fields(std::declval<K&>()));
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return !(false || ... || is_plain_spec<std::remove_cvref_t<std::tuple_element_t<I, Fields>>>);
  }(std::make_index_sequence<required_fields<K>()>{});
}

/// The type as the compiler prints it: a key within one process, never part of an identity.
template <class K>
constexpr std::string_view type_name() {
  return __PRETTY_FUNCTION__;
}

template <class K>
constexpr Mode mode_of() {
  if constexpr (requires { K::mode; })
    return K::mode;
  else
    return Mode::Elementwise;
}
template <class K>
constexpr Numerics numerics_of() {
  if constexpr (requires { K::numerics; })
    return K::numerics;
  else
    return Numerics::exact;
}
template <class K>
constexpr bool width_generic_of() {
  if constexpr (requires { K::width_generic; })
    return K::width_generic;
  else
    return false;
}
}  // namespace detail

#if defined(__clang__) || defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#endif
/// A kernel of that type with no arguments: for recording, not for launching. Spec fields behind the last buffer and
/// scalar keep their defaults; earlier ones are value-initialised.
template <class K>
K unbound() {
  static_assert(
      detail::defaults_survive<K>(),
      "iron: a number or enum among the spec fields stands in front of a buffer or scalar, where braces cannot "
      "leave it out and its default would be lost: move it behind them, or into a struct");
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return K{((void)I, detail::Unbound{})...};
  }(std::make_index_sequence<detail::required_fields<K>()>{});
}
#if defined(__clang__) || defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

/// What distinguishes this specialisation: spec fields and the presence of optional buffers, as canonical text.
template <class K>
std::string specialisation(const K& kernel) {
  std::string spec;
  detail::for_each_field(kernel, [&]<class F>(std::string_view name, const F& field) {
    const auto add = [&](const std::string& value) {
      spec += (spec.empty() ? "" : ",") + std::string(name) + "=" + value;
    };
    if constexpr (detail::is_optional_field<F>)
      add(field ? "present" : "absent");
    else if constexpr (!detail::is_buffer_field<F> && !detail::is_tensor_field<F> && !detail::is_scalar_field<F>)
      add(detail::spec_text(field));
  });
  return spec;
}

struct RecordOptions {
  bool probe = false;   ///< records each region body twice and keeps the second: host state that changes shows (D33)
  bool callee = false;  ///< inside another recording: what call() does
};

/// Runs the kernel's body once and returns its IR: promoted, canonical, structurally verified.
/// Throws iron::Error with the author's file and line.
template <class K>
std::shared_ptr<ir::Kernel> record(K kernel, std::string name, RecordOptions options = {}) {
  detail::Recording recording(std::move(name), detail::mode_of<K>(), detail::numerics_of<K>(),
                              detail::width_generic_of<K>(), specialisation(kernel), options.probe, options.callee);
  const auto bind = [&]<class F>(std::string_view field_name, F& field) {
    if constexpr (detail::is_buffer_field<F>)
      field.bind(recording.param(field_name, ir::Type::memory(ir::Space::global, dtype_of<typename F::element>),
                                 F::kind, false));
    else if constexpr (detail::is_tensor_field<F>)
      field.bind(recording.param(field_name, ir::Type::memory(ir::Space::global, dtype_of<typename F::element>),
                                 F::kind, false, true));
    else if constexpr (detail::is_scalar_field<F>)
      field.bind(recording.param(field_name, ir::Type::value(dtype_of<typename F::element>), detail::Access::in, true));
  };
  detail::for_each_field(kernel, [&]<class F>(std::string_view field_name, F& field) {
    if constexpr (detail::is_optional_field<F>) {
      if (field) bind(field_name, *field);
    } else {
      bind(field_name, field);
    }
  });
  if constexpr (detail::mode_of<K>() == Mode::Elementwise) recording.guard_items();
  std::as_const(kernel)();
  return recording.finish();
}

/// Runs another kernel of this one's mode here, by the threads that arrive: `call(Scale<T>{.x = x, .y = y, .f = f})`.
/// Its buffers are those of the caller (or Shared and Local memory, for what it writes), its scalars device values or
/// host numbers. The call is an op of its own until the pass kernel_inline puts the callee's body in its place; an
/// exit_if of the callee ends the callee.
template <class K>
void call(const K& kernel, detail::Loc loc = detail::Loc::here()) {
  std::vector<detail::Arg> given;
  const auto add = [&]<class F>(const F& field) {
    static_assert(!detail::is_tensor_field<F>,
                  "iron D18: tensor maps are made at launch: a kernel that has them is launched, not called");
    if constexpr (detail::is_buffer_field<F>)
      given.push_back({field.memory(loc)});
    else if constexpr (detail::is_scalar_field<F>)
      given.push_back(field.bound() ? detail::Arg{field.id(loc)} : Use<typename F::element>(field.value(), loc).arg);
  };
  detail::for_each_field(kernel, [&]<class F>(std::string_view, const F& field) {
    if constexpr (detail::is_optional_field<F>) {
      if (field) add(*field);
    } else {
      add(field);
    }
  });
  std::string name = "callee";
  if constexpr (requires { K::name; }) name = K::name;
  detail::record_call(record(kernel, std::move(name), {.probe = detail::probing(loc), .callee = true}), given, loc);
}

/// The arguments that a kernel struct holds, in parameter order.
template <class K>
std::vector<BoundArg> arguments(const K& kernel) {
  std::vector<BoundArg> args;
  const auto add = [&]<class F>(std::string_view name, const F& field) {
    BoundArg a;
    a.name = name;
    if constexpr (detail::is_buffer_field<F>) {
      a.access = F::kind, a.dtype = dtype_of<typename F::element>, a.buffer = field.ref();
      args.push_back(std::move(a));
    } else if constexpr (detail::is_tensor_field<F>) {
      a.access = F::kind, a.dtype = dtype_of<typename F::element>, a.buffer = field.ref(), a.tensor = field.shape();
      args.push_back(std::move(a));
    } else if constexpr (detail::is_scalar_field<F>) {
      a.scalar = true, a.dtype = dtype_of<typename F::element>, a.bits = detail::bits_of(field.value());
      args.push_back(std::move(a));
    }
  };
  detail::for_each_field(kernel, [&]<class F>(std::string_view name, const F& field) {
    if constexpr (detail::is_optional_field<F>) {
      if (field) add(name, *field);
    } else {
      add(name, field);
    }
  });
  return args;
}

/// The grid that the kernel's own grid() gives; elementwise kernels without one get a thread an element of the largest
/// output.
template <class K>
Grid grid_of(const K& kernel) {
  if constexpr (requires {
                  { kernel.grid() } -> std::convertible_to<Grid>;
                }) {
    return kernel.grid();
  } else {
    static_assert(detail::mode_of<K>() == Mode::Elementwise,
                  "iron: this kernel has no grid(): give it one, or pass a Grid to launch (only elementwise kernels "
                  "have a default)");
    u64 items = 0;
    for (const auto& a : arguments(kernel))
      if (!a.scalar && a.access != detail::Access::in) items = std::max(items, a.buffer.bytes / dtype_size(a.dtype));
    return Grid::for_items(items);
  }
}

}  // namespace iron
