// Results of a long run in a file, so that it can be stopped, resumed, and split over machines; and the report of them.
#pragma once

#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "trial.h"

namespace iron::mutation {

/// The parts of a results file. A part that was cut off while it was written is left out; anything else that is not as
/// written throws MUT03.
std::vector<Part> read_results(const std::string& path);

/// A results file to which parts are added, each at once and whole.
class Journal {
 public:
  explicit Journal(const std::string& path);
  ~Journal();
  Journal(const Journal&) = delete;
  /// A part that an earlier run tried.
  const Part* known(const std::string& kernel, u64 begin, u64 fingerprint) const;
  void add(const Part& part);

 private:
  std::map<std::tuple<std::string, u64, u64>, Part> parts_;
  std::FILE* file_ = nullptr;
};

/// Of each stretch the part that was tried last; all of them together.
Score merged(const std::vector<Part>& parts);
/// A page that says how far the run came, its score, and every survivor with its kernels. `kernels` is how many there
/// are in all.
std::string report(const Score& score, u64 kernels);

}  // namespace iron::mutation
