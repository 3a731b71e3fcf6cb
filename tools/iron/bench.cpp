// `iron bench`: times the selected kernels under the measurement rules; nothing is timed that did not pass first.
#include <algorithm>
#include <map>
#include <memory>

#include "app.h"
#include "bench/peaks.h"
#include "bench/session.h"
#include "bench/specs.h"
#include "bench/timer.h"
#include "bench_report.h"
#include "filters.h"
#include "maker.h"
#include "reference.h"
#include "table.h"

namespace iron::tool {

namespace {

using bench::MeasureLock;

struct BenchOptions {
  Filters filters;
  std::string backend = default_backend(), out, versus, cache = "cold";
  bool allow_dirty = false, list = false, reference = false, select = false;
  u32 runs = 50, warmup = 20;
  double budget = 10;
  u64 seed = 1;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// A case that passed, with its proof: the first one is kept, to be timed again at the end.
struct Proven {
  Made made;
  std::optional<bench::Receipt> receipt;
  bench::Judge judge;  ///< what judged it, for the reference
};

class BenchRun {
 public:
  BenchRun(const Globals& globals, const BenchOptions& options)
      : globals_(globals), options_(options), messages_(globals.json) {}

  int run(const std::vector<CaseSource>& sources, const std::optional<bench::TreeState>& tree) {
    device_ = &open_backend(options_.backend);
    const auto& info = device_->info();
    messages_.start("bench", sources.size(), &info);
    {
      const auto lock = exclusive();
      if (info.backend == "cpu") cpu_ = bench::cpu_peaks(info.units);
      bench::warm_clock(*device_, 0.2);
      floor_us_ = bench::launch_floor_us(*device_, lock);
    }
    if (!globals_.json && !globals_.quiet)
      fmt::print("{} ({}), {} cache, launch floor {} µs\n", info.name, info.backend, options_.cache, cell(floor_us_));
    Progress progress(sources.size(), !globals_.json && !globals_.quiet);
    for (const auto& s : sources) {
      progress.show(s.entry->full_name() + ", " + s.name);
      rows_.push_back(one(s));
      progress.advance();
      messages_.send(to_json(rows_.back()));
    }
    progress.clear();
    check_order();
    check_flatness();
    return finish(tree);
  }

  // P8: each selected case against the other kernel's of the same dtype and shape, in both orders.
  int compare(const std::vector<CaseSource>& sources) {
    device_ = &open_backend(options_.backend);
    bench::warm_clock(*device_, 0.2);
    int compared = 0;
    bool failed = false;
    Table table({{"kernel"},
                 {"against"},
                 {"shape"},
                 {"µs", Table::Align::right},
                 {"µs", Table::Align::right},
                 {"speed-up", Table::Align::right},
                 {"95% interval"},
                 {"verdict"}});
    for (const auto& s : sources) {
      const auto& other_entry =
          find_kernel(standard_library(), options_.versus, std::string(dtype_name(s.entry->dtype)));
      for (const auto& o : cases_of(other_entry, true)) {
        if (!o.bench || o.name != s.name || &other_entry == s.entry) continue;
        ++compared;
        auto a = prove(o), b = prove(s);
        if (!a.receipt || !b.receipt) {
          fmt::print(stderr, "{}: {}\n", (a.receipt ? s : o).entry->full_name(), (a.receipt ? b : a).made.error);
          failed = true;
          continue;
        }
        bench::Bench base(*device_, *a.made.c, *a.receipt, timer_options()),
            candidate(*device_, *b.made.c, *b.receipt, timer_options());
        const auto p = bench::measure_paired(base, candidate, exclusive());
        const auto keep = bench::keep_verdict(p.speedup);
        const std::string verdict = p.order_dependent             ? "order-dependent"
                                    : keep == bench::Keep::keep   ? "faster"
                                    : keep == bench::Keep::reject ? "not faster"
                                                                  : "inconclusive";
        if (globals_.json)
          fmt::print("{}\n", Json{{"type", "compare"},
                                  {"name", s.entry->full_name()},
                                  {"against", other_entry.full_name()},
                                  {"shape", s.name},
                                  {"median_us", rounded(p.b.summary.median)},
                                  {"against_median_us", rounded(p.a.summary.median)},
                                  {"speedup", rounded(p.speedup.centre)},
                                  {"low", rounded(p.speedup.low)},
                                  {"high", rounded(p.speedup.high)},
                                  {"orders", {rounded(p.a_first), rounded(p.b_first)}},
                                  {"verdict", verdict}}
                                 .dump());
        table.row({s.entry->full_name(), other_entry.full_name(), s.name, cell(p.b.summary.median),
                   cell(p.a.summary.median), fmt::format("{:.3f}", p.speedup.centre),
                   fmt::format("{:.3f} to {:.3f}", p.speedup.low, p.speedup.high), verdict});
      }
    }
    if (!compared)
      throw Error("BENCH05", fmt::format("no bench of {} has a shape of the selected kernels", options_.versus),
                  "'iron bench --list' shows the names");
    if (!globals_.json) fmt::print("{}", table.render());
    return failed ? failure : success;
  }

