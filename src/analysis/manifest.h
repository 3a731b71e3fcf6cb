// One kernel as data for tools and users: parameters, what a launch must fulfil, assumptions, capabilities,
// determinism.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

/// The manifest of a kernel. Keys are stable; order is that of the text.
nlohmann::ordered_json manifest(const ir::Kernel& k);

/// The capability atoms that the ops of a kernel need beyond the base set, sorted.
std::vector<std::string> capability_atoms(const ir::Kernel& k);

}  // namespace iron::analysis
