// Strided intervals of integers: the bounds of a value and its residue, in 128 bits so that nothing here overflows.
#pragma once

#include <string>

#include "ir/op.h"
#include "ir/type.h"

namespace iron::analysis {

__extension__ typedef __int128 Wide;  // NOLINT(modernize-use-using): __extension__ does not go with `using`

/// The integers from `lo` to `hi` that are `rem` modulo `mod`. Empty when lo > hi. A point has any residue.
struct Range {
  Wide lo = 0, hi = -1;
  u64 mod = 1;  ///< at least 1
  u64 rem = 0;

  static Range point(Wide v) { return {v, v, 1, 0}; }
  static Range between(Wide lo, Wide hi) { return {lo, hi, 1, 0}; }
  /// Every value of an element type; [0, 1] for bool, 64 signed bits for index.
  static Range of(DType type);
  bool empty() const { return lo > hi; }
  bool is_point() const { return lo == hi; }
  bool within(const Range& o) const { return empty() || (lo >= o.lo && hi <= o.hi); }
  bool operator==(const Range&) const = default;
  /// The multiple of which every value is a known residue: 0 for a point, which fits all.
  u64 stride() const { return is_point() ? 0 : mod; }
  /// The residue modulo `m`, if all values share it.
  bool residue(u64 m, u64& out) const;
};

Range intersect(Range a, Range b);
Range hull(const Range& a, const Range& b);
Range congruent(Range a, u64 mod, Wide rem);  ///< the members of `a` that are `rem` modulo `mod`

Range operator+(const Range& a, const Range& b);
Range operator-(const Range& a, const Range& b);
Range operator*(const Range& a, const Range& b);
Range scale(const Range& a, Wide k);

/// The range of one scalar integer op of that result type (R3: wraps modulo 2^N; index wraps at 64 bits, which the
/// launch contract then refuses to use). `wrapped` is set when some value does not fit the type.
Range apply(ir::Opcode code, DType type, const Range& a, const Range& b, bool& wrapped);
/// The range of a conversion between integer types, bool included.
Range convert(DType from, DType to, const Range& a);

/// The number that bits of an integer type, bool or index mean.
Wide decode(DType type, u64 bits);
Wide floor_div(Wide a, Wide b);  ///< b > 0
std::string to_string(Wide v);
std::string to_string(const Range& r);  ///< "[0, 4095]"

}  // namespace iron::analysis
