// Answers a prompt with a llama model, streaming, by Iron kernels alone.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "generate/model.h"
#include "iron/error.h"

namespace iron::model {
namespace {

struct Options {
  std::string file, prompt, device = "cpu", system, numerics = "exact";
  u32 tokens = 128, threads = 0, context = 0, repeat = 1;
  bool raw = false, ids = false, quiet = false;
  Sampling sampling;
};

using Clock = std::chrono::steady_clock;
f64 seconds_since(Clock::time_point t) { return std::chrono::duration<f64>(Clock::now() - t).count(); }

std::vector<TokenId> prompt_tokens(const Tokenizer& tokenizer, const Options& o) {
  if (o.raw) return tokenizer.encode(o.prompt);
  std::vector<Tokenizer::Message> messages;
  if (!o.system.empty()) messages.push_back({"system", o.system});
  messages.push_back({"user", o.prompt});
  return tokenizer.chat(messages);
}

// Feeds the prompt and streams the answer; the two speeds go to standard error.
void answer(Model& model, const Tokenizer& tokenizer, std::vector<TokenId> history, const Options& o) {
  const u32 prompt_size = static_cast<u32>(history.size());
  model.reset();
  const auto start = Clock::now();
  model.feed(history);
  TokenId next = model.sample(o.sampling, history);
  const f64 prefill = seconds_since(start);

  StreamDecoder stream(tokenizer);
  const auto show = [](const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  };
  const auto decoding = Clock::now();
  u32 made = 0, decoded = 0;
  while (made < o.tokens && next != tokenizer.end_of_turn()) {
    ++made;
    show(o.ids ? fmt::format("{}\n", next) : stream.push(next));
    history.push_back(next);
    if (made == o.tokens) break;
    model.feed({&next, 1});
    next = model.sample(o.sampling, history);
    ++decoded;
  }
  const f64 decode = seconds_since(decoding);
  if (!o.ids) show(stream.finish() + "\n");
  if (!o.quiet)
    fmt::print(stderr, "prompt: {} tokens, {:.1f} tokens/s; answer: {} tokens, {:.1f} tokens/s\n", prompt_size,
               prompt_size / prefill, made, decoded ? decoded / decode : 0.0);
}

int generate(const Options& o) {
  const Gguf file = Gguf::open(o.file);
  const Tokenizer tokenizer(file);
  const std::vector<TokenId> history = prompt_tokens(tokenizer, o);
  if (history.empty()) throw Error("MODEL04", "the prompt is empty", "write at least one word");
  const u32 prompt_size = static_cast<u32>(history.size());

  // As much context as this answer needs, unless more is asked for.
  Model model(file, Device::open(o.device), o.context ? o.context : prompt_size + o.tokens,
              o.numerics == "int8" ? Policy::int8 : Policy::exact);
  for (u32 turn = 0; turn < o.repeat; ++turn) answer(model, tokenizer, history, o);
  if (!o.quiet) fmt::print(stderr, "device: {}; numerics: {}\n", Device::open(o.device).name(), model.numerics());
  return 0;
}

int main_checked(int argc, char** argv) {
  Options o;
  CLI::App app("Answers a prompt with a llama model in a GGUF file, by Iron kernels alone.", "generate");
  app.add_option("--model", o.file, "GGUF file")->required()->envname("IRON_MODEL");
  app.add_option("--prompt", o.prompt, "what to answer")->required();
  app.add_option("--system", o.system, "system message; the file's own where left out");
  app.add_option("--tokens", o.tokens, "most tokens to answer with")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--context", o.context, "tokens to make room for; by default what this answer needs");
  app.add_option("--device", o.device, "cpu, cuda or interpreter")->capture_default_str();
  app.add_option("--threads", o.threads, "threads of the cpu device; by default one a core");
  app.add_option("--numerics", o.numerics, "exact, or int8: faster, with activations rounded to 8 bits")
      ->check(CLI::IsMember({"exact", "int8"}))
      ->capture_default_str();
  app.add_option("--temperature", o.sampling.temperature, "0 takes the most probable token")->capture_default_str();
  app.add_option("--top-p", o.sampling.top_p, "draw among the most probable tokens of this mass")
      ->capture_default_str();
  app.add_option("--min-p", o.sampling.min_p, "drop tokens below this share of the largest")->capture_default_str();
  app.add_option("--repetition-penalty", o.sampling.repetition_penalty, "divides logits of tokens seen before")
      ->capture_default_str();
  app.add_option("--seed", o.sampling.seed, "of the draws")->capture_default_str();
  app.add_option("--repeat", o.repeat, "answer so many times, to measure without warm-up")->check(CLI::PositiveNumber);
  app.add_flag("--raw", o.raw, "continue the prompt as it is, without the chat template");
  app.add_flag("--ids", o.ids, "print token numbers instead of text");
  app.add_flag("--quiet", o.quiet, "print only the answer");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  if (o.threads) setenv("IRON_CPU_THREADS", std::to_string(o.threads).c_str(), 1);
  return generate(o);
}

}  // namespace
}  // namespace iron::model

int main(int argc, char** argv) {
  try {
    return iron::model::main_checked(argc, argv);
  } catch (const std::bad_alloc&) {
    fmt::print(stderr,
               "error[GGUF16]: there is no memory for the model\n  fix: free memory, or use a smaller context\n");
  } catch (const iron::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
  } catch (const std::exception& e) {
    fmt::print(stderr, "error: {}\n", e.what());
  }
  return 1;
}
