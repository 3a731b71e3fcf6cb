// The session on the GPU: problems one after another, their records, winners and table.
#include "tune_run.h"

#include <algorithm>
#include <map>

#include "bench/specs.h"
#include "bench/timer.h"
#include "bundle.h"
#include "filters.h"
#include "iron/error.h"
#include "maker.h"
#include "table.h"
#include "tune_product.h"

namespace iron::tool {

namespace {

using runtime::cuda::CudaBackend;

Json json(const Range& r) { return {rounded(r.low), rounded(r.median), rounded(r.high)}; }

class TuneRun {
 public:
  TuneRun(const Globals& globals, const TuneRunOptions& options, CudaBackend& device, LoadedPlan plan)
      : globals_(globals), options_(options), device_(device), plan_(std::move(plan)), sampler_(device.pci()) {}

  int run() {
    Messages messages(globals_.json);
    select();
    messages.start("tune", problems_.size() + benches_.size(), &device_.info());
    const auto lock = exclusive();
    Progress progress(problems_.size() + benches_.size(), !globals_.json && !globals_.quiet);
    const auto one = [&](const std::string& what, const auto& work) {
      progress.show(what);
      Json r;
      try {
        r = work();
      } catch (const Error& e) {
        r["error"] = e.what();
        ++failed_;
      }
      if (!r.contains("problem")) r["problem"] = what;
      progress.advance();
      messages.send(r);
      results_.push_back(std::move(r));
    };
    for (const auto& [key, kernels] : problems_)
      one(to_string(key.second) + " " + to_string(key.first),
          [&] { return product(key.first, key.second, kernels, lock); });
    for (const auto& [entry, name] : benches_)
      one(entry->full_name() + ", " + name, [&] { return bench_of(*entry, name, lock); });
    progress.clear();
    return finish(messages);
  }

 private:
  using Key = std::pair<ProductKind, ProductShape>;

  // What the filter leaves, grouped: kernels that solve one problem are timed together.
  void select() {
    const auto wanted = [&](const std::string& text) {
      return options_.filter.empty() || text.find(options_.filter) != std::string::npos;
    };
    for (const auto& k : plan_.kernels) {
      for (const auto& s : k.shapes) {
        if (!wanted(fmt::format("{} {} {}", k.entry->full_name(), k.spec, to_string(s)))) continue;
        const Key key{kind_of(*k.kernel, kernels::find_gemm_member(k.entry->name)->form), s};
        const auto it = std::find_if(problems_.begin(), problems_.end(), [&](const auto& p) { return p.first == key; });
        (it == problems_.end() ? problems_.emplace_back(key, std::vector<const LoadedKernel*>{}) : *it)
            .second.push_back(&k);
      }
      for (const auto& b : k.benches) {
        const auto known = [&](const auto& x) { return x.first == k.entry && x.second == b; };
        if (wanted(k.entry->full_name() + " " + b) && std::none_of(benches_.begin(), benches_.end(), known))
          benches_.emplace_back(k.entry, b);
      }
    }
    if (problems_.empty() && benches_.empty())
      throw Error("TOOL03", fmt::format("nothing of the plan holds '{}': nothing was timed", options_.filter),
                  "'--filter' takes a part of a kernel's name, its specialisation or a shape such as 4096x4096x4096");
  }

  static bench::MeasureLock exclusive() {
    return bench::MeasureLock(bench::MeasureLock::Kind::exclusive,
                              [] { fmt::print(stderr, "waiting for another measurement or test to end\n"); });
  }

  // P11: no arm is faster than the device's matrix unit.
  std::string impossible(const ProductKind& kind, f64 tflops) const {
    const auto* specs = bench::find_specs(device_.info().name);
    if (!specs) return {};
    const auto peaks = bench::peaks_of(*specs, kind.e4m3 ? DType::bf16 : kind.input);
    if (!peaks.gflops) return {};
    const f64 peak = *peaks.gflops * 1e-3 * (kind.e4m3 ? 2 : 1);
    return tflops > peak ? fmt::format("{:.0f} TFLOP/s is above the device's {:.0f}", tflops, peak) : std::string();
  }

