// One kernel's cases, made once and run again for each mutant.
#include "trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <mutex>
#include <span>
#include <sstream>
#include <thread>
#include <tuple>

#include "analysis/contract.h"
#include "exec/exec.h"
#include "ir/text.h"
#include "passes/expand_math.h"
#include "passes/pipeline.h"
#include "passes/rewrite.h"
#include "rules.h"
#include "runtime/run_case.h"

namespace iron::mutation {

using namespace ir;

std::string_view name(Fate f) {
  static constexpr std::string_view names[] = {"refused", "finding", "wrong", "equivalent", "explained", "survived"};
  return names[static_cast<std::size_t>(f)];
}

Explained read_explained(const std::string& path) {
  Explained out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    Explanation e;
    std::string* const parts[] = {&e.kernel, &e.fault, &e.file, &e.expression, &e.why};
    std::size_t at = 0;
    for (std::string* part : parts) {
      const bool last = part == &e.why;
      const std::size_t end = last ? line.size() : line.find(" | ", at);
      if (end == std::string::npos || end <= at)
        throw Error("MUT02", fmt::format("{}: '{}' gives no reason", path, line),
                    "write: kernel | fault | file | expression | why");
      *part = line.substr(at, end - at);
      at = std::min(line.size(), end + 3);
    }
    out.push_back(e);
  }
  return out;
}

namespace {
u64 hash(std::string_view text) {
  u64 h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<u8>(c)) * 0x100000001b3u;
  return h ^ (h >> 29);
}

/// What runs: transcendental functions by their expansion, as on every device.
Kernel executable(Kernel k) {
  passes::expand_fast(k);
  passes::expand_math(k);
  return k;
}
std::string optimised_identity(Kernel k) {
  passes::run_pipeline(k);
  return identity(k);
}

// The op as its author would write it; a constant shows nothing by itself, so it is shown where it is used.
std::string shown(const Kernel& k, OpId id) {
  if (!is_const(k, id)) return expression(k, id);
  OpId user = none;
  k.walk([&](OpId at) {
    for (const OpId v : k.operands(at))
      if (v == id && user == none) user = at;
  });
  return fmt::format("constant {} in {}", expression(k, id), user == none ? "" : expression(k, user));
}

bool explains(const Explanation& e, const Verdict& v) {
  const bool family = e.kernel.ends_with('*');
  const std::string_view kernel = e.kernel, shown = e.expression;
  const bool start = shown.ends_with('*');
  return (family ? v.kernel.starts_with(kernel.substr(0, kernel.size() - 1)) : v.kernel == kernel) &&
         v.mutant.starts_with(e.fault + ":") && v.where.starts_with(e.file + ":") &&
         (start ? v.ir.starts_with(shown.substr(0, shown.size() - 1)) : v.ir == shown);
}

/// A kernel as it runs, with its launch contract.
struct Ready {
  explicit Ready(const Kernel& k) : kernel(executable(k)), contract(analysis::derive(kernel)) {}
  Kernel kernel;
  analysis::Contract contract;
};

struct Subject {
  Kernel kernel;  ///< canonical, calls inlined
  std::shared_ptr<const Ready> ready;
  std::string optimised;
};

// The cases of one library entry with the kernels of their steps, by key.
class Trial {
 public:
  explicit Trial(const KernelEntry& e) : entry_(e) {
    for (const auto& t : e.tests) {
      auto& run = runs_.emplace_back();
      Gen gen(1);
      run.gen = std::make_unique<Gen>(gen);
      run.made = t.make(*run.gen);
      run.tolerance = t.tolerance;
      run.name = t.name;
      for (const auto& step : run.made.steps) {
        add_kernel(step);
        for (const auto& a : step.args)
          if (!a.scalar && a.access != detail::Access::in) {
            const auto* bytes = static_cast<const std::byte*>(a.buffer.data);
            run.before.push_back({static_cast<std::byte*>(a.buffer.data), {bytes, bytes + a.buffer.bytes}});
          }
      }
    }
  }
  const std::map<std::string, Subject>& kernels() const { return kernels_; }

