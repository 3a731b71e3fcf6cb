// Runs the op matrix on a device and compares every output bit with the interpreter's; needs no other file.
//
// usage: iron_device_selftest [--backend cuda|interpreter] [--filter WORD] [--print NAME]
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <map>
#include <thread>

#include "../emit/op_matrix.h"
#include "exec/exec.h"
#include "ir/float_bits.h"
#include "ir/text.h"
#include "runtime/cuda/compile.h"
#include "runtime/cuda/device.h"

namespace {

using namespace iron;

/// xorshift128+, so that every machine draws the same inputs.
class Random {
 public:
  explicit Random(u64 seed) : a_(seed * 0x9e3779b97f4a7c15ull + 1), b_(seed ^ 0xd1b54a32d192ed03ull) {}
  u64 next() {
    u64 x = a_;
    const u64 y = b_;
    a_ = y;
    x ^= x << 23;
    b_ = x ^ y ^ (x >> 17) ^ (y >> 26);
    return b_ + y;
  }

 private:
  u64 a_, b_;
};

/// Bits of every kind: the edges of the type first, then ordinary numbers and raw bits.
u64 draw(DType t, u64 i, Random& random) {
  const u32 bits = dtype_bits(t);
  const u64 ones = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1, top = u64{1} << (bits - 1);
  if (t == DType::boolean) return random.next() >> 20 & 1;
  const u64 r = random.next();
  if (!is_float(t)) {
    const u64 edges[] = {0, 1, ones, top, top - 1, top + 1, 2, 31, 32, 64, ones - 1};
    if (i % 3 == 0) return edges[r % std::size(edges)] & ones;
    return (i % 3 == 1 ? r >> (r % 61) : r) & ones;
  }
  const u32 mantissa = t == DType::f16 ? 10 : t == DType::bf16 ? 7 : t == DType::f32 ? 23 : 52;
  const u64 infinity = (ones >> (mantissa + 1) << mantissa) & ~top & ones;
  const u64 one = infinity & (infinity << 1 | infinity >> 1) & ~(u64{1} << (bits - 2)) & infinity;
  const u64 edges[] = {0,
                       top,
                       infinity,
                       infinity | top,
                       infinity | (u64{1} << (mantissa - 1)),
                       1,
                       top | 1,
                       infinity - 1,
                       (infinity - 1) | top,
                       u64{1} << mantissa,
                       (u64{1} << mantissa) - 1,
                       one,
                       one | top,
                       one + 1,
                       one + (u64{1} << mantissa)};
  if (i % 4 == 0) return edges[r % std::size(edges)];
  if (i % 4 == 1) return r & ones;
  // Ordinary numbers around one: halves, thirds, signs.
  const f64 v = (static_cast<f64>(static_cast<i64>(r)) / 9.2e18) * (i % 4 == 2 ? 4.0 : 1000.0);
  return ir::float_bits(t, v);
}

struct Buffers {
  std::vector<std::vector<u8>> data;
};

/// Elements for the widest access of a case: eight a thread, and what views skip.
Buffers inputs(const ir::Kernel& k, const testing::OpCase& c) {
  Buffers b;
  for (std::size_t p = 0; p < k.params.size(); ++p) {
    const DType t = k.params[p].elem;
    const u32 size = dtype_size(t);
    const u64 count = std::max<u64>(u64{c.groups} * c.threads * 8 + 64, 4096);
    auto& bytes = b.data.emplace_back(count * size);
    Random random(p + 17 * c.name.size());
    // Buffers that count (tickets, flags) start at zero.
    if (c.name == "wait_until" || c.name == "atomic.contended") {
      if (k.params[p].kind == ir::ParamKind::inout) continue;
    }
    if (k.params[p].kind == ir::ParamKind::out) {
      std::fill(bytes.begin(), bytes.end(), u8{0xcd});
      continue;
    }
    for (u64 i = 0; i < count; ++i) {
      const u64 v = draw(t, i, random);
      std::memcpy(bytes.data() + i * size, &v, size);
    }
  }
  return b;
}

struct Verdict {
  bool passed = true;
  std::string why;
};

Verdict compare(const ir::Kernel& k, const Buffers& expected, const Buffers& got, u64& checked) {
  for (std::size_t p = 0; p < k.params.size(); ++p) {
    if (k.params[p].kind == ir::ParamKind::in) continue;
    const DType t = k.params[p].elem;
    const u32 size = dtype_size(t);
    for (u64 i = 0; i < expected.data[p].size() / size; ++i) {
      u64 x = 0, y = 0;
      std::memcpy(&x, expected.data[p].data() + i * size, size);
      std::memcpy(&y, got.data[p].data() + i * size, size);
      ++checked;
      if (x == y || (ir::is_nan(t, x) && ir::is_nan(t, y))) continue;  // NaNs are one class (R2)
      std::string operands;
      for (std::size_t q = 0; q < k.params.size(); ++q) {
        if (k.params[q].kind != ir::ParamKind::in) continue;
        const u32 n = dtype_size(k.params[q].elem);
        u64 v = 0;
        if ((i + 1) * n <= got.data[q].size()) std::memcpy(&v, got.data[q].data() + i * n, n);
        operands += fmt::format(" {}={:#x}", k.params[q].name, v);
      }
      return {false, fmt::format("{}[{}] is {:#x}, the interpreter has {:#x};{}", k.params[p].name, i, y, x, operands)};
    }
  }
  return {};
}

void run_interpreter(const ir::Kernel& k, const LaunchGeometry& g, Buffers& b) {
  std::vector<LaunchArg> args;
  for (auto& bytes : b.data) args.push_back({bytes.data(), bytes.size(), 0});
  const auto result = exec::run(k, g, args);
  for (const auto& finding : result.findings)
    if (finding.severity == Severity::error && finding.code != exec::code::nan_bits) throw Error(finding);
}

/// Device buffers kept from case to case.
class DeviceRunner {
 public:
  explicit DeviceRunner(runtime::Backend& backend) : backend_(backend) {}
  ~DeviceRunner() {
    for (const auto& s : slots_) backend_.release(s.first);
  }
  void run(const ir::Kernel& k, const LaunchGeometry& g, Buffers& b) {
    std::vector<LaunchArg> args;
    for (std::size_t p = 0; p < b.data.size(); ++p) {
      if (slots_.size() <= p) slots_.emplace_back(nullptr, 0);
      auto& [data, room] = slots_[p];
      if (room < b.data[p].size()) {
        if (data) backend_.release(data);
        data = backend_.allocate(b.data[p].size()), room = b.data[p].size();
      }
      backend_.upload(data, b.data[p].data(), b.data[p].size());
      args.push_back({data, b.data[p].size(), 0});
    }
    const auto exe = backend_.prepare(k, g.threads);
    backend_.launch(exe, g, args);
    backend_.synchronize();
    for (std::size_t p = 0; p < b.data.size(); ++p)
      if (k.params[p].kind != ir::ParamKind::in) backend_.download(b.data[p].data(), slots_[p].first, b.data[p].size());
  }