 private:
  MeasureLock exclusive() const {
    return MeasureLock(MeasureLock::Kind::exclusive,
                       [] { fmt::print(stderr, "waiting for another measurement or test to end\n"); });
  }

  bench::TimerOptions timer_options() const {
    bench::TimerOptions t;
    t.samples = options_.runs, t.warmup = options_.warmup, t.budget_seconds = options_.budget;
    t.cold = options_.cache == "cold", t.cache_bytes = cache_bytes();
    return t;
  }
  u64 cache_bytes() const {
    return device_->info().cache_bytes ? device_->info().cache_bytes : cpu_ ? cpu_->llc_bytes : 0;
  }

  // With `row` and --select the member that stands for the product here takes its kernel's place.
  Proven prove(const CaseSource& s, BenchRow* row = nullptr) const {
    Proven p{make_case(s, options_.seed), {}, {}};
    if (!p.made.c) return p;
    const KernelEntry* entry = s.entry;
    if (row) row->selection = selection_for(*device_, *s.entry, *p.made.c);
    if (row && row->selection && options_.select && row->selection->entry != s.entry) {
      p.made.c = selected_case(*row->selection, *s.entry, *p.made.c);
      entry = row->selection->entry, row->selected = true;
    }
    const auto product = product_case(*entry, *p.made.c);
    if (!p.made.c->expectations.empty()) {
      p.judge = [tolerance = s.tolerance](const Case& c) { return runtime::judge(c, tolerance); };
    } else if (product && device_->info().backend == "cuda") {
      p.judge = oracle_judge(*device_, *product, s.tolerance);
    } else {
      p.made.error = "the bench expects nothing, so nothing proves its result: it is not timed";
      return p;
    }
    auto result = bench::verify(*device_, *p.made.c, s.tolerance, p.judge);
    if (auto* receipt = std::get_if<bench::Receipt>(&result))
      p.receipt = std::move(*receipt);
    else
      p.made.error = std::get<runtime::Outcome>(result).message;
    return p;
  }

  BenchRow one(const CaseSource& s) {
    BenchRow row;
    row.entry = s.entry, row.shape = s.name;
    try {
      auto proven = std::make_unique<Proven>(prove(s, &row));
      row.message = first_line(proven->made.error);
      if (!proven->receipt) {
        row.checked = !proven->made.c                        ? Checked::unavailable
                      : proven->made.c->expectations.empty() ? Checked::unchecked
                                                             : Checked::failed;
        return row;
      }
      row.checked = Checked::passed, row.max_error = proven->receipt->max_error();
      time(row, *proven);
      if (options_.reference) reference(row, *proven);
      if (!first_) first_ = std::move(proven), first_row_ = rows_.size();
    } catch (const Error& e) {
      row.checked = Checked::unavailable, row.message = first_line(e.what()), row.timing.reset();
    }
    return row;
  }

