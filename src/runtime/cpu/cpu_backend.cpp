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
#include "runtime/host_stream.h"

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
  e.reported_.store(true, std::memory_order_relaxed);  // the list's end orders it before take_reports
}
std::vector<std::string> CpuExecutable::take_reports() {
  if (!reported_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(mutex_);
  reported_.store(false, std::memory_order_relaxed);
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
  info_.host_memory = true;
  info_.name = processor_name();
  info_.api = cpu::llvm_version();
  info_.architecture = "x86-64 " + t.name;
  info_.units = pool_.threads();
  info_.shared_bytes = u64{2} << 20;  // what a core keeps near itself
  info_.memory_bytes = static_cast<u64>(sysconf(_SC_PHYS_PAGES)) * static_cast<u64>(sysconf(_SC_PAGESIZE));
  info_.cache_bytes = cache_size();
  info_.features = {"forward_progress", t.name};
  if (t.avx512 && t.name != "avx512") info_.features.emplace_back("avx512");
  if (t.fma) info_.features.emplace_back("fma");
  if (t.f16c) info_.features.emplace_back("f16c");
}
CpuBackend::~CpuBackend() { flush(); }

void* CpuBackend::allocate(u64 bytes) {
  void* p = blocks_.allocate(bytes);
  if (!p)
    throw Error("DEV02", fmt::format("the CPU device cannot allocate {} bytes", bytes),
                "free buffers, or use smaller ones");
  return p;
}
void CpuBackend::release(void* data) {
  if (!data || !blocks_.release(data)) return;
  flush();
  blocks_.give_back(data);
}
void CpuBackend::trim_pool() {
  flush();
  blocks_.trim();
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
  const std::string key = cpu::cache_key(kernel, threads, target, cpu::llvm_version()).hex();
  const std::lock_guard lock(prepare_mutex_);
  if (auto known = prepared_[key].lock()) return known;
  auto made = std::make_shared<CpuExecutable>(std::move(kernel), threads, target);
  prepared_[key] = made;
  return made;
}

// --- lists

void CommandList::append(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                         std::span<const LaunchArg> args) {
  auto& e = own<CpuExecutable>(*exe, "kernel");
  if (!(geometry.threads == e.threads()))
    throw Error("LAUNCH02",
                fmt::format("kernel {} was prepared for threadgroups of {} x {} x {}", e.kernel().name, e.threads().x,
                            e.threads().y, e.threads().z),
                "prepare it for the threadgroup that is launched");
  if (geometry.groups.count() > 0xffffffffu)
    throw Error("LAUNCH02",
                fmt::format("{} threadgroups; the CPU device counts them in 32 bits", geometry.groups.count()));
  if (launches_.size() == size_) launches_.emplace_back(), words_.emplace_back();
  auto& l = launches_[size_];
  l.exe = exe, l.geometry = geometry;
  l.args.assign(args.begin(), args.end());
  encode(size_);
  ++size_;
}

void CommandList::encode(std::size_t at) {
  const Launch& l = launches_[at];
  auto& e = own<CpuExecutable>(*l.exe, "kernel");
  // A command waits where it touches what an earlier one since the last barrier wrote, or writes what that one touched.
  ranges_.clear();
  u64 written = 0;
  for (std::size_t i = 0; i < l.args.size() && i < e.kernel().params.size(); ++i) {
    const auto& p = e.kernel().params[i];
    const auto* begin = static_cast<const u8*>(l.args[i].data);
    if (p.is_buffer() && l.args[i].bytes)
      ranges_.push_back({begin, begin + l.args[i].bytes, p.kind != ir::ParamKind::in});
    if (p.kind == ir::ParamKind::out) written += l.args[i].bytes;
  }
  const bool conflict = std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& a) {
    return std::any_of(since_barrier_.begin(), since_barrier_.end(),
                       [&](const Range& b) { return (a.writes || b.writes) && a.begin < b.end && b.begin < a.end; });
  });
  cpu::argument_words(e.kernel(), l.geometry, l.args, words_[at]);
  Command c;
  c.fn = (written > stream_from ? e.streaming() : e.code()).fn, c.args = words_[at].data(),
  c.groups = static_cast<u32>(l.geometry.groups.count()), c.grain = e.grain();
  c.wait = conflict, c.in_order = e.code().info.waits, c.scratch_bytes = e.code().info.scratch_bytes;
  c.report = &CpuExecutable::report, c.context = &e;
  if (c.in_order) c.grain = 1, c.wait = true;
  if (c.wait) since_barrier_.clear();
  since_barrier_.insert(since_barrier_.end(), ranges_.begin(), ranges_.end());
  commands_.push_back(c);
}

void CommandList::set_args(std::size_t launch, std::span<const LaunchArg> args) {
  auto& l = launches_.at(launch);
  const auto same = [](const LaunchArg& a, const LaunchArg& b) { return a.data == b.data && a.bytes == b.bytes; };
  const bool only_scalars = std::equal(l.args.begin(), l.args.end(), args.begin(), args.end(), same);
  l.args.assign(args.begin(), args.end());
  if (only_scalars) {
    cpu::argument_words(l.exe->kernel(), l.geometry, l.args, words_[launch]);
    commands_[launch].args = words_[launch].data();
    return;
  }
  commands_.clear(), since_barrier_.clear();
  for (std::size_t i = 0; i < size_; ++i) encode(i);
}

void CommandList::clear() {
  for (std::size_t i = 0; i < size_; ++i) launches_[i].exe.reset();
  size_ = 0;
  commands_.clear();
  since_barrier_.clear();
}

namespace {
class CpuGraph final : public Graph {
 public:
  CommandList list;
  std::size_t size() const override { return list.size(); }
  const Launch& launch(std::size_t index) const override { return list.launch(index); }
  void set_args(std::size_t index, std::span<const LaunchArg> args) override { list.set_args(index, args); }
};
class CpuStream final : public HostStream {
 public:
  explicit CpuStream(CpuBackend& device) : HostStream(device), device_(device) {}
  void replay(Graph& graph) override { device_.run(own<CpuGraph>(graph, "graph").list); }

 private:
  CpuBackend& device_;
};
}  // namespace

std::unique_ptr<Stream> CpuBackend::make_stream() { return std::make_unique<CpuStream>(*this); }
std::unique_ptr<Graph> CpuBackend::build_graph(std::vector<Launch> launches) {
  auto graph = std::make_unique<CpuGraph>();
  for (const auto& l : launches) graph->list.append(l.exe, l.geometry, l.args);
  return graph;
}

void CpuBackend::launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                        std::span<const LaunchArg> args) {
  list_.append(exe, geometry, args);
  if (list_.size() >= longest_list) flush();
}

void CpuBackend::run(const CommandList& list) {
  if (&list != &list_) flush();
  if (list.empty()) return;
  pool_.run(list.commands());
  for (std::size_t i = 0; i < list.size(); ++i)
    for (const auto& line : own<CpuExecutable>(*list.launch(i).exe, "kernel").take_reports()) {
      if (on_report)
        on_report(line);
      else
        fmt::print(stderr, "{}\n", line);
    }
}

void CpuBackend::flush() {
  run(list_);
  list_.clear();
}
void CpuBackend::synchronize() { flush(); }

double CpuBackend::time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                                 std::span<const std::vector<LaunchArg>> rotating_args, u32 count) {
  flush();
  for (u32 i = 0; i < count; ++i) list_.append(exe, geometry, rotating_args[i % rotating_args.size()]);
  const auto start = std::chrono::steady_clock::now();
  flush();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace iron::runtime
