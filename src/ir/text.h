// The canonical text of kernels, and reading it back.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/kernel.h"

namespace iron::ir {

struct PrintOptions {
  bool locations = true;  ///< off for identity bytes, which exclude locations and names (R8)
};

/// The text of a kernel. print(parse(print(k))) is print(k), byte for byte.
std::string print(const Kernel& k, PrintOptions options = {});
/// One op as it stands in the text (without its regions' bodies), for messages.
std::string print_op(const Kernel& k, OpId id);

/// A value as its author would write it, for messages: "x[thread_id() + 64 * group_id(x)]". Casts between integers are
/// left out, deep operands are "...", loop variables are i, j, k by the depth of their loop.
std::string expression(const Kernel& k, OpId id);

/// A scalar as messages show it: "true", "-3", "0.5", "nan".
std::string value_text(DType elem, u64 bits);
/// A value of that type, the bits of one element an entry: "(1, 2, 3, 4)" for vectors.
std::string value_text(Type type, std::span<const u64> elements);
/// The text with each {} replaced by the next value; values without a place follow at the end.
std::string fill_places(std::string_view text, std::span<const std::string> values);

/// Reads one kernel. Errors (IR00xx) point into the text with line, column and caret. `file` names the text in them.
Kernel parse(std::string_view text, std::string_view file = "<text>");
/// Reads every kernel of a file.
std::vector<Kernel> parse_all(std::string_view text, std::string_view file = "<text>");

/// A kernel with all that it calls, callees first: a file that stands by itself. read_module gives its last kernel.
std::string print_module(const Kernel& k);
Kernel read_module(std::string_view text, std::string_view file = "<text>");

/// What identifies a kernel: its canonical text without locations and without parameter names.
std::string identity(const Kernel& k);

}  // namespace iron::ir
