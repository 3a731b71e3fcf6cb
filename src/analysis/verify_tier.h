// The Hopper tier's own errors: bytes, boxes, pipelines, what is in flight.
#pragma once

#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

/// D11 a tensor copied in two boxes; D12 a view whose start is not shown to suit its swizzle; D15 what one proxy wrote
/// read by the other; D31 expected bytes and slots; TIER03 accumulators in flight; TIER04 pipelines that do not
/// balance.
std::vector<Diagnostic> verify_tier(const ir::Kernel& k, std::string_view after_pass = {});

}  // namespace iron::analysis
