// The fifteen passes as one constant table, and the runner that checks, times and explains them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"

namespace iron::passes {

/// What a kernel is like; passes need and guarantee such properties, and both are checked.
enum Property : u32 {
  no_slots = 1u << 0,       ///< variables are values
  no_calls = 1u << 1,       ///< calls are inlined
  well_typed = 1u << 2,     ///< structure and types hold (verify_structure)
  convergent = 1u << 3,     ///< convergent ops stand under uniform control (verify_convergence)
  no_dead_ops = 1u << 4,    ///< nothing removable is without use
  no_empty_loops = 1u << 5  ///< no loop or branch without effect or result
};
std::string_view name(Property);
/// The findings that deny a property; empty if the kernel has it.
std::vector<Diagnostic> lacks(const ir::Kernel& k, Property p, std::string_view after_pass);

struct PassEntry {
  std::string_view name;
  BitPolicy bits;  ///< what the results keep
  u32 needs;       ///< Property bits before
  u32 guarantees;  ///< Property bits after
  Changed (*run)(ir::Kernel&, PassContext&);
  std::string_view summary;
};

/// Optimisation, in order. Lowering (expand_math, legalisation) follows as a second part with its own entry point.
std::span<const PassEntry> optimise_passes();
/// The pass with that name, or nullptr.
const PassEntry* find_pass(std::string_view pass_name);

struct PassStats {
  std::string pass;
  u64 ops_before = 0, ops_after = 0;
  double time_us = 0;
  bool changed = false;
};

struct PassOptions {
  std::optional<ir::Numerics> policy;       ///< the kernel's own if absent
  std::string stop_after;                   ///< the last pass to run; empty: all
  const KernelRegistry* kernels = nullptr;  ///< what `call` may name
  bool verify =
#ifdef NDEBUG
      false;
#else
      true;
#endif
  /// Runs after each pass; `bisect` compares results here.
  std::function<void(const ir::Kernel&, const PassEntry&)> after_each;
};

struct PipelineResult {
  std::vector<PassStats> stats;
  std::vector<Remark> remarks;
  std::vector<FusionGroup> groups;  ///< ids of the kernel that the pipeline leaves
};

/// Runs one pass: checks what it needs, times it, checks what it guarantees if `options.verify`. Throws iron::Error
/// that names the pass where a check fails.
PassStats run_pass(ir::Kernel& k, const PassEntry& pass, PassContext& context, const PassOptions& options);

/// Runs the fifteen in order and makes ids dense. The kernel's policy becomes the one that ran.
PipelineResult run_pipeline(ir::Kernel& k, const PassOptions& options = {});
/// Runs the named passes in the order given.
PipelineResult run_passes(ir::Kernel& k, std::span<const std::string> names, const PassOptions& options = {});

}  // namespace iron::passes
