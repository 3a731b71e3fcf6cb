#include "bench/peaks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "bench/session.h"
#include "core/hash.h"
#include "iron/error.h"
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace iron::bench {

namespace {

using Clock = std::chrono::steady_clock;

// The inner loops exist once for each vector set; the best that the machine runs is chosen at run time.
struct Loops {
  const char* set;
  f32 (*read)(const f32* data, u64 n);            ///< n is a multiple of 128
  void (*copy)(f32* to, const f32* from, u64 n);  ///< without polluting the cache
  f32 (*fma)(u64 rounds);                         ///< `fma_flops` a round
  u64 fma_flops;
};

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) f32 read_avx2(const f32* p, u64 n) {
  __m256 s[8];
  for (auto& v : s) v = _mm256_setzero_ps();
  for (u64 i = 0; i < n; i += 64)
    for (u64 k = 0; k < 8; ++k) s[k] = _mm256_add_ps(s[k], _mm256_load_ps(p + i + 8 * k));
  for (int k = 1; k < 8; ++k) s[0] = _mm256_add_ps(s[0], s[k]);
  return _mm256_cvtss_f32(s[0]);
}
__attribute__((target("avx2,fma"))) void copy_avx2(f32* to, const f32* from, u64 n) {
  for (u64 i = 0; i < n; i += 32)
    for (u64 k = 0; k < 4; ++k) _mm256_stream_ps(to + i + 8 * k, _mm256_load_ps(from + i + 8 * k));
  _mm_sfence();
}
__attribute__((target("avx2,fma"))) f32 fma_avx2(u64 rounds) {
  __m256 s[12];
  for (int k = 0; k < 12; ++k) s[k] = _mm256_set1_ps(static_cast<f32>(k));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
  for (u64 r = 0; r < rounds; ++r)
    for (auto& v : s) v = _mm256_fmadd_ps(v, a, b);
  for (int k = 1; k < 12; ++k) s[0] = _mm256_add_ps(s[0], s[k]);
  return _mm256_cvtss_f32(s[0]);
}
__attribute__((target("avx512f"))) f32 read_avx512(const f32* p, u64 n) {
  __m512 s[8];
  for (auto& v : s) v = _mm512_setzero_ps();
  for (u64 i = 0; i < n; i += 128)
    for (u64 k = 0; k < 8; ++k) s[k] = _mm512_add_ps(s[k], _mm512_load_ps(p + i + 16 * k));
  for (int k = 1; k < 8; ++k) s[0] = _mm512_add_ps(s[0], s[k]);
  return _mm512_cvtss_f32(s[0]);
}
__attribute__((target("avx512f"))) f32 fma_avx512(u64 rounds) {
  __m512 s[12];
  for (int k = 0; k < 12; ++k) s[k] = _mm512_set1_ps(static_cast<f32>(k));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
  for (u64 r = 0; r < rounds; ++r)
    for (auto& v : s) v = _mm512_fmadd_ps(v, a, b);
  for (int k = 1; k < 12; ++k) s[0] = _mm512_add_ps(s[0], s[k]);
  return _mm512_cvtss_f32(s[0]);
}
f32 read_sse2(const f32* p, u64 n) {
  __m128 s[8];
  for (auto& v : s) v = _mm_setzero_ps();
  for (u64 i = 0; i < n; i += 32)
    for (u64 k = 0; k < 8; ++k) s[k] = _mm_add_ps(s[k], _mm_load_ps(p + i + 4 * k));
  for (int k = 1; k < 8; ++k) s[0] = _mm_add_ps(s[0], s[k]);
  return _mm_cvtss_f32(s[0]);
}
void copy_sse2(f32* to, const f32* from, u64 n) {
  for (u64 i = 0; i < n; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
  _mm_sfence();
}
f32 fma_sse2(u64 rounds) {  // no fused instruction: a product and a sum
  __m128 s[10];
  for (int k = 0; k < 10; ++k) s[k] = _mm_set1_ps(static_cast<f32>(k));
  const __m128 a = _mm_set1_ps(0.999f), b = _mm_set1_ps(1e-3f);
  for (u64 r = 0; r < rounds; ++r)
    for (auto& v : s) v = _mm_add_ps(_mm_mul_ps(v, a), b);
  for (int k = 1; k < 10; ++k) s[0] = _mm_add_ps(s[0], s[k]);
  return _mm_cvtss_f32(s[0]);
}
Loops best_loops() {
  if (__builtin_cpu_supports("avx512f")) return {"avx512", read_avx512, copy_avx2, fma_avx512, 12 * 16 * 2};
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return {"avx2", read_avx2, copy_avx2, fma_avx2, 12 * 8 * 2};
  return {"sse2", read_sse2, copy_sse2, fma_sse2, 10 * 4 * 2};
}
#else
using Vector = f32 __attribute__((vector_size(16)));
f32 read_plain(const f32* p, u64 n) {
  Vector s[8] = {};
  const auto* v = reinterpret_cast<const Vector*>(p);
  for (u64 i = 0; i < n / 4; i += 8)
    for (u64 k = 0; k < 8; ++k) s[k] += v[i + k];
  for (int k = 1; k < 8; ++k) s[0] += s[k];
  return s[0][0];
}
void copy_plain(f32* to, const f32* from, u64 n) { std::copy(from, from + n, to); }
f32 fma_plain(u64 rounds) {
  Vector s[12];
  for (int k = 0; k < 12; ++k) s[k] = Vector{} + static_cast<f32>(k);
  for (u64 r = 0; r < rounds; ++r)
    for (auto& v : s)
      for (int i = 0; i < 4; ++i) v[i] = __builtin_fmaf(v[i], 0.999f, 1e-3f);
  for (int k = 1; k < 12; ++k) s[0] += s[k];
  return s[0][0];
}
Loops best_loops() { return {"vector", read_plain, copy_plain, fma_plain, 12 * 4 * 2}; }
#endif

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "unknown processor";
}

u64 cache_size(int name, u64 otherwise) {
  const long bytes = sysconf(name);
  return bytes > 0 ? static_cast<u64>(bytes) : otherwise;
}

struct Memory {
  explicit Memory(u64 bytes)
      : data(static_cast<f32*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)), std::free) {
    if (!data) throw Error("BENCH03", fmt::format("{} bytes for measuring peaks cannot be had", bytes));
    std::fill_n(data.get(), bytes / 4, 1.0f);
  }
  std::unique_ptr<f32, void (*)(void*)> data;
};

