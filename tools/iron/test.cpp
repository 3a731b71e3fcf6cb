// `iron test`: every case of the selected kernels on a device, against its oracle.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "app.h"
#include "bench/session.h"
#include "bundle.h"
#include "equality.h"
#include "filters.h"
#include "maker.h"
#include "messages.h"
#include "runtime/run_case.h"
#include "sanitize.h"
#include "table.h"

namespace iron::tool {

namespace {

struct TestOptions {
  Filters filters;
  std::string backend = default_backend(), failures, against, digests;
  bool show_progress = false, fail_fast = false, list = false, summary = false, detailed = false, sanitize = false,
       bench_shapes = false;
  u64 seed = 1;
};

struct Row {
  const CaseSource* source;
  runtime::Outcome outcome;
  double seconds;
  enum { not_compared, equal, exempt, different } equality = not_compared;
};

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string error_text(double error) { return error == 0 ? "0" : fmt::format("{:.1e}", error); }

std::string duration(double s) { return s < 1 ? fmt::format("{:.0f} ms", s * 1e3) : fmt::format("{:.1f} s", s); }

int list(const Globals& globals, const std::vector<const KernelEntry*>& entries) {
  Table table({{"kernel"}, {"dtype"}, {"family"}, {"cases", Table::Align::right}, {"file"}});
  for (const auto* e : entries) {
    if (globals.json)
      fmt::print("{}\n", Json{{"kernel", e->name},
                              {"family", e->family},
                              {"dtype", dtype_name(e->dtype)},
                              {"file", e->file},
                              {"name", e->full_name()},
                              {"cases", e->tests.size()},
                              {"determinism", e->determinism},
                              {"needs", e->needs}}
                             .dump());
    table.row({e->name, std::string(dtype_name(e->dtype)), e->family, fmt::format("{}", e->tests.size()), e->file});
  }
  if (!globals.json) fmt::print("{}", table.render());
  return success;
}

class TestRun {
 public:
  TestRun(const Globals& globals, const TestOptions& options, std::vector<CaseSource> sources, std::size_t kernels)
      : globals_(globals),
        options_(options),
        sources_(std::move(sources)),
        kernels_(kernels),
        messages_(globals.json) {}

