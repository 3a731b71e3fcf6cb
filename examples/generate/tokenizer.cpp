// Splitting by hand-written rules, merging with a heap over a linked list, and streaming decode.
#include "generate/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

#include "generate/unicode.h"
#include "iron/error.h"

namespace iron::model {

namespace {
constexpr TokenId no_token = std::numeric_limits<TokenId>::max();
constexpr std::string_view system_message = "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

// The one template that chat() writes. A file with another one must not be answered with a wrong conversation.
constexpr std::string_view chat_template =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n"
    "' + message['content'] + '<|im_end|>' + '\n"
    "'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n"
    "' }}{% endif %}";

CharKind kind_at(std::string_view text, std::size_t at) { return char_kind(decode_utf8(text, at).value); }

std::size_t contraction(std::string_view text, std::size_t at) {
  for (std::string_view tail : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.substr(at, tail.size()) == tail) return tail.size();
  return 0;
}

// The end of the characters of one kind from `at` on, and where its last character begins.
struct Run {
  std::size_t end, last;
};
Run run_of(std::string_view text, std::size_t at, CharKind kind) {
  Run run{at, at};
  while (run.end < text.size() && kind_at(text, run.end) == kind) {
    run.last = run.end;
    run.end += decode_utf8(text, run.end).length;
  }
  return run;
}

// One piece of a text without numbers.
std::size_t piece_end(std::string_view text, std::size_t at) {
  if (const std::size_t tail = contraction(text, at)) return at + tail;
  const bool blank = text[at] == ' ' && at + 1 < text.size() && kind_at(text, at + 1) != CharKind::space;
  const std::size_t start = blank ? at + 1 : at;
  const CharKind kind = kind_at(text, start);
  const Run run = run_of(text, start, kind);
  // White space before a word leaves its last character: to the word if that is a blank, else as a piece of its own.
  if (kind == CharKind::space && run.end < text.size() && run.last > at) return run.last;
  return run.end;
}

// The printable stand-ins of bytes in a vocabulary: Latin-1's printable characters stand for themselves, the other
// bytes, in order, for U+0100 and up.
std::array<u32, 256> byte_letters() {
  std::array<u32, 256> letters{};
  u32 spare = 0x100;
  for (u32 b = 0; b < 256; ++b) {
    const bool itself = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xff && b != 0xad);
    letters[b] = itself ? b : spare++;
  }
  return letters;
}

// The bytes a vocabulary entry stands for, or nothing when it holds a character that is no stand-in.
std::optional<std::string> from_letters(std::string_view text) {
  static const auto bytes = [] {
    std::array<int, 0x180> table{};
    table.fill(-1);
    const auto letters = byte_letters();
    for (u32 b = 0; b < 256; ++b) table[letters[b]] = static_cast<int>(b);
    return table;
  }();
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = decode_utf8(text, at);
    if (c.status != Utf8::valid || c.value >= bytes.size() || bytes[c.value] < 0) return std::nullopt;
    out += static_cast<char>(static_cast<u8>(bytes[c.value]));
    at += c.length;
  }
  return out;
}

constexpr u64 pair_of(TokenId left, TokenId right) { return u64{left} << 32 | right; }
}  // namespace

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> pieces;
  for (std::size_t at = 0; at < text.size();) {
    if (kind_at(text, at) == CharKind::number) {
      const std::size_t length = decode_utf8(text, at).length;
      pieces.push_back(text.substr(at, length));
      at += length;
      continue;
    }
    // Numbers split the text before anything else does, so no rule sees across one.
    std::size_t end = at;
    while (end < text.size() && kind_at(text, end) != CharKind::number) end += decode_utf8(text, end).length;
    const std::string_view span = text.substr(at, end - at);
    for (std::size_t i = 0; i < span.size();) {
      const std::size_t next = piece_end(span, i);
      pieces.push_back(span.substr(i, next - i));
      i = next;
    }
    at = end;
  }
  return pieces;
}

