#include "cases.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/exec.h"
#include "ir/text.h"
#include "passes/expand_math.h"
#include "passes/pipeline.h"
#include "runtime/run_case.h"

namespace iron::mutation {

using namespace ir;

namespace {
std::string optimised_identity(Kernel k) {
  passes::run_pipeline(k);
  return identity(k);
}

/// A hash of bytes, eight at a time.
class Hash {
 public:
  void number(u64 v) {
    h_ = (h_ ^ v) * 0x9e3779b97f4a7c15u;
    h_ ^= h_ >> 29;
  }
  void bytes(const void* data, u64 size) {
    const auto* at = static_cast<const std::byte*>(data);
    number(size);
    for (; size >= 8; at += 8, size -= 8) word(at, 8);
    if (size) word(at, size);
  }
  void text(std::string_view t) { bytes(t.data(), t.size()); }
  void real(f64 v) { bytes(&v, sizeof v); }
  u64 value() const { return h_; }

 private:
  void word(const std::byte* at, u64 size) {
    u64 v = 0;
    std::memcpy(&v, at, size);
    number(v);
  }
  u64 h_ = 0xcbf29ce484222325u;
};

constexpr u64 judge_version = 2;  ///< of what this file makes of a mutant

/// A mutant that runs so much longer than the kernel does not come back: a killed one, without waiting for it.
u64 runaway(u64 instructions) { return 8 * instructions + 200'000; }
}  // namespace

std::optional<Kernel> Subject::mutant(const Mutation& m) const {
  // Expansion replaces transcendental functions where they stand and leaves every other op its number, so a fault in
  // one of those is the same before and after.
  const auto& before = kernel.op(m.at);
  if (executable.alive(m.at) && executable.op(m.at).code == before.code) return mutate(executable, m);
  auto k = mutate(kernel, m);
  if (k) passes::expand_fast(*k), passes::expand_math(*k);
  return k;
}

Cases::Cases(const KernelEntry& e) : entry_(e) {
  for (const auto& t : e.tests) {
    auto& run = runs_.emplace_back();
    run.gen = std::make_unique<Gen>(1);
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

void Cases::add_kernel(const Step& step) {
  auto& s = kernels_[step.key];
  if (s.ready) return;
  s.kernel = *step.record();
  static const std::string inline_only[] = {"kernel_inline"};
  passes::run_passes(s.kernel, inline_only);
  s.kernel = canonical(s.kernel);
  s.executable = s.kernel;
  passes::expand_fast(s.executable);
  passes::expand_math(s.executable);
  s.ready = std::make_shared<const Ready>(s.executable);
  s.mutations = mutations_of(s.kernel);
}

u64 Cases::fingerprint() const {
  Hash h;
  h.number(judge_version);
  for (const auto& [key, s] : kernels_) {
    h.text(identity(s.kernel));
    for (const auto& m : s.mutations) h.text(m.id());
  }
  for (const auto& run : runs_) {
    h.real(run.tolerance.f32_error), h.real(run.tolerance.f16_error), h.real(run.tolerance.bf16_error);
    h.real(run.tolerance.cosine);
    for (const auto& step : run.made.steps) {
      h.text(step.key);
      for (const u64 n : {step.grid.groups.x, step.grid.groups.y, step.grid.groups.z, step.grid.threads.x,
                          step.grid.threads.y, step.grid.threads.z})
        h.number(n);
      h.number(step.grid.items);
      for (const auto& a : step.args)
        if (a.scalar)
          h.number(a.launch_arg(nullptr).scalar);
        else if (a.access == detail::Access::in)
          h.bytes(a.buffer.data, a.buffer.bytes);
    }
    for (const auto& [at, bytes] : run.before) h.bytes(bytes.data(), bytes.size());
    for (const auto& e : run.made.expectations)
      h.bytes(e.values.data(), e.values.size() * sizeof(f64)), h.bytes(e.bytes.data(), e.bytes.size());
  }
  return h.value();
}

void Cases::check_original() {
  for (auto& run : runs_) {
    std::string detail;
    if (const auto fate = attempt(run, "", nullptr, detail))
      throw Error("MUT01", fmt::format("{}, {}: the kernel's own test fails without a fault ({}): {}",
                                       entry_.full_name(), run.name, name(*fate), detail));
    work_ += run.work;
  }
}

std::optional<Fate> Cases::fate(const std::string& key, const Mutation& mutation) {
  auto& subject = kernels_.at(key);
  auto mutant = subject.mutant(mutation);
  if (!mutant) return std::nullopt;
  const Ready ready(std::move(*mutant));
  std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.price() < b.price(); });
  const auto same_when_optimised = [&] {
    if (subject.optimised.empty()) subject.optimised = optimised_identity(subject.kernel);
    return optimised_identity(*mutate(subject.kernel, mutation)) == subject.optimised;
  };
  // Most mutants that live through some cases live through all. Whether the compiler sees no difference is asked before
  // the larger part of the work.
  bool asked = false;
  u64 done = 0;
  for (auto& run : runs_) {
    std::string detail;
    if (!asked && done > 0 && work_ - done > 500'000) {
      asked = true;
      if (same_when_optimised()) return Fate::equivalent;
    }
    ++run.tried;
    if (const auto fate = attempt(run, key, &ready, detail)) {
      ++run.killed;
      return fate;
    }
    done += run.work;
  }
  if (!asked && same_when_optimised()) return Fate::equivalent;
  return Fate::survived;
}

std::optional<Fate> Cases::attempt(Run& run, const std::string& key, const Ready* mutant, std::string& detail) {
  for (auto& [at, bytes] : run.before) std::copy(bytes.begin(), bytes.end(), at);
  u64 work = 0;
  for (std::size_t i = 0; i < run.made.steps.size(); ++i) {
    const auto& step = run.made.steps[i];
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
    if (mutant) o.max_instructions = runaway(run.instructions[i]);
    // The last launch's outputs are judged as each threadgroup ends.
    std::vector<const Expectation*> expected(step.args.size());
    if (i + 1 == run.made.steps.size()) {
      for (const auto& e : run.made.expectations)
        for (std::size_t p = 0; p < step.args.size(); ++p)
          if (!step.args[p].scalar && step.args[p].buffer.data == e.data) expected[p] = &e;
      o.accepts = [&](u32 param, u64 byte, u32 bytes) {
        const Expectation* const e = expected[param];
        const u32 size = e ? dtype_size(e->dtype) : 0;
        const u64 count = !e ? 0 : e->exact ? e->bytes.size() / size : e->values.size();
        return bytes != size || byte / size >= count || runtime::passes(*e, byte / size, run.tolerance);
      };
    }
    const auto result = exec::run(k.kernel, g, args, o);
    work += result.statistics.lane_ops;
    if (!mutant) run.instructions.push_back(result.statistics.instructions);
    for (const auto& f : result.findings)
      if (f.severity == Severity::error) {
        detail = f.message;
        return Fate::killed_finding;
      }
    if (result.rejected) {
      detail = "an element is wrong";
      return Fate::killed_wrong;
    }
  }
  if (!mutant) run.work = std::max<u64>(work, 1);
  const auto outcome = runtime::judge(run.made, run.tolerance);
  detail = outcome.message;
  if (!outcome.passed) return Fate::killed_wrong;
  return std::nullopt;
}

}  // namespace iron::mutation