  void check_original() {
    for (auto& run : runs_) {
      std::string detail;
      if (const auto fate = attempt(run, "", nullptr, detail))
        throw Error("MUT01", fmt::format("{}, {}: the kernel's own test fails without a fault ({}): {}",
                                         entry_.full_name(), run.name, name(*fate), detail));
    }
    std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.work < b.work; });
  }

  /// The first test that notices, cheapest first.
  std::optional<Fate> killed(const std::string& key, const Kernel& mutant) {
    const Ready ready(mutant);
    for (auto& run : runs_) {
      std::string detail;
      if (const auto fate = attempt(run, key, &ready, detail)) return fate;
    }
    return std::nullopt;
  }

 private:
  struct Run {
    std::unique_ptr<Gen> gen;
    Case made;
    Tolerance tolerance;
    std::string name;
    std::vector<std::pair<std::byte*, std::vector<std::byte>>> before;
    u64 work = 0;
  };

  void add_kernel(const Step& step) {
    auto& s = kernels_[step.key];
    if (s.ready) return;
    s.kernel = *step.record();
    static const std::string inline_only[] = {"kernel_inline"};
    passes::run_passes(s.kernel, inline_only);
    s.kernel = canonical(s.kernel);
    s.ready = std::make_shared<const Ready>(s.kernel);
    s.optimised = optimised_identity(s.kernel);
  }

  std::optional<Fate> attempt(Run& run, const std::string& key, const Ready* mutant, std::string& detail) {
    for (auto& [at, bytes] : run.before) std::copy(bytes.begin(), bytes.end(), at);
    u64 work = 0;
    for (const auto& step : run.made.steps) {
      const Ready& k = mutant && step.key == key ? *mutant : *kernels_.at(step.key).ready;
      const LaunchGeometry g{{step.grid.groups.x, step.grid.groups.y, step.grid.groups.z},
                             {step.grid.threads.x, step.grid.threads.y, step.grid.threads.z},
                             step.grid.items};
      std::vector<LaunchArg> args;
      for (const auto& a : step.args) args.push_back(a.launch_arg(a.scalar ? nullptr : a.buffer.data));
      if (const auto refused = analysis::check(k.contract, g, args); !refused.empty()) {
        detail = refused[0].message;
        return Fate::killed_refused;
      }
      exec::Options o;
      o.max_trips = u64{1} << 20, o.stop_at_error = true;
      const auto result = exec::run(k.kernel, g, args, o);
      work += result.statistics.lane_ops;
      for (const auto& f : result.findings)
        if (f.severity == Severity::error) {
          detail = f.message;
          return Fate::killed_finding;
        }
    }
    run.work = work;
    const auto outcome = runtime::judge(run.made, run.tolerance);
    detail = outcome.message;
    if (!outcome.passed) return Fate::killed_wrong;
    return std::nullopt;
  }

  const KernelEntry& entry_;
  std::vector<Run> runs_;
  std::map<std::string, Subject> kernels_;
};

// What becomes of a mutant; nothing if nobody could run it.
std::optional<Verdict> verdict(Trial& trial, const std::string& key, const Mutation& mutation, const KernelEntry& entry,
                               const Explained& explained) {
  const auto& subject = trial.kernels().at(key);
  const auto mutant = mutate(subject.kernel, mutation);
  if (!mutant) return std::nullopt;
  const auto& at = subject.kernel.location(mutation.at);
  Verdict v{entry.full_name(),
            mutation.id(),
            Fate::survived,
            shown(subject.kernel, mutation.at),
            at.line ? fmt::format("{}:{}", at.file, at.line) : entry.file,
            {}};
  if (const auto fate = trial.killed(key, *mutant))
    v.fate = *fate;
  else if (optimised_identity(*mutant) == subject.optimised)
    v.fate = Fate::equivalent;
  else if (const auto why = invisible(subject.kernel, mutation))
    v.fate = Fate::explained, v.why = *why;
  else
    for (const auto& e : explained)
      if (explains(e, v)) v.fate = Fate::explained, v.why = e.why;
  return v;
}
}  // namespace

