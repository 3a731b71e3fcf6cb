// Tables of text: columns as wide as what they hold, numbers to the right, blank for unknown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "terminal.h"

namespace iron::tool {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string title;
    Align align = Align::left;
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  /// One row; cells may carry colour. A row with fewer cells ends blank.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  /// The table with its header, each line indented by two spaces and ended.
  std::string render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

/// A number with so many decimals, or blank.
std::string cell(const std::optional<double>& value, int decimals);
/// Three significant digits or so: 0.123, 1.23, 12.3, 123, 1234.
std::string cell(const std::optional<double>& value);

}  // namespace iron::tool
