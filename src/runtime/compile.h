// From recorded kernel to something a backend can prepare: passes, expansions, verification, contract.
#pragma once

#include <memory>

#include "analysis/contract.h"
#include "ir/kernel.h"

namespace iron::runtime {

/// A kernel after the whole pipeline, with the contract derived from what will run.
struct Compiled {
  std::shared_ptr<const ir::Kernel> recorded, optimised;
  analysis::Contract contract;
  std::string identity;  ///< of the optimised kernel: what caches are keyed by
};

/// Runs the pipeline under the kernel's own numerics policy, then the expansions. Kept by the identity of the recorded
/// kernel, so that a kernel is compiled once a process. `fast_*` ops stay for devices that have instructions for them;
/// the interpreter and the CPU expand them. Throws iron::Error with every finding of the verifier.
std::shared_ptr<const Compiled> compile_for(std::string_view backend,
                                            const std::shared_ptr<const ir::Kernel>& recorded);

/// The same, as often as it is called: what a first use costs.
std::shared_ptr<const Compiled> compile_anew(std::string_view backend,
                                             const std::shared_ptr<const ir::Kernel>& recorded);

}  // namespace iron::runtime