  Json product(const ProductKind& kind, const ProductShape& shape, const std::vector<const LoadedKernel*>& kernels,
               const bench::MeasureLock& lock) {
    ProductProblem problem(device_, kind, shape, plan_.seed, static_cast<u32>(std::max(0, globals_.threads)));
    for (const auto* k : kernels) problem.add(*k);
    if (!options_.no_reference) problem.add_vendor();
    Json r{{"type", "tune"},
           {"problem", to_string(shape) + " " + to_string(kind)},
           {"m", shape.m},
           {"n", shape.n},
           {"k", shape.k},
           {"types", to_string(kind)},
           {"flops", flops(shape)},
           {"bytes", kind.bytes(shape)},
           {"copies", problem.copies()},
           {"cold", problem.cold()}};
    std::vector<Arm> arms;
    std::vector<const Solver*> timed;
    for (const auto& s : problem.solvers())
      if (s.verdict.passed) arms.push_back(s.arm), timed.push_back(&s);
    r["arms"] = Json::array();
    for (const auto& s : problem.solvers())
      if (!s.verdict.passed) {
        ++failed_;
        r["arms"].push_back(solver_json(s));
        r["arms"].back()["message"] = s.verdict.message;
      }
    if (arms.empty()) return r;
    const auto m = measure_arms(device_, arms, problem.copies(), sampler_, options_.measure, lock);
    r["rule"] = m.rule, r["rounds"] = m.rounds;
    for (std::size_t i = 0; i < arms.size(); ++i) {
      auto a = solver_json(*timed[i]);
      timing_json(a, kind, shape, m.arms[i], !timed[0]->kernel && i > 0);
      r["arms"].push_back(std::move(a));
    }
    choose(r, timed, m);
    return r;
  }

  static Json solver_json(const Solver& s) {
    Json a{{"name", s.name}, {"kind", s.kernel ? "iron" : "vendor"}, {"detail", s.detail}};
    if (s.kernel) {
      a["spec"] = s.kernel->json.value("specialisation", ""), a["cubin"] = s.kernel->json.value("cubin", "");
      a["registers"] = s.kernel->json.value("registers", -1), a["shared"] = s.kernel->json.value("shared", 0);
      a["rung"] = kernels::name(kernels::find_gemm_member(s.kernel->entry->name)->rung);
    }
    a["correct"] = s.verdict.passed, a["max_err"] = s.verdict.max_error, a["cosine"] = s.verdict.cosine;
    return a;
  }

  void timing_json(Json& a, const ProductKind& kind, const ProductShape& shape, const ArmTiming& t,
                   bool against_vendor) {
    a["us"] = json(t.us), a["interleaved_us"] = json(t.interleaved_us);
    const f64 tflops = flops(shape) / t.us.median * 1e-6;
    a["tflops"] = rounded(tflops), a["gbps"] = rounded(static_cast<f64>(kind.bytes(shape)) / t.us.median * 1e-3);
    if (against_vendor) {
      if (t.ratio) a["steady"] = json(*t.ratio);
      a["interleaved"] = json(t.interleaved_ratio);
    }
    a["mhz"] = t.mhz ? Json(rounded(*t.mhz)) : Json(nullptr);
    a["watts"] = t.watts ? Json(rounded(*t.watts)) : Json(nullptr);
    if (const auto why = impossible(kind, tflops); !why.empty()) a["impossible"] = why, ++failed_;
  }