  void time(BenchRow& row, const Proven& proven) {
    const Case& c = *proven.made.c;
    bench::Bench timer(*device_, c, *proven.receipt, timer_options());
    row.working_set = timer.working_set();
    row.bytes = c.bytes_moved ? c.bytes_moved : bench::buffer_bytes(c);
    {
      const auto lock = exclusive();
      row.timing = timer.measure(lock);
    }
    const auto exe = runtime::BoundCase(*device_, c).steps().back().exe;
    row.resources = exe->resources();
    judge(row, c);
    if (!row.metrics.impossible.empty() && cpu_) {  // perhaps the peaks were measured on a busy machine
      const auto lock = exclusive();
      cpu_ = bench::cpu_peaks(cpu_->threads, true);
      judge(row, c);
    }
    row.launch_bound = row.timing->summary.min <= 2 * floor_us_;
    if (row.timing->low_n) row.warnings.push_back(fmt::format("low-n: {} samples", row.timing->summary.samples));
    if (row.timing->host_clock) row.warnings.emplace_back("timed by the host's clock: the case has several launches");
    if (row.timing->summary.cv_percent > 5)
      row.warnings.push_back(fmt::format("unstable: cv {:.1f} %", row.timing->summary.cv_percent));
  }

  void reference(BenchRow& row, const Proven& proven) const {
    const auto product = product_case(row.selected ? *row.selection->entry : *row.entry, *proven.made.c);
    if (!product) {
      row.reference_message = "no vendor's kernel is compared with it";
      return;
    }
    try {
      row.reference =
          measure_reference(*device_, *product, proven.judge, timer_options(), row.timing->copies, exclusive());
    } catch (const Error& e) {
      row.reference_message = first_line(e.what()), row.reference_failed = true;
    }
  }

  void judge(BenchRow& row, const Case& c) const {
    bench::Peaks peaks;
    if (cpu_)
      peaks = bench::peaks_of(*cpu_, row.working_set, row.timing->cold);
    else if (const auto* specs = bench::find_specs(device_->info().name))
      peaks = bench::peaks_of(*specs, row.entry->dtype);
    if (const auto p = product_case(row.selected ? *row.selection->entry : *row.entry, c);
        p && p->kind.e4m3 && peaks.gflops)
      peaks.gflops = 2 * *peaks.gflops,
      peaks.engine = "matrix e4m3";  // twice 16-bit inputs, on every device that has it
    bench::Profile profile;
    for (const auto& [key, value] : row.resources)
      if (key == "occupancy") profile.occupancy_percent = value;
    row.engine = peaks.engine;
    const bool fits = !row.timing->cold && row.working_set <= cache_bytes();
    row.metrics = bench::metrics(row.timing->summary.min, row.bytes, c.flop_count, peaks, profile, fits);
  }

  // P14: the first cell again, after all others.
  void check_order() {
    if (!first_ || rows_.size() < 2) return;
    bench::Bench timer(*device_, *first_->made.c, *first_->receipt, timer_options());
    const auto again = timer.measure(exclusive());
    auto& row = rows_[first_row_];
    const double before = row.timing->summary.median, after = again.summary.median;
    if (std::max(before, after) > 1.1 * std::min(before, after))
      row.warnings.push_back(
          fmt::format("depends on the order: {} µs as the first, {} µs after all others", cell(before), cell(after)));
  }

  // P13: over the shapes of one kernel.
  void check_flatness() {
    std::map<const KernelEntry*, std::vector<bench::Cell>> cells;
    for (const auto& r : rows_)
      if (r.timing) cells[r.entry].push_back({r.shape, static_cast<f64>(r.bytes), r.timing->summary.min});
    for (auto& r : rows_)
      if (r.timing && !cells[r.entry].empty()) {
        if (const auto warning = bench::flatness_warning(cells[r.entry])) r.warnings.push_back(*warning);
        cells[r.entry].clear();  // once a kernel
      }
  }

