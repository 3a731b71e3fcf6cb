// What a byte-level tokenizer needs of Unicode: reading UTF-8, and telling letters, numbers and white space apart.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "iron/types.h"

namespace iron::model {

enum class Utf8 { valid, invalid, incomplete };

/// The code point at a place of a text. For what is no code point, `length` is the longest prefix that could have begun
/// one (at least 1), and `incomplete` says that the text ends there, so that more bytes may complete it.
struct CodePoint {
  u32 value = 0xfffd;
  u32 length = 1;
  Utf8 status = Utf8::invalid;
};
CodePoint decode_utf8(std::string_view text, std::size_t at);

/// Appends a code point as UTF-8.
void append_utf8(std::string& out, u32 value);

enum class CharKind { letter, number, space, other };

/// General categories L* and N*, and the property White_Space; everything else is `other`.
CharKind char_kind(u32 code_point);

}  // namespace iron::model
