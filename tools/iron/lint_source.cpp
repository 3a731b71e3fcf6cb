// Reads statements, not C++: enough of the grammar to know which loop or branch a word stands in.
#include "lint_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace iron::tool {

namespace {

struct Token {
  std::string_view text;
  int line = 0, column = 0;
};

bool of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// Words and single characters; comments, literals and preprocessor lines are left out.
class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> tokens() {
    std::vector<Token> out;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#' && line_is_blank_) {
        skip_directive();
      } else if (starts("//")) {
        skip_to("\n", false);
      } else if (starts("/*")) {
        step(2), skip_to("*/", true);
      } else if (starts("R\"")) {
        skip_raw_string();
      } else if (c == '"' || c == '\'') {
        skip_literal(c);
      } else if (of_word(c)) {
        out.push_back(word());
      } else {
        if (!std::isspace(static_cast<unsigned char>(c))) out.push_back({text_.substr(at_, 1), line_, column()});
        step(1);
      }
    }
    return out;
  }

 private:
  bool starts(std::string_view s) const { return text_.substr(at_).starts_with(s); }
  int column() const { return static_cast<int>(at_ - line_start_) + 1; }
  void step(std::size_t n) {
    for (; n > 0 && at_ < text_.size(); --n, ++at_) {
      if (text_[at_] == '\n')
        ++line_, line_start_ = at_ + 1, line_is_blank_ = true;
      else if (!std::isspace(static_cast<unsigned char>(text_[at_])))
        line_is_blank_ = false;
    }
  }
  void skip_to(std::string_view end, bool over) {
    const auto found = text_.find(end, at_);
    step(found == std::string_view::npos ? text_.size() - at_ : found - at_ + (over ? end.size() : 0));
  }
  void skip_directive() {
    for (;;) {
      const auto start = at_;
      skip_to("\n", true);
      if (at_ >= text_.size() || at_ - start < 2 || text_[at_ - 2] != '\\') return;
    }
  }
  void skip_raw_string() {
    const auto open = text_.find('(', at_);
    if (open == std::string_view::npos) return step(2);
    const std::string end = ")" + std::string(text_.substr(at_ + 2, open - at_ - 2)) + "\"";
    step(open - at_), skip_to(end, true);
  }
  void skip_literal(char quote) {
    step(1);
    while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') step(text_[at_] == '\\' ? 2 : 1);
    step(1);
  }
  Token word() {
    const auto start = at_;
    const Token t{{}, line_, column()};
    // A quote between digits separates them.
    const bool number = std::isdigit(static_cast<unsigned char>(text_[at_]));
    while (at_ < text_.size() && (of_word(text_[at_]) || (number && text_[at_] == '\''))) step(1);
    return {text_.substr(start, at_ - start), t.line, t.column};
  }

  std::string_view text_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1;
  bool line_is_blank_ = true;
};

// What `continue` and `break` would leave here.
enum class Around { nothing, host, recorded };
struct Context {
  Around loop = Around::nothing;    ///< for `continue`
  Around breaks = Around::nothing;  ///< for `break`
};

class Reader {
 public:
  Reader(std::vector<Token> tokens, const std::string& file) : tokens_(std::move(tokens)), file_(file) {}

  LintResult read() {
    static constexpr std::array<std::string_view, 6> call{"operator", "(", ")", "(", ")", "const"};
    while (at_ < tokens_.size()) {
      const auto is_call = [&] {
        for (std::size_t i = 0; i < call.size(); ++i)
          if (peek(i) != call[i]) return false;
        return true;
      };
      if (!is_call()) {
        ++at_;
        continue;
      }
      at_ += call.size();
      while (at_ < tokens_.size() && peek() != "{" && peek() != ";") ++at_;
      if (peek() != "{") continue;
      ++result_.bodies;
      statement({});
    }
    return std::move(result_);
  }

 private:
  std::string_view peek(std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : std::string_view{};
  }
  bool take(std::string_view text) {
    if (peek() != text) return false;
    ++at_;
    return true;
  }

  void refuse(std::string message, std::string fix) {
    Diagnostic d;
    d.code = "D28", d.message = std::move(message), d.fix = std::move(fix);
    d.file = file_, d.line = tokens_[at_].line, d.column = tokens_[at_].column;
    result_.findings.push_back(std::move(d));
  }

