// The recorded reference (reference.py documents the files) and the measures by which a candidate's logits are judged.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "iron/types.h"

namespace iron::model {

inline constexpr u32 reference_top = 32, reference_projections = 64;

/// What is known of one step's logits. Layout of a record in reference_steps.bin.
struct ReferenceStep {
  f64 norm;
  f64 projection[reference_projections];
  f32 top_logit[reference_top];
  u32 top_id[reference_top];
  f32 margin() const { return top_logit[0] - top_logit[1]; }
};
static_assert(sizeof(ReferenceStep) == 776);

struct ReferencePrompt {
  std::string name;
  std::vector<u32> tokens, greedy;
  std::span<const ReferenceStep> steps;                    ///< one a greedy token
  std::vector<std::pair<u32, std::span<const f32>>> full;  ///< steps whose logits are recorded whole
};

struct Reference {
  std::string model_sha256;
  u32 vocabulary = 0;
  std::vector<ReferencePrompt> prompts;
  std::vector<ReferenceStep> steps;
  std::vector<f32> full;

  Reference() = default;
  Reference(const Reference&) = delete;  // the prompts point into it
  Reference(Reference&&) = default;
};

/// Reads data/reference*; throws std::runtime_error when a file is missing or its size is wrong.
Reference read_reference(const std::string& folder);

/// sum of +x[i] or -x[i] by bit j of output i of SplitMix64 seeded with zero, for j = 0..63.
std::vector<f64> project(std::span<const f32> logits);

struct Comparison {
  f64 cosine;     ///< exact where full logits are given, else estimated from the projections
  f64 top_error;  ///< largest error over the recorded top
  bool same_argmax;
};
/// Compares a candidate with a step; `full` may be empty.
Comparison compare(std::span<const f32> logits, const ReferenceStep& step, std::span<const f32> full);

}  // namespace iron::model