Score try_mutants(const Registry& registry, const TrialOptions& options) {
  struct Planned {
    const KernelEntry* entry;
    std::string key;
    Mutation mutation;
    u64 order;
  };
  Score score;
  // Plans need the recorded kernels; the cases are made again, entry by entry, so that few are alive at a time.
  std::vector<Planned> plan;
  std::mutex mutex;
  const auto on_threads = [&](const std::function<void()>& work) {
    std::vector<std::thread> helpers;
    for (u32 t = 1; t < options.threads; ++t) helpers.emplace_back(work);
    work();
    for (auto& h : helpers) h.join();
  };
  std::atomic<std::size_t> next{0};
  on_threads([&] {
    for (std::size_t i = next++; i < registry.entries().size(); i = next++) {
      const auto& e = registry.entries()[i];
      if (e.full_name().find(options.filter) == std::string::npos) continue;
      try {
        const Trial trial(e);
        const std::lock_guard lock(mutex);
        for (const auto& [key, s] : trial.kernels())
          for (const auto& m : mutations_of(s.kernel)) plan.push_back({&e, key, m, hash(e.full_name() + key + m.id())});
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        score.broken.push_back(fmt::format("{}: {}", e.full_name(), error.what()));
      }
    }
  });
  std::sort(score.broken.begin(), score.broken.end());
  const auto tier = std::partition(plan.begin(), plan.end(), [](const Planned& p) { return p.entry->needs.empty(); });
  const auto sampled = [](auto begin, auto end, u64 most) {
    if (most == 0 || most >= static_cast<u64>(end - begin)) return end;
    const auto middle = begin + static_cast<std::ptrdiff_t>(most);
    std::nth_element(begin, middle, end, [](const Planned& a, const Planned& b) { return a.order < b.order; });
    return middle;
  };
  const auto tier_end = sampled(tier, plan.end(), options.tier_sample);
  plan.erase(tier_end, plan.end());
  plan.erase(sampled(plan.begin(), tier, options.sample), tier);
  std::sort(plan.begin(), plan.end(), [](const Planned& a, const Planned& b) {
    return std::tie(a.entry, a.key, a.mutation.at, a.mutation.fault, a.mutation.operand) <
           std::tie(b.entry, b.key, b.mutation.at, b.mutation.fault, b.mutation.operand);
  });
  // One entry's mutants at a time, by whichever thread is free: an entry's cases are alive only meanwhile.
  std::vector<std::span<const Planned>> entries;
  for (std::size_t at = 0; at < plan.size();) {
    std::size_t end = at;
    while (end < plan.size() && plan[end].entry == plan[at].entry) ++end;
    entries.push_back(std::span(plan).subspan(at, end - at));
    at = end;
  }
  next = 0;
  u64 done = 0;
  const auto note = [&](Verdict v) {
    const std::lock_guard lock(mutex);
    ++done;
    switch (v.fate) {
      case Fate::equivalent:
        ++score.equivalent;
        break;
      case Fate::explained:
        ++score.explained;
        break;
      case Fate::survived:
        ++score.survived;
        score.survivors.push_back(v);
        break;
      default:
        ++score.killed;
    }
    if (options.progress) options.progress(done, plan.size(), v);
  };
  const auto work = [&] {
    for (std::size_t i = next++; i < entries.size(); i = next++) {
      const auto& entry = *entries[i].front().entry;
      try {
        Trial trial(entry);
        trial.check_original();
        for (const auto& p : entries[i])
          if (auto v = verdict(trial, p.key, p.mutation, entry, options.explained))
            note(std::move(*v));
          else {  // nobody could run it
            const std::lock_guard lock(mutex);
            ++done;
          }
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        score.broken.push_back(fmt::format("{}: {}", entry.full_name(), error.what()));
      }
      const std::lock_guard lock(mutex);
      ++score.kernels;
    }
  };
  on_threads(work);
  const auto by_name = [](const Verdict& x, const Verdict& y) {
    return std::tie(x.kernel, x.mutant) < std::tie(y.kernel, y.mutant);
  };
  std::sort(score.survivors.begin(), score.survivors.end(), by_name);
  return score;
}

}  // namespace iron::mutation