std::atomic<f32> sink;  // results that must not be optimised away

// The least seconds of a run in which every thread does `work(thread)`, all started together.
f64 best_time(u32 threads, int repeats, const std::function<void(u32)>& work) {
  f64 best = 1e30;
  bool started = false;  // the first meeting is of the threads' own start
  Clock::time_point start;
  const auto settle = [&]() noexcept {
    const auto now = Clock::now();
    if (started) best = std::min(best, std::chrono::duration<f64>(now - start).count());
    started = true, start = Clock::now();
  };
  std::barrier together(threads, settle);
  std::vector<std::thread> team;
  for (u32 t = 0; t < threads; ++t)
    team.emplace_back([&, t] {
      together.arrive_and_wait();
      for (int r = 0; r < repeats; ++r) {
        work(t);
        together.arrive_and_wait();
      }
    });
  for (auto& t : team) t.join();
  return best;
}

// Reading rate of `bytes` a thread, read again and again until about `total` bytes went through each.
f64 read_rate(const Loops& loops, u32 threads, u64 bytes, u64 total, int repeats) {
  bytes = std::max<u64>(bytes / 512 * 512, 512);
  std::vector<std::unique_ptr<Memory>> memory;
  for (u32 t = 0; t < threads; ++t) memory.push_back(std::make_unique<Memory>(bytes));
  const u64 rounds = std::max<u64>(1, total / bytes);
  const f64 s = best_time(threads, repeats, [&](u32 t) {
    f32 sum = 0;
    for (u64 r = 0; r < rounds; ++r) sum += loops.read(memory[t]->data.get(), bytes / 4);
    sink.store(sum, std::memory_order_relaxed);
  });
  return static_cast<f64>(bytes * rounds * threads) / s * 1e-9;
}

std::filesystem::path kept_file(u32 threads) {
  const auto key = hash128(fmt::format("{}|{}|{}|2", cpu_name(), threads, sysconf(_SC_NPROCESSORS_CONF))).hex();
  return cache_folder() / fmt::format("peaks-{}.json", key.substr(0, 16));
}

nlohmann::json to_json(const CpuPeaks& p) {
  return {{"cpu", p.cpu},
          {"threads", p.threads},
          {"l1_bytes", p.l1_bytes},
          {"l2_bytes", p.l2_bytes},
          {"llc_bytes", p.llc_bytes},
          {"read_gbps", p.read_gbps},
          {"copy_gbps", p.copy_gbps},
          {"l1_gbps", p.l1_gbps},
          {"l2_gbps", p.l2_gbps},
          {"llc_gbps", p.llc_gbps},
          {"fma_gflops", p.fma_gflops},
          {"fma_gflops_one", p.fma_gflops_one}};
}

