// Random numbers that are the same with every compiler and library.
#pragma once

#include <span>

#include "iron/types.h"

namespace iron::fuzz {

/// SplitMix64. Callers draw one number a statement: C++ leaves the order of evaluation of arguments open.
class Random {
 public:
  explicit Random(u64 seed) : state_(seed) {}
  u64 next() {
    u64 z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  u64 below(u64 n) { return next() % n; }
  i64 between(i64 low, i64 high) { return low + static_cast<i64>(below(static_cast<u64>(high - low) + 1)); }
  bool chance(u32 percent) { return below(100) < percent; }
  template <class T>
  const T& pick(std::span<const T> from) {
    return from[below(from.size())];
  }
  template <class C>
  const auto& pick(const C& from) {
    return from[below(from.size())];
  }
  template <class T, std::size_t N>
  const T& pick(const T (&from)[N]) {
    return from[below(N)];
  }

 private:
  u64 state_;
};

}  // namespace iron::fuzz
