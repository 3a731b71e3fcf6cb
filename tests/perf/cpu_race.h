// Paired measurement: arms alternate, the order turns round from one round to the next, ratios are taken within a
// round.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "iron/types.h"

namespace iron::perf {

inline f64 now() { return std::chrono::duration<f64>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
inline f64 median(std::vector<f64> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v.size() % 2 ? v[v.size() / 2] : (v[v.size() / 2 - 1] + v[v.size() / 2]) / 2;
}

struct Arm {
  std::string name;
  f64 work = 0;  ///< of one run: flops, or bytes read and written
  std::function<void()> run;
  f64 floor = 0;  ///< what Iron's rate divided by this arm's must reach; 0: orientation
  std::vector<f64> seconds{};
  f64 rate() const { return work / median(seconds); }
};

/// Runs the arms for `rounds` rounds, each arm for about `least` seconds a round.
inline void race(std::vector<Arm>& arms, u32 rounds, f64 least) {
  std::vector<u32> repeats;
  for (auto& a : arms) {
    a.run();
    const f64 start = now();
    u32 n = 0;
    do {
      a.run();
      ++n;
    } while (now() - start < least);
    repeats.push_back(n);
  }
  for (u32 r = 0; r < rounds; ++r)
    for (std::size_t i = 0; i < arms.size(); ++i) {
      const std::size_t at = r % 2 ? arms.size() - 1 - i : i;
      const f64 start = now();
      for (u32 n = 0; n < repeats[at]; ++n) arms[at].run();
      arms[at].seconds.push_back((now() - start) / repeats[at]);
    }
}

/// The first arm's rate divided by another's: median over the rounds.
inline f64 ratio(const Arm& first, const Arm& other) {
  std::vector<f64> all;
  for (std::size_t i = 0; i < first.seconds.size(); ++i)
    all.push_back(first.work / first.seconds[i] / (other.work / other.seconds[i]));
  return median(all);
}

}  // namespace iron::perf
