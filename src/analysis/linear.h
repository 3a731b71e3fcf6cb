// Linear forms over leaves with the launch's scalars as numbers: what intervals alone forget, namely that two values
// move together.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "analysis/range.h"

namespace iron::analysis {

using Leaf = u32;

/// c + sum of k_i * leaf_i, terms ordered by leaf. Small and copyable; operations report when a form outgrows it.
struct Linear {
  struct Term {
    Leaf leaf = 0;
    i64 k = 0;
    bool operator==(const Term&) const = default;
  };
  static constexpr u32 capacity = 8;
  Wide c = 0;
  u32 n = 0;
  std::array<Term, capacity> t{};

  static Linear constant(Wide v) {
    Linear l;
    l.c = v;
    return l;
  }
  static Linear of(Leaf leaf) {
    Linear l;
    l.n = 1, l.t[0] = {leaf, 1};
    return l;
  }
  bool is_constant() const { return n == 0; }
  bool is_leaf(Leaf leaf) const { return n == 1 && c == 0 && t[0].leaf == leaf && t[0].k == 1; }
  std::span<const Term> terms() const { return {t.data(), n}; }
  i64 coefficient(Leaf leaf) const {
    for (const Term& x : terms())
      if (x.leaf == leaf) return x.k;
    return 0;
  }
  bool operator==(const Linear& o) const {
    return c == o.c && n == o.n && std::equal(t.begin(), t.begin() + n, o.t.begin());
  }

  /// this * a + o * b, or false if it does not fit.
  bool combine(i64 a, const Linear& o, i64 b, Linear& out) const {
    Linear r;
    if (!small(c) || !small(o.c)) return false;
    r.c = c * a + o.c * b;
    if (!small(r.c)) return false;
    u32 i = 0, j = 0;
    while (i < n || j < o.n) {
      const bool left = j >= o.n || (i < n && t[i].leaf <= o.t[j].leaf),
                 right = i >= n || (j < o.n && o.t[j].leaf <= t[i].leaf);
      const Leaf leaf = left ? t[i].leaf : o.t[j].leaf;
      i64 ka = 0, kb = 0, k = 0;
      if (left && __builtin_mul_overflow(t[i++].k, a, &ka)) return false;
      if (right && __builtin_mul_overflow(o.t[j++].k, b, &kb)) return false;
      if (__builtin_add_overflow(ka, kb, &k)) return false;
      if (k == 0) continue;
      if (r.n == capacity) return false;
      r.t[r.n++] = {leaf, k};
    }
    out = r;
    return true;
  }
  static bool small(Wide v) { return v < (Wide{1} << 63) && v >= -(Wide{1} << 63); }
};

}  // namespace iron::analysis
