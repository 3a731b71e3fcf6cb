// One row an opcode: how a C-like dialect writes it, or why it is refused.
#pragma once

#include <array>
#include <span>

#include "emit/c_like/expr.h"
#include "ir/kernel.h"

namespace iron::emit {

class Emitter;

/// One element of an elementwise op: its operands' expressions for that element.
struct LaneCall {
  ir::OpId id;
  ir::Opcode code;
  DType type;  ///< element type of the result
  DType from;  ///< element type of the first operand; none without operands
  std::span<const Expr> args;
  u64 imm;
};

struct Row {
  using Lane = Expr (*)(Emitter&, const LaneCall&);  ///< the value of one element; each operand's text is used once
  using Statement = void (*)(Emitter&, ir::OpId);    ///< writes lines and defines the op's value
  Lane lane = nullptr;
  Statement statement = nullptr;
  bool operands_once =
      false;  ///< a statement that uses each operand's text once: single-use operands are written in place
  const char* refused = nullptr;  ///< why no dialect can have it at this point

  constexpr bool present() const { return lane || statement || refused; }
};

constexpr Row value_row(Row::Lane f) { return {f, nullptr, true, nullptr}; }
constexpr Row statement_row(Row::Statement f, bool operands_once = false) {
  return {nullptr, f, operands_once, nullptr};
}
constexpr Row refused_row(const char* why) { return {nullptr, nullptr, false, why}; }

struct Table {
  std::array<Row, ir::opcode_count> rows{};
  constexpr Row& operator[](ir::Opcode c) { return rows[static_cast<std::size_t>(c)]; }
  constexpr const Row& operator[](ir::Opcode c) const { return rows[static_cast<std::size_t>(c)]; }
  /// Every opcode has a row: each dialect asserts this of its own table when it is compiled.
  constexpr bool complete() const {
    for (const auto& r : rows)
      if (!r.present()) return false;
    return true;
  }
};

}  // namespace iron::emit
