// Machine code for subjects, where the CPU device is built.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "subject.h"

namespace iron::fuzz {

/// Targets that run here, the widest last; empty without the CPU device.
std::vector<std::string> native_targets();
void run_native(const ir::Kernel& k, const Subject& s, Memory& memory, std::string_view target);

}  // namespace iron::fuzz
