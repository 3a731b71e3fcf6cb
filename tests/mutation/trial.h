// Mutants against the test cases of their kernels.
#pragma once

#include <functional>
#include <map>
#include <memory>

#include "iron/library.h"
#include "mutants.h"

namespace iron::mutation {

enum class Fate : u8 { killed_refused, killed_finding, killed_wrong, equivalent, explained, survived };
std::string_view name(Fate f);

struct Verdict {
  std::string kernel;  ///< "iron_rms_norm_f16"
  std::string mutant;  ///< Mutation::id()
  Fate fate = Fate::survived;
  std::string ir, where;  ///< the op as it stood, and its source line
  std::string why;        ///< of an explained survivor
};

struct Score {
  u64 killed = 0, equivalent = 0, explained = 0, survived = 0, kernels = 0;
  std::vector<Verdict> survivors;
  std::vector<std::string> broken;  ///< kernels that cannot be tried: they do not record, or fail without a fault
  double value() const {
    return killed + survived ? static_cast<double>(killed) / static_cast<double>(killed + survived) : 0;
  }
};

/// Survivors that no test can kill, one a line: "kernel | fault | file | expression | why"; '#' starts a comment. A
/// kernel may end in '*', the expression, which is Verdict::ir, too.
struct Explanation {
  std::string kernel, fault, file, expression, why;
};
using Explained = std::vector<Explanation>;
Explained read_explained(const std::string& path);

struct TrialOptions {
  u64 sample = 0;       ///< mutants to try, spread over all kernels by a hash of their names; 0: all
  u64 tier_sample = 0;  ///< the same for kernels of the Hopper tier, each of which takes the interpreter seconds
  std::string filter;   ///< only kernels whose name contains it
  Explained explained;
  u32 threads = 1;  ///< that try mutants, each those of one kernel
  std::function<void(u64 done, u64 all, const Verdict&)> progress;
};

/// Tries what can be tried; the rest is in `broken`.
Score try_mutants(const Registry& registry, const TrialOptions& options);

}  // namespace iron::mutation
