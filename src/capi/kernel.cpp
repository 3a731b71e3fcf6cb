// Kernels and launches of the C interface.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "capi/handles.h"
#include "ir/float_bits.h"
#include "runtime/backend.h"

namespace iron::capi {

namespace {

using Kind = KernelInstance::Kind;

/// A name as callers write it, with or without the prefix that all kernels of the library have.
std::string full_name(std::string_view name) {
  constexpr std::string_view prefix = "iron_";
  return name.substr(0, prefix.size()) == prefix ? std::string(name) : std::string(prefix) + std::string(name);
}

const KernelEntry& find_entry(std::string_view name, iron_dtype dtype) {
  const std::string wanted = full_name(name);
  std::string types, near;
  for (const auto& e : standard_library().entries()) {
    if (e.name == wanted && static_cast<int>(e.dtype) == static_cast<int>(dtype)) return e;
    if (e.name == wanted) types += (types.empty() ? "" : ", ") + std::string(dtype_name(e.dtype));
    if (e.name.find(name) != std::string::npos && near.find(e.name) == std::string::npos && near.size() < 300)
      near += (near.empty() ? "" : ", ") + e.name;
  }
  if (!types.empty())
    throw Fault(IRON_WRONG_TYPE, "C05", fmt::format("kernel {} is not there for {}", wanted, iron_dtype_name(dtype)),
                "it is there for " + types);
  throw Fault(IRON_NOT_FOUND, "C06", fmt::format("there is no kernel '{}'", name),
              near.empty() ? "iron_library_entry() and 'iron test --list' show the names" : "near it: " + near);
}

iron_kernel_info describe(const KernelEntry& e, const KernelInstance& instance) {
  iron_kernel_info i{};
  i.name = e.name.c_str(), i.family = e.family.c_str(), i.file = e.file.c_str(), i.doc = e.doc.c_str();
  i.determinism = e.determinism.c_str(), i.shapes = e.shapes.c_str(), i.needs = e.needs.c_str();
  i.dtype = static_cast<iron_dtype>(e.dtype);
  i.parameters = static_cast<uint32_t>(instance.parameters().size()), i.has_grid = instance.has_grid();
  return i;
}

std::string parameter_list(const iron_kernel& k) {
  std::string text;
  for (const auto& p : k.parameters)
    text += fmt::format("{}{} ({}{})", text.empty() ? "" : ", ", p.name, p.ops->kind == Kind::scalar ? "scalar " : "",
                        dtype_name(p.ops->dtype));
  return fmt::format("{} takes {}", k.entry->full_name(), text.empty() ? "no arguments" : text);
}

[[noreturn]] void refuse_value(const iron_kernel& k, const detail::NamedField& p, const std::string& value) {
  throw Fault(IRON_INVALID_ARGUMENT, "C10",
              fmt::format("scalar {} of {} is {}, which {} cannot hold", p.name, k.entry->full_name(), value,
                          dtype_name(p.ops->dtype)));
}

u64 scalar_bits(const iron_kernel& k, const detail::NamedField& p, const iron_argument& a) {
  const DType type = p.ops->dtype;
  if (is_float(type)) return ir::float_bits(type, a.kind == IRON_ARGUMENT_REAL ? a.real : static_cast<f64>(a.integer));
  if (a.kind == IRON_ARGUMENT_REAL)
    throw Fault(IRON_WRONG_TYPE, "C11",
                fmt::format("scalar {} of {} is a whole number ({}), not the real {}", p.name, k.entry->full_name(),
                            dtype_name(type), a.real));
  const i64 v = a.integer;
  const u32 bits = dtype_bits(type);
  const bool fits = is_signed_int(type) ? bits == 64 || (v >= -(i64{1} << (bits - 1)) && v < (i64{1} << (bits - 1)))
                                        : v >= 0 && (bits == 64 || v < (i64{1} << bits));
  if (!fits) refuse_value(k, p, std::to_string(v));
  return static_cast<u64>(v) & (bits == 64 ? ~u64{0} : (u64{1} << bits) - 1);
}

TensorShape tensor_shape(const iron_kernel& k, const detail::NamedField& p, const iron_argument& a) {
  TensorShape s;
  if (a.rank < 1 || a.rank > 5 || !a.dims)
    throw Fault(IRON_INVALID_ARGUMENT, "C13",
                fmt::format("tensor {} of {} has no dimensions", p.name, k.entry->full_name()),
                "give 1 to 5 of them with iron_tensor()");
  s.rank = a.rank;
  u64 packed = dtype_size(p.ops->dtype);
  for (u32 i = 0; i < a.rank; ++i) {
    s.dims[i] = a.dims[i];
    s.strides[i] = i == 0 || !a.strides ? packed : a.strides[i - 1];
    if (s.strides[i] % dtype_size(p.ops->dtype))
      throw Fault(IRON_INVALID_ARGUMENT, "C13",
                  fmt::format("a stride of tensor {} of {} is {} bytes, no whole number of elements", p.name,
                              k.entry->full_name(), s.strides[i]));
    packed *= a.dims[i];
  }
  return s;
}

LaunchArg bind_one(const iron_kernel& k, const detail::NamedField& p, const iron_argument& a) {
  const bool scalar = p.ops->kind == Kind::scalar;
  if (scalar != (a.kind != IRON_ARGUMENT_BUFFER))
    throw Fault(IRON_WRONG_TYPE, "C12",
                fmt::format("argument {} of {} is a {}, not a {}", p.name, k.entry->full_name(),
                            scalar ? "scalar" : "buffer", scalar ? "buffer" : "scalar"),
                parameter_list(k));
  if (scalar) {
    const u64 bits = scalar_bits(k, p, a);
    p.ops->set(p.at, bits);
    return {nullptr, 0, bits, {}};
  }
  if (static_cast<int>(a.dtype) != static_cast<int>(p.ops->dtype))
    throw Fault(IRON_WRONG_TYPE, "D25",
                fmt::format("buffer {} of {} holds {}, not {}", p.name, k.entry->full_name(), dtype_name(p.ops->dtype),
                            iron_dtype_name(a.dtype)),
                "convert the data, or take the kernel for its type");
  if (!a.data && a.bytes)
    throw Fault(IRON_INVALID_ARGUMENT, "D25", fmt::format("buffer {} of {} is NULL", p.name, k.entry->full_name()));
  if (p.ops->tensor) {
    const TensorShape shape = tensor_shape(k, p, a);
    p.ops->bind_tensor(p.at, BufferRef{a.data, a.bytes, true}, shape);
    return {a.data, a.bytes, 0, shape};
  }
  if (a.rank)
    throw Fault(IRON_INVALID_ARGUMENT, "C13",
                fmt::format("buffer {} of {} is no tensor: it takes no dimensions", p.name, k.entry->full_name()));
  p.ops->bind(p.at, BufferRef{a.data, a.bytes, true});
  return {a.data, a.bytes, 0, {}};
}

/// Every parameter's argument, bound to the kernel object and in the order of a launch.
std::vector<LaunchArg> bind_all(const iron_kernel& k, const iron_argument* arguments, size_t count) {
  if (count) need(arguments, "arguments");
  std::vector<LaunchArg> out(k.parameters.size());
  std::vector<bool> given(k.parameters.size());
  for (size_t i = 0; i < count; ++i) {
    const auto& a = arguments[i];
    need(a.name, "the name of an argument");
    const auto at =
        std::find_if(k.parameters.begin(), k.parameters.end(), [&](const auto& p) { return p.name == a.name; });
    if (at == k.parameters.end()) {
      const auto* field = k.instance->find(a.name);
      throw Fault(IRON_INVALID_ARGUMENT, "D18", fmt::format("{} has no parameter '{}'", k.entry->full_name(), a.name),
                  field && field->ops->optional ? fmt::format("specialise the kernel with {}=present", a.name)
                                                : parameter_list(k));
    }
    const auto index = static_cast<std::size_t>(at - k.parameters.begin());
    if (given[index])
      throw Fault(IRON_INVALID_ARGUMENT, "D18",
                  fmt::format("argument {} of {} is given twice", a.name, k.entry->full_name()));
    given[index] = true;
    out[index] = bind_one(k, *at, a);
  }
  std::string missing;
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!given[i]) missing += (missing.empty() ? "" : ", ") + std::string(k.parameters[i].name);
  if (!missing.empty())
    throw Fault(IRON_INVALID_ARGUMENT, "D18", fmt::format("{} lacks arguments: {}", k.entry->full_name(), missing),
                parameter_list(k));
  return out;
}

bool stated(const iron_launch_options& o) {
  return o.groups[0] || o.groups[1] || o.groups[2] || o.threads[0] || o.threads[1] || o.threads[2];
}

Grid grid_for(const iron_kernel& k, const iron_launch_options& o) {
  if (!stated(o)) return k.instance->grid();
  Grid g(Threadgroups{o.groups[0], o.groups[1], o.groups[2]}, Threads{o.threads[0], o.threads[1], o.threads[2]});
  if (g.groups.x == 0 || g.groups.y == 0 || g.groups.z == 0 || g.threads.x == 0 || g.threads.y == 0 || g.threads.z == 0)
    throw Fault(IRON_INVALID_ARGUMENT, "D03", "a stated grid has a size of 0", "write 1 for axes that are not used");
  g.items = o.items;
  return g;
}

const PreparedKernel& prepared(iron_kernel& k, const Grid& grid) {
  const Dim3 threads{grid.threads.x, grid.threads.y, grid.threads.z};
  for (const auto& [size, ready] : k.prepared)
    if (size == threads) return ready;
  k.prepared.emplace_back(threads, k.shared->device.prepare(*k.instance, k.entry->full_name(), grid.threads));
  return k.prepared.back().second;
}

/// A launch of the kernel that its caller named, or of the family's member for it.
struct Ready {
  const PreparedKernel* kernel = nullptr;
  std::vector<LaunchArg> args;
  Grid grid;
};

/// False where the kernel itself is to run: a grid that is stated is its own.
bool ready_member(iron_kernel& k, const iron_launch_options& o, Ready& out) {
  k.member.clear();
  if (!k.dispatch || stated(o)) return false;
  auto& chosen = k.dispatch->choose(*k.entry, k.instance->arguments());
  k.member = fmt::format("{}: {}: {}", chosen.selection.entry->full_name(),
                         kernels::name(chosen.selection.member->rung), chosen.selection.why);
  if (!chosen.kernel) return false;
  const auto key = chosen.kernel->key();
  out.grid = chosen.kernel->grid();
  auto it = k.members.find(key);
  if (it == k.members.end())
    it = k.members
             .emplace(key,
                      k.shared->device.prepare(*chosen.kernel, chosen.selection.entry->full_name(), out.grid.threads))
             .first;
  out.kernel = &it->second;
  out.args.clear();
  for (const auto& a : chosen.kernel->arguments()) out.args.push_back(a.launch_arg(a.scalar ? nullptr : a.buffer.data));
  return true;
}

enum class Then { compile_only, launch };
iron_status run(iron_kernel* kernel, const iron_argument* arguments, size_t count, const iron_launch_options* options,
                Then then) {
  return guarded([&] {
    need(kernel, "kernel");
    iron_launch_options o{};
    if (options) {
      o.size = sizeof o;
      if (options->size < sizeof(size_t) || options->size > 4096)
        throw Fault(IRON_INVALID_ARGUMENT, "C01", "options->size is not set", "set it to sizeof(*options)");
      std::memcpy(&o, options, std::min(options->size, sizeof o));
    }
    auto& k = *kernel;
    if (o.stream && o.stream->shared != k.shared)
      throw Fault(IRON_INVALID_ARGUMENT, "RT11", "the stream belongs to another device than the kernel",
                  "make both on one device");
    const std::lock_guard lock(k.shared->mutex);
    Ready ready;
    ready.args = bind_all(k, arguments, count);
    if (!ready_member(k, o, ready)) ready.grid = grid_for(k, o), ready.kernel = &prepared(k, ready.grid);
    if (then == Then::compile_only) return;
    const auto geometry = Device::geometry_of(ready.grid);
    if (o.stream)
      o.stream->stream.launch(*ready.kernel, ready.args, geometry, {.overlap = o.overlap != 0});
    else
      ready.kernel->launch(ready.args, geometry);
  });
}

}  // namespace

}  // namespace iron::capi

