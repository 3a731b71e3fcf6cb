// A kernel of the tier with its inputs and its oracle's result, run as it is or as a mutant of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "exec/exec.h"
#include "iron/hopper.h"

namespace iron::exec::tier {

struct Case {
  std::shared_ptr<ir::Kernel> kernel;
  LaunchGeometry geometry;
  std::vector<f32> expected;
  f32 tolerance = 0;
  /// Runs a kernel (this one, or a mutant of it) on fresh memory; gives the findings, and the largest error, which is
  /// relative above 1.
  std::function<Result(const ir::Kernel&, const Options&, f32& error)> run;
};

template <class T>
std::vector<T> numbers(std::size_t n, u32 seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<f32> d(-1, 1);
  std::vector<T> v(n);
  for (auto& x : v) x = T(d(random));
  return v;
}

/// A run: the inputs bound once, a fresh output each time.
template <class T, class K>
auto runner(const K& sample, std::vector<f32> expected, LaunchGeometry geometry, std::size_t output) {
  // The arguments point into the caller's vectors, which `keep` holds.
  auto args = std::make_shared<std::vector<BoundArg>>(arguments(sample));
  return [args, expected = std::move(expected), geometry, output](const ir::Kernel& k, const Options& o, f32& error) {
    std::vector<T> out(expected.size(), T(77.0f));
    std::vector<LaunchArg> launch;
    for (std::size_t i = 0; i < args->size(); ++i)
      launch.push_back((*args)[i].launch_arg(i == output ? out.data() : (*args)[i].buffer.data));
    Result r = exec::run(k, geometry, launch, o);
    error = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      const f32 d = std::fabs(static_cast<f32>(out[i]) - expected[i]) / std::max(1.0f, std::fabs(expected[i]));
      error = d <= error ? error : d;  // a NaN stays
    }
    return r;
  };
}

template <class F>
auto keeping(std::shared_ptr<void> memory, F f) {
  return [memory = std::move(memory), f = std::move(f)](const ir::Kernel& k, const Options& o, f32& error) {
    return f(k, o, error);
  };
}

}  // namespace iron::exec::tier