Tokenizer::Tokenizer(const Gguf& file) : name_(file.name()) {
  const std::string_view model = file.string("tokenizer.ggml.model"), pre = file.string("tokenizer.ggml.pre");
  if (model != "gpt2" || pre != "smollm")
    file.fail("TOKEN01",
              fmt::format("the tokenizer is '{}' with rules '{}'; only 'gpt2' with 'smollm' is implemented",
                          printable(model), printable(pre)),
              "use a SmolLM2 model");
  const auto texts = file.strings("tokenizer.ggml.tokens");
  const auto types = file.numbers("tokenizer.ggml.token_type");
  if (texts.empty() || texts.size() >= no_token || types.size() != texts.size())
    file.fail("TOKEN02", fmt::format("there are {} tokens and {} token types", texts.size(), types.size()));
  constexpr i64 control = 3, user_defined = 4;
  texts_.reserve(texts.size());
  special_.resize(texts.size());
  byte_tokens_.fill(no_token);
  std::map<std::string_view, TokenId> ids;
  for (TokenId id = 0; id < texts.size(); ++id) {
    if (!ids.emplace(texts[id], id).second)
      file.fail("TOKEN02", fmt::format("token '{}' occurs twice", printable(texts[id])));
    if (types[id] == control || types[id] == user_defined) {
      special_[id] = true;
      specials_.emplace(texts[id], id);
      texts_.emplace_back(texts[id]);
      continue;
    }
    auto bytes = from_letters(texts[id]);
    if (!bytes || bytes->empty())
      file.fail("TOKEN02", fmt::format("token {} '{}' is not written in byte letters", id, printable(texts[id])));
    if (bytes->size() == 1) byte_tokens_[static_cast<u8>(bytes->front())] = id;
    texts_.push_back(std::move(*bytes));
  }
  const auto merges = file.strings("tokenizer.ggml.merges");
  merges_.reserve(merges.size());
  std::string joined;
  for (u32 rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const std::size_t gap = merge.find(' ');
    const auto id_of = [&](std::string_view part) {
      const auto found = ids.find(part);
      if (gap == std::string_view::npos || found == ids.end() || special_[found->second])
        file.fail("TOKEN02",
                  fmt::format("merge {} '{}' names no two tokens that join to a third", rank, printable(merge)));
      return found->second;
    };
    const std::string_view left = merge.substr(0, gap), right = gap < merge.size() ? merge.substr(gap + 1) : "";
    joined.assign(left).append(right);
    merges_.push_back({pair_of(id_of(left), id_of(right)), rank, id_of(joined)});
  }
  std::sort(merges_.begin(), merges_.end(), [](const Merge& a, const Merge& b) { return a.pair < b.pair; });
  for (std::size_t i = 1; i < merges_.size(); ++i)
    if (merges_[i].pair == merges_[i - 1].pair)
      file.fail("TOKEN02", fmt::format("merges {} and {} join the same tokens", merges_[i - 1].rank, merges_[i].rank));
  const u64 last = texts_.size() - 1;
  end_ = static_cast<TokenId>(file.number("tokenizer.ggml.eos_token_id", 0, last));
  chat_known_ = file.find("tokenizer.chat_template") && file.string("tokenizer.chat_template") == chat_template;
}

void Tokenizer::check(TokenId id) const {
  if (id >= texts_.size())
    throw Error("TOKEN03", fmt::format("token {} does not exist; the vocabulary has {}", id, texts_.size()),
                "pass ids below size()");
}

bool Tokenizer::is_special(TokenId id) const {
  check(id);
  return special_[id];
}

TokenId Tokenizer::special(std::string_view text) const {
  const auto found = specials_.find(text);
  if (found == specials_.end())
    throw Error("TOKEN02", fmt::format("{}: there is no special token '{}'", name_, printable(text)),
                "use a model whose vocabulary has it");
  return found->second;
}

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> out;
  for (std::string_view word : split_words(text)) encode_word(word, out);
  return out;
}

