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
#include "reference.h"

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
  std::optional<Reference> reference;  ///< with --reference, where the vendor has the same product
  std::string reference_message;       ///< or why there is none
  bool reference_failed = false;
  std::optional<kernels::GemmSelection> selection;  ///< of a product: the member for it on this device
  bool selected = false;                            ///< and it is that one which was timed
  u64 bytes = 0, working_set = 0;
  f64 max_error = 0;
  bool launch_bound = false;
};

/// Tables, one a family. `verbosity` adds columns.
std::string render(const std::vector<BenchRow>& rows, int verbosity);
/// "✓" passed, "✗" failed, "!" unchecked, "—" unavailable.
std::string mark(Checked c);
Json to_json(const BenchRow& row);
/// Which member of the family stands for the row's product here, and why. The row has a selection.
std::string member_note(const BenchRow& row);

}  // namespace iron::tool
