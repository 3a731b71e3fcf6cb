// iron_mutate: the faults that the tests of the library's kernels do not notice.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "trial.h"

int main(int argc, char** argv) {
  using namespace iron;
  CLI::App app{"Puts small faults into kernels and runs the kernels' own tests on them"};
  mutation::TrialOptions o;
  std::string explained = IRON_SOURCE_DIR "/tests/mutation/equivalent.txt";
  double threshold = 0.95;
  bool all = false;
  app.add_option("--seeded", o.sample, "try so many, chosen by a hash (default: every one)");
  app.add_option("--tier", o.tier_sample, "try so many of the Hopper tier's kernels (default: every one)");
  app.add_option("--filter", o.filter, "only kernels whose name contains this");
  app.add_option("--explained", explained, "survivors with reasons");
  app.add_option("--threshold", threshold, "least score that passes");
  app.add_option("--threads", o.threads, "threads that try mutants");
  app.add_flag("--verbose", all, "print every mutant and its fate");
  CLI11_PARSE(app, argc, argv);
  try {
    o.explained = mutation::read_explained(explained);
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    o.progress = [&, next = 10.0](u64 done, u64 of, const mutation::Verdict& v) mutable {
      if (all) fmt::print("{:<10} {} {}: {} ({})\n", name(v.fate), v.kernel, v.mutant, v.ir, v.where);
      // At once: of a run that is stopped, what it found is known.
      if (v.fate == mutation::Fate::survived) {
        fmt::print("survived: {} {}\n  {}\n  {}\n", v.kernel, v.mutant, v.ir, v.where);
        std::fflush(stdout);
      }
      if (const double now = seconds(); now >= next) {
        next = now + 10;
        fmt::print(stderr, "{} of {} mutants, {:.0f} s\n", done, of, now);
      }
    };
    const auto score = mutation::try_mutants(standard_library(), o);
    for (const auto& b : score.broken) fmt::print("broken: {}\n", b);
    fmt::print("{} kernels: {} killed, {} survived, {} explained, {} equivalent; score {:.4f} (least {}), {:.0f} s\n",
               score.kernels, score.killed, score.survived, score.explained, score.equivalent, score.value(), threshold,
               seconds());
    return score.value() >= threshold && score.broken.empty() ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