  int finish(const std::optional<bench::TreeState>& tree) {
    const auto count = [&](Checked c) {
      return std::count_if(rows_.begin(), rows_.end(), [&](const auto& r) { return r.checked == c; });
    };
    const auto passed = count(Checked::passed), wrong = count(Checked::failed) + count(Checked::unavailable),
               unchecked = count(Checked::unchecked);
    const auto impossible =
        std::count_if(rows_.begin(), rows_.end(), [](const auto& r) { return !r.metrics.impossible.empty(); });
    const auto without = std::count_if(rows_.begin(), rows_.end(), [](const auto& r) { return r.reference_failed; });
    const bool ok = wrong == 0 && impossible == 0 && without == 0 && passed > 0;
    Json summary{{"total", rows_.size()}, {"implemented", rows_.size()}, {"correct", passed}, {"unchecked", unchecked}};
    if (!options_.out.empty()) write_file(options_.out, record(tree, summary).dump(1) + "\n");
    messages_.done(
        {{"ok", ok}, {"bench_passed", passed}, {"bench_failed", wrong + impossible}, {"bench_unchecked", unchecked}});
    if (globals_.json) return ok ? success : failure;
    if (!globals_.quiet) fmt::print("{}", render(rows_, globals_.verbosity));
    for (const auto& r : rows_) {
      if (!r.message.empty()) fmt::print(stderr, "{}, {}: {}\n", r.entry->full_name(), r.shape, r.message);
      if (r.selection && (r.selected || globals_.verbosity > 0))
        fmt::print("{}, {}: {}\n", r.entry->full_name(), r.shape, member_note(r));
      if (!r.reference_message.empty() && (r.reference_failed || globals_.verbosity > 0))
        fmt::print(stderr, "{}, {}: no reference: {}\n", r.entry->full_name(), r.shape, r.reference_message);
      if (!r.metrics.impossible.empty())
        fmt::print(stderr, "{}, {}: impossible: {}\n", r.entry->full_name(), r.shape, r.metrics.impossible);
      if (globals_.verbosity > 0 || !r.warnings.empty())
        for (const auto& w : r.warnings)
          if (globals_.verbosity > 0 || !w.starts_with("unstable"))
            fmt::print(stderr, "{}, {}: {}\n", r.entry->full_name(), r.shape, w);
    }
    fmt::print("{}\n", styled(ok ? Style::green : Style::red,
                              fmt::format("{} timed after passing, {} failed, {} impossible, {} unchecked", passed,
                                          wrong, impossible, unchecked)));
    return ok ? success : failure;
  }

  Json record(const std::optional<bench::TreeState>& tree, const Json& summary) const {
    Json j{{"device", to_json(device_->info())},
           {"summary", summary},
           {"iron_version", IRON_VERSION},
           {"build_id", build_id()},
           {"timestamp", bench::timestamp()},
           {"session", bench::session_id()},
           {"sessions", 1},
           {"order", "as registered"},
           {"launch_floor_us", rounded(floor_us_)},
           {"environment", bench::environment_overrides()},
           {"seed", options_.seed}};
    j["git_sha"] = tree ? Json(tree->commit) : Json(nullptr);
    j["dirty"] = tree ? Json(tree->dirty) : Json(nullptr);
    if (cpu_)
      j["peaks"] = {{"read_gbps", rounded(cpu_->read_gbps)},
                    {"copy_gbps", rounded(cpu_->copy_gbps)},
                    {"fma_gflops", rounded(cpu_->fma_gflops)},
                    {"threads", cpu_->threads}};
    j["results"] = Json::array();
    for (const auto& r : rows_) j["results"].push_back(to_json(r));
    return j;
  }

