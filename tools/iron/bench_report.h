// What a benchmark leaves: rows, their table and their JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app.h"
#include "bench/timer.h"
#include "bench/verdict.h"
#include "iron/library.h"
#include "messages.h"

namespace iron::tool {

enum class Checked { passed, failed, unchecked, unavailable };

struct BenchRow {
  const KernelEntry* entry = nullptr;
  std::string shape, message;
  Checked checked = Checked::unavailable;
  std::optional<bench::Timing> timing;  ///< only of what passed
  bench::Metrics metrics;
  std::string engine;  ///< what the share of FLOP is a share of
  std::vector<std::pair<std::string, double>> resources;
  std::vector<std::string> warnings;
  u64 bytes = 0, working_set = 0;
  f64 max_error = 0;
  bool launch_bound = false;
};

/// Tables, one a family. `verbosity` adds columns.
std::string render(const std::vector<BenchRow>& rows, int verbosity);
/// "✓" passed, "✗" failed, "!" unchecked, "—" unavailable.
std::string mark(Checked c);
Json to_json(const BenchRow& row);

}  // namespace iron::tool
