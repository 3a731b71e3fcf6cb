// One kernel x dtype compiled for a device, as build and inspect show it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "iron/library.h"
#include "runtime/backend.h"
#include "runtime/compile.h"

namespace iron::tool {

/// The threadgroup size that the entry's first test uses for its last launch; 256 threads for a kernel without tests.
Dim3 threads_of(const KernelEntry& e);

/// The kernel compiled for a device. Throws iron::Error.
struct PreparedEntry {
  std::shared_ptr<const runtime::Compiled> compiled;
  std::shared_ptr<runtime::Executable> exe;
};
PreparedEntry prepare(runtime::Backend& backend, const KernelEntry& e);

/// A kind of text that the compiler can show: "ir", "llvm", "asm", "cuda", "ptx", "sass".
struct Stage {
  std::string_view name, backend, extension;  ///< backend: which device makes it; empty: none is needed
};
/// Every stage that some backend of this build makes.
std::vector<Stage> stages();
/// The stage of that name; throws UsageError that lists them.
Stage find_stage(const std::string& name);
/// The text; throws iron::Error if the device cannot be had or has none. CUDA text needs no GPU and PTX only NVRTC:
/// they are made for `arch` ("sm_90a"), or if it is empty for the GPU here, or without one for sm_90a.
std::string stage_text(const Stage& stage, const KernelEntry& e, const std::string& arch = {});
/// The last text before the machine for a backend: "cuda", the CPU's "llvm", else "ir". Throws UsageError for a name
/// that no build has.
Stage final_stage(const std::string& backend);

}  // namespace iron::tool
