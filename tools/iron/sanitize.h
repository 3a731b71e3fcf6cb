// One case in the interpreter under every legal schedule, with everything that it finds.
#pragma once

#include <string>
#include <vector>

#include "bundle.h"
#include "runtime/run_case.h"

namespace iron::tool {

struct SanitizeOutcome {
  runtime::Outcome outcome;           ///< failed if any schedule gave a wrong result or an error was found
  std::vector<std::string> findings;  ///< as a compiler prints them, each once
};

/// Runs `source` once a schedule, and kernels generic over the width at every width too.
SanitizeOutcome sanitize(const CaseSource& source, u64 seed);

}  // namespace iron::tool
