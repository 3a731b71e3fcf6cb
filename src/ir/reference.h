// The op reference, rendered from the op table.
#pragma once

#include <string>

namespace iron::ir {

/// The second half of docs/language.md in Markdown: every op with operands, immediate, effects, scope, capability,
/// meaning.
std::string reference_page();

}  // namespace iron::ir
