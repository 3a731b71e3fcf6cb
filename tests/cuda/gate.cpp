// The compile gate that needs no GPU: every kernel of the library through NVRTC to a cubin, with its registers and
// spills; where there is no NVRTC, through clang's NVPTX back end to PTX, which knows neither.
//
//   iron_cuda_gate --cache DIR [--clang PATH] [--compiler auto|nvrtc|nvptx] [--full] [--arch sm_90a]... [--match TEXT]
//                  [--each-family]
//
// Exit code 77 where the compiler is not on the machine. Counts go to $IRON_RESULT_FILE.
#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include "nvptx.h"
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
  std::string cache, match, clang, compiler = "auto";
  std::vector<std::string> archs;
  bool full = false;
  bool each_family = false;  ///< only the first kernel of each
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
    else if (a == "--clang")
      o.clang = value();
    else if (a == "--compiler")
      o.compiler = value();
    else if (a == "--each-family")
      o.each_family = true;
    else if (a == "--arch")
      o.archs.push_back(value());
    else
      throw Error("GATE01", fmt::format("unknown argument {}", a));
  }
  if (o.compiler != "auto" && o.compiler != "nvrtc" && o.compiler != "nvptx")
    throw Error("GATE01", fmt::format("--compiler: '{}' is none of auto, nvrtc, nvptx", o.compiler));
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
  std::vector<const KernelEntry*> entries;
  std::set<std::string> families;
  for (const auto& e : standard_library().entries())
    if (e.full_name().find(o.match) != std::string::npos && (!o.each_family || families.insert(e.family).second))
      entries.push_back(&e);
  std::vector<std::vector<Text>> each(entries.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < entries.size(); i = next++) collect(*entries[i], o.full, each[i]);
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

// Which compiler this machine has for what was asked; none: a reason.
struct Compiler {
  bool nvrtc = false, nvptx = false;
  std::string why;  ///< why NVRTC is not taken
};
Compiler compiler_for(const Options& o) {
  Compiler c;
  if (o.compiler == "nvptx")
    c.why = "--compiler nvptx";
  else
    c.nvrtc = runtime::cuda::Nvrtc::available(&c.why);
  c.nvptx = !c.nvrtc && o.compiler != "nvrtc" && !o.clang.empty();
  return c;
}

class Gate {
 public:
  explicit Gate(const Options& options) : o_(options), compiler_(compiler_for(options)) {}

  int run() {
    if (!compiler_.nvrtc && !compiler_.nvptx) {
      fmt::print("skipped: no kernel was compiled for CUDA: no NVRTC ({}){}\n", compiler_.why,
                 o_.compiler == "nvrtc" ? "" : ", no clang++-19");
      return 77;
    }
    const auto start = std::chrono::steady_clock::now();
    std::vector<OfflineJob> jobs;
    for (const auto& t : texts(o_)) {
      if (!t.optimised) fail(t.name, t.failed);
      for (const auto& arch : o_.archs)
        if (t.optimised) jobs.push_back({t.name, t.optimised, t.threads, arch});
    }
    const double recorded = seconds_since(start);
    if (jobs.empty()) fail("the library", "no kernel was selected");
    const DiskCache own("cuda", o_.cache);
    const auto compiling = std::chrono::steady_clock::now();
    const auto results =
        compiler_.nvptx ? compile_nvptx(jobs, o_.clang) : compile_offline(jobs, o_.cache.empty() ? nullptr : &own);
    for (std::size_t i = 0; i < jobs.size(); ++i) judge(jobs[i], results[i]);
    if (compiler_.nvrtc && o_.match.empty() && !o_.each_family) judge_known_spills();
    summary(recorded, seconds_since(compiling));
    return failures_ ? 1 : 0;
  }

 private:
  void fail(const std::string& name, const std::string& text) {
    ++failures_;
    fmt::print("FAIL {}: {}\n", name, text);
  }

  void judge(const OfflineJob& job, const runtime::cuda::OfflineResult& r) {
    const auto name = fmt::format("{} for {}", job.name, job.arch);
    cached_ += r.kernel.from_cache;
    if (!r.refused.empty())
      refused_.insert(r.refused), ++refusals_;
    else if (!r.error.empty())
      fail(name, r.error);
    else if (compiler_.nvptx || sound(name, job, r.report))
      ++passed_;
  }

  // Registers are known, and nothing spills but what is listed.
  bool sound(const std::string& name, const OfflineJob& job, const runtime::cuda::PtxasReport& report) {
    if (report.registers <= 0) return fail(name, "the compiler reported no registers"), false;
    most_registers_ = std::max(most_registers_, report.registers);
    const int spills = report.spill_store_bytes + report.spill_load_bytes;
    if (spills == 0) return true;
    spilled_.insert(job.name);
    const auto* known = std::find_if(std::begin(known_spills), std::end(known_spills),
                                     [&](const KnownSpill& k) { return job.name.starts_with(k.kernel); });
    const auto seen = fmt::format("{} registers, {} bytes of spills", report.registers, spills);
    if (known == std::end(known_spills) || (job.arch == "sm_90a" && spills > known->most_bytes))
      return fail(name, seen), false;
    fmt::print("known: {}: {}: {}\n", name, seen, known->why);
    return true;
  }

  // A list that names what no longer spills would hide the next one.
  void judge_known_spills() {
    for (const auto& k : known_spills)
      if (std::none_of(spilled_.begin(), spilled_.end(), [&](const std::string& s) { return s.starts_with(k.kernel); }))
        fail(std::string(k.kernel), "is listed as spilling and does not");
  }

  void summary(double recorded, double compiled) const {
    const auto counts = fmt::format("for {}: {} failed, {} refused for what the architecture or the compiler lacks",
                                    fmt::join(o_.archs, ", "), failures_, refusals_);
    const auto times = fmt::format("recorded in {:.0f} s, compiled in {:.0f} s", recorded, compiled);
    if (compiler_.nvrtc)
      fmt::print("{} kernels compiled by NVRTC {}.{} {}, {} from the cache, at most {} registers; {}\n", passed_,
                 runtime::cuda::Nvrtc::get().major(), runtime::cuda::Nvrtc::get().minor(), counts, cached_,
                 most_registers_, times);
    else
      fmt::print(
          "{} kernels compiled by {} to PTX, without registers and spills, since NVRTC is not used ({}), {}; {}\n",
          passed_, o_.clang, compiler_.why, counts, times);
    for (const auto& why : refused_)
      if (compiler_.nvptx) fmt::print("refused: {}\n", why);
    if (const char* file = std::getenv("IRON_RESULT_FILE"))
      std::ofstream(file) << fmt::format("{{\"passed\": {}, \"failed\": {}, \"skipped\": 0}}\n", passed_ + refusals_,
                                         failures_);
  }

  const Options& o_;
  const Compiler compiler_;
  int failures_ = 0, refusals_ = 0, passed_ = 0, most_registers_ = 0;
  std::size_t cached_ = 0;
  std::set<std::string> spilled_, refused_;
};

}  // namespace
}  // namespace iron

int main(int argc, char** argv) try {
  const auto options = iron::parse(argc, argv);
  return iron::Gate(options).run();
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
