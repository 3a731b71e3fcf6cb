// Reader of prompts.txt, whose head documents the format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "generate/tokenizer.h"

namespace iron::model {

struct Prompt {
  std::string name, text;
  bool chat = false;
};

/// Parses the text of a prompt file; PROMPT01 with file and line for what is no prompt.
std::vector<Prompt> parse_prompts(std::string_view text, const std::string& file);
/// Reads and parses a prompt file; PROMPT02 when it cannot be read.
std::vector<Prompt> read_prompts(const std::string& path);

/// The tokens of a prompt: through the chat template, or as they are.
std::vector<TokenId> encode_prompt(const Tokenizer& tokenizer, const Prompt& prompt);

}  // namespace iron::model
