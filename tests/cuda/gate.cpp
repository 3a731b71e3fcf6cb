// The compile gate that needs no GPU: every kernel of the library through NVRTC to a cubin, with its registers and
// spills.
//
//   iron_cuda_gate --cache DIR [--full] [--arch sm_90a]... [--match TEXT]
//
// Exit code 77 where NVRTC is not on the machine. Counts go to $IRON_RESULT_FILE.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "iron/error.h"
#include "iron/library.h"
#include "runtime/compile.h"
#include "runtime/cuda/offline.h"

namespace iron {
namespace {

using runtime::cuda::OfflineJob;

// Kernels whose spills are known, by the start of their names; those that spill more, or that no longer spill, are
// errors, so the list shrinks.
struct KnownSpill {
  std::string_view kernel;
  int most_bytes;  ///< stored and loaded on sm_90a; other architectures, which --full adds, are held to the name alone
  std::string_view why;
};
constexpr KnownSpill known_spills[] = {
    {"iron_steel_gemm_", 80, "accumulators of the software tile"},
    {"iron_moe_gather_qmm_mma_", 88, "accumulators of the software tile"},
    {"iron_qmm_mma_m16_", 16, "the f32 tile of a threadgroup that leaves 56 registers a thread"},
    {"iron_fp4_qmm_mma_", 40, "not looked into: 48 registers a thread"},
    {"iron_fp8_e4m3_qmm_mma_", 40, "not looked into: 48 registers a thread"},
    {"iron_sdpa_prefill_mma_", 56, "not looked into: 168 registers a thread"},
    {"iron_sdpa_prefill_nax_d256_", 1296, "one simdgroup holds 16 x 256 sums: 128 values a lane beside its operands"},
    {"iron_sdpa_prefill_nax_", 48, "not looked into: 128 and 168 registers a thread"},
    {"iron_sdpa_decode_batched_q2_", 420, "1,024 threads leave 64 registers for two queries' values"},
    {"iron_sdpa_vector_d192_", 56, "1,024 threads leave 64 registers for six values of query, key and sum"},
    {"iron_rms_norm_qgemv_fast_", 8, "not looked into: 72 registers a thread"},
    {"iron_moe_down_swiglu_accum_int4_chain8_", 24, "not looked into: 72 registers a thread"},
};

struct Options {
  std::string cache, match;
  std::vector<std::string> archs;
  bool full = false;
};

Options parse(int argc, char** argv) {
  Options o;
  o.full = std::getenv("IRON_TEST_FULL") != nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string_view a = argv[i];
    const auto value = [&] {
      if (i + 1 >= argc) throw Error("GATE01", fmt::format("{} needs a value", a));
      return std::string(argv[++i]);
    };
    if (a == "--full")
      o.full = true;
    else if (a == "--cache")
      o.cache = value();
    else if (a == "--match")
      o.match = value();
    else if (a == "--arch")
      o.archs.push_back(value());
    else
      throw Error("GATE01", fmt::format("unknown argument {}", a));
  }
  if (o.archs.empty()) {
    o.archs = {"sm_90a"};
    if (o.full) o.archs = {"sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a", "sm_121a"};
  }
  return o;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

// What the kernel's tests launch: the geometry of a kernel comes with its arguments.
struct Text {
  std::string name;
  std::shared_ptr<const ir::Kernel> optimised;
  Dim3 threads;
  std::string failed;
};
void collect(const KernelEntry& e, bool every_case, std::vector<Text>& out) {
  std::set<std::string> seen;
  for (std::size_t t = 0; t < e.tests.size() && (every_case || t == 0); ++t) try {
      Gen gen(1);
      for (const auto& step : e.tests[t].make(gen).steps) {
        const Dim3 threads{step.grid.threads.x, step.grid.threads.y, step.grid.threads.z};
        if (!seen.insert(fmt::format("{} {} {} {}", step.key, threads.x, threads.y, threads.z)).second) continue;
        const auto name = seen.size() == 1 ? e.full_name() : fmt::format("{}#{}", e.full_name(), seen.size());
        out.push_back({name, runtime::compile_for("cuda", step.record())->optimised, threads, {}});
      }
    } catch (const std::exception& error) {
      out.push_back({e.full_name(), nullptr, {}, error.what()});
    }
  if (e.tests.empty()) try {
      out.push_back({e.full_name(), runtime::compile_for("cuda", e.record(false))->optimised, {256, 1, 1}, {}});
    } catch (const std::exception& error) {
      out.push_back({e.full_name(), nullptr, {}, error.what()});
    }
}

std::vector<Text> texts(const Options& o) {
  const auto& entries = standard_library().entries();
  std::vector<std::vector<Text>> each(entries.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < entries.size(); i = next++)
      if (entries[i].full_name().find(o.match) != std::string::npos) collect(entries[i], o.full, each[i]);
  };
  std::vector<std::thread> workers;
  for (u32 t = 1; t < std::thread::hardware_concurrency(); ++t) workers.emplace_back(work);
  work();
  for (auto& w : workers) w.join();
  std::vector<Text> all;
  for (auto& list : each)
    all.insert(all.end(), std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
  return all;
}

int run(const Options& o) {
  std::string why;
  if (!runtime::cuda::Nvrtc::available(&why)) {
    fmt::print("skipped: no kernel was compiled for CUDA, since NVRTC is not here: {}\n", why);
    return 77;
  }
  const auto start = std::chrono::steady_clock::now();
  const auto all = texts(o);
  const double recorded = seconds_since(start);
  int failures = 0, refused = 0, passed = 0;
  std::vector<OfflineJob> jobs;
  const auto fail = [&](const std::string& name, const std::string& text) {
    ++failures;
    fmt::print("FAIL {}: {}\n", name, text);
  };
  for (const auto& t : all) {
    if (!t.optimised) fail(t.name, t.failed);
    for (const auto& arch : o.archs)
      if (t.optimised) jobs.push_back({t.name, t.optimised, t.threads, arch});
  }
  if (jobs.empty()) fail("the library", "no kernel was selected");
  const DiskCache own("cuda", o.cache);
  const auto compiling = std::chrono::steady_clock::now();
  const auto results = compile_offline(jobs, o.cache.empty() ? nullptr : &own);
  std::size_t cached = 0, most_registers = 0;
  std::set<std::string> spilled;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const auto& r = results[i];
    const auto name = fmt::format("{} for {}", jobs[i].name, jobs[i].arch);
    cached += r.kernel.from_cache;
    if (!r.refused.empty()) {
      ++refused;
      continue;
    }
    if (!r.error.empty()) {
      fail(name, r.error);
      continue;
    }
    if (r.report.registers <= 0) {
      fail(name, "the compiler reported no registers");
      continue;
    }
    most_registers = std::max(most_registers, static_cast<std::size_t>(r.report.registers));
    const int spills = r.report.spill_store_bytes + r.report.spill_load_bytes;
    const auto* known = std::find_if(std::begin(known_spills), std::end(known_spills),
                                     [&](const KnownSpill& k) { return jobs[i].name.starts_with(k.kernel); });
    const bool allowed = known != std::end(known_spills) && (jobs[i].arch != "sm_90a" || spills <= known->most_bytes);
    if (spills > 0) spilled.insert(jobs[i].name);
    if (spills > 0 && allowed)
      fmt::print("known: {}: {} registers, {} bytes of spills: {}\n", name, r.report.registers, spills, known->why);
    if (spills > 0 && !allowed) {
      fail(name, fmt::format("{} registers, {} bytes of spills", r.report.registers, spills));
      continue;
    }
    ++passed;
  }
  // A list that names what no longer spills would hide the next one.
  for (const auto& k : known_spills)
    if (o.match.empty() &&
        std::none_of(spilled.begin(), spilled.end(), [&](const std::string& s) { return s.starts_with(k.kernel); }))
      fail(std::string(k.kernel), "is listed as spilling and does not");
  std::string archs;
  for (const auto& a : o.archs) archs += (archs.empty() ? "" : ", ") + a;
  fmt::print(
      "{} kernels compiled by NVRTC {}.{} for {}: {} failed, {} refused for what the architecture lacks, {} from the "
      "cache, at most {} registers; recorded in {:.0f} s, compiled in {:.0f} s\n",
      passed, runtime::cuda::Nvrtc::get().major(), runtime::cuda::Nvrtc::get().minor(), archs, failures, refused,
      cached, most_registers, recorded, seconds_since(compiling));
  if (const char* file = std::getenv("IRON_RESULT_FILE"))
    std::ofstream(file) << fmt::format("{{\"passed\": {}, \"failed\": {}, \"skipped\": 0}}\n", passed + refused,
                                       failures);
  return failures ? 1 : 0;
}

}  // namespace
}  // namespace iron

int main(int argc, char** argv) try { return iron::run(iron::parse(argc, argv)); } catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