// A damaged or older file counts as none.
bool from_json(const nlohmann::json& j, CpuPeaks& p) {
  try {
    p.cpu = j.at("cpu"), p.threads = j.at("threads");
    p.l1_bytes = j.at("l1_bytes"), p.l2_bytes = j.at("l2_bytes"), p.llc_bytes = j.at("llc_bytes");
    p.read_gbps = j.at("read_gbps"), p.copy_gbps = j.at("copy_gbps");
    p.l1_gbps = j.at("l1_gbps"), p.l2_gbps = j.at("l2_gbps"), p.llc_gbps = j.at("llc_gbps");
    p.fma_gflops = j.at("fma_gflops"), p.fma_gflops_one = j.at("fma_gflops_one");
    return p.read_gbps > 0 && p.fma_gflops > 0;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

}  // namespace

CpuPeaks measure_cpu_peaks(u32 threads) {
  const Loops loops = best_loops();
  CpuPeaks p;
  p.cpu = fmt::format("{} ({})", cpu_name(), loops.set);
  p.threads = threads;
  p.l1_bytes = cache_size(_SC_LEVEL1_DCACHE_SIZE, 32 << 10);
  p.l2_bytes = cache_size(_SC_LEVEL2_CACHE_SIZE, 512 << 10);
  p.llc_bytes = std::max(cache_size(_SC_LEVEL3_CACHE_SIZE, p.l2_bytes), p.l2_bytes);

  // Out of cache: a thread's share of twice the last level, but not less than 32 MiB, nor more than fits the budget.
  const u64 far = std::clamp<u64>(2 * p.llc_bytes, 64 << 20, 512 << 20) / threads;
  p.read_gbps = read_rate(loops, threads, far, far, 6);
  {
    const u64 bytes = far / 2 / 512 * 512;
    std::vector<std::unique_ptr<Memory>> memory;
    for (u32 t = 0; t < 2 * threads; ++t) memory.push_back(std::make_unique<Memory>(bytes));
    const f64 s = best_time(
        threads, 6, [&](u32 t) { loops.copy(memory[2 * t]->data.get(), memory[2 * t + 1]->data.get(), bytes / 4); });
    p.copy_gbps = static_cast<f64>(2 * bytes * threads) / s * 1e-9;
  }
  p.l1_gbps = read_rate(loops, threads, p.l1_bytes / 2, 32 << 20, 8);
  p.l2_gbps = read_rate(loops, threads, p.l2_bytes / 2, 32 << 20, 8);
  p.llc_gbps = read_rate(loops, threads, std::max(p.llc_bytes / 2 / threads, p.l2_bytes), 32 << 20, 8);
  p.llc_gbps = std::max(p.llc_gbps, p.read_gbps);
  p.l2_gbps = std::max(p.l2_gbps, p.llc_gbps);
  p.l1_gbps = std::max(p.l1_gbps, p.l2_gbps);

  const auto fma = [&](u32 team) {
    constexpr u64 rounds = 1'000'000;
    const f64 s = best_time(team, 8, [&](u32) { sink.store(loops.fma(rounds), std::memory_order_relaxed); });
    return static_cast<f64>(rounds * loops.fma_flops * team) / s * 1e-9;
  };
  p.fma_gflops_one = fma(1);
  p.fma_gflops = threads == 1 ? p.fma_gflops_one : std::max(fma(threads), p.fma_gflops_one);
  return p;
}

CpuPeaks cpu_peaks(u32 threads, bool remeasure) {
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  const auto path = kept_file(threads);
  CpuPeaks kept;
  bool known = false;
  if (std::ifstream file(path); file) {
    const auto j = nlohmann::json::parse(file, nullptr, false);
    known = !j.is_discarded() && from_json(j, kept);
  }
  if (known && !remeasure) return kept;
  auto p = measure_cpu_peaks(threads);
  if (known)
    for (const auto figure : {&CpuPeaks::read_gbps, &CpuPeaks::copy_gbps, &CpuPeaks::l1_gbps, &CpuPeaks::l2_gbps,
                              &CpuPeaks::llc_gbps, &CpuPeaks::fma_gflops, &CpuPeaks::fma_gflops_one})
      p.*figure = std::max(p.*figure, kept.*figure);
  // Whole or not at all: another process may read it.
  const auto fresh = path.string() + "." + session_id();
  if (std::ofstream file(fresh); file << to_json(p).dump(2) << '\n') {
    file.close();
    std::error_code ignored;
    std::filesystem::rename(fresh, path, ignored);
  }
  return p;
}

Peaks peaks_of(const CpuPeaks& cpu, u64 working_set, bool cold) {
  Peaks p;
  p.gbps = std::max(cpu.read_gbps, cpu.copy_gbps);
  p.gflops = cpu.fma_gflops;
  p.engine = "fma f32";
  if (!cold) {
    if (working_set <= cpu.l1_bytes * cpu.threads)
      p.cache_gbps = 2 * cpu.l1_gbps;  // a core loads and stores at once
    else if (working_set <= cpu.l2_bytes * cpu.threads)
      p.cache_gbps = cpu.l1_gbps;  // part of it stays one level nearer
    else if (working_set <= cpu.llc_bytes)
      p.cache_gbps = cpu.l2_gbps;
  }
  return p;
}

}  // namespace iron::bench
