// A kernel whose type is known only at run time: its fields by name, its specialisation as text, its grid, its
// recording. What callers need that name kernels by strings (the C interface, tools).
#pragma once

#include <charconv>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "iron/dsl/kernel.h"

namespace iron {

namespace detail {

struct NamedField;

/// What can be done with a field of one type: one constant a type, whatever kernel holds it.
struct FieldOps {
  enum class Kind : u8 { buffer, scalar, spec };
  Kind kind = Kind::spec;
  DType dtype = DType::none;  ///< of a buffer's elements or of a scalar
  Access access = Access::in;
  bool optional = false, tensor = false;
  void (*bind)(void* field, BufferRef ref) = nullptr;  ///< buffers; an optional one becomes present
  void (*bind_tensor)(void* field, BufferRef ref, const TensorShape& shape) = nullptr;  ///< tensors
  void (*leave_out)(void* field) = nullptr;                                             ///< optional buffers
  bool (*present)(const void* field) = nullptr;                                         ///< optional buffers
  void (*set)(void* field, u64 bits) = nullptr;                                         ///< scalars
  bool (*parse)(void* field, std::string_view text) = nullptr;  ///< spec; false: the text is no value of this type
  std::string (*text)(const void* field) = nullptr;             ///< spec
};

/// A field of one kernel object.
struct NamedField {
  std::string_view name;
  void* at = nullptr;
  const FieldOps* ops = nullptr;
};

template <class F>
bool parse_spec(void* at, std::string_view text);
/// "{a=1,b=true}": sets the members that are named.
bool parse_members(const std::vector<NamedField>& members, std::string_view text);
bool parse_number(std::string_view text, f64& value);

template <class F>
inline constexpr FieldOps field_ops = [] {
  FieldOps o;
  if constexpr (is_buffer_field<F>) {
    o.kind = FieldOps::Kind::buffer, o.dtype = dtype_of<typename F::element>, o.access = F::kind;
    o.bind = [](void* field, BufferRef ref) { *static_cast<F*>(field) = F(ref); };
  } else if constexpr (is_optional_field<F>) {
    using B = typename F::buffer;
    o.kind = FieldOps::Kind::buffer, o.dtype = dtype_of<typename B::element>, o.access = B::kind, o.optional = true;
    o.bind = [](void* field, BufferRef ref) { *static_cast<F*>(field) = F(B(ref)); };
    o.leave_out = [](void* field) { *static_cast<F*>(field) = F(); };
    o.present = [](const void* field) { return static_cast<bool>(*static_cast<const F*>(field)); };
  } else if constexpr (is_tensor_field<F>) {
    o.kind = FieldOps::Kind::buffer, o.dtype = dtype_of<typename F::element>, o.access = F::kind, o.tensor = true;
    o.bind_tensor = [](void* field, BufferRef ref, const TensorShape& shape) {
      TensorDims d;
      d.dims.assign(shape.dims, shape.dims + shape.rank);
      for (u32 i = 1; i < shape.rank; ++i) d.strides.push_back(shape.strides[i] / sizeof(typename F::element));
      *static_cast<F*>(field) = F(ref, d);
    };
  } else if constexpr (is_scalar_field<F>) {
    using T = typename F::element;
    o.kind = FieldOps::Kind::scalar, o.dtype = dtype_of<T>;
    o.set = [](void* field, u64 bits) {
      T value;
      std::memcpy(&value, &bits, sizeof value);
      *static_cast<F*>(field) = F(value);
    };
  } else {
    o.parse = &parse_spec<F>;
    o.text = [](const void* field) { return spec_text(*static_cast<const F*>(field)); };
  }
  return o;
}();

template <class K>
std::vector<NamedField> fields_by_name(K& kernel) {
  std::vector<NamedField> all;
  all.reserve(field_count<K>());
  for_each_field(kernel, [&]<class F>(std::string_view name, F& field) {
    all.push_back({name, static_cast<void*>(&field), &field_ops<F>});
  });
  return all;
}

template <class F>
bool parse_spec(void* at, std::string_view text) {
  auto& f = *static_cast<F*>(at);
  if constexpr (requires {
                  { f.spec_text() } -> std::convertible_to<std::string>;
                }) {
    return false;  // its text is its own
  } else if constexpr (std::same_as<F, bool>) {
    f = text == "true";
    return f || text == "false";
  } else if constexpr (std::is_enum_v<F> || std::is_integral_v<F>) {
    std::conditional_t<std::is_enum_v<F>, i64, F> value{};
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
    f = static_cast<F>(value);
    return problem == std::errc{} && end == text.data() + text.size();
  } else if constexpr (std::is_floating_point_v<F>) {
    f64 value = 0;
    if (!parse_number(text, value)) return false;
    f = static_cast<F>(value);
    return true;
  } else if constexpr (std::is_aggregate_v<F>) {
    return parse_members(fields_by_name(f), text);
  } else {
    return false;
  }
}

}  // namespace detail

/// A kernel object behind an interface. Copies are independent; one object serves one thread at a time.
class KernelInstance {
 public:
  using Kind = detail::FieldOps::Kind;
  virtual ~KernelInstance() = default;
  virtual std::unique_ptr<KernelInstance> clone() const = 0;
  /// All fields, in declaration order; they point into this object.
  const std::vector<detail::NamedField>& fields() const { return fields_; }
  const detail::NamedField* find(std::string_view name) const;
  /// Fields that take arguments now: absent optional buffers and specialisation left out.
  std::vector<detail::NamedField> parameters() const;

