// The order of the passes, their contracts, and the checked runner.
#include "passes/pipeline.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

#include "analysis/uniformity.h"
#include "ir/verify.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
constexpr u32 recorded = no_slots;
constexpr u32 checked = recorded | no_calls;
constexpr u32 sound = well_typed | convergent;

// What folding and moving leave in a pass is put right in the same pass.
template <auto run>
Changed settled(Kernel& k, PassContext& context) {
  const Changed changed = run(k, context);
  if (changed) settle(k);
  return changed;
}

// The one table. The order is part of the design: fusion annotates before fma_fusion forms fma, unroll feeds schedule
// and vectorize, and dead_store_elim clears what all of them leave.
constexpr std::array<PassEntry, 15> table{{
    {"kernel_inline", BitPolicy::exact, recorded, no_calls | well_typed, run_kernel_inline,
     "calls become the bodies of the kernels they name"},
    {"type_check", BitPolicy::exact, checked, sound, run_type_check, "types, structure and use of outputs are checked"},
    {"const_fold", BitPolicy::exact, checked, sound, settled<run_const_fold>,
     "ops on constants are evaluated; constant branches go"},
    {"algebraic_simplify", BitPolicy::exact, checked, sound, settled<run_algebraic_simplify>,
     "identities that keep NaN, signed zeros and wrap"},
    {"copy_prop", BitPolicy::exact, checked, sound, settled<run_copy_prop>,
     "values that pass through are used directly"},
    {"cse", BitPolicy::exact, checked, sound, settled<run_cse>,
     "equal values and equal address trees are computed once"},
    {"licm", BitPolicy::exact, checked, sound, settled<run_licm>, "invariant ops leave their loop"},
    {"if_conversion", BitPolicy::exact, checked, sound, settled<run_if_conversion>,
     "small pure branches become selects"},
    {"value_sink", BitPolicy::exact, checked, sound, settled<run_value_sink>,
     "values that one arm needs are computed there"},
    {"fusion", BitPolicy::exact, checked, sound, run_fusion, "elementwise chains are noted as groups"},
    {"fma_fusion", BitPolicy::fused, checked, sound, run_fma_fusion,
     "products in sums become fma, under fused and fast"},
    {"unroll", BitPolicy::exact, checked, sound, settled<run_unroll>, "short constant loops become their turns"},
    {"schedule", BitPolicy::exact, checked, sound, run_schedule, "independent loads start early"},
    {"vectorize", BitPolicy::exact, checked, sound, settled<run_vectorize>, "neighbouring accesses become wide ones"},
    {"dead_store_elim", BitPolicy::exact, checked, sound | no_dead_ops | no_empty_loops, run_dead_store_elim,
     "unread stores, unused ops and empty loops go"},
}};

Diagnostic denial(const Kernel& k, OpId at, std::string code, std::string message, std::string_view pass) {
  Diagnostic d;
  d.code = std::move(code), d.message = std::move(message), d.kernel = k.name, d.after_pass = pass;
  if (at != none) d.file = k.location(at).file, d.line = k.location(at).line;
  return d;
}

// The first op with a fault, as one finding.
template <class Fault>
std::vector<Diagnostic> first(const Kernel& k, std::string_view pass, std::string_view code, std::string_view message,
                              Fault fault) {
  std::vector<Diagnostic> found;
  k.walk([&](OpId id) {
    if (found.empty() && fault(id)) found.push_back(denial(k, id, std::string(code), std::string(message), pass));
  });
  return found;
}

void require(const Kernel& k, u32 properties, std::string_view pass, bool before) {
  for (u32 bit = 1; bit <= no_empty_loops; bit <<= 1) {
    if (!(properties & bit)) continue;
    auto found = lacks(k, static_cast<Property>(bit), before ? std::string_view{} : pass);
    if (found.empty()) continue;
    Diagnostic d = denial(k, none, "IR0303",
                          before ? fmt::format("{} needs a kernel with {}", pass, name(static_cast<Property>(bit)))
                                 : fmt::format("{} broke its promise of {}", pass, name(static_cast<Property>(bit))),
                          before ? std::string_view{} : pass);
    d.fix = before ? "run the passes before it, or all of them"
                   : "this is a fault of the compiler: report it with the kernel's text";
    found.insert(found.begin(), std::move(d));
    throw Error(std::move(found));
  }
}

