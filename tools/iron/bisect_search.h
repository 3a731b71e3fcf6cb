// The search of `iron bisect`: the passes one by one, each judged by what it promises to keep.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bundle.h"
#include "passes/pipeline.h"

namespace iron::tool {

/// A pass as the search runs it.
struct SearchPass {
  std::string name;
  passes::BitPolicy bits = passes::BitPolicy::exact;  ///< what the results keep
  std::function<void(ir::Kernel&)> run;               ///< throws iron::Error if a check of the pass fails
};

/// The fifteen, then expand_fast and expand_math.
std::vector<SearchPass> search_passes();

struct PassFinding {
  std::string pass;  ///< "recorded" if the case fails before any pass
  std::string how;
};
/// The first pass after which the interpreter's results on this case leave the pass's policy, if any.
std::optional<PassFinding> bisect_case(const CaseSource& source, u64 seed, const std::vector<SearchPass>& passes);

}  // namespace iron::tool
