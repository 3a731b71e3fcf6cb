// Parsing of prompt files.
#include "generate/prompts.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "iron/error.h"

namespace iron::model {

std::vector<Prompt> parse_prompts(std::string_view text, const std::string& file) {
  std::vector<Prompt> prompts;
  bool first_line = true;
  int number = 0;
  const auto fail = [&](const std::string& what) {
    Diagnostic d;
    d.code = "PROMPT01";
    d.message = what;
    d.file = file;
    d.line = number;
    d.fix = "open each prompt with a line '=== NAME chat' or '=== NAME raw'";
    throw Error(std::move(d));
  };
  if (text.ends_with('\n')) text.remove_suffix(1);
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.starts_with("=== ")) {
      const std::string_view head = line.substr(4);
      const std::size_t gap = head.find(' ');
      const std::string_view name = head.substr(0, gap), style = gap < head.size() ? head.substr(gap + 1) : "";
      if (name.empty() || (style != "chat" && style != "raw")) fail(fmt::format("'{}' opens no prompt", line));
      if (std::any_of(prompts.begin(), prompts.end(), [&](const Prompt& p) { return p.name == name; }))
        fail(fmt::format("prompt '{}' occurs twice", name));
      prompts.push_back({std::string(name), "", style == "chat"});
      first_line = true;
    } else if (!prompts.empty()) {
      if (!first_line) prompts.back().text += '\n';
      prompts.back().text += line;
      first_line = false;
    } else if (!line.empty() && !line.starts_with('#')) {
      fail("there is text before the first prompt");
    }
  }
  if (prompts.empty()) fail("there is no prompt");
  return prompts;
}

std::vector<Prompt> read_prompts(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf()))
    throw Error("PROMPT02", fmt::format("cannot read the prompts in {}", path), "pass the path of a prompt file");
  return parse_prompts(text.str(), path);
}

std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const Prompt& prompt) {
  if (!prompt.chat) return tokenizer.encode(prompt.text);
  const Tokenizer::Message message{"user", prompt.text};
  return tokenizer.chat({&message, 1});
}

}  // namespace iron::model
