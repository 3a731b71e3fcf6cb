#include "table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace iron::tool {

namespace {
std::string padded(const std::string& text, int width, Table::Align align) {
  const auto space = std::string(static_cast<std::size_t>(std::max(0, width - display_width(text))), ' ');
  return align == Table::Align::left ? text + space : space + text;
}
}  // namespace

std::string Table::render() const {
  std::vector<int> widths;
  for (const auto& c : columns_) widths.push_back(display_width(c.title));
  for (const auto& r : rows_)
    for (std::size_t i = 0; i < r.size(); ++i) widths.at(i) = std::max(widths[i], display_width(r[i]));
  std::string out;
  const auto line = [&](auto text_of) {
    std::string text;
    for (std::size_t i = 0; i < columns_.size(); ++i) text += "  " + padded(text_of(i), widths[i], columns_[i].align);
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + "\n";
  };
  line([&](std::size_t i) { return styled(Style::dim, columns_[i].title); });
  for (const auto& r : rows_) line([&](std::size_t i) { return i < r.size() ? r[i] : std::string(); });
  return out;
}

std::string cell(const std::optional<double>& value, int decimals) {
  return value ? fmt::format("{:.{}f}", *value, decimals) : std::string();
}
std::string cell(const std::optional<double>& value) {
  if (!value) return {};
  const double size = std::abs(*value);
  return cell(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

}  // namespace iron::tool
