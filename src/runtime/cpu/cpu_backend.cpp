// The CPU device.
#include "runtime/cpu/cpu_backend.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "cpu/cache.h"
#include "runtime/cpu/report.h"

namespace iron::runtime {

namespace {
constexpr std::size_t longest_list = 256;
/// Bytes written by a launch from which nobody will find them in a cache: eight times a usual second-level cache.
constexpr u64 stream_from = u64{8} << 20;

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "x86-64";
}
u64 cache_size() {
  for (const int name : {_SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE})
    if (const long v = sysconf(name); v > 0) return static_cast<u64>(v);
  return 0;
}

/// Work of a threadgroup in lane-ops, loops counted as several trips: only for the grain.
u64 weight(const ir::Kernel& k, ir::RegionId r, u64 times) {
  u64 sum = 0;
  for (const ir::OpId id : k.region(r).ops) {
    sum += times * (k.info_of(id).has(ir::TileOp) ? 4096 : 1);
    for (u32 i = 0; i < k.op(id).region_count; ++i)
      sum +=
          weight(k, k.region_of(id, i), k.op(id).code == ir::Opcode::For ? std::min<u64>(times * 16, 1u << 20) : times);
  }
  return sum;
}
}  // namespace

// --- a compiled kernel

CpuExecutable::CpuExecutable(ir::Kernel kernel, Dim3 threads, const cpu::CpuTarget& target)
    : kernel_(std::move(kernel)), threads_(threads), target_(target), code_(cpu::compile(kernel_, threads, target)) {
  // A thread of its own pays from about a microsecond of work: 16 K simple lane-ops.
  const u64 per_group = std::max<u64>(1, weight(kernel_, kernel_.body(), 1) * threads.count() / 4);
  grain_ = static_cast<u32>(std::max<u64>(1, 16384 / per_group));
}

std::string CpuExecutable::stage(std::string_view name) const {
  return cpu::text_stage(kernel_, threads_, target_, name);
}

std::vector<std::pair<std::string, double>> CpuExecutable::resources() const {
  return {{"code_bytes", static_cast<double>(code_->code_bytes)},
          {"scratch_bytes", static_cast<double>(code_->info.scratch_bytes)},
          {"packet_lanes", static_cast<double>(target_.lanes)},
          {"from_cache", code_->from_cache ? 1.0 : 0.0},
          {"lower_ms", code_->lower_ms},
          {"optimise_ms", code_->optimise_ms},
          {"codegen_ms", code_->codegen_ms},
          {"link_ms", code_->link_ms}};
}

const cpu::Compiled& CpuExecutable::streaming() {
  if (!streaming_) streaming_ = cpu::compile(kernel_, threads_, target_, {.stream = true});
  return *streaming_;
}

void CpuExecutable::report(void* self, u32 op, u64 thread, const u64* values) {
  auto& e = *static_cast<CpuExecutable*>(self);
  std::string text = report_line(e.kernel_, op, thread, e.threads_.count(), values);
  const std::lock_guard lock(e.mutex_);
  e.lines_.push_back({thread, e.lines_.size(), std::move(text)});
}
std::vector<std::string> CpuExecutable::take_reports() {
  const std::lock_guard lock(mutex_);
  std::sort(lines_.begin(), lines_.end(),
            [](const Line& a, const Line& b) { return std::pair(a.thread, a.order) < std::pair(b.thread, b.order); });
  std::vector<std::string> out;
  for (auto& l : lines_) out.push_back(std::move(l.text));
  lines_.clear();
  return out;
}

// --- the device

