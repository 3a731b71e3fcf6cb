// UTF-8 reading by the table of well-formed sequences, and category look-up by binary search.
#include "generate/unicode.h"

#include <algorithm>
#include <iterator>

#include "generate/unicode_tables.h"

namespace iron::model {

CodePoint decode_utf8(std::string_view text, std::size_t at) {
  const u32 lead = static_cast<u8>(text[at]);
  if (lead < 0x80) return {lead, 1, Utf8::valid};
  const u32 length = lead >= 0xc2 && lead < 0xe0   ? 2
                     : lead >= 0xe0 && lead < 0xf0 ? 3
                     : lead >= 0xf0 && lead < 0xf5 ? 4
                                                   : 0;
  if (length == 0) return {};
  u32 value = lead & (0x7fu >> length);
  for (u32 i = 1; i < length; ++i) {
    if (at + i == text.size()) return {0xfffd, i, Utf8::incomplete};
    const u32 next = static_cast<u8>(text[at + i]);
    // The second byte's bounds exclude overlong forms, surrogates and what lies beyond U+10FFFF.
    const u32 low = i > 1 ? 0x80 : lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    const u32 high = i > 1 ? 0xbf : lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (next < low || next > high) return {0xfffd, i, Utf8::invalid};
    value = value << 6 | (next & 0x3f);
  }
  return {value, length, Utf8::valid};
}

void append_utf8(std::string& out, u32 value) {
  const auto put = [&](u32 byte) { out += static_cast<char>(static_cast<u8>(byte)); };
  if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xc0 | value >> 6);
    put(0x80 | (value & 0x3f));
  } else if (value < 0x10000) {
    put(0xe0 | value >> 12);
    put(0x80 | (value >> 6 & 0x3f));
    put(0x80 | (value & 0x3f));
  } else {
    put(0xf0 | value >> 18);
    put(0x80 | (value >> 12 & 0x3f));
    put(0x80 | (value >> 6 & 0x3f));
    put(0x80 | (value & 0x3f));
  }
}

namespace {
template <std::size_t N>
bool contains(const CodePointRange (&ranges)[N], u32 c) {
  const auto after = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                      [](u32 value, const CodePointRange& r) { return value < r.first; });
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

bool is_space(u32 c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
         c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}
}  // namespace

CharKind char_kind(u32 c) {
  if (is_space(c)) return CharKind::space;
  if (contains(letter_ranges, c)) return CharKind::letter;
  if (contains(number_ranges, c)) return CharKind::number;
  return CharKind::other;
}

}  // namespace iron::model