PipelineResult finish(Kernel& k, PassContext& context, std::vector<PassStats> stats) {
  k = compact(k);
  // Passes after fusion clone and replace members of groups: the notes are taken again on what they left.
  if (!context.groups.empty()) run_fusion(k, context);
  return {std::move(stats), std::move(context.remarks), std::move(context.groups)};
}

PipelineResult run_list(Kernel& k, std::span<const PassEntry* const> list, const PassOptions& options) {
  PassContext context;
  context.policy = options.policy.value_or(k.numerics);
  context.kernels = options.kernels;
  k.numerics = context.policy;
  std::vector<PassStats> stats;
  for (const PassEntry* pass : list) {
    stats.push_back(run_pass(k, *pass, context, options));
    if (options.after_each) options.after_each(k, *pass);
    if (pass->name == options.stop_after) break;
  }
  return finish(k, context, std::move(stats));
}

const PassEntry& known(std::string_view pass_name) {
  if (const auto* pass = find_pass(pass_name)) return *pass;
  std::string all;
  for (const auto& p : table) all += (all.empty() ? "" : ", ") + std::string(p.name);
  throw Error("IR0304", fmt::format("no pass is called {}", pass_name), "the passes are " + all);
}
}  // namespace

std::string_view name(Property p) {
  switch (p) {
    case no_slots:
      return "variables promoted to values";
    case no_calls:
      return "calls inlined";
    case well_typed:
      return "sound structure and types";
    case convergent:
      return "convergent ops under uniform control";
    case no_dead_ops:
      return "no op without use";
    case no_empty_loops:
      return "no empty loop or branch";
  }
  return "";
}

std::vector<Diagnostic> lacks(const Kernel& k, Property p, std::string_view pass) {
  switch (p) {
    case no_slots:
      return first(k, pass, "IR0305", "a variable is still a slot",
                   [&](OpId id) { return k.op(id).code == Opcode::SlotNew; });
    case no_calls:
      return first(k, pass, "IR0305", "a call is not inlined", [&](OpId id) { return k.op(id).code == Opcode::Call; });
    case well_typed:
      return verify_structure(k, pass);
    case convergent:
      return analysis::verify_convergence(k, pass);
    case no_dead_ops: {
      const auto uses = use_counts(k);
      return first(k, pass, "IR0305", "an op has no use", [&](OpId id) { return uses[id] == 0 && removable(k, id); });
    }
    case no_empty_loops: {
      const auto uses = use_counts(k);
      return first(k, pass, "D06", "a loop or branch has neither effect nor result", [&](OpId id) {
        if (k.op(id).region_count == 0 || k.op(id).code == Opcode::Roles || uses[id] > 0) return false;
        bool acts = false;
        for (u32 i = 0; i < k.op(id).region_count; ++i)
          k.walk(k.region_of(id, i), [&](OpId v) {
            acts |= k.info_of(v).has(Writes | WritesSlot | AtomicOp | Sync | Waits | Fact | Report) ||
                    k.op(v).code == Opcode::Prefetch;
          });
        return !acts;
      });
    }
  }
  return {};
}

std::span<const PassEntry> optimise_passes() { return table; }

const PassEntry* find_pass(std::string_view pass_name) {
  for (const auto& p : table)
    if (p.name == pass_name) return &p;
  return nullptr;
}

PassStats run_pass(Kernel& k, const PassEntry& pass, PassContext& context, const PassOptions& options) {
  require(k, pass.needs, pass.name, true);
  PassStats stats;
  stats.pass = pass.name;
  stats.ops_before = op_count(k);
  context.pass = pass.name;
  const auto start = std::chrono::steady_clock::now();
  stats.changed = pass.run(k, context);
  stats.time_us = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  stats.ops_after = op_count(k);
  if (options.verify) require(k, pass.guarantees, pass.name, false);
  return stats;
}

PipelineResult run_pipeline(Kernel& k, const PassOptions& options) {
  if (!options.stop_after.empty()) known(options.stop_after);
  std::vector<const PassEntry*> list;
  for (const auto& p : table) list.push_back(&p);
  return run_list(k, list, options);
}

PipelineResult run_passes(Kernel& k, std::span<const std::string> names, const PassOptions& options) {
  std::vector<const PassEntry*> list;
  for (const auto& n : names) list.push_back(&known(n));
  return run_list(k, list, options);
}

}  // namespace iron::passes
