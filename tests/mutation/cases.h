// One kernel's cases, made once and run again for each mutant.
#pragma once

#include <map>
#include <memory>

#include "analysis/contract.h"
#include "iron/library.h"
#include "mutants.h"
#include "trial.h"

namespace iron::mutation {

/// A kernel as it runs, with its launch contract.
struct Ready {
  explicit Ready(ir::Kernel k) : kernel(std::move(k)), contract(analysis::derive(kernel)) {}
  ir::Kernel kernel;
  analysis::Contract contract;
};

struct Subject {
  ir::Kernel kernel;      ///< canonical, calls inlined
  ir::Kernel executable;  ///< the same ops with transcendental functions expanded
  std::shared_ptr<const Ready> ready;
  std::string optimised;
  std::vector<Mutation> mutations;
  /// The mutant as it runs; none where nobody could run it.
  std::optional<ir::Kernel> mutant(const Mutation& m) const;
};

/// The cases of one library entry with the kernels of their steps, by key.
class Cases {
 public:
  explicit Cases(const KernelEntry& e);

  const std::map<std::string, Subject>& kernels() const { return kernels_; }
  /// Of the kernels, their faults and all that the cases hold: equal for equal verdicts.
  u64 fingerprint() const;
  /// Runs every case without a fault. Throws MUT01 where one fails.
  void check_original();
  /// What becomes of a mutant: the first case that notices, most telling first; nothing if nobody could run it.
  std::optional<Fate> fate(const std::string& key, const Mutation& mutation);

 private:
  struct Run {
    std::unique_ptr<Gen> gen;
    Case made;
    Tolerance tolerance;
    std::string name;
    std::vector<std::pair<std::byte*, std::vector<std::byte>>> before;
    std::vector<u64> instructions;  ///< of each step without a fault
    u64 work = 1;                   ///< lane-ops without a fault
    u64 tried = 0, killed = 0;
    /// Expected lane-ops until a mutant is killed.
    f64 price() const { return static_cast<f64>(work) * static_cast<f64>(tried + 2) / static_cast<f64>(killed + 1); }
  };
  void add_kernel(const Step& step);
  std::optional<Fate> attempt(Run& run, const std::string& key, const Ready* mutant, std::string& detail);

  const KernelEntry& entry_;
  std::vector<Run> runs_;
  std::map<std::string, Subject> kernels_;
  u64 work_ = 0;  ///< of all cases
};

}  // namespace iron::mutation
