// Mutants against the test cases of their kernels.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "iron/library.h"

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

struct Counts {
  u64 refused = 0, finding = 0, wrong = 0, equivalent = 0, explained = 0, survived = 0;
  u64 killed() const { return refused + finding + wrong; }
  u64 all() const { return killed() + equivalent + explained + survived; }
  f64 score() const {
    return killed() + survived ? static_cast<f64>(killed()) / static_cast<f64>(killed() + survived) : 0;
  }
  void add(Fate f);
  void add(const Counts& c);
};

/// A stretch of one entry's faults that has been tried.
struct Part {
  std::string kernel;
  u64 begin = 0, end = 0, of = 0;  ///< faults, of so many
  u64 fingerprint = 0;             ///< of the kernel, its faults and its cases
  Counts counts;
  std::vector<Verdict> lived;  ///< explained and survived
};

struct Score {
  Counts counts;
  std::vector<Part> parts;
  std::vector<std::string> broken;  ///< kernels that cannot be tried: they do not record, or fail without a fault
  std::vector<Verdict> survivors() const;
  u64 kernels() const;
};

/// Survivors that no test can kill, one a line: "kernel | fault | file | expression | why"; '#' starts a comment. A
/// kernel may end in '*', the expression, which is Verdict::ir, too.
struct Explanation {
  std::string kernel, fault, file, expression, why;
};
using Explained = std::vector<Explanation>;
Explained read_explained(std::string_view text, const std::string& name);
/// tests/mutation/equivalent.txt as it was when this was built.
std::string_view built_in_explanations();

/// The part, its survivors explained where the list has grown since it was tried.
Part explained_anew(Part part, const Explained& explained);

struct TrialOptions {
  f64 share = 1;              ///< of the faults, spread over all kernels by a hash of their names
  f64 tier_share = 1;         ///< the same for kernels of the Hopper tier, each of which takes the interpreter seconds
  std::string filter;         ///< only kernels whose name contains it
  u32 shard = 0, shards = 1;  ///< every shards-th kernel, from this one on
  Explained explained;
  u32 threads = 1;  ///< that try mutants
  std::function<void(const Verdict&)> note;
  /// A part that has been tried before, if it has: it is not tried again.
  std::function<const Part*(const std::string& kernel, u64 begin, u64 fingerprint)> known;
  std::function<void(const Part&, u64 kernels_done, u64 kernels)> finished;
};

/// Tries what can be tried; the rest is in `broken`.
Score try_mutants(const Registry& registry, const TrialOptions& options);

}  // namespace iron::mutation
