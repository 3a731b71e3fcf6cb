// `iron build`: does every kernel compile, for which text, and with what identity.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

#include "app.h"
#include "core/hash.h"
#include "filters.h"
#include "ir/text.h"
#include "messages.h"
#include "passes/pipeline.h"
#include "prepared.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/nvrtc.h"
#include "table.h"

namespace iron::tool {

namespace {

struct BuildOptions {
  Filters filters;
  std::string backend = default_backend(), emit, out;
  bool identity = false, names = false, time_passes = false;
};

// One line a kernel: what the builds of two compilers must agree on.
int identities(const Globals& globals, const std::vector<const KernelEntry*>& entries) {
  for (const auto* e : entries) {
    const auto hash = hash128(ir::identity(*e->record(false))).hex();
    if (globals.json)
      fmt::print("{}\n", Json{{"name", e->full_name()}, {"identity", hash}}.dump());
    else
      fmt::print("{} {}\n", e->full_name(), hash);
  }
  return success;
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  const auto n = v.size();
  return n == 0 ? 0 : n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]);
}

// Recording and each pass: the median of 25 runs after 5 warm-ups, summed over the kernels; then single kernels (K1).
int time_passes(const Globals& globals, const std::vector<const KernelEntry*>& entries) {
  constexpr int warmups = 5, runs = 25;
  struct Sum {
    double us = 0;
    u64 before = 0, after = 0, changed = 0;
  };
  using Clock = std::chrono::steady_clock;
  std::map<std::string, Sum> sums;
  double recording = 0;
  std::vector<std::pair<double, const KernelEntry*>> kernels;  // recording and passes of one
  Progress progress(entries.size(), !globals.json && !globals.quiet);
  for (const auto* e : entries) {
    progress.show(e->full_name());
    std::map<std::string, std::vector<double>> times;
    std::vector<double> records;
    for (int i = 0; i < warmups + runs; ++i) {
      const auto start = Clock::now();
      const auto recorded = e->record(false);
      if (i >= warmups) records.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
      auto k = *recorded;
      passes::PassOptions options;
      options.verify = false;
      for (const auto& s : passes::run_pipeline(k, options).stats) {
        if (i >= warmups) times[s.pass].push_back(s.time_us);
        if (i == 0)
          sums[s.pass].before += s.ops_before, sums[s.pass].after += s.ops_after, sums[s.pass].changed += s.changed;
      }
    }
    double all = median(records);
    recording += all;
    for (const auto& [pass, t] : times) {
      sums[pass].us += median(t);
      all += median(t);
    }
    kernels.emplace_back(all, e);
    progress.advance();
  }
  progress.clear();
  constexpr auto right = Table::Align::right;
  Table table({{"pass"},
               {"µs", right},
               {"share", right},
               {"ops before", right},
               {"ops after", right},
               {"kernels changed", right}});
  double total = 0;
  for (const auto& [pass, s] : sums) total += s.us;
  for (const auto& p : passes::optimise_passes()) {
    const auto& s = sums[std::string(p.name)];
    if (globals.json)
      fmt::print("{}\n", Json{{"pass", p.name},
                              {"time_us", rounded(s.us)},
                              {"ops_before", s.before},
                              {"ops_after", s.after},
                              {"changed", s.changed}}
                             .dump());
    table.row({std::string(p.name), fmt::format("{:.1f}", s.us),
               fmt::format("{:.0f}%", total > 0 ? 100 * s.us / total : 0), fmt::format("{}", s.before),
               fmt::format("{}", s.after), fmt::format("{}", s.changed)});
  }
  table.row({"total", fmt::format("{:.1f}", total)});
  table.row({"recording", fmt::format("{:.1f}", recording)});
  std::sort(kernels.begin(), kernels.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const auto middle = kernels[kernels.size() / 2].first, largest = kernels.back().first;
  const auto above = std::count_if(kernels.begin(), kernels.end(), [](const auto& k) { return k.first > 5000; });
  const auto small = std::count_if(kernels.begin(), kernels.end(), [](const auto& k) { return k.first <= 500; });
  if (globals.json) {
    fmt::print("{}\n", Json{{"kernels", kernels.size()},
                            {"recording_us", rounded(recording)},
                            {"median_us", rounded(middle)},
                            {"largest_us", rounded(largest)},
                            {"largest", kernels.back().second->full_name()},
                            {"up_to_500_us", small},
                            {"above_5_ms", above}}
                           .dump());
    return success;
  }
  fmt::print("{}medians of {} runs after {} warm-ups, summed over {} kernels\n", table.render(), runs, warmups,
             entries.size());
  fmt::print(
      "recording and passes of one kernel: median {:.2f} ms, largest {:.2f} ms ({}); {} take 0.5 ms or less, {} more "
      "than 5 ms\n",
      middle / 1000, largest / 1000, kernels.back().second->full_name(), small, above);
  return success;
}

/// "all" means every kind that can be made here; asked for by name, one that cannot is an error.
std::vector<Stage> wanted_stages(const BuildOptions& options, std::vector<std::string>& left_out) {
  if (options.emit.empty()) return {};
  if (options.out.empty()) throw UsageError("--emit needs -o DIR, where the texts go");
  if (options.emit == "all") {
    auto all = stages();
    std::erase_if(all, [&](const Stage& s) {
      std::string why;
      const bool possible = s.name == "ptx"    ? runtime::cuda::Nvrtc::available(&why)
                            : s.name == "sass" ? runtime::cuda::device_available(&why)
                                               : true;
      if (!possible) left_out.push_back(fmt::format("{} left out: {}", s.name, why.substr(0, why.find('\n'))));
      return !possible;
    });
    return all;
  }
  std::vector<Stage> out;
  for (std::size_t at = 0; at <= options.emit.size();) {
    const auto end = std::min(options.emit.find(',', at), options.emit.size());
    out.push_back(find_stage(options.emit.substr(at, end - at)));
    at = end + 1;
  }
  return out;
}

Json manifest_entry(const KernelEntry& e, const runtime::Compiled& c) {
  const auto& k = *c.optimised;
  Json params = Json::array();
  for (const auto& p : k.params)
    params.push_back({{"name", p.name}, {"kind", ir::name(p.kind)}, {"dtype", dtype_name(p.elem)}});
  return {{"name", e.full_name()},
          {"family", e.family},
          {"dtype", dtype_name(e.dtype)},
          {"file", e.file},
          {"mode", ir::name(k.mode)},
          {"numerics", ir::name(k.numerics)},
          {"determinism", e.determinism},
          {"shared_bytes", c.contract.shared_bytes()},
          {"identity", hash128(c.identity).hex()},
          {"params", params},
          {"files", Json::array()}};
}

int compile_all(const Globals& globals, const BuildOptions& options, const std::vector<const KernelEntry*>& entries) {
  std::vector<std::string> left_out;
  const auto emitted = wanted_stages(options, left_out);
  auto& backend = open_backend(options.backend);
  Messages messages(globals.json);
  messages.start("build", entries.size(), &backend.info());
  Json manifest{{"iron_version", IRON_VERSION}, {"backend", options.backend}, {"kernels", Json::array()}};
  Progress progress(entries.size(), !globals.json && !globals.quiet);
  std::size_t failed = 0, written = 0;
  for (const auto* e : entries) {
    progress.show(e->full_name());
    const std::string name = e->full_name(), dtype(dtype_name(e->dtype));
    try {
      const auto compiled = prepare(backend, *e).compiled;
      auto entry = manifest_entry(*e, *compiled);
      for (const auto& s : emitted) {
        const auto path = fmt::format("{}/kernels/{}.{}", options.out, name, s.extension);
        write_file(path, stage_text(s, *e));
        entry["files"].push_back(fmt::format("kernels/{}.{}", name, s.extension));
        messages.send({{"type", "artifact"}, {"name", name}, {"dtype", dtype}, {"kind", s.name}, {"path", path}});
        ++written;
      }
      manifest["kernels"].push_back(std::move(entry));
      messages.send({{"type", "build"}, {"name", name}, {"dtype", dtype}, {"kind", options.backend}, {"ok", true}});
      if (!globals.json && (options.names || globals.verbosity > 0)) {
        progress.clear();
        fmt::print("{}  {}\n", styled(Style::green, "ok  "), name);
        if (globals.verbosity > 0) fmt::print("{}\n", stage_text(final_stage(options.backend), *e));
      }
    } catch (const Error& error) {
      ++failed;
      messages.send({{"type", "build"},
                     {"name", name},
                     {"dtype", dtype},
                     {"kind", options.backend},
                     {"ok", false},
                     {"message", error.what()}});
      if (!globals.json) {
        progress.clear();
        fmt::print("{}  {}\n", styled(Style::red, "FAIL"), name);
        fmt::print(stderr, "{}\n", error.what());
      }
    }
    progress.advance();
  }
  progress.clear();
  if (!emitted.empty()) write_file(options.out + "/manifest.json", manifest.dump(1) + "\n");
  messages.done({{"ok", failed == 0},
                 {"passed", entries.size() - failed},
                 {"failed", failed},
                 {"skipped", 0},
                 {"left_out", left_out}});
  if (!globals.json) {
    const auto text =
        failed ? fmt::format("{} of {} kernels do not compile for {}", failed, entries.size(), options.backend)
               : fmt::format("{} kernels compile for {}{}", entries.size(), options.backend,
                             emitted.empty() ? "" : fmt::format(", {} files in {}", written + 1, options.out));
    fmt::print("{}\n", styled(failed ? Style::red : Style::green, text));
    for (const auto& line : left_out) fmt::print("{}\n", line);
  }
  return failed ? failure : success;
}

int run(const Globals& globals, const BuildOptions& options) {
  auto entries = options.filters.select(standard_library());
  if (entries.empty())
    throw Error(
        "TOOL03",
        fmt::format("no kernel passes the filters, of {}: nothing was built", standard_library().entries().size()),
        "'iron inspect' lists the names");
  if (options.identity) return identities(globals, entries);
  if (options.time_passes) return time_passes(globals, entries);
  if (options.backend != "cuda") {  // members for other devices
    const std::string needs = entries.front()->needs;
    std::erase_if(entries, [](const KernelEntry* e) { return !e->needs.empty(); });
    if (entries.empty())
      throw Error("D20", fmt::format("the selected kernels need {}, which {} does not have", needs, options.backend),
                  "--backend cuda, or 'iron inspect KERNEL --backend cuda --arch sm_90a' for their text");
  }
  return compile_all(globals, options, entries);
}

}  // namespace

void add_build(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub =
      subcommand(app, "build", "Compile the kernels, write their texts, or time the compiler",
                 "  iron build                              does every kernel compile?\n"
                 "  iron build rms_norm --emit ir,asm -o out\n"
                 "  iron build --identity                   one line a kernel: name and hash of the recorded IR\n"
                 "  iron build --time-passes");
  sub->alias("c");
  auto o = std::make_shared<BuildOptions>();
  o->filters.add_to(*sub);
  std::string kinds;
  for (const auto& s : stages()) kinds += std::string(s.name) + ",";
  sub->add_option("--backend", o->backend, "The device; " + o->backend + " if absent")->type_name(backend_help());
  sub->add_option("--emit", o->emit, "Which texts to write: " + kinds + "all")->type_name("KIND,...");
  sub->add_option("-o,--out", o->out, "The folder of the texts and of manifest.json")->type_name("DIR");
  sub->add_flag("-n,--names", o->names, "A line a kernel");
  sub->add_flag("-t,--time-passes", o->time_passes, "Time recording and each pass: 25 runs after 5 warm-ups");
  sub->add_flag("--identity", o->identity, "Print the identity of each recorded kernel");
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, *o); }; });
}

}  // namespace iron::tool