  // The fastest of our kernels by the rule's own times; below 3 % only ranges that do not overlap, of at least five
  // rounds, decide.
  static void choose(Json& r, const std::vector<const Solver*>& solvers, const Measurement& m) {
    std::vector<std::size_t> ours;
    for (std::size_t i = 0; i < solvers.size(); ++i)
      if (solvers[i]->kernel) ours.push_back(i);
    if (ours.empty()) return;
    const auto us = [&](std::size_t i) { return m.arms[i].us; };
    std::sort(ours.begin(), ours.end(),
              [&](auto x, auto y) { return std::pair(us(x).median, x) < std::pair(us(y).median, y); });
    Json w{{"name", solvers[ours[0]]->name}, {"detail", solvers[ours[0]]->detail}};
    if (ours.size() > 1) {
      const auto best = us(ours[0]), next = us(ours[1]);
      w["next"] = solvers[ours[1]]->name, w["gain"] = rounded(next.median / best.median);
      w["decided"] = next.median >= 1.03 * best.median || (m.rounds >= 5 && best.high < next.low);
    }
    r["winner"] = std::move(w);
  }

  Json bench_of(const KernelEntry& e, const std::string& name, const bench::MeasureLock& lock) {
    for (const auto& s : cases_of(e, true)) {
      if (!s.bench || s.name != name) continue;
      auto made = make_case(s, plan_.seed);
      if (!made.c) throw Error("TUNE13", made.error);
      Json r{{"type", "tune"}, {"problem", e.full_name() + ", " + name}, {"name", e.full_name()}, {"bench", name}};
      auto verified = bench::verify(device_, *made.c, s.tolerance);
      const auto* receipt = std::get_if<bench::Receipt>(&verified);
      r["correct"] = receipt != nullptr;
      if (!receipt) {
        ++failed_;
        r["message"] = std::get<runtime::Outcome>(verified).message;
        return r;
      }
      bench::TimerOptions t;
      t.cache_bytes = device_.info().cache_bytes, t.memory_limit = u64{8} << 30, t.least_sample_us = 2000;
      bench::Bench timer(device_, *made.c, *receipt, t);
      const auto from = runtime::cuda::GpuSampler::Clock::now();
      const auto timing = timer.measure(lock);
      const auto mean = sampler_.between(from, runtime::cuda::GpuSampler::Clock::now());
      const u64 bytes = made.c->bytes_moved ? made.c->bytes_moved : timer.working_set();
      const auto& u = timing.summary;
      r["max_err"] = receipt->max_error(), r["samples"] = u.samples, r["cold"] = timing.cold;
      r["copies"] = timing.copies;
      r["us"] = {rounded(u.min), rounded(u.median), rounded(u.p95)};
      r["gbps"] = rounded(static_cast<f64>(bytes) / u.median * 1e-3);
      if (made.c->flop_count > 0) r["tflops"] = rounded(made.c->flop_count / u.median * 1e-6);
      r["mhz"] = mean.mhz ? Json(rounded(*mean.mhz)) : Json(nullptr);
      r["watts"] = mean.watts ? Json(rounded(*mean.watts)) : Json(nullptr);
      return r;
    }
    throw Error("TUNE11", fmt::format("{} has no bench '{}' in this build", e.full_name(), name),
                "prebuild the plan again with this build");
  }

  int finish(const Messages& messages) {
    Json record{{"device", to_json(device_.info())},
                {"iron_version", IRON_VERSION},
                {"build_id", build_id()},
                {"timestamp", bench::timestamp()},
                {"session", bench::session_id()},
                {"environment", bench::environment_overrides()},
                {"seed", plan_.seed},
                {"sampling", sampler_.absent().empty() ? Json("NVML, every 10 ms") : Json(sampler_.absent())},
                {"other_architectures", plan_.other_architectures},
                {"failed", failed_},
                {"results", results_}};
    const auto path = options_.out.empty() ? options_.folder + "/results.json" : options_.out;
    write_file(path, record.dump(1) + "\n");
    const bool ok = failed_ == 0;
    messages.done({{"ok", ok}, {"problems", results_.size()}, {"failed", failed_}, {"record", path}});
    if (globals_.json) return ok ? success : failure;
    if (!globals_.quiet) fmt::print("{}", table());
    if (!sampler_.absent().empty()) fmt::print(stderr, "no clock and power: {}\n", sampler_.absent());
    if (plan_.other_architectures)
      fmt::print("{} kernels of other architectures left out\n", plan_.other_architectures);
    fmt::print("{}\n", styled(ok ? Style::green : Style::red,
                              fmt::format("{} problems, {} failures; record in {}", results_.size(), failed_, path)));
    return ok ? success : failure;
  }