  /// Sets specialisation fields: "head_dim=64,causal=true,bias=present", in the form of specialisation(). What is not
  /// named keeps its value. Throws iron::Error (SPEC01, SPEC02) naming the fields there are.
  void specialise(std::string_view text);
  virtual std::string specialisation() const = 0;

  /// Whether the kernel knows its grid from its arguments.
  virtual bool has_grid() const = 0;
  /// The grid for the arguments bound now; throws iron::Error (D03) where the kernel has none.
  virtual Grid grid() const = 0;
  virtual std::vector<BoundArg> arguments() const = 0;
  virtual std::shared_ptr<ir::Kernel> record(std::string name, RecordOptions options = {}) const = 0;
  virtual Mode mode() const = 0;
  /// Names type and specialisation: equal keys record the same kernel, within one process.
  virtual std::string key() const = 0;

 protected:
  KernelInstance() = default;
  std::vector<detail::NamedField> fields_;
};

namespace detail {

[[noreturn]] void refuse_grid();

template <class K>
class InstanceOf final : public KernelInstance {
 public:
  explicit InstanceOf(K kernel) : kernel_(std::move(kernel)) { fields_ = fields_by_name(kernel_); }
  std::unique_ptr<KernelInstance> clone() const override { return std::make_unique<InstanceOf>(kernel_); }
  std::string specialisation() const override { return iron::specialisation(kernel_); }
  bool has_grid() const override { return knows_grid; }
  Grid grid() const override {
    if constexpr (knows_grid)
      return grid_of(kernel_);
    else
      refuse_grid();
  }
  std::vector<BoundArg> arguments() const override { return iron::arguments(kernel_); }
  std::shared_ptr<ir::Kernel> record(std::string name, RecordOptions options) const override {
    return iron::record(kernel_, std::move(name), options);
  }
  Mode mode() const override { return mode_of<K>(); }
  std::string key() const override { return std::string(type_name<K>()) + "{" + specialisation() + "}"; }

 private:
  static constexpr bool knows_grid = mode_of<K>() == Mode::Elementwise || requires(const K& k) {
    { k.grid() } -> std::convertible_to<Grid>;
  };
  K kernel_;
};

}  // namespace detail
}  // namespace iron
