// What a kernel's first use costs before a device sees it, kernel x dtype by kernel x dtype: recording, passes and
// checks, emission of CUDA text; with --nvrtc also the text's way to a cubin, and a second process's way through the
// disk cache. Recording, passes and emission in processor time, the least of the rounds; NVRTC once, by the clock.
//
//     first_use [--only TEXT] [--arch sm_90a] [--rounds N] [--top N] [--nvrtc CACHE-FOLDER]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "iron/error.h"
#include "iron/library.h"
#include "runtime/compile.h"
#include "runtime/cuda/compile.h"

namespace iron {
namespace {

f64 processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<f64>(t.tv_sec) * 1e3 + static_cast<f64>(t.tv_nsec) * 1e-6;
}
f64 wall_ms() {
  return std::chrono::duration<f64, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Row {
  std::string name, refused;
  u64 ops = 0, lines = 0;
  f64 record = 1e30, passes = 1e30, emit = 1e30, nvrtc = 0, cached = 0;
  f64 own() const { return record + passes + emit; }
};

struct Options {
  std::string only, arch = "sm_90a", cache;
  u32 rounds = 3, top = 10;
};

Row measure(const KernelEntry& e, const Options& o) {
  Row row;
  row.name = e.full_name();
  Gen g(1);
  const Case c = e.tests[0].make(g);
  const auto& step = c.steps[0];
  const Dim3 threads{step.grid.threads.x, step.grid.threads.y, step.grid.threads.z};
  std::shared_ptr<const runtime::Compiled> compiled;
  for (u32 i = 0; i < o.rounds; ++i) {
    const f64 start = processor_ms();
    const auto recorded = step.record();
    const f64 was_recorded = processor_ms();
    compiled = runtime::compile_anew("cuda", recorded);
    const f64 optimised = processor_ms();
    row.record = std::min(row.record, was_recorded - start);
    row.passes = std::min(row.passes, optimised - was_recorded);
    try {
      const auto text = runtime::cuda::emit_kernel(*compiled->optimised, threads, o.arch);
      row.emit = std::min(row.emit, processor_ms() - optimised);
      row.lines = static_cast<u64>(std::count(text.source.text.begin(), text.source.text.end(), '\n'));
    } catch (const Error& error) {
      row.emit = 0, row.refused = error.what();
    }
  }
  compiled->optimised->walk([&](ir::OpId) { ++row.ops; });
  if (o.cache.empty() || !row.refused.empty()) return row;
  const DiskCache cache("cuda", o.cache);
  const f64 start = wall_ms();
  const auto first = runtime::cuda::compile_cubin(*compiled->optimised, threads, o.arch, &cache);
  const f64 built = wall_ms();
  const auto second = runtime::cuda::compile_cubin(*compiled->optimised, threads, o.arch, &cache);
  const f64 found = wall_ms();
  if (first.from_cache || !second.from_cache)
    throw Error("PERF01", fmt::format("{} was {} the cache", row.name, first.from_cache ? "in" : "not kept in"),
                "give an empty folder");
  row.nvrtc = built - start - row.emit, row.cached = found - built - row.emit;
  return row;
}

// A stage: its median, its largest, and how many kernels are above its limit.
void stage(const std::string& name, std::vector<Row> rows, f64 (*of)(const Row&), f64 limit) {
  std::sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return of(a) > of(b); });
  const auto above = std::count_if(rows.begin(), rows.end(), [&](const Row& r) { return of(r) > limit; });
  fmt::print("{:<28} {:>9.3f} {:>9.3f} {:>9.1f} {:>6}  {}\n", name, of(rows[rows.size() / 2]), of(rows[0]), limit,
             above, rows[0].name);
}

int run(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    const auto number = [&] { return static_cast<u32>(std::max(1, std::atoi(argv[++i]))); };
    if (more && !std::strcmp(argv[i], "--only"))
      o.only = argv[++i];
    else if (more && !std::strcmp(argv[i], "--arch"))
      o.arch = argv[++i];
    else if (more && !std::strcmp(argv[i], "--nvrtc"))
      o.cache = argv[++i];
    else if (more && !std::strcmp(argv[i], "--rounds"))
      o.rounds = number();
    else if (more && !std::strcmp(argv[i], "--top"))
      o.top = number();
    else {
      fmt::print(stderr, "usage: {} [--only TEXT] [--arch sm_90a] [--rounds N] [--top N] [--nvrtc CACHE-FOLDER]\n",
                 argv[0]);
      return 2;
    }
  }
  std::vector<Row> rows;
  Options start = o;
  start.rounds = 1, start.cache.clear();
  u64 refused = 0;
  for (const auto& e : standard_library().entries()) {
    if (e.tests.empty() || e.full_name().find(o.only) == std::string::npos) continue;
    if (rows.empty()) measure(e, start);  // whatever starts once
    rows.push_back(measure(e, o));
    refused += !rows.back().refused.empty();
  }
  if (rows.empty()) {
    fmt::print(stderr, "no kernel is called {}\n", o.only);
    return 1;
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.own() > b.own(); });
  fmt::print("{:<52} {:>6} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}\n", "kernel, ms", "ops", "lines", "record", "passes",
             "emit", "nvrtc", "cached");
  for (std::size_t i = 0; i < std::min<std::size_t>(o.top, rows.size()); ++i) {
    const Row& r = rows[i];
    fmt::print("{:<52} {:>6} {:>6} {:>9.3f} {:>9.3f} {:>9.3f} {:>9.1f} {:>9.2f}\n", r.name, r.ops, r.lines, r.record,
               r.passes, r.emit, r.nvrtc, r.cached);
  }
  fmt::print("\n{:<28} {:>9} {:>9} {:>9} {:>6}  {}\n",
             fmt::format("{} kernels, {}{}", rows.size(), o.arch, refused ? fmt::format(", {} refused", refused) : ""),
             "median", "largest", "limit", "above", "the largest");
  stage("record", rows, [](const Row& r) { return r.record; }, 5);
  stage("passes and checks", rows, [](const Row& r) { return r.passes; }, 5);
  stage("emission", rows, [](const Row& r) { return r.emit; }, 5);
  stage("record, passes, emission", rows, [](const Row& r) { return r.own(); }, 5);
  if (o.cache.empty()) return 0;
  stage("NVRTC", rows, [](const Row& r) { return r.nvrtc; }, 800);
  stage("from the disk cache", rows, [](const Row& r) { return r.cached; }, 2);
  return 0;
}

}  // namespace
}  // namespace iron

int main(int argc, char** argv) {
  try {
    return iron::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
