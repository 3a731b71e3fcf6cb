// Running seeds through judges, and keeping what fails as a small textual test.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "judges.h"

namespace iron::fuzz {

struct Report {
  u64 seed = 0;
  std::string judge, kind, text;
};

struct SessionOptions {
  u64 first = 1, last = 1;
  std::vector<const Judge*> judges;  ///< empty: all
  u64 code_every = 1;                ///< judges that compile (lowering, cpu) see every n-th seed
  bool shrink = false;
  std::string folder;  ///< where failing kernels are written; empty: nowhere
  u64 most_failures = 20;
  std::function<void(u64 seed, u64 failures)> progress;
  std::function<void(const Report&)> found;  ///< as soon as it is kept
};

/// Every failure. A kernel that is not sound is a failure of its own and sees no other judge.
std::vector<Report> run_session(const SessionOptions& options);
/// Shrinks, writes, and describes one failure, with the command that replays it.
Report keep(u64 seed, const Judge& judge, const Subject& s, const Failure& f, bool small, const std::string& folder);

}  // namespace iron::fuzz