  int run() {
    const std::string& name = options_.sanitize ? interpreter_ : options_.backend;
    runtime::Backend* device = nullptr;
    try {
      device = &open_backend(name);
    } catch (const Error& e) {  // every case failed: a run that could not start is never zero items "ok"
      messages_.start("test", sources_.size(), nullptr);
      messages_.error(name, "", e.what());
      messages_.done(counts(0, sources_.size(), 0));
      throw;
    }
    // Members of a family for other devices are no failures of this one.
    if (const auto away =
            std::erase_if(sources_, [&](const CaseSource& s) { return !runtime::runs(*device, *s.entry); });
        away && !globals_.json && !globals_.quiet)
      fmt::print(stderr, "{} cases are of kernels that need what {} lacks\n", away, device->info().name);
    if (sources_.empty())
      throw Error("TOOL03",
                  fmt::format("the selected kernels need what {} lacks: nothing was tested", device->info().name),
                  "'iron test --list --json' shows what each needs");
    if (!options_.against.empty()) reference_.emplace(options_.against, options_.seed);
    if (!options_.digests.empty()) digests_ = "# results of " + device->info().name + "\n";
    messages_.start(options_.sanitize ? "test --sanitize" : "test", sources_.size(), &device->info());
    const auto start = std::chrono::steady_clock::now();
    {
      const bench::MeasureLock lock(bench::MeasureLock::Kind::shared,
                                    [] { fmt::print(stderr, "waiting for a measurement to end\n"); });
      run_all(*device);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return finish(name, seconds);
  }

 private:
  void run_all(runtime::Backend& device) {
    Progress progress(sources_.size(), (!globals_.json && !globals_.quiet) || options_.show_progress,
                      options_.show_progress);
    // The sanitizer makes its own cases, one a schedule.
    Maker maker(sources_, options_.seed, globals_.threads);
    for (const auto& s : sources_) {
      progress.show(s.entry->full_name() + ", " + s.name);
      const auto start = std::chrono::steady_clock::now();
      Row row{&s, {}, 0};
      std::vector<std::string> findings;
      if (options_.sanitize) {
        auto result = sanitize(s, options_.seed);
        row.outcome = std::move(result.outcome), findings = std::move(result.findings);
      } else if (const auto made = maker.next(); made.c) {
        row.outcome = guarded(device, *made.c, s);
        if (row.outcome.passed) compare(row, *made.c);
      } else
        row.outcome = {false, 0, 0, made.error};
      row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      progress.advance();
      report(row, findings, progress);
      rows_.push_back(std::move(row));
      if (options_.fail_fast && !rows_.back().outcome.passed) break;
    }
  }

  // Whatever is thrown fails this case and no other.
  runtime::Outcome guarded(runtime::Backend& device, const Case& c, const CaseSource& source) {
    try {
      if (recorded_.insert(source.entry).second) record_checked(*source.entry);
      return runtime::run_case(device, c, source.tolerance);
    } catch (const std::exception& e) {
      return {false, 0, 0, e.what()};
    }
  }

  // The outputs that the device left against those of the reference, bit for bit.
  void compare(Row& row, const Case& c) {
    if (!reference_ && digests_.empty()) return;
    try {
      const auto digest = result_digest(c);
      if (!digests_.empty()) digests_ += digest + "\t" + digest_key(*row.source) + "\n";
      if (!reference_) return;
      const auto expected = reference_->digest(*row.source);
      if (expected.empty()) return;
      row.equality = digest == expected ? Row::equal : Row::different;
      if (row.equality == Row::equal) return;
      if (const auto why = exempt_from_equality(c, options_.backend)) {
        row.equality = Row::exempt;
        exempt_[*why].insert(row.source->entry->full_name());
        return;
      }
      row.outcome.passed = false;
      row.outcome.message = fmt::format("the results are not those of {}, bit for bit", reference_->name());
    } catch (const std::exception& e) {
      row.outcome.passed = false, row.outcome.message = e.what();
    }
  }

  void report(const Row& row, const std::vector<std::string>& findings, Progress& progress) {
    const auto& s = *row.source;
    const auto& o = row.outcome;
    const std::string name = s.entry->full_name();
    if (!o.passed) failures_.push_back(name + ", " + s.name);
    if (globals_.json) {
      Json m{{"type", "test"},
             {"name", name},
             {"dtype", dtype_name(s.entry->dtype)},
             {"case", s.name},
             {"group", s.entry->family},
             {"passed", o.passed},
             {"max_err", o.max_error},
             {"cosine", o.cosine},
             {"skipped", false},
             {"seconds", rounded(row.seconds)}};
      if (!o.passed) m["message"] = o.message;
      if (!findings.empty()) m["findings"] = findings;
      if (!o.passed) m["bundle"] = bundle(row);
      messages_.send(m);
      return;
    }
    const bool line = !globals_.quiet && (!progress.live() || globals_.verbosity > 0);
    if (o.passed && !line && findings.empty()) return;
    progress.clear();
    if (line || !o.passed)
      fmt::print("{}  {:<{}}  {:<{}}  error {:<7}  {:>7}\n",
                 o.passed ? styled(Style::green, "ok  ") : styled(Style::red, "FAIL"), name, name_width(), s.name,
                 case_width(), error_text(o.max_error), duration(row.seconds));
    for (const auto& f : findings) fmt::print(stderr, "{}{}", f, f.ends_with('\n') ? "" : "\n");
    if (!o.passed) {
      fmt::print("      {}\n", globals_.verbosity > 0 ? o.message : first_line(o.message));
      if (const auto path = bundle(row); !path.empty()) fmt::print("      iron replay {}\n", path);
    }
    std::fflush(stdout);
  }

  // A kernel that cannot even be recorded leaves no bundle.
  std::string bundle(const Row& row) const {
    try {
      const auto folder = options_.failures.empty() ? (bench::cache_folder() / "failures").string() : options_.failures;
      return write_bundle(*row.source, options_.seed, options_.sanitize ? interpreter_ : options_.backend,
                          row.outcome.message, folder);
    } catch (const Error&) {
      return {};
    }
  }

  Json counts(std::size_t passed, std::size_t failed, std::size_t skipped) const {
    return {{"ok", failed == 0 && passed > 0},
            {"test_passed", passed},
            {"test_failed", failed},
            {"test_skipped", skipped},
            {"failures", failures_}};
  }

  int finish(const std::string& device, double seconds) {
    const std::size_t failed = failures_.size(), passed = rows_.size() - failed;
    auto totals = counts(passed, failed, 0);
    const auto having = [&](auto equality) {
      return std::count_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.equality == equality; });
    };
    if (reference_) {
      totals["equal"] = having(Row::equal), totals["exempt"] = having(Row::exempt);
      totals["different"] = having(Row::different);
    }
    messages_.done(totals);
    if (!digests_.empty()) write_file(options_.digests, digests_);
    if (!globals_.json) {
      if (options_.summary) print_summary();
      const auto left_out = sources_.size() - rows_.size();
      const std::string rest = left_out ? fmt::format(", {} not run", left_out) : "";
      const auto text = failed ? fmt::format("{} of {} cases failed on {}{}", failed, rows_.size(), device, rest)
                               : fmt::format("{} cases of {} kernels passed on {} in {}", passed, kernels_, device,
                                             duration(seconds));
      if (reference_) {
        fmt::print("{} cases equal those of {} bit for bit, {} differ with a reason, {} differ, {} were not compared\n",
                   having(Row::equal), reference_->name(), having(Row::exempt), having(Row::different),
                   having(Row::not_compared));
        for (const auto& [why, kernels] : exempt_) {
          std::string names;
          for (const auto& k : kernels) names += (names.empty() ? "" : ", ") + k;
          fmt::print("  {}: {}\n", why, names);
        }
      }
      fmt::print("{}\n", styled(failed ? Style::red : Style::green, text));
    }
    // An equality of nothing proves nothing.
    const bool compared = !reference_ || having(Row::equal) > 0;
    return failed == 0 && passed > 0 && compared ? success : failure;
  }

