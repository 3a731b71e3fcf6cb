// The tokenizer on small vocabularies made here: splitting, merging order, special tokens, streaming, and bad tables.
#include "generate/tokenizer.h"

#include <gtest/gtest.h>

#include <functional>

#include "generate/prompts.h"
#include "generate/unicode.h"
#include "gguf_writer.h"
#include "iron/error.h"

namespace iron::model {
namespace {

using Words = std::vector<std::string>;

Words words(std::string_view text) {
  Words out;
  for (auto w : split_words(text)) out.emplace_back(w);
  return out;
}

std::string code_of(const std::function<void()>& act, std::string* text = nullptr) {
  try {
    act();
  } catch (const Error& e) {
    if (text) *text = e.what();
    return e.code();
  }
  return "none";
}

TEST(Utf8, WellFormedAndOnlyThat) {
  std::string all;
  for (u32 c = 0; c < 0x110000; ++c) {
    if (c >= 0xd800 && c < 0xe000) continue;
    std::string one;
    append_utf8(one, c);
    const CodePoint p = decode_utf8(one, 0);
    ASSERT_EQ(p.status, Utf8::valid);
    ASSERT_EQ(p.value, c);
    ASSERT_EQ(p.length, one.size());
    for (std::size_t cut = 1; cut < one.size(); ++cut) {
      const CodePoint part = decode_utf8(std::string_view(one).substr(0, cut), 0);
      ASSERT_EQ(part.status, Utf8::incomplete);
      ASSERT_EQ(part.length, cut);
    }
  }
  // Overlong forms, surrogates, beyond the last code point, lone continuations, and a broken sequence's prefix.
  for (const char* bad : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\x80", "\xff"}) {
    const CodePoint p = decode_utf8(bad, 0);
    EXPECT_EQ(p.status, Utf8::invalid);
    EXPECT_EQ(p.length, 1u);
  }
  EXPECT_EQ(decode_utf8("\xe2\x82x", 0).length, 2u);
  EXPECT_EQ(decode_utf8("\xe2\x82x", 0).status, Utf8::invalid);
}

TEST(CharKinds, TableEdges) {
  EXPECT_EQ(char_kind('A'), CharKind::letter);
  EXPECT_EQ(char_kind('@'), CharKind::other);
  EXPECT_EQ(char_kind('['), CharKind::other);
  EXPECT_EQ(char_kind('0'), CharKind::number);
  EXPECT_EQ(char_kind(0xbd), CharKind::number);    // one half
  EXPECT_EQ(char_kind(0x2160), CharKind::number);  // Roman one
  EXPECT_EQ(char_kind(0x4e00), CharKind::letter);  // a CJK digit is a letter
  EXPECT_EQ(char_kind(0x301), CharKind::other);    // combining mark
  EXPECT_EQ(char_kind(0xa0), CharKind::space);
  EXPECT_EQ(char_kind(0x200b), CharKind::other);  // zero width space is a format character
  EXPECT_EQ(char_kind(0x3000), CharKind::space);
  EXPECT_EQ(char_kind(0xfffd), CharKind::other);
  EXPECT_EQ(char_kind(0), CharKind::other);
  EXPECT_EQ(char_kind(0x10ffff), CharKind::other);
}

TEST(SplitWords, GptTwoRulesWithLoneNumbers) {
  EXPECT_EQ(words(""), Words{});
  EXPECT_EQ(words("Hello, world!"), (Words{"Hello", ",", " world", "!"}));
  EXPECT_EQ(words("it's we're I'LL"), (Words{"it", "'s", " we", "'re", " I", "'", "LL"}));
  EXPECT_EQ(words("12 3"), (Words{"1", "2", " ", "3"}));
  EXPECT_EQ(words("a 1"), (Words{"a", " ", "1"}));
  EXPECT_EQ(words("   x"), (Words{"  ", " x"}));
  EXPECT_EQ(words(" \n x"), (Words{" \n", " x"}));
  EXPECT_EQ(words("\nx"), (Words{"\n", "x"}));
  EXPECT_EQ(words("\n\nx"), (Words{"\n", "\n", "x"}));
  EXPECT_EQ(words("x  "), (Words{"x", "  "}));
  EXPECT_EQ(words(" 's''s"), (Words{" '", "s", "''", "s"}));
  EXPECT_EQ(words("\u00a0x"), (Words{"\u00a0", "x"}));
  EXPECT_EQ(words("\xff\xfe"
                  "a"),
            (Words{"\xff\xfe", "a"}));
}

TEST(SplitWords, PiecesAlwaysJoinToTheText) {
  std::string text;
  for (u32 i = 0; i < 5000; ++i) text += static_cast<char>(static_cast<u8>(i * i * 31 + i / 7));
  std::string joined;
  for (auto w : split_words(text)) {
    EXPECT_FALSE(w.empty());
    joined += w;
  }
  EXPECT_EQ(joined, text);
}

// Ids: 0 <end>, 1 <start>, then single letters and blank (whose byte letter is U+0120), then merged tokens.
GgufWriter vocabulary() {
  GgufWriter w;
  w.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "smollm");
  w.strings("tokenizer.ggml.tokens", {"<|im_end|>", "<|im_start|>", "a", "b", "c", "\u0120", "ab", "bc", "abc",
                                      "\u0120ab", "\u00e2", "\u0124", "\u00ac", "aa", "aaaa"});
  w.integers("tokenizer.ggml.token_type", {3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
  w.strings("tokenizer.ggml.merges", {"b c", "a b", "a bc", "\u0120 ab", "a a", "aa aa"});
  w.number("tokenizer.ggml.eos_token_id", 0);
  return w;
}

Tokenizer make(const GgufWriter& w) {
  const std::string text = w.text();
  return Tokenizer(Gguf::parse(bytes_of(text), "test.gguf"));  // outlives the file
}

using Ids = std::vector<TokenId>;

TEST(Tokenizer, LowestRankFirstThenLeftmost) {
  const Tokenizer t = make(vocabulary());
  EXPECT_EQ(t.encode("abc"), (Ids{8}));  // b c joins before a b
  EXPECT_EQ(t.encode("ab"), (Ids{6}));
  EXPECT_EQ(t.encode("abab c"), (Ids{6, 6, 5, 4}));
  EXPECT_EQ(t.encode(" ab"), (Ids{9}));
  EXPECT_EQ(t.encode(" abc"), (Ids{5, 8}));  // a bc outranks blank ab
  EXPECT_EQ(t.encode("aaa"), (Ids{13, 2}));  // the leftmost of two equal pairs
  EXPECT_EQ(t.encode("aaaaa"), (Ids{14, 2}));
  EXPECT_EQ(t.encode("aaaaaa"), (Ids{14, 13}));
  EXPECT_EQ(t.encode(""), Ids{});
}

TEST(Tokenizer, SpecialTokensAreNeverReadFromText) {
  const Tokenizer t = make(vocabulary());
  EXPECT_EQ(t.special("<|im_start|>"), 1u);
  EXPECT_TRUE(t.is_special(0));
  EXPECT_FALSE(t.is_special(2));
  EXPECT_EQ(t.end_of_turn(), 0u);
  for (TokenId id : t.encode("a<|im_start|>b")) EXPECT_FALSE(t.is_special(id));
  EXPECT_EQ(t.bytes(1), "");
  EXPECT_EQ(code_of([&] { t.special("<|none|>"); }), "TOKEN02");
  EXPECT_EQ(code_of([&] { t.bytes(15); }), "TOKEN03");
  EXPECT_EQ(code_of([&] { t.is_special(15); }), "TOKEN03");
}

TEST(Tokenizer, ALongWordTakesNoQuadraticTime) {
  const Tokenizer t = make(vocabulary());
  const std::string text(1 << 18, 'a');
  EXPECT_EQ(t.encode(text).size(), text.size() / 4);
}

TEST(StreamDecoder, TextIsWholeCharactersAtEveryMoment) {
  const Tokenizer t = make(vocabulary());
  StreamDecoder s(t);
  EXPECT_EQ(s.push(9), " ab");
  EXPECT_EQ(s.push(10), "");  // the euro sign: e2 82 ac, one byte a token
  EXPECT_EQ(s.push(1), "");   // a special token is no text and breaks nothing
  EXPECT_EQ(s.push(11), "");
  EXPECT_EQ(s.push(12), "\u20ac");
  EXPECT_EQ(s.push(10), "");
  EXPECT_EQ(s.push(2), "\ufffda");  // a character that never ends
  EXPECT_EQ(s.push(12), "\ufffd");  // one that never began
  EXPECT_EQ(s.push(10), "");
  EXPECT_EQ(s.finish(), "\ufffd");
  EXPECT_EQ(s.finish(), "");
  const Ids ids{9, 10, 11, 12, 0, 10};
  EXPECT_EQ(t.decode(ids), " ab\u20ac\ufffd");
}

TEST(Tokenizer, TablesThatContradictAreErrors) {
  const auto with = [](const std::string& key, const Bytes& value) {
    GgufWriter w = vocabulary();
    for (auto& [name, bytes] : w.keys)
      if (name == key) bytes = value.text();
    std::string text;
    const std::string code = code_of([&] { make(w); }, &text);
    return code + ": " + text;
  };
  const auto strings = [](std::vector<std::string> values) {
    GgufWriter w;
    w.strings("", values);
    return Bytes().raw(w.keys[0].second);
  };
  const auto expect = [](const std::string& got, const std::string& code, const std::string& part) {
    EXPECT_EQ(got.substr(0, code.size()), code) << got;
    EXPECT_NE(got.find(part), std::string::npos) << got;
  };
  expect(with("tokenizer.ggml.model", Bytes().scalar(u32{8}).string("llama")), "TOKEN01", "the tokenizer is 'llama'");
  expect(with("tokenizer.ggml.pre", Bytes().scalar(u32{8}).string("qwen2")), "TOKEN01", "with rules 'qwen2'");
  expect(with("tokenizer.ggml.tokens", strings({"a"})), "TOKEN02", "1 tokens and 15 token types");
  std::vector<std::string> tokens{"<|im_end|>", "<|im_start|>", "a",      "b",      "c",      "\u0120", "ab", "bc",
                                  "abc",        "\u0120ab",     "\u00e2", "\u0124", "\u00ac", "aa",     "a"};
  expect(with("tokenizer.ggml.tokens", strings(tokens)), "TOKEN02", "token 'a' occurs twice");
  tokens[14] = "a b";
  expect(with("tokenizer.ggml.tokens", strings(tokens)), "TOKEN02", "token 14 'a b' is not written in byte letters");
  tokens[14] = "\xff";
  expect(with("tokenizer.ggml.tokens", strings(tokens)), "TOKEN02", "token 14 '\\xff'");
  for (const char* merge : {"ab", "", "a", "a ", " a", "a x", "b a", "a b c", "<|im_end|> a"})
    expect(with("tokenizer.ggml.merges", strings({merge})), "TOKEN02", "names no two tokens");
  expect(with("tokenizer.ggml.merges", strings({"a b", "b c", "a b"})), "TOKEN02", "join the same tokens");
  expect(with("tokenizer.ggml.eos_token_id", Bytes().scalar(u32{4}).scalar(u32{15})), "GGUF14", "must lie in 0..14");
}

TEST(Tokenizer, AnUnknownChatTemplateIsAnError) {
  const Tokenizer::Message hello{"user", "ab"};
  EXPECT_EQ(code_of([&] { make(vocabulary()).chat({&hello, 1}); }), "TOKEN04");
  EXPECT_EQ(code_of([&] { make(vocabulary().string("tokenizer.chat_template", "{{ x }}")).chat({&hello, 1}); }),
            "TOKEN04");
}

TEST(Prompts, TheFormatIsReadAsDocumented) {
  const auto prompts =
      parse_prompts("# head\n\n=== one chat\nline 1\n\nline 3\n=== two raw\n# no comment\n\n", "p.txt");
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[0].name, "one");
  EXPECT_TRUE(prompts[0].chat);
  EXPECT_EQ(prompts[0].text, "line 1\n\nline 3");
  EXPECT_FALSE(prompts[1].chat);
  EXPECT_EQ(prompts[1].text, "# no comment\n");
}

TEST(Prompts, WhatIsNoPromptIsAnErrorWithItsLine) {
  const auto fails = [](std::string_view text, const std::string& part) {
    std::string message;
    EXPECT_EQ(code_of([&] { parse_prompts(text, "p.txt"); }, &message), "PROMPT01");
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  fails("", "there is no prompt");
  fails("# only\n", "there is no prompt");
  fails("text\n=== a raw\n", "p.txt:1");
  fails("=== a raw\nx\n=== a chat\n", "p.txt:3");
  fails("=== a\n", "opens no prompt");
  fails("=== a loud\n", "opens no prompt");
  EXPECT_EQ(code_of([] { read_prompts("/nonexistent"); }), "PROMPT02");
}

}  // namespace
}  // namespace iron::model