  const Globals& globals_;
  const BenchOptions& options_;
  Messages messages_;
  runtime::Backend* device_ = nullptr;
  std::optional<bench::CpuPeaks> cpu_;
  f64 floor_us_ = 0;
  std::vector<BenchRow> rows_;
  std::unique_ptr<Proven> first_;
  std::size_t first_row_ = 0;
};

int list(const Globals& globals, const std::vector<const KernelEntry*>& entries) {
  Table table({{"kernel"}, {"dtype"}, {"family"}, {"shape"}, {"file"}});
  for (const auto* e : entries) {
    Json shapes = Json::array();
    for (const auto& b : e->benches) {
      shapes.push_back(b.shape);
      table.row({e->name, std::string(dtype_name(e->dtype)), e->family, b.shape, e->file});
    }
    if (globals.json)
      fmt::print("{}\n", Json{{"kernel", e->name},
                              {"family", e->family},
                              {"dtype", dtype_name(e->dtype)},
                              {"file", e->file},
                              {"name", e->full_name()},
                              {"shapes", shapes}}
                             .dump());
  }
  if (!globals.json) fmt::print("{}", table.render());
  return success;
}

int run(const Globals& globals, const BenchOptions& options) {
  const auto entries = options.filters.select(standard_library());
  std::vector<CaseSource> sources;
  for (const auto* e : entries)
    for (auto& s : cases_of(*e, true))
      if (s.bench) sources.push_back(std::move(s));
  if (sources.empty())
    throw Error("TOOL03",
                fmt::format("no bench passes the filters, of {} kernels: nothing was timed",
                            standard_library().entries().size()),
                "'iron bench --list' shows the names");
  if (options.list) return list(globals, entries);
  if (options.reference && !options.backend.starts_with("cuda"))
    throw UsageError(fmt::format("--reference is cuBLASLt, on a GPU: --backend is {}", options.backend));
  const auto& device = open_backend(options.backend);
  std::erase_if(sources, [&](const CaseSource& s) { return !runtime::runs(device, *s.entry); });
  if (sources.empty())
    throw Error("TOOL03",
                fmt::format("the selected kernels need what {} lacks: nothing was timed", device.info().name));
  const auto tree = bench::tree_state();
  if (tree && tree->dirty && !options.allow_dirty)
    throw Error("BENCH04", "the source tree has changes that are not committed: the numbers would belong to no commit",
                "commit them, or give --allow-dirty");
  if (!options.versus.empty()) return BenchRun(globals, options).compare(sources);
  return BenchRun(globals, options).run(sources, tree);
}

}  // namespace

void add_bench(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub = subcommand(app, "bench", "Time the kernels, after proving them",
                         "  iron bench                              everything, buffers out of cache\n"
                         "  iron bench rms_norm --cache warm -vv    with the distribution of the samples\n"
                         "  iron bench --match-group norm -o norm.json\n"
                         "  iron bench gemm_tma --backend cuda --reference\n"
                         "  iron bench rms_norm_small --versus rms_norm_wide");
  sub->alias("b");
  auto o = std::make_shared<BenchOptions>();
  o->filters.add_to(*sub);
  sub->add_option("--backend", o->backend, "The device; " + o->backend + " if absent")->type_name(backend_help());
  sub->add_option("--runs", o->runs, "Samples of each cell; 50 if absent")
      ->check(CLI::Range(1, 100000))
      ->type_name("N");
  sub->add_option("--warmup", o->warmup, "Warm-up samples before; 20 if absent")
      ->check(CLI::Range(0, 100000))
      ->type_name("N");
  sub->add_option("--budget", o->budget, "Seconds that a cell may take; fewer samples are marked low-n")
      ->check(CLI::PositiveNumber)
      ->type_name("S");
  sub->add_option("--cache", o->cache,
                  "cold: copies of the buffers rotate through thrice the last-level cache; warm: one copy")
      ->check(CLI::IsMember({"cold", "warm"}))
      ->type_name("MODE");
  sub->add_option("-o,--out", o->out, "Write the record as JSON")->type_name("FILE");
  sub->add_flag("--allow-dirty", o->allow_dirty, "Time a source tree with changes that are not committed");
  sub->add_option("--versus", o->versus, "Compare with this kernel at equal dtype and shape, in both orders")
      ->type_name("KERNEL");
  sub->add_flag("--reference", o->reference,
                "Time cuBLASLt beside matrix products, with --backend cuda: deterministic algorithms unless "
                "IRON_GEMM_ATOMICS=1, the heuristic's first or the one of IRON_GEMM_ALGO");
  sub->add_flag("--select", o->select,
                "Time the member of its family that the selector takes on this device in place of each matrix product");
  sub->add_flag("-l,--list", o->list, "List the benches and run nothing");
  sub->add_option("--seed", o->seed, "Seed of the data")->type_name("N");
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, *o); }; });
}

}  // namespace iron::tool