 private:
  runtime::Backend& backend_;
  std::vector<std::pair<void*, u64>> slots_;
};

/// Fills the disk cache with one process a core, since a thousand programs one after the other would take a minute. A
/// child that fails says nothing: its kernels are compiled, and their errors shown, by the run itself.
void compile_ahead(const std::vector<testing::OpCase>& cases, const std::string& arch) {
  const unsigned workers = std::clamp(std::thread::hardware_concurrency(), 1u, 32u);
  std::fflush(stdout);
  std::vector<pid_t> children;
  for (unsigned w = 0; w < workers; ++w) {
    const pid_t child = fork();
    if (child < 0) break;
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    const DiskCache cache = runtime::cuda::cubin_cache();
    for (std::size_t i = w; i < cases.size(); i += workers) {
      try {
        runtime::cuda::compile_cubin(ir::parse(cases[i].text, cases[i].name), {cases[i].threads, 1, 1}, arch, &cache);
      } catch (const Error&) {
        continue;
      }
    }
    _exit(0);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

/// "add.f16" is of the family "add".
std::string family(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

int usage() {
  std::fputs(
      "usage: iron_device_selftest [--backend cuda|interpreter] [--filter WORD] [--print NAME] [--prebuild ARCH]\n",
      stderr);
  return 2;
}

int run(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a run that is cut off shows how far it came
  std::string backend_name = "cuda", filter, shown, prebuild;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (i + 1 >= argc) return usage();
    if (option == "--backend")
      backend_name = argv[++i];
    else if (option == "--filter")
      filter = argv[++i];
    else if (option == "--print")
      shown = argv[++i];
    else if (option == "--prebuild")
      prebuild = argv[++i];
    else
      return usage();
  }
  if (!prebuild.empty()) {  // fills the cache for another machine, without a device
    compile_ahead(testing::op_cases(), prebuild);
    fmt::print("compiled for {}\n", prebuild);
    return 0;
  }
  if (backend_name != "cuda" && backend_name != "interpreter") return usage();
  std::unique_ptr<runtime::Backend> device;
  if (backend_name == "cuda") {
    device = runtime::cuda::open_device();
    const auto& info = device->info();
    fmt::print("{} ({}, {}), {} units, {} KiB of threadgroup memory\n", info.name, info.architecture, info.api,
               info.units, info.shared_bytes / 1024);
  }
  std::unique_ptr<DeviceRunner> runner;
  if (device) runner = std::make_unique<DeviceRunner>(*device);

  struct Row {
    u32 passed = 0, failed = 0, inexact = 0;
    u64 elements = 0;
  };
  std::map<std::string, Row> table;
  std::vector<std::string> failures;
  const auto start = std::chrono::steady_clock::now();
  auto cases = testing::op_cases();
  if (!filter.empty())
    std::erase_if(cases, [&](const testing::OpCase& c) { return c.name.find(filter) == std::string::npos; });
  if (device) {
    compile_ahead(cases, device->info().architecture);
    fmt::print("{} kernels compiled in {:.1f} s\n", cases.size(),
               std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  for (const auto& c : cases) {
    Row& row = table[family(c.name)];
    const auto began = std::chrono::steady_clock::now();
    const auto slow = [&] {
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
      if (seconds > 1) fmt::print("{} took {:.1f} s\n", c.name, seconds);
    };
    try {
      const auto k = ir::parse(c.text, c.name);
      LaunchGeometry g{{c.groups, 1, 1}, {c.threads, 1, 1}, u64{c.groups} * c.threads};
      Buffers expected = inputs(k, c), got = expected;
      run_interpreter(k, g, expected);
      if (runner)
        runner->run(k, g, got);
      else
        run_interpreter(k, g, got);
      if (c.name == shown && device) fmt::print("{}\n", device->prepare(k, g.threads)->stage("cuda"));
      if (!c.exact) {  // a device's own approximation: it ran, its bits are not defined
        ++row.inexact;
        continue;
      }
      const auto verdict = compare(k, expected, got, row.elements);
      if (verdict.passed)
        ++row.passed;
      else
        ++row.failed, failures.push_back(c.name + ": " + verdict.why);
      slow();
    } catch (const Error& e) {
      ++row.failed;
      failures.push_back(c.name + ": " + e.what());
    }
  }
  u32 passed = 0, failed = 0, inexact = 0;
  fmt::print("{:24} {:>7} {:>7} {:>12} {:>12}\n", "op", "equal", "failed", "approximate", "elements");
  for (const auto& [name, row] : table) {
    fmt::print("{:24} {:7} {:7} {:12} {:12}\n", name, row.passed, row.failed, row.inexact, row.elements);
    passed += row.passed, failed += row.failed, inexact += row.inexact;
  }
  for (const auto& f : failures) fmt::print("FAILED {}\n", f);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{} equal, {} failed, {} approximate (not compared), {:.1f} s\n", passed, failed, inexact, seconds);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const iron::Error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 3;
  }
}
