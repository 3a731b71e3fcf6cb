// `iron device`: what can run kernels here, or why it cannot, and the CPU's measured peaks.
#include <iron/error.h>

#include <memory>

#include "app.h"
#include "bench/peaks.h"
#include "bench/session.h"
#include "bench/specs.h"
#include "messages.h"
#include "table.h"

namespace iron::tool {

namespace {

std::string size_text(u64 bytes) {
  if (bytes == 0) return {};
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  double n = static_cast<double>(bytes);
  while (n >= 1024 && unit < 4) n /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", n, n < 10 && n != static_cast<double>(static_cast<int>(n)) ? 1 : 0, units[unit]);
}

std::string one_line(std::string text) {
  for (auto& c : text)
    if (c == '\n') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

void line(const char* what, const std::string& value) {
  if (!value.empty()) fmt::print("  {:<18} {}\n", what, value);
}

void print(const runtime::DeviceInfo& i) {
  fmt::print("{}  {}\n", styled(Style::bold, i.backend), i.name);
  line("architecture", i.architecture);
  line("api", i.api);
  line("units", i.units > 1 || i.backend != "interpreter" ? fmt::format("{}", i.units) : std::string());
  line("simd width", fmt::format("{} in hardware, 32 in the contract", i.simd_width));
  line("threads per group", fmt::format("at most {}", i.max_threads_per_group));
  line("group memory", size_text(i.shared_bytes));
  line("memory", size_text(i.memory_bytes));
  line("last-level cache", size_text(i.cache_bytes));
  std::string features;
  for (const auto& f : i.features) features += (features.empty() ? "" : " ") + f;
  line("features", features);
}

void print(const bench::CpuPeaks& p) {
  fmt::print("{}  {}, {} threads\n", styled(Style::bold, "peaks of the CPU"), p.cpu, p.threads);
  line("memory read", fmt::format("{:.1f} GB/s", p.read_gbps));
  line("memory copy", fmt::format("{:.1f} GB/s, read and written", p.copy_gbps));
  line("cache read", fmt::format("{:.0f} GB/s L1, {:.0f} L2, {:.0f} last level", p.l1_gbps, p.l2_gbps, p.llc_gbps));
  line("fma f32", fmt::format("{:.0f} GFLOP/s, {:.0f} on one thread", p.fma_gflops, p.fma_gflops_one));
  line("kept in", bench::cache_folder().string());
}

Json peaks_json(const bench::CpuPeaks& p) {
  return {{"cpu", p.cpu},
          {"threads", p.threads},
          {"read_gbps", rounded(p.read_gbps)},
          {"copy_gbps", rounded(p.copy_gbps)},
          {"l1_gbps", rounded(p.l1_gbps)},
          {"l2_gbps", rounded(p.l2_gbps)},
          {"llc_gbps", rounded(p.llc_gbps)},
          {"fma_gflops", rounded(p.fma_gflops)},
          {"fma_gflops_one", rounded(p.fma_gflops_one)}};
}

int run(const Globals& globals, bool no_peaks, bool remeasure) {
  Json all{{"devices", Json::array()}};
  for (const auto& name : runtime::backend_names()) try {
      const auto& info = runtime::backend(name).info();
      auto j = to_json(info);
      j["available"] = true;
      j["contract_simd_width"] = 32;
      if (const auto* s = bench::find_specs(info.name)) j["peak_gbps"] = s->gbps;
      all["devices"].push_back(std::move(j));
      if (!globals.json) print(info);
    } catch (const Error& e) {
      all["devices"].push_back({{"backend", name}, {"available", false}, {"reason", one_line(e.what())}});
      if (!globals.json)
        fmt::print("{}  {}\n", styled(Style::bold, name), styled(Style::yellow, "not here: " + one_line(e.what())));
    }
  if (!no_peaks) {
    const bench::MeasureLock lock(bench::MeasureLock::Kind::exclusive,
                                  [] { fmt::print(stderr, "waiting for another measurement to end\n"); });
    const auto peaks = bench::cpu_peaks(0, remeasure);
    all["peaks"] = peaks_json(peaks);
    if (!globals.json) print(peaks);
  }
  if (globals.json) fmt::print("{}\n", all.dump());
  return success;
}

}  // namespace

void add_device(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub = subcommand(app, "device", "What can run kernels here, and how fast this machine is",
                         "  iron device\n  iron device --json | jq '.devices[].name'\n  iron device --measure");
  sub->alias("d");
  struct Options {
    bool no_peaks = false, measure = false;
  };
  auto o = std::make_shared<Options>();
  sub->add_flag("--no-peaks", o->no_peaks, "Do not measure or show the CPU's peaks");
  sub->add_flag("--measure", o->measure, "Measure the peaks again and keep the better figures");
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, o->no_peaks, o->measure); }; });
}

}  // namespace iron::tool
