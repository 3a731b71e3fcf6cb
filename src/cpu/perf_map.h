// Names of compiled kernels for perf.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace iron::cpu {

/// With IRON_PERF_MAP set, adds the functions of a linked object to /tmp/perf-PID.map, which perf reads. `entry` is
/// where `symbol` came to lie.
void note_for_perf(std::span<const char> object, const std::string& symbol, const void* entry);

}  // namespace iron::cpu