  // Reads one statement; `context` says what stands around it.
  void statement(Context context) {  // NOLINT(misc-no-recursion)
    if (take("{")) return block(context);
    if (peek() == "for") return loop();
    if (peek() == "while" || peek() == "do") return host_while();
    if (peek() == "if") {
      ++at_;
      if (!take("constexpr")) take("consteval");
      branch(context);
    } else if (peek() == "if_" || peek() == "IRON_IF") {
      ++at_;
      branch({Around::recorded, Around::recorded});
    } else if (peek() == "switch") {
      ++at_, parentheses(), statement({context.loop, Around::host});
    } else if (peek() == "case" || peek() == "default") {
      while (at_ < tokens_.size() && peek() != ":") ++at_;
      ++at_;
    } else if (peek(1) == ":" && peek(2) != ":") {  // a label
      at_ += 2;
    } else if (peek() == "goto") {
      refuse("'goto' in a kernel's body: the recorder does not see it", "write a range(...) or an if_(...)");
      expression();
    } else if (peek() == "continue" || peek() == "break") {
      leave(context);
      expression();
    } else {
      expression();
    }
  }

  void block(Context context) {  // NOLINT(misc-no-recursion)
    while (at_ < tokens_.size() && peek() != "}") {
      const auto before = at_;
      statement(context);
      if (at_ == before) ++at_;  // whatever this is, go on behind it
    }
    take("}");
  }

  void branch(Context context) {  // NOLINT(misc-no-recursion)
    parentheses();
    statement(context);
    while (take("else")) statement(context);
  }

  void loop() {  // NOLINT(misc-no-recursion)
    ++at_;
    const auto kind = recorded_header() ? Around::recorded : Around::host;
    parentheses();
    statement({kind, kind});
  }

  void host_while() {  // NOLINT(misc-no-recursion)
    const bool tail = peek() == "do";
    refuse(fmt::format("a host '{}' in a kernel's body: it runs while recording and leaves no loop in the kernel",
                       tail ? "do" : "while"),
           "write for (auto i : range(...).until(done)), or a plain for over host values");
    ++at_;
    if (!tail) parentheses();
    statement({Around::host, Around::host});
    if (tail && take("while")) parentheses(), take(";");
  }

  // `for (auto i : range(...))`, also with a namespace in front.
  bool recorded_header() const {
    std::size_t depth = 0;
    for (std::size_t i = 0; at_ + i < tokens_.size(); ++i) {
      const auto t = peek(i);
      if (t == "(" || t == "[" || t == "{") ++depth;
      if ((t == ")" || t == "]" || t == "}") && --depth == 0) return false;
      if (t == ";" && depth == 1) return false;
      if (t != ":" || depth != 1 || peek(i + 1) == ":" || peek(i - 1) == ":") continue;
      for (++i; peek(i) == ":" || peek(i + 1) == ":"; ++i) {
      }
      return peek(i) == "range" || peek(i) == "roles";
    }
    return false;
  }

  void leave(Context context) {
    const std::string word(peek());
    if ((word == "continue" ? context.loop : context.breaks) != Around::recorded) return;
    refuse(fmt::format("'{}' leaves a recorded loop or branch: it acts while recording, on every trip at once", word),
           word == "break" ? "write break_if(condition)" : "guard the rest of the body with if_(condition)");
  }

  // From an opening parenthesis to behind its end.
  void parentheses() {  // NOLINT(misc-no-recursion)
    if (!take("(")) return;
    while (at_ < tokens_.size() && peek() != ")") piece();
    take(")");
  }

  void expression() {  // NOLINT(misc-no-recursion)
    while (at_ < tokens_.size() && peek() != ";" && peek() != "}") piece();
    take(";");
  }

  // A lambda's body is read like a block, with nothing around it; an initialiser's braces hold no statement.
  void piece() {  // NOLINT(misc-no-recursion)
    if (peek() == "(") return parentheses();
    if (take("{")) return block({});
    ++at_;
  }

  std::vector<Token> tokens_;
  std::string file_;
  std::size_t at_ = 0;
  LintResult result_;
};

}  // namespace

LintResult lint_source(std::string_view text, const std::string& file) {
  return Reader(Lexer(text).tokens(), file).read();
}

}  // namespace iron::tool
