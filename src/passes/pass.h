// What every pass sees: the policy, the remarks it leaves, the kernels it may call, the groups that fusion found.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace iron::passes {

/// True if the pass altered the kernel's text.
using Changed = bool;

/// What a pass keeps: every bit of every result, or all but the rounding that fma saves (R1).
enum class BitPolicy : u8 { exact, fused };

enum class RemarkKind : u8 { done, missed, info };

/// What a pass did or why it did not, at a place of the author's source.
struct Remark {
  RemarkKind kind = RemarkKind::info;
  std::string pass;
  std::string message;
  std::string missing;  ///< missed: the fact that would have allowed it
  std::string file;
  int line = 0;
};

/// Elementwise ops that an emitter may compute in one expression: each but the last has one user, the next.
struct FusionGroup {
  std::vector<ir::OpId> ops;
};

using KernelRegistry = std::map<std::string, const ir::Kernel*, std::less<>>;

struct PassContext {
  ir::Numerics policy = ir::Numerics::exact;
  const KernelRegistry* kernels = nullptr;  ///< what `call` may name
  std::string_view pass;                    ///< the pass that runs
  std::vector<Remark> remarks;
  std::vector<FusionGroup> groups;

  void done(const ir::Kernel& k, ir::OpId at, std::string message) {
    note(RemarkKind::done, k, at, std::move(message), {});
  }
  void info(const ir::Kernel& k, ir::OpId at, std::string message) {
    note(RemarkKind::info, k, at, std::move(message), {});
  }
  void missed(const ir::Kernel& k, ir::OpId at, std::string message, std::string missing) {
    note(RemarkKind::missed, k, at, std::move(message), std::move(missing));
  }

 private:
  void note(RemarkKind kind, const ir::Kernel& k, ir::OpId at, std::string message, std::string missing);
};

std::string_view name(BitPolicy);
std::string_view name(RemarkKind);
/// "file:line: missed [vectorize]: ...; missing: ..."
std::string to_string(const Remark& remark);

// The fifteen, in the order in which they run.
Changed run_kernel_inline(ir::Kernel& k, PassContext& context);
Changed run_type_check(ir::Kernel& k, PassContext& context);
Changed run_const_fold(ir::Kernel& k, PassContext& context);
Changed run_algebraic_simplify(ir::Kernel& k, PassContext& context);
Changed run_copy_prop(ir::Kernel& k, PassContext& context);
Changed run_cse(ir::Kernel& k, PassContext& context);
Changed run_licm(ir::Kernel& k, PassContext& context);
Changed run_if_conversion(ir::Kernel& k, PassContext& context);
Changed run_value_sink(ir::Kernel& k, PassContext& context);
Changed run_fusion(ir::Kernel& k, PassContext& context);
Changed run_fma_fusion(ir::Kernel& k, PassContext& context);
Changed run_unroll(ir::Kernel& k, PassContext& context);
Changed run_schedule(ir::Kernel& k, PassContext& context);
Changed run_vectorize(ir::Kernel& k, PassContext& context);
Changed run_dead_store_elim(ir::Kernel& k, PassContext& context);

}  // namespace iron::passes
