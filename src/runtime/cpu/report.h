// Lines of print(...) and check(...), as the interpreter writes them.
#pragma once

#include <string>

#include "ir/kernel.h"

namespace iron::runtime {

/// `values` holds the op's operands, a 64-bit word an element.
std::string report_line(const ir::Kernel& kernel, ir::OpId op, u64 thread, u64 threads_per_group, const u64* values);

}  // namespace iron::runtime
