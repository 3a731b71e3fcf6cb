// The judges.
#include "judges.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analysis/contract.h"
#include "analysis/verify.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "native.h"
#include "passes/expand_math.h"
#include "passes/pipeline.h"
#include "passes/rewrite.h"
#include "random.h"

namespace iron::fuzz {

using namespace ir;

namespace {
using Outcome = std::optional<Failure>;

std::string rendered(const std::vector<Diagnostic>& found) {
  std::string out;
  for (const auto& d : found) out += d.render() + "\n";
  return out;
}

exec::Options options(exec::Schedule schedule, const Subject& s) {
  exec::Options o;
  o.schedule = schedule, o.seed = s.data_seed, o.max_trips = 1 << 16;
  return o;
}

struct Executed {
  Memory memory;
  exec::Result result;
};
Executed execute(const Kernel& k, const Subject& s, exec::Schedule schedule = exec::Schedule::program) {
  Executed e{Memory(s), {}};
  e.result = exec::run(k, s.geometry, e.memory.args(), options(schedule, s));
  return e;
}

// A kernel that should do the same as another that ran already.
Outcome same(const Kernel& k, const Subject& s, const Memory& expected, exec::Schedule schedule,
             const std::string& where) {
  const Executed now = execute(k, s, schedule);
  if (!now.result.clean())
    return Failure{where + ": finding " + now.result.findings[0].code, now.result.render() + print(k)};
  if (auto d = difference(k, s, expected, now.memory); !d.empty())
    return Failure{where + ": another result", d + "\n" + print(k)};
  return std::nullopt;
}

Outcome well_formed(const Kernel& k, const Subject& s, const std::string& where) {
  if (const auto found = analysis::verify(k); !found.empty())
    return Failure{where + ": verifier " + found[0].code, rendered(found) + print(k)};
  const Memory memory(s);
  if (const auto refused = analysis::check(analysis::derive(k), s.geometry, memory.args()); !refused.empty())
    return Failure{where + ": contract " + refused[0].code, rendered(refused) + print(k)};
  return std::nullopt;
}

// --- the kernel itself: well formed, accepted, without findings, one result under every schedule
Outcome sound(const Subject& s) {
  if (auto f = well_formed(s.kernel, s, "kernel")) return f;
  const Executed first = execute(s.kernel, s);
  if (!first.result.clean()) return Failure{"kernel: finding " + first.result.findings[0].code, first.result.render()};
  for (const auto schedule : {exec::Schedule::reverse, exec::Schedule::random, exec::Schedule::interleave})
    if (auto f = same(s.kernel, s, first.memory, schedule, "schedule")) return f;
  return std::nullopt;
}

Outcome text(const Subject& s) {
  const std::string once = print(s.kernel);
  const Kernel again = parse(once);
  if (print(again) != once) return Failure{"text: print(parse(print)) differs", print(again)};
  if (identity(again) != identity(s.kernel)) return Failure{"text: the identity changes", identity(again)};
  const Kernel c = canonical(s.kernel);
  const Kernel cc = canonical(c);
  if (print(cc) != print(c)) return Failure{"text: canonical is not idempotent", print(cc)};
  return same(c, s, execute(s.kernel, s).memory, exec::Schedule::program, "text: canonical");
}

exec::Schedule schedule_of(u64 n) { return exec::all_schedules[n % 4]; }

// --- every pass by itself, then all of them in order
Outcome passes_on(const Kernel& start, const Subject& s, const std::string& where) {
  const Memory expected = execute(start, s).memory;
  const std::string before = print(start);
  passes::PassOptions o;
  o.verify = true, o.policy = Numerics::exact;
  u64 n = s.data_seed;
  for (const auto& pass : passes::optimise_passes()) {
    const std::string only[] = {std::string(pass.name)};
    Kernel k = start;
    passes::run_passes(k, only, o);
    const std::string after = print(k);
    if (after == before) continue;
    const std::string here = where + std::string(pass.name);
    if (auto f = well_formed(k, s, here)) return f;
    if (auto f = same(k, s, expected, schedule_of(n++), here)) return f;
    if (print(parse(after)) != after) return Failure{here + ": text does not round-trip", after};
    // What one run makes may let the next do more, but a pass comes to rest.
    std::string last = after;
    for (int run = 0;; ++run) {
      passes::run_passes(k, only, o);
      const std::string now = print(k);
      if (now == last) break;
      if (run == 8) return Failure{here + ": never comes to rest", last + "\nbecame\n" + now};
      last = now;
    }
  }
  std::string last = before;
  Outcome failed;
  o.after_each = [&](const Kernel& now, const passes::PassEntry& pass) {
    if (failed) return;
    const std::string here = print(now);
    if (here == last) return;
    last = here;
    failed = same(now, s, expected, schedule_of(n++), where + "pipeline after " + std::string(pass.name));
  };
  Kernel k = start;
  passes::run_pipeline(k, o);
  if (failed) return failed;
  if (auto f = well_formed(k, s, where + "pipeline")) return f;
  for (const auto schedule : exec::all_schedules)
    if (auto f = same(k, s, expected, schedule, where + "pipeline")) return f;
  return std::nullopt;
}

Outcome each_pass(const Subject& s) { return passes_on(s.kernel, s, "passes: "); }

// Expansions are made once a kernel; what cleans up after them must keep their bits.
void expand(Kernel& k) {
  passes::expand_fast(k);
  passes::expand_math(k);
}

Outcome lowering(const Subject& s) {
  Kernel k = s.kernel;
  expand(k);
  if (auto f = well_formed(k, s, "expansion")) return f;
  const Memory expected = execute(k, s).memory;
  passes::PassOptions o;
  o.verify = true, o.policy = Numerics::exact;
  passes::run_pipeline(k, o);
  if (auto f = well_formed(k, s, "expansion")) return f;
  return same(k, s, expected, schedule_of(s.data_seed), "expansion and pipeline");
}

// --- machine code
Kernel lowered(const Subject& s) {
  Kernel k = s.kernel;
  passes::PassOptions o;
  o.verify = true;
  passes::run_pipeline(k, o);
  expand(k);
  static const std::vector<std::string> clean{"const_fold", "algebraic_simplify", "cse", "dead_store_elim"};
  passes::run_passes(k, clean, o);
  return passes::compact(k);
}

Outcome cpu_on(const Kernel& k, const Subject& s, std::string_view target) {
  const Executed expected = execute(k, s);
  if (!expected.result.clean())
    return Failure{"cpu: the interpreter finds " + expected.result.findings[0].code, expected.result.render()};
  Memory memory(s);
  run_native(k, s, memory, target);
  if (auto d = difference(k, s, expected.memory, memory); !d.empty())
    return Failure{fmt::format("cpu {}: another result", target), d + "\n" + print(k)};
  return std::nullopt;
}

Outcome cpu(const Subject& s) {
  const auto targets = native_targets();
  if (targets.empty()) return std::nullopt;
  // The widest target mostly; the others by turns.
  const auto& target = s.data_seed % 4 == 0 ? targets[(s.data_seed / 4) % targets.size()] : targets.back();
  return cpu_on(lowered(s), s, target);
}

// --- the contract: what it accepts runs without findings. Constants of subscripts are changed at random.
Outcome contract(const Subject& s) {
  Random random(s.data_seed);
  std::vector<OpId> constants;
  s.kernel.walk([&](OpId id) {
    if (is_const(s.kernel, id) && s.kernel.type(id).is_index()) constants.push_back(id);
  });
  if (constants.empty()) return std::nullopt;
  static const std::set<std::string, std::less<>> excluded{
      std::string(exec::code::out_of_bounds), std::string(exec::code::misaligned), std::string(exec::code::runaway),
      std::string(exec::code::bad_step)};
  for (int round = 0; round < 4; ++round) {
    Kernel k = s.kernel;
    const u64 changes = 1 + random.below(2);
    for (u64 i = 0; i < changes; ++i) {
      const OpId id = random.pick(constants);
      const i64 old = static_cast<i64>(k.op(id).imm);
      const i64 low = random.chance(20) ? -3 : 0;
      k.mutable_op(id).imm = static_cast<u64>(random.between(low, std::clamp<i64>(old, 0, 4096) * 2 + 2));
    }
    if (!analysis::verify(k).empty()) continue;
    const Memory memory(s);
    const auto verdict = analysis::evaluate(analysis::derive(k), s.geometry, memory.args());
    if (!verdict.problems.empty() || verdict.needs.max_trips > 4096) continue;
    const Executed e = execute(k, s);
    // A promise that does not hold excuses what follows from it.
    if (e.result.has(exec::code::assumption) || e.result.has(exec::code::not_uniform)) continue;
    for (const auto& f : e.result.findings)
      if (excluded.count(f.code)) return Failure{"contract: accepted, yet " + f.code, e.result.render() + print(k)};
    for (std::size_t i = 0; i < k.params.size(); ++i)
      if (k.params[i].is_buffer() && verdict.needs.extents[i] > s.sizes[i])
        return Failure{"contract: an extent beyond the buffer", k.params[i].name + "\n" + print(k)};
  }
  return std::nullopt;
}

constexpr Judge table[] = {
    {"sound", "verified, inside its contract, free of findings, one result under every schedule", sound},
    {"text", "print and parse are inverse; the canonical form is stable and means the same", text},
    {"passes", "every pass, and all in order, keep results, contract and verification", each_pass},
    {"lowering", "the pipeline keeps every bit of expanded transcendental functions", lowering},
    {"cpu", "machine code gives the interpreter's bits", cpu},
    {"contract", "what the launch contract accepts runs in bounds", contract},
};
}  // namespace

std::span<const Judge> judges() { return table; }

const Judge* find_judge(std::string_view name) {
  for (const auto& j : table)
    if (j.name == name) return &j;
  return nullptr;
}

std::optional<Failure> apply(const Judge& judge, const Subject& s) {
  try {
    return judge.run(s);
  } catch (const Error& e) {
    // The promise that broke is part of the kind, the kernel's numbers are not.
    const auto& d = e.diagnostics().front();
    return Failure{fmt::format("{}: throws {} after {}", judge.name, d.code, d.after_pass), e.what()};
  } catch (const std::exception& e) {
    return Failure{fmt::format("{}: throws", judge.name), e.what()};
  }
}

}  // namespace iron::fuzz