CpuBackend::CpuBackend(u32 threads) : pool_(threads) {
  const auto& t = cpu::host_target();
  info_.backend = "cpu";
  info_.name = processor_name();
  info_.api = cpu::llvm_version();
  info_.architecture = "x86-64 " + t.name;
  info_.units = pool_.threads();
  info_.shared_bytes = u64{1} << 20;
  info_.memory_bytes = static_cast<u64>(sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(sysconf(_SC_PAGESIZE));
  info_.cache_bytes = cache_size();
  info_.features = {"forward_progress", t.name};
  if (t.fma) info_.features.push_back("fma");
  if (t.f16c) info_.features.push_back("f16c");
}
CpuBackend::~CpuBackend() { flush(); }

void* CpuBackend::allocate(u64 bytes) {
  void* p = std::aligned_alloc(256, (std::max<u64>(bytes, 1) + 255) / 256 * 256);
  if (!p)
    throw Error("DEV02", fmt::format("the CPU device cannot allocate {} bytes", bytes),
                "free buffers, or use smaller ones");
  return p;
}
void CpuBackend::release(void* data) {
  flush();
  std::free(data);
}
void CpuBackend::upload(void* to, const void* from, u64 bytes) {
  flush();
  std::memcpy(to, from, bytes);
}
void CpuBackend::download(void* to, const void* from, u64 bytes) {
  flush();
  std::memcpy(to, from, bytes);
}
void CpuBackend::fill(void* to, u8 byte, u64 bytes) {
  flush();
  std::memset(to, byte, bytes);
}

std::shared_ptr<Executable> CpuBackend::prepare(const ir::Kernel& optimised, Dim3 threads) {
  // Ids of the canonical kernel follow its text, so that code from the cache names the same ops.
  ir::Kernel kernel = ir::canonical(optimised);
  const auto& target = cpu::host_target();
  const std::string key = cpu::cache_key(kernel, threads, target, cpu::llvm_version());
  const std::lock_guard lock(prepare_mutex_);
  if (auto known = prepared_[key].lock()) return known;
  auto made = std::make_shared<CpuExecutable>(std::move(kernel), threads, target);
  prepared_[key] = made;
  return made;
}

void CpuBackend::append(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                        std::span<const LaunchArg> args) {
  auto& e = dynamic_cast<CpuExecutable&>(*exe);
  if (!(geometry.threads == e.threads()))
    throw Error("LAUNCH02",
                fmt::format("kernel {} was prepared for threadgroups of {} x {} x {}", e.kernel().name, e.threads().x,
                            e.threads().y, e.threads().z),
                "prepare it for the threadgroup that is launched");
  const u64 groups = geometry.groups.count();
  if (groups > 0xffffffffu)
    throw Error("LAUNCH02", fmt::format("{} threadgroups; the CPU device counts them in 32 bits", groups));
  if (groups == 0) return;
  // A command waits where it touches what an earlier one since the last barrier wrote, or writes what that one touched.
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < args.size() && i < e.kernel().params.size(); ++i) {
    const auto& p = e.kernel().params[i];
    const auto* begin = static_cast<const u8*>(args[i].data);
    if (p.is_buffer() && args[i].bytes) ranges.push_back({begin, begin + args[i].bytes, p.kind != ir::ParamKind::in});
  }
  const bool conflict = std::any_of(ranges.begin(), ranges.end(), [&](const Range& a) {
    return std::any_of(since_barrier_.begin(), since_barrier_.end(),
                       [&](const Range& b) { return (a.writes || b.writes) && a.begin < b.end && b.begin < a.end; });
  });
  words_.push_back(cpu::argument_words(e.kernel(), geometry, args));
  Command c;
  u64 written = 0;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (e.kernel().params[i].kind == ir::ParamKind::out) written += args[i].bytes;
  c.fn = (written > stream_from ? e.streaming() : e.code()).fn, c.args = words_.back().data(),
  c.groups = static_cast<u32>(groups), c.grain = e.grain();
  c.wait = conflict, c.in_order = e.code().info.waits, c.scratch_bytes = e.code().info.scratch_bytes;
  c.report = &CpuExecutable::report, c.context = &e;
  if (c.in_order) c.grain = 1, c.wait = true;
  if (c.wait) since_barrier_.clear();
  since_barrier_.insert(since_barrier_.end(), ranges.begin(), ranges.end());
  commands_.push_back(c);
  kept_.push_back(exe);
}

void CpuBackend::launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                        std::span<const LaunchArg> args) {
  append(exe, geometry, args);
  if (commands_.size() >= longest_list) flush();
}

void CpuBackend::flush() {
  if (commands_.empty()) return;
  pool_.run(commands_);
  for (const auto& exe : kept_)
    for (const auto& line : dynamic_cast<CpuExecutable&>(*exe).take_reports()) {
      if (on_report)
        on_report(line);
      else
        fmt::print(stderr, "{}\n", line);
    }
  commands_.clear();
  words_.clear();
  kept_.clear();
  since_barrier_.clear();
}
void CpuBackend::synchronize() { flush(); }

double CpuBackend::time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                                 std::span<const std::vector<LaunchArg>> rotating_args, u32 count) {
  flush();
  for (u32 i = 0; i < count; ++i) append(exe, geometry, rotating_args[i % rotating_args.size()]);
  const auto start = std::chrono::steady_clock::now();
  flush();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace iron::runtime
