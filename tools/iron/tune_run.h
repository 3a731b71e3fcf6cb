// `iron tune --run`: what was prebuilt, checked and timed on the GPU here.
#pragma once

#include <string>

#include "app.h"
#include "messages.h"
#include "tune_measure.h"

namespace iron::tool {

struct TuneRunOptions {
  std::string folder, out, filter;
  bool no_reference = false;
  MeasureOptions measure;
};

/// Loads `folder`/plan.json and its cubins, times every problem that the filter leaves, writes `out`. Throws
/// iron::Error: TUNE10 for a folder that holds nothing prebuilt, TUNE11 for one that another build of Iron or other
/// settings made, TUNE12 where nothing is for this architecture, CUDA10 without a driver. The result is the exit code.
int run_tuning(const Globals& globals, const TuneRunOptions& options);

}  // namespace iron::tool
