// Variants of one kernel: a row of values for each, and names, docs and cases made from the row by templates.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "iron/error.h"
#include "iron/types.h"

namespace iron {

/// One row of the axes: a value for each axis.
class Variant {
 public:
  explicit Variant(std::map<std::string, std::string, std::less<>> values) : values_(std::move(values)) {}
  /// The template with each {AXIS} replaced by the row's value: `v.text("qmv_b{BITS}")`. LIB04 for an unknown axis or
  /// an open brace.
  std::string text(std::string_view text_template) const;
  /// The row's value as a number; LIB04 where it is none.
  u32 operator[](std::string_view axis) const;
  const std::string& word(std::string_view axis) const;

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

/// One axis: its name and a value a row, numbers or words.
struct VariantAxis {
  VariantAxis(std::string axis, const std::vector<u32>& numbers);
  /// Numbers in braces: without it {1u} would also be words for some compilers.
  VariantAxis(std::string axis, std::initializer_list<u32> numbers)
      : VariantAxis(std::move(axis), std::vector<u32>(numbers)) {}
  VariantAxis(std::string axis, std::vector<std::string> words) : name(std::move(axis)), values(std::move(words)) {}
  std::string name;
  std::vector<std::string> values;
};

/// The rows of axes of equal length, zipped, not multiplied:
/// `for (const auto& v : variants({{"BITS", {3u, 4u}}, {"GROUP", {32u, 64u}}}))` has the rows (3, 32) and (4, 64).
/// LIB04 where lengths differ, an axis comes twice or there is no row.
std::vector<Variant> variants(const std::vector<VariantAxis>& axes);

}  // namespace iron