using namespace iron;
using namespace iron::capi;

size_t iron_library_count(void) { return standard_library().entries().size(); }
iron_status iron_library_entry(size_t index, iron_kernel_info* info) {
  return guarded([&] {
    const auto& entries = standard_library().entries();
    if (index >= entries.size())
      throw Fault(IRON_NOT_FOUND, "C06", fmt::format("the library has {} entries, not {}", entries.size(), index + 1));
    give(info, describe(entries[index], *entries[index].instance()), "info");
  });
}

iron_status iron_kernel_create(iron_device* device, const char* name, iron_dtype dtype, const char* specialisation,
                               iron_kernel** kernel) {
  return guarded([&] {
    need(device, "device"), need(name, "name"), need(static_cast<const void*>(kernel), "kernel");
    *kernel = nullptr;
    auto k = std::make_unique<iron_kernel>();
    k->shared = device->shared;
    k->entry = &find_entry(name, dtype);
    k->instance = k->entry->instance();
    if (specialisation) k->instance->specialise(specialisation);
    k->specialisation = k->instance->specialisation();
    k->parameters = k->instance->parameters();
    for (const auto& p : k->parameters) k->parameter_names.emplace_back(p.name);
    if (k->entry->name == "iron_gemm" && !specialisation) {  // the family's own name
      const auto& info = device->shared->device.backend().info();
      k->dispatch = std::make_unique<kernels::GemmDispatch>(info.features, info.units);
    }
    *kernel = k.release();
  });
}
void iron_kernel_destroy(iron_kernel* kernel) {
  if (!kernel) return;
  const auto shared = kernel->shared;
  const std::lock_guard lock(shared->mutex);
  delete kernel;
}

