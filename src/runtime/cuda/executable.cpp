// Loading of cubins, their texts and resources, and the encoding of arguments.
#include "runtime/cuda/executable.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "iron/error.h"

namespace iron::runtime::cuda {

namespace {
/// The disassembly of a cubin by nvdisasm or cuobjdump where one is on the PATH, else empty.
std::string disassemble(const std::vector<char>& cubin) {
  const auto file = std::filesystem::temp_directory_path() /
                    fmt::format("iron-{}-{:x}.cubin", getpid(), reinterpret_cast<std::uintptr_t>(cubin.data()));
  std::ofstream(file, std::ios::binary).write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
  std::string out;
  for (const char* tool : {"nvdisasm -c", "cuobjdump -sass"}) {
    FILE* pipe = popen(fmt::format("{} '{}' 2>/dev/null", tool, file.string()).c_str(), "r");
    if (!pipe) continue;
    char buffer[4096];
    for (std::size_t n; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
    if (pclose(pipe) == 0 && !out.empty()) break;
    out.clear();
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  return out;
}
}  // namespace

CudaExecutable::CudaExecutable(const Driver& d, const ir::Kernel& k, Dim3 threads, CompiledKernel compiled)
    : driver_(d), kernel_(k), threads_(threads), compiled_(std::move(compiled)), maps_(d) {
  d.check(d.ModuleLoadData(&module_, compiled_.binary.cubin.data()), fmt::format("loading kernel {}", k.name));
  d.check(d.ModuleGetFunction(&function_, module_, compiled_.source.entry.c_str()),
          fmt::format("finding kernel {}", k.name));
  const u64 dynamic = compiled_.source.dynamic_shared_bytes;
  if (dynamic > 0)
    d.check(d.FuncSetAttribute(function_, attribute::function_max_dynamic_shared, static_cast<int>(dynamic)),
            fmt::format("kernel {} asks for {} bytes of threadgroup memory", k.name, dynamic));
}

Dim3 CudaExecutable::grid(const Dim3& groups) const {
  const u64 items = compiled_.items_per_thread;
  if (items == 1) return groups;
  return {static_cast<u32>((groups.count() + items - 1) / items), 1, 1};  // its ids are flat
}

std::string CudaExecutable::stage(std::string_view name) const {
  if (name == "cuda") return compiled_.source.text;
  if (name == "ptx") return compiled_.binary.ptx;
  if (name == "sass") return disassemble(compiled_.binary.cubin);
  if (name == "log") return compiled_.binary.log;
  return {};
}

std::vector<std::pair<std::string, double>> CudaExecutable::resources() const {
  const auto value = [&](int which) {
    int v = 0;
    driver_.check(driver_.FuncGetAttribute(&v, which, function_), "reading a kernel's attributes");
    return v;
  };
  int groups = 0;
  const int n = static_cast<int>(threads_.count());
  driver_.check(driver_.Occupancy(&groups, function_, n, compiled_.source.dynamic_shared_bytes),
                "asking for occupancy");
  const auto report = ptxas_report(compiled_.binary.log);
  return {{"registers", value(attribute::function_registers)},
          {"local_bytes", value(attribute::function_local)},
          {"spill_bytes", std::max(report.spill_store_bytes, 0) + std::max(report.spill_load_bytes, 0)},
          {"shared_bytes",
           static_cast<double>(compiled_.source.static_shared_bytes + compiled_.source.dynamic_shared_bytes)},
          {"groups_per_unit", groups},
          {"occupancy", groups * n / 2048.0}};
}

namespace {
/// What widened kernels ask: 1 if wide accesses may start where every buffer starts.
u64 aligned(const ir::Kernel& k, std::span<const LaunchArg> args) {
  for (std::size_t i = 0; i < args.size(); ++i)
    if (k.params[i].is_buffer() && reinterpret_cast<std::uintptr_t>(args[i].data) % 16 != 0) return 0;
  return 1;
}
}  // namespace

Arguments::Arguments(const CudaExecutable& exe, const LaunchGeometry& geometry, std::span<const LaunchArg> args) {
  const auto& k = exe.kernel();
  if (args.size() != k.params.size())
    throw Error("D25", fmt::format("kernel {} takes {} arguments, not {}", k.name, k.params.size(), args.size()));
  for (const auto& slot : exe.source().args) {
    switch (slot.kind) {
      case emit::ArgSlot::pointer:
        values_.push_back(reinterpret_cast<std::uintptr_t>(args[slot.param].data));
        break;
      case emit::ArgSlot::scalar:
        values_.push_back(slot.param < args.size() ? args[slot.param].scalar : aligned(k, args));
        break;
      case emit::ArgSlot::length:
        values_.push_back(args[slot.param].bytes / dtype_size(k.params[slot.param].elem));
        break;
      case emit::ArgSlot::items:
        values_.push_back(geometry.items);
        break;
      case emit::ArgSlot::tensor:
        values_.push_back(0);  // its map follows below
        break;
    }
  }
  check_tier(exe, geometry, args);
  // Little-endian: a narrower parameter is the value's first bytes.
  for (auto& v : values_) pointers_.push_back(&v);
  const auto& source = exe.source();
  maps_.reserve(source.boxes.size());
  for (std::size_t i = 0; i < source.args.size(); ++i) {
    if (source.args[i].kind != emit::ArgSlot::tensor) continue;
    const u32 param = source.args[i].param;
    for (const auto& box : source.boxes)
      if (box.param == param) maps_.push_back(exe.tensor_map(box, args[param]));
    pointers_[i] = &maps_.back();
  }
}

// What the Hopper tier asks of a launch beside the contract: whole clusters, and subscripts of 32 bits.
void Arguments::check_tier(const CudaExecutable& exe, const LaunchGeometry& geometry, std::span<const LaunchArg> args) {
  const auto& source = exe.source();
  if (!source.tier) return;
  const auto& k = exe.kernel();
  if (geometry.groups.x % source.cluster != 0)
    throw Error("D02",
                fmt::format("kernel {} runs in clusters of {} threadgroups, the grid has {}", k.name, source.cluster,
                            geometry.groups.x),
                "launch a multiple of the cluster along x");
  for (std::size_t i = 0; i < k.params.size(); ++i)
    if (k.params[i].kind == ir::ParamKind::scalar && is_int(k.params[i].elem) && args[i].scalar > 0x7fffffffu)
      throw Error("D26", fmt::format("scalar {} of kernel {} is {}", k.params[i].name, k.name, args[i].scalar),
                  "kernels that copy tensors count in 32 bits: use values below 2^31");
}

}  // namespace iron::runtime::cuda
