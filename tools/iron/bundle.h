// A failing case as one small file: the kernels' IR, the geometry, the arguments and what was expected of them.
#pragma once

#include <memory>
#include <string>

#include "iron/library.h"

namespace iron::tool {

/// What a bundle is made from: an entry's case, made again from its seed so that its buffers are untouched.
struct CaseSource {
  const KernelEntry* entry = nullptr;
  std::string name;  ///< of the test, or the shape of the bench
  bool bench = false;
  Tolerance tolerance;
  std::function<Case(Gen&)> make;
};

/// Every test of an entry, and with `benches` every bench shape; a bench is judged by the loosest tolerance of the
/// tests.
std::vector<CaseSource> cases_of(const KernelEntry& e, bool benches);

/// Writes the bundle and returns its path. Buffers of up to 4 MiB together travel inside; larger ones are made again
/// from the seed by the same build.
std::string write_bundle(const CaseSource& source, u64 seed, const std::string& backend, const std::string& message,
                         const std::string& folder);

struct LoadedBundle {
  std::string kernel, case_name, backend, message;
  std::unique_ptr<Gen> gen;
  std::vector<std::shared_ptr<std::vector<std::byte>>> memory;
  Case c;
  Tolerance tolerance;
};
/// Throws iron::Error (REPLAY01) that says what is wrong with the file.
LoadedBundle load_bundle(const std::string& path);

}  // namespace iron::tool