iron_status iron_kernel_describe(const iron_kernel* kernel, iron_kernel_info* info) {
  return guarded([&] {
    need(kernel, "kernel");
    give(info, describe(*kernel->entry, *kernel->instance), "info");
  });
}
const char* iron_kernel_specialisation(const iron_kernel* kernel) {
  return kernel ? kernel->specialisation.c_str() : nullptr;
}

const char* iron_kernel_member(const iron_kernel* kernel) {
  return kernel && !kernel->member.empty() ? kernel->member.c_str() : nullptr;
}

iron_status iron_kernel_parameter(const iron_kernel* kernel, size_t index, iron_parameter* parameter) {
  return guarded([&] {
    need(kernel, "kernel");
    if (index >= kernel->parameters.size())
      throw Fault(IRON_NOT_FOUND, "C07",
                  fmt::format("there is no parameter {} of {}", index, kernel->entry->full_name()),
                  parameter_list(*kernel));
    const auto& p = kernel->parameters[index];
    iron_parameter out{};
    out.name = kernel->parameter_names[index].c_str();
    out.kind = p.ops->kind == Kind::scalar            ? IRON_SCALAR
               : p.ops->access == detail::Access::in  ? IRON_IN
               : p.ops->access == detail::Access::out ? IRON_OUT
                                                      : IRON_INOUT;
    out.dtype = static_cast<iron_dtype>(p.ops->dtype), out.optional = p.ops->optional, out.tensor = p.ops->tensor;
    give(parameter, out, "parameter");
  });
}

iron_status iron_kernel_grid(const iron_kernel* kernel, const iron_argument* arguments, size_t count,
                             iron_launch_options* grid) {
  return guarded([&] {
    need(kernel, "kernel");
    const std::lock_guard lock(kernel->shared->mutex);
    bind_all(*kernel, arguments, count);
    const Grid g = kernel->instance->grid();
    give(grid,
         iron_launch_options{
             0, {g.groups.x, g.groups.y, g.groups.z}, {g.threads.x, g.threads.y, g.threads.z}, g.items, nullptr, 0},
         "grid");
  });
}
iron_status iron_kernel_compile(iron_kernel* kernel, const iron_argument* arguments, size_t count,
                                const iron_launch_options* options) {
  return run(kernel, arguments, count, options, Then::compile_only);
}
iron_status iron_launch(iron_kernel* kernel, const iron_argument* arguments, size_t count,
                        const iron_launch_options* options) {
  return run(kernel, arguments, count, options, Then::launch);
}
