// Rows of variants and the templates that they fill in.
#include "iron/variants.h"

#include <fmt/format.h>

#include <charconv>

namespace iron {

const std::string& Variant::word(std::string_view axis) const {
  const auto it = values_.find(axis);
  if (it == values_.end())
    throw Error("LIB04", fmt::format("a variant has no axis {}", axis), "name one of the axes of variants({...})");
  return it->second;
}

u32 Variant::operator[](std::string_view axis) const {
  const std::string& w = word(axis);
  u32 number = 0;
  const auto [end, problem] = std::from_chars(w.data(), w.data() + w.size(), number);
  if (problem != std::errc{} || end != w.data() + w.size())
    throw Error("LIB04", fmt::format("{} of axis {} is no number", w, axis), "read it with word()");
  return number;
}

std::string Variant::text(std::string_view text_template) const {
  std::string out;
  while (!text_template.empty()) {
    const auto open = text_template.find('{');
    out += text_template.substr(0, open);
    if (open == std::string_view::npos) break;
    const auto close = text_template.find('}', open);
    if (close == std::string_view::npos)
      throw Error("LIB04", fmt::format("the template ends inside {}", text_template.substr(open)), "close the brace");
    out += word(text_template.substr(open + 1, close - open - 1));
    text_template.remove_prefix(close + 1);
  }
  return out;
}

VariantAxis::VariantAxis(std::string axis, const std::vector<u32>& numbers) : name(std::move(axis)) {
  for (const u32 n : numbers) values.push_back(std::to_string(n));
}

std::vector<Variant> variants(const std::vector<VariantAxis>& axes) {
  if (axes.empty() || axes[0].values.empty())
    throw Error("LIB04", "variants without a row", "give each axis one value a row");
  std::vector<Variant> rows;
  for (std::size_t i = 0; i < axes[0].values.size(); ++i) {
    std::map<std::string, std::string, std::less<>> row;
    for (const auto& a : axes) {
      if (a.values.size() != axes[0].values.size())
        throw Error("LIB04",
                    fmt::format("axis {} has {} values, axis {} has {}", axes[0].name, axes[0].values.size(), a.name,
                                a.values.size()),
                    "axes are zipped: give all of them the same length");
      if (!row.emplace(a.name, a.values[i]).second)
        throw Error("LIB04", fmt::format("axis {} comes twice", a.name), "rename one of them");
    }
    rows.emplace_back(std::move(row));
  }
  return rows;
}

}  // namespace iron