  std::string table() const {
    constexpr auto right = Table::Align::right;
    Table t({{"problem"},
             {""},
             {"solver"},
             {"µs", right},
             {"TFLOP/s", right},
             {"GB/s", right},
             {"steady", right},
             {"interleaved", right},
             {"MHz", right},
             {"W", right},
             {"ok"}});
    const auto number = [](const Json& j, const char* key, int decimals) {
      if (!j.contains(key) || j[key].is_null()) return std::string();
      return fmt::format("{:.{}f}", (j[key].is_array() ? j[key][1] : j[key]).get<f64>(), decimals);
    };
    const auto row = [&](const std::string& problem, const std::string& mark, const std::string& solver,
                         const Json& a) {
      const bool good = a.value("correct", false) && !a.contains("impossible");
      t.row({problem, mark, solver, number(a, "us", 1), number(a, "tflops", 0), number(a, "gbps", 0),
             number(a, "steady", 3), number(a, "interleaved", 3), number(a, "mhz", 0), number(a, "watts", 0),
             good ? styled(Style::green, "✓") : styled(Style::red, "✗")});
    };
    std::string notes;
    for (const auto& r : results_) {
      const auto problem = r["problem"].get<std::string>();
      if (r.contains("error")) notes += fmt::format("{}: {}\n", problem, r["error"].get<std::string>());
      if (r.contains("message")) notes += fmt::format("{}: {}\n", problem, r["message"].get<std::string>());
      if (r.contains("bench")) row(problem, "", "", r);
      if (!r.contains("arms")) continue;
      std::string shown = problem;
      for (const auto& a : r["arms"]) {
        std::string solver = a["name"].get<std::string>();
        if (solver.starts_with("iron_")) solver.erase(0, 5);
        if (const auto detail = a["detail"].get<std::string>(); !detail.empty())
          solver = a["kind"] == "vendor" ? detail : solver + " " + detail;
        const bool won =
            r.contains("winner") && r["winner"]["name"] == a["name"] && r["winner"]["detail"] == a["detail"];
        row(shown, won ? (r["winner"].value("decided", true) ? "*" : "=") : "", solver, a);
        shown.clear();
        for (const char* key : {"message", "impossible"})
          if (a.contains(key)) notes += fmt::format("{}, {}: {}\n", problem, solver, a[key].get<std::string>());
      }
    }
    return t.render() + "  * the fastest of ours; = fastest, but within 3 % of the next one\n" + notes;
  }

  const Globals& globals_;
  const TuneRunOptions& options_;
  CudaBackend& device_;
  LoadedPlan plan_;
  runtime::cuda::GpuSampler sampler_;
  std::vector<std::pair<Key, std::vector<const LoadedKernel*>>> problems_;
  std::vector<std::pair<const KernelEntry*, std::string>> benches_;
  Json results_ = Json::array();
  std::size_t failed_ = 0;
};

}  // namespace

int run_tuning(const Globals& globals, const TuneRunOptions& options) {
  const auto json = read_prebuilt(options.folder);
  runtime::cuda::vendor_options();  // what the environment says wrongly is refused before anything runs
  auto& device = dynamic_cast<CudaBackend&>(runtime::backend("cuda"));
  return TuneRun(globals, options, device, load_prebuilt(json, options.folder, device)).run();
}

}  // namespace iron::tool
