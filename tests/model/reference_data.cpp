// Reading of the recorded reference, and cosines against it.
#include "reference_data.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace iron::model {

namespace {
template <class T>
std::vector<T> read_records(const std::string& path, std::size_t count) {
  std::ifstream in(path, std::ios::binary);
  if (!in || std::filesystem::file_size(path) != count * sizeof(T))
    throw std::runtime_error(path + " is missing or has a wrong size; record it again with tests/model/reference.py");
  std::vector<T> out(count);
  in.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(count * sizeof(T)));
  if (!in) throw std::runtime_error(path + " cannot be read");
  return out;
}

u64 splitmix64(u64 i) {
  u64 z = (i + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
}  // namespace

Reference read_reference(const std::string& folder) {
  std::ifstream in(folder + "/reference.json");
  if (!in) throw std::runtime_error(folder + "/reference.json is missing");
  const auto json = nlohmann::json::parse(in);
  if (json.at("top") != reference_top || json.at("projections") != reference_projections)
    throw std::runtime_error("reference.json was recorded with other sizes");
  Reference r;
  r.model_sha256 = json.at("model_sha256");
  r.vocabulary = json.at("vocabulary");
  const std::size_t prompts = json.at("prompts").size(), steps = json.at("steps");
  const std::vector<u32> full_steps = json.at("full_steps");
  r.steps = read_records<ReferenceStep>(folder + "/reference_steps.bin", prompts * steps);
  r.full = read_records<f32>(folder + "/reference_full.bin", prompts * full_steps.size() * r.vocabulary);
  for (std::size_t p = 0; p < prompts; ++p) {
    const auto& row = json.at("prompts")[p];
    ReferencePrompt prompt{row.at("name"), row.at("tokens"), row.at("greedy"), {}, {}};
    prompt.steps = std::span(r.steps).subspan(p * steps, steps);
    for (std::size_t f = 0; f < full_steps.size(); ++f)
      prompt.full.emplace_back(full_steps[f],
                               std::span(r.full).subspan((p * full_steps.size() + f) * r.vocabulary, r.vocabulary));
    r.prompts.push_back(std::move(prompt));
  }
  return r;
}

std::vector<f64> project(std::span<const f32> logits) {
  std::vector<f64> out(reference_projections, 0.0);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const u64 signs = splitmix64(i);
    for (u32 j = 0; j < reference_projections; ++j) out[j] += signs >> j & 1 ? -f64{logits[i]} : f64{logits[i]};
  }
  return out;
}

Comparison compare(std::span<const f32> logits, const ReferenceStep& step, std::span<const f32> full) {
  Comparison c{0, 0, false};
  f64 square = 0;
  for (f32 x : logits) square += f64{x} * f64{x};
  if (!full.empty()) {
    f64 dot = 0, other = 0;
    for (std::size_t i = 0; i < full.size(); ++i)
      dot += f64{logits[i]} * f64{full[i]}, other += f64{full[i]} * f64{full[i]};
    c.cosine = dot / std::sqrt(square * other);
  } else {
    const auto mine = project(logits);
    f64 apart = 0;
    for (u32 j = 0; j < reference_projections; ++j) {
      const f64 d = mine[j] - step.projection[j];
      apart += d * d / reference_projections;
    }
    c.cosine = (square + step.norm * step.norm - apart) / (2 * std::sqrt(square) * step.norm);
  }
  for (u32 t = 0; t < reference_top; ++t)
    c.top_error = std::max(c.top_error, std::abs(f64{logits[step.top_id[t]]} - f64{step.top_logit[t]}));
  const auto best = std::max_element(logits.begin(), logits.end());
  c.same_argmax = static_cast<u32>(best - logits.begin()) == step.top_id[0];
  return c;
}

}  // namespace iron::model
