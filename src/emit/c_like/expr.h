// C expressions as text with their precedence, so that parentheses stand only where the grammar needs them.
#pragma once

#include <string>
#include <string_view>

namespace iron::emit {

enum class Prec : unsigned char {
  ternary,
  logical_or,
  logical_and,
  bit_or,
  bit_xor,
  bit_and,
  equality,
  relation,
  shift,
  sum,
  product,
  unary,
  primary
};

struct Expr {
  std::string text;
  Prec prec = Prec::primary;
  bool literal = false;  ///< a constant, so an operator on two of them needs a stated type
};

/// The text, in parentheses if it binds no tighter than `outer` (a left operand may bind equally tight).
inline std::string inside(const Expr& e, Prec outer, bool equal_is_fine) {
  const bool bare = equal_is_fine ? e.prec >= outer : e.prec > outer;
  return bare ? e.text : "(" + e.text + ")";
}

inline Expr binary(const Expr& a, std::string_view op, const Expr& b, Prec prec) {
  return {inside(a, prec, true) + " " + std::string(op) + " " + inside(b, prec, false), prec, false};
}
inline Expr unary(std::string_view op, const Expr& a) {
  // An equal operand gets parentheses too: `-(-x)` must not become a decrement.
  return {std::string(op) + inside(a, Prec::unary, false), Prec::unary, false};
}
inline Expr c_cast(std::string_view type, const Expr& a) {
  return {"(" + std::string(type) + ")" + inside(a, Prec::unary, true), Prec::unary, false};
}
inline Expr ternary(const Expr& c, const Expr& a, const Expr& b) {
  return {inside(c, Prec::ternary, false) + " ? " + inside(a, Prec::ternary, false) + " : " +
              inside(b, Prec::ternary, false),
          Prec::ternary, false};
}
inline Expr subscript(const Expr& a, const Expr& i) {
  return {inside(a, Prec::primary, true) + "[" + i.text + "]", Prec::primary, false};
}
inline Expr member(const Expr& a, std::string_view name) {
  return {inside(a, Prec::primary, true) + "." + std::string(name), Prec::primary, false};
}
/// The name stands in the text as a whole word.
bool mentions(const std::string& text, const std::string& name);
inline Expr raw(std::string text) { return {std::move(text), Prec::primary, false}; }

}  // namespace iron::emit
