// iron_fuzz: seeds through judges; a failure shrinks to a textual test and a command that replays it.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "generator.h"
#include "session.h"

namespace iron::fuzz {
namespace {

void parse_seeds(const std::string& text, u64& first, u64& last) {
  const auto dots = text.find("..");
  first = std::stoull(text);
  last = dots == std::string::npos ? first : std::stoull(text.substr(dots + 2));
}

const Judge& named(const std::string& name) {
  if (const Judge* j = find_judge(name)) return *j;
  std::string all;
  for (const auto& j : judges()) all += (all.empty() ? "" : ", ") + std::string(j.name);
  throw Error("FUZZ03", fmt::format("there is no judge '{}'", name), "one of: " + all);
}

int replay(const std::string& path, const std::vector<const Judge*>& list, bool small, const std::string& folder) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error("FUZZ01", fmt::format("{} cannot be read", path), "name a file that iron_fuzz wrote");
  const Subject s = from_text(std::string(std::istreambuf_iterator<char>(file), {}), path);
  int failed = 0;
  for (const Judge* j : list) {
    const auto f = apply(*j, s);
    if (f) fmt::print("{}", keep(0, *j, s, *f, small, folder).text);
    fmt::print("{}: {}\n", j->name, f ? "fails" : "holds");
    failed += f.has_value();
  }
  return failed != 0;
}

int run(int argc, char** argv) {
  CLI::App app{"Generated kernels as judge of passes, interpreter, contract and CPU code"};
  std::string seeds = "1..2000", folder, file;
  std::vector<std::string> names;
  bool small = false, show = false;
  u64 most = 20;
  app.add_option("--seeds", seeds, "seeds A..B, or one");
  app.add_option("--judge", names, "only these judges (default: all)");
  app.add_flag("--shrink", small, "reduce failing kernels");
  app.add_option("--out", folder, "folder for failing kernels");
  app.add_option("--replay", file, "judge a file that was written before");
  app.add_option("--most", most, "stop after this many failures");
  app.add_flag("--print", show, "print the generated kernels and stop");
  CLI11_PARSE(app, argc, argv);

  SessionOptions o;
  parse_seeds(seeds, o.first, o.last);
  for (const auto& n : names) o.judges.push_back(&named(n));
  if (show) {
    for (u64 seed = o.first; seed <= o.last; ++seed) fmt::print("{}", to_text(generate(seed)));
    return 0;
  }
  if (!file.empty()) {
    if (o.judges.empty())
      for (const auto& j : judges()) o.judges.push_back(&j);
    return replay(file, o.judges, small, folder);
  }
  o.shrink = small, o.folder = folder, o.most_failures = most;
  const auto start = std::chrono::steady_clock::now();
  const bool terminal = isatty(2);
  const u64 all = o.last - o.first + 1;
  o.progress = [&, next = 0.0](u64 seed, u64 failures) mutable {
    const double now = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (now < next) return;
    next = now + (terminal ? 0.5 : 30);
    const u64 done = seed - o.first;
    if (done)
      fmt::print(stderr, "{}{} of {} kernels, {} failures, {:.0f} s{}", terminal ? "\r" : "", done, all, failures, now,
                 terminal ? "   " : "\n");
  };
  o.found = [](const Report& r) {
    fmt::print("{}\n", r.text);
    std::fflush(stdout);
  };
  const auto found = run_session(o);
  fmt::print("{} kernels, {} failures, {:.1f} s\n", all, found.size(),
             std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return found.empty() ? 0 : 1;
}

}  // namespace
}  // namespace iron::fuzz

int main(int argc, char** argv) {
  try {
    return iron::fuzz::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
