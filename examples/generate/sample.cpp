// Choosing the next token with Iron kernels.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "generate/model.h"
#include "iron/error.h"
#include "sampling/greedy.h"
#include "sampling/sampling.h"

namespace iron::model {

TokenId Model::sample(const Sampling& options, std::span<const TokenId> history) {
  const auto wrong = [](const char* what, f32 value, const char* range) {
    throw Error("MODEL04", fmt::format("{} is {}", what, value), fmt::format("use {}", range));
  };
  if (!(options.temperature >= 0 && std::isfinite(options.temperature)))
    wrong("temperature", options.temperature, "0 or more");
  if (!(options.top_p > 0 && options.top_p <= 1)) wrong("top-p", options.top_p, "more than 0, at most 1");
  if (!(options.min_p >= 0 && options.min_p <= 1)) wrong("min-p", options.min_p, "0 to 1");
  if (!(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty)))
    wrong("repetition penalty", options.repetition_penalty, "more than 0");

  if (options.repetition_penalty != 1 && !history.empty()) {
    const auto tokens = device_.buffer(history);
    device_.launch(kernels::LogitsRepetitionPenalty<f32>{
        .logits = logits_, .tokens = tokens, .penalty = options.repetition_penalty});
    device_.synchronize();
  }
  if (options.temperature == 0)
    device_.launch(kernels::SampleGreedy{.logits = logits_, .out = chosen_, .n = config_.vocabulary});
  else
    draw(options);
  TokenId id = 0;
  chosen_.download({&id, 1});
  return id;
}

void Model::draw(const Sampling& options) {
  // The filters see the tempered distribution, as their probabilities mean nothing else.
  device_.launch(
      kernels::LogitsTemperature<f32>{.logits = logits_, .out = filtered_, .temperature = options.temperature});
  const Buffer<f32>*from = &filtered_, *to = &logits_;
  if (options.top_p < 1) {
    device_.launch(
        kernels::LogitsTopPMask<f32>{.logits = *from, .out = *to, .n = config_.vocabulary, .top_p = options.top_p});
    std::swap(from, to);
  }
  if (options.min_p > 0) {
    device_.launch(
        kernels::LogitsMinPMask<f32>{.logits = *from, .out = *to, .n = config_.vocabulary, .min_p = options.min_p});
    std::swap(from, to);
  }
  // Every draw has its own number of the seed's sequence, whatever was drawn before.
  std::seed_seq seeds{static_cast<u32>(options.seed), static_cast<u32>(options.seed >> 32), static_cast<u32>(draws_),
                      static_cast<u32>(draws_ >> 32)};
  ++draws_;
  std::mt19937 random(seeds);
  const f32 number[] = {static_cast<f32>(random() >> 8) * 0x1p-24f}, one[] = {1.0f};
  uniform_.upload(number), temperature_.upload(one);
  device_.launch(kernels::SoftmaxCategoricalSample<f32>{
      .logits = *from, .out = chosen_, .temperature = temperature_, .uniform = uniform_, .n = config_.vocabulary});
}

}  // namespace iron::model
