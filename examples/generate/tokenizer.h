// Byte-level BPE as GPT-2 and SmolLM2 use it, read from a GGUF file: text to tokens, tokens to text, and the chat
// template.
//
// Errors: TOKEN01 the file's tokenizer is of another kind; TOKEN02 its tables contradict each other; TOKEN03 a token id
// is out of range; TOKEN04 its chat template is not the one this tokenizer writes.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "generate/gguf.h"

namespace iron::model {

using TokenId = u32;

/// The pieces BPE works on: number characters alone, otherwise contractions, words, symbols and white space, each with
/// at most one blank before it. Their concatenation is the text.
std::vector<std::string_view> split_words(std::string_view text);

class Tokenizer {
 public:
  /// Copies what it needs; the file may be closed afterwards.
  explicit Tokenizer(const Gguf& file);

  std::size_t size() const { return texts_.size(); }
  TokenId end_of_turn() const { return end_; }  ///< the token that ends an answer
  bool is_special(TokenId id) const;            ///< control and user-defined tokens, which stand for no text

  /// The tokens of plain text. Nothing in it is read as a special token, whatever it looks like. A byte that the
  /// vocabulary cannot write (SmolLM2 lacks a few control characters, and bytes that occur in no text) is left out.
  std::vector<TokenId> encode(std::string_view text) const;
  /// One special token by its text, such as "<|im_start|>"; TOKEN02 when there is none.
  TokenId special(std::string_view text) const;

  struct Message {
    std::string_view role, text;
  };
  /// The conversation in the file's chat template, ready for the assistant's answer. The template's own system message
  /// is put first unless the messages begin with one.
  std::vector<TokenId> chat(std::span<const Message> messages) const;

  /// The bytes of a token: none for a special one. They may be part of a character only.
  std::string_view bytes(TokenId id) const;
  /// The text of tokens, with U+FFFD for bytes that form no character.
  std::string decode(std::span<const TokenId> ids) const;

 private:
  struct Merge {
    u64 pair;  ///< left id << 32 | right id
    u32 rank;
    TokenId merged;
  };
  const Merge* find_merge(TokenId left, TokenId right) const;
  void encode_word(std::string_view word, std::vector<TokenId>& out) const;
  void check(TokenId id) const;

  std::vector<std::string> texts_;  ///< bytes of ordinary tokens, names of special ones
  std::vector<bool> special_;
  std::map<std::string, TokenId, std::less<>> specials_;
  std::vector<Merge> merges_;               ///< sorted by pair
  std::array<TokenId, 256> byte_tokens_{};  ///< no_token where the vocabulary has no such byte
  TokenId end_ = 0;
  bool chat_known_ = false;
  std::string name_;
};

/// Turns a stream of tokens into text that is valid UTF-8 at every moment.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}
  /// The characters that this token completes.
  std::string push(TokenId id);
  /// What is left at the end: U+FFFD for an unfinished character.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  std::string pending_;
};

}  // namespace iron::model