  // A row a family, or with --detailed a kernel x dtype.
  void print_summary() const {
    struct Sum {
      std::string family;
      std::size_t cases = 0, failed = 0;
      double error = 0, seconds = 0;
    };
    std::vector<std::pair<std::string, Sum>> sums;
    for (const auto& r : rows_) {
      const auto& e = *r.source->entry;
      const auto key = options_.detailed ? e.full_name() : e.family;
      auto it = std::find_if(sums.begin(), sums.end(), [&](const auto& s) { return s.first == key; });
      if (it == sums.end()) it = sums.insert(sums.end(), {key, {}});
      auto& s = it->second;
      s.family = e.family, ++s.cases, s.failed += !r.outcome.passed, s.seconds += r.seconds;
      s.error = std::max(s.error, r.outcome.max_error);
    }
    const auto right = Table::Align::right;
    Table table({{options_.detailed ? "kernel" : "family"},
                 {options_.detailed ? "family" : ""},
                 {"cases", right},
                 {"failed", right},
                 {"worst error", right},
                 {"time", right}});
    for (const auto& [key, s] : sums)
      table.row({key, options_.detailed ? s.family : "", fmt::format("{}", s.cases),
                 s.failed ? styled(Style::red, fmt::format("{}", s.failed)) : "0", error_text(s.error),
                 duration(s.seconds)});
    fmt::print("{}", table.render());
  }

