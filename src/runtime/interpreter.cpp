#include "runtime/interpreter.h"

#include <chrono>
#include <cstdlib>

#include "ir/text.h"
#include "runtime/host_stream.h"

namespace iron::runtime {

namespace {
class Interpreted final : public Executable {
 public:
  explicit Interpreted(const ir::Kernel& k) : kernel_(k) {}
  const ir::Kernel& kernel() const override { return kernel_; }
  std::string stage(std::string_view name) const override { return name == "ir" ? ir::print(kernel_) : std::string{}; }

 private:
  ir::Kernel kernel_;
};
}  // namespace

InterpreterBackend::InterpreterBackend() {
  info_.backend = "interpreter";
  info_.host_memory = true;
  info_.name = "reference interpreter";
  info_.architecture = "any";
  info_.features = {"forward_progress", "roles", "tma", "mbarrier", "wgmma", "cluster"};
  info_.shared_bytes = u64{1} << 30;
}

void* InterpreterBackend::allocate(u64 bytes) {
  void* data = std::aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
  if (!data) throw Error("RT01", "out of memory: " + std::to_string(bytes) + " bytes cannot be allocated");
  const std::lock_guard lock(mutex_);
  blocks_[data] = bytes, used_ += bytes;
  return data;
}
void InterpreterBackend::release(void* data) {
  const std::lock_guard lock(mutex_);
  if (const auto it = blocks_.find(data); it != blocks_.end()) used_ -= it->second, blocks_.erase(it);
  std::free(data);
}
PoolUse InterpreterBackend::pool_use() {
  const std::lock_guard lock(mutex_);
  return {used_, 0};
}
std::unique_ptr<Stream> InterpreterBackend::make_stream() { return std::make_unique<HostStream>(*this); }
std::unique_ptr<Graph> InterpreterBackend::build_graph(std::vector<Launch> launches) {
  return std::make_unique<LaunchList>(std::move(launches));
}
void InterpreterBackend::upload(void* to, const void* from, u64 bytes) { std::memcpy(to, from, bytes); }
void InterpreterBackend::download(void* to, const void* from, u64 bytes) { std::memcpy(to, from, bytes); }
void InterpreterBackend::fill(void* to, u8 byte, u64 bytes) { std::memset(to, byte, bytes); }

std::shared_ptr<Executable> InterpreterBackend::prepare(const ir::Kernel& optimised, Dim3) {
  return std::make_shared<Interpreted>(optimised);
}

void InterpreterBackend::launch(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                                std::span<const LaunchArg> args) {
  auto result = exec::run(exe->kernel(), geometry, args, options);
  std::erase_if(result.findings, [](const Diagnostic& d) { return d.severity != Severity::error; });
  if (!result.findings.empty()) throw Error(std::move(result.findings));
}

double InterpreterBackend::time_launches(const std::shared_ptr<Executable>& exe, const LaunchGeometry& geometry,
                                         std::span<const std::vector<LaunchArg>> rotating_args, u32 count) {
  const auto start = std::chrono::steady_clock::now();
  for (u32 i = 0; i < count; ++i) launch(exe, geometry, rotating_args[i % rotating_args.size()]);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace iron::runtime
