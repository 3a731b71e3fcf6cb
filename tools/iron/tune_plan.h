// What `iron tune` compiles and times: the plan that a person writes, and what is prebuilt from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app.h"
#include "messages.h"
#include "product.h"

namespace iron::tool {

/// A kernel under one specialisation for one architecture, and what it is to be timed on: shapes of products, or
/// registered benches of any kernel.
struct PlanItem {
  const KernelEntry* entry = nullptr;
  std::string spec;  ///< as KernelInstance::specialise() takes it; empty: as registered
  std::string arch;
  std::vector<ProductShape> shapes;
  std::vector<std::string> benches;
  std::string place;  ///< "plan.json, entries[2]", for messages
};
struct Plan {
  u64 seed = 1;
  std::vector<PlanItem> items;
};

/// The GEMM family: its tiles and its Hopper members over square and skinny products.
Plan default_plan(const std::vector<std::string>& archs);
/// The plan in a JSON text; `archs` hold where it names none. Throws iron::Error that names the file, the entry and
/// what can be written instead: TUNE01 no plan, TUNE02 an unknown key or a value of the wrong kind, TUNE03 an unknown
/// kernel, TUNE04 a specialisation that the kernel does not have, TUNE05 a shape or bench, TUNE06 an architecture.
Plan read_plan(const std::string& text, const std::string& file, const std::vector<std::string>& archs);

/// One launch that the plan asks for, recorded and checked, not yet compiled.
struct PlannedLaunch {
  const PlanItem* item = nullptr;
  std::string spec;  ///< in full
  std::shared_ptr<const ir::Kernel> optimised;
  LaunchGeometry geometry;
  u64 bytes = 0;
  f64 flops = 0;
  std::optional<ProductShape> shape;  ///< of a product
  std::string bench;                  ///< else the bench
  std::size_t step = 0;               ///< and which of its launches
};
/// Every launch of the plan, in its order. Throws TUNE05 for a shape that the launch contract or the tensor unit
/// refuses.
std::vector<PlannedLaunch> launches_of(const Plan& plan);

/// Compiles into `folder`: plan.json, and a cubin and a text a kernel. Returns the number of kernels compiled. Throws
/// iron::Error with every kernel that does not compile (TUNE07) and then writes nothing.
std::size_t prebuild(const Plan& plan, const std::string& folder, const Globals& globals);

}  // namespace iron::tool