const Tokenizer::Merge* Tokenizer::find_merge(TokenId left, TokenId right) const {
  const u64 pair = pair_of(left, right);
  const auto at = std::lower_bound(merges_.begin(), merges_.end(), pair,
                                   [](const Merge& m, u64 wanted) { return m.pair < wanted; });
  return at != merges_.end() && at->pair == pair ? &*at : nullptr;
}

// Joins the pair of lowest rank, the leftmost first, until none is left. A heap keeps a word of n bytes at n log n,
// since a hostile text can be one long word.
void Tokenizer::encode_word(std::string_view word, std::vector<TokenId>& out) const {
  struct Symbol {
    TokenId id;
    std::size_t before, next;  ///< indices; n is the end
  };
  struct Candidate {
    u32 rank;
    std::size_t left, right;
    TokenId left_id, right_id, merged;
    bool operator>(const Candidate& o) const { return rank != o.rank ? rank > o.rank : left > o.left; }
  };
  const std::size_t n = word.size();
  std::vector<Symbol> symbols(n);
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto offer = [&](std::size_t left, std::size_t right) {
    if (left >= n || right >= n) return;
    const TokenId a = symbols[left].id, b = symbols[right].id;
    if (const Merge* m = find_merge(a, b)) queue.push({m->rank, left, right, a, b, m->merged});
  };
  for (std::size_t i = 0; i < n; ++i) {
    symbols[i] = {byte_tokens_[static_cast<u8>(word[i])], i == 0 ? n : i - 1, i + 1};
    if (i > 0) offer(i - 1, i);
  }
  constexpr TokenId joined_away = no_token - 1;
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    Symbol &left = symbols[c.left], &right = symbols[c.right];
    if (left.id != c.left_id || right.id != c.right_id || left.next != c.right) continue;  // a neighbour merged first
    left.id = c.merged;
    left.next = right.next;
    if (left.next < n) symbols[left.next].before = c.left;
    right.id = joined_away;
    offer(left.before, c.left);
    offer(c.left, left.next);
  }
  for (std::size_t i = 0; i < n; i = symbols[i].next)
    if (symbols[i].id != no_token) out.push_back(symbols[i].id);
}

std::vector<TokenId> Tokenizer::chat(std::span<const Message> messages) const {
  if (!chat_known_)
    throw Error("TOKEN04", fmt::format("{}: the file has no chat template, or not that of SmolLM2", name_),
                "continue raw text instead, or use SmolLM2-Instruct");
  const TokenId start = special("<|im_start|>"), end = special("<|im_end|>");
  std::vector<TokenId> out;
  const auto append = [&](std::string_view text) {
    const auto ids = encode(text);
    out.insert(out.end(), ids.begin(), ids.end());
  };
  const auto turn = [&](const Message& m) {
    out.push_back(start);
    append(std::string(m.role) + '\n' + std::string(m.text));
    out.push_back(end);
    append("\n");
  };
  if (messages.empty() || messages.front().role != "system") turn({"system", system_message});
  for (const Message& m : messages) turn(m);
  out.push_back(start);
  append("assistant\n");
  return out;
}

std::string_view Tokenizer::bytes(TokenId id) const {
  check(id);
  return special_[id] ? std::string_view{} : std::string_view{texts_[id]};
}

std::string Tokenizer::decode(std::span<const TokenId> ids) const {
  StreamDecoder stream(*this);
  std::string out;
  for (TokenId id : ids) out += stream.push(id);
  return out + stream.finish();
}

std::string StreamDecoder::push(TokenId id) {
  pending_ += tokenizer_->bytes(id);
  std::string out;
  std::size_t at = 0;
  while (at < pending_.size()) {
    const CodePoint c = decode_utf8(pending_, at);
    if (c.status == Utf8::incomplete) break;
    append_utf8(out, c.value);
    at += c.length;
  }
  pending_.erase(0, at);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  if (!pending_.empty()) append_utf8(out, 0xfffd);  // what is pending is always one unfinished character
  pending_.clear();
  return out;
}

}  // namespace iron::model