  std::size_t name_width() const {
    std::size_t n = 0;
    for (const auto& s : sources_) n = std::max(n, s.entry->full_name().size());
    return n;
  }
  std::size_t case_width() const {
    std::size_t n = 0;
    for (const auto& s : sources_) n = std::max(n, s.name.size());
    return std::min<std::size_t>(n, 40);
  }

  const std::string interpreter_ = "interpreter";
  const Globals& globals_;
  const TestOptions& options_;
  std::vector<CaseSource> sources_;
  const std::size_t kernels_;
  Messages messages_;
  std::vector<Row> rows_;
  std::vector<std::string> failures_;
  std::optional<Reference> reference_;
  std::string digests_;
  std::map<std::string, std::set<std::string>> exempt_;  ///< kernels by the reason for which their results may differ
  std::set<const KernelEntry*> recorded_;                ///< their recordings do not depend on the host's state
};

int run(const Globals& globals, const TestOptions& options) {
  if (options.detailed && !options.summary) throw UsageError("--detailed needs --summary");
  if (options.sanitize && (!options.against.empty() || !options.digests.empty()))
    throw UsageError("--sanitize runs schedules, not one result: it goes neither with --against nor with --digests");
  const auto entries = options.filters.select(standard_library());
  if (entries.empty())
    throw Error(
        "TOOL03",
        fmt::format("no kernel passes the filters, of {}: nothing was tested", standard_library().entries().size()),
        "'iron test --list' shows the names");
  if (options.list) return list(globals, entries);
  std::vector<CaseSource> sources;
  for (const auto* e : entries)
    for (auto& s : cases_of(*e, options.bench_shapes)) sources.push_back(std::move(s));
  if (sources.empty()) throw Error("TOOL03", "the selected kernels have no test: nothing was tested");
  return TestRun(globals, options, std::move(sources), entries.size()).run();
}

}  // namespace

void add_test(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub = subcommand(app, "test", "Run the kernels' tests against their oracles",
                         "  iron test                                    everything, on the default device\n"
                         "  iron test softmax --backend interpreter      kernels whose name holds softmax\n"
                         "  iron test --match-group norm --summary\n"
                         "  iron test rms_norm --sanitize                every schedule, every check\n"
                         "  iron test --backend cuda --against cpu       also the same bits on both devices\n"
                         "  iron test --list --json                      one row a kernel x dtype");
  sub->alias("t");
  auto o = std::make_shared<TestOptions>();
  o->filters.add_to(*sub);
  sub->add_option("--backend", o->backend, "The device; " + o->backend + " if absent")->type_name(backend_help());
  sub->add_flag("--fail-fast", o->fail_fast, "Stop at the first failure");
  sub->add_flag("--show-progress", o->show_progress, "Progress also with -q, --json, and as plain lines when piped");
  sub->add_flag("-l,--list", o->list, "List the kernels and run nothing");
  sub->add_flag("--summary", o->summary, "A table of the families at the end");
  sub->add_flag("--detailed", o->detailed, "With --summary: a row a kernel and dtype");
  sub->add_flag("--sanitize", o->sanitize, "In the interpreter under every schedule, with all findings");
  sub->add_flag("--bench-shapes", o->bench_shapes, "The shapes of the benches too");
  sub->add_option("--against", o->against,
                  "Results must also equal, bit for bit, those of this backend or of a file of --digests")
      ->type_name("BACKEND|FILE");
  sub->add_option("--digests", o->digests, "Write a hash of every case's results")->type_name("FILE");
  sub->add_option("--seed", o->seed, "Seed of the test data")->type_name("N");
  sub->add_option("--failures", o->failures, "Where bundles of failing cases go")->type_name("DIR");
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, *o); }; });
}

}  // namespace iron::tool
