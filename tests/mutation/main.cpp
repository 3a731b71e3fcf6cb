// iron_mutate: the faults that the tests of the library's kernels do not notice.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <ctime>
#include <fstream>
#include <optional>

#include "journal.h"

namespace {
using namespace iron;

/// "2/8": the second of eight.
void set_shard(mutation::TrialOptions& o, const std::string& text) {
  unsigned i = 0, n = 0;
  if (std::sscanf(text.c_str(), "%u/%u", &i, &n) != 2 || i < 1 || i > n)
    throw Error("MUT05", fmt::format("'{}' is no shard", text), "write i/n with i from 1 to n: --shard 2/8");
  o.shard = i - 1, o.shards = n;
}
void write(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text).flush())
    throw Error("MUT04", fmt::format("{} cannot be written", path), "name a file in a folder that exists");
}
}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Puts small faults into kernels and runs the kernels' own tests on them.\n"
      "All of them on one machine:  iron_mutate --threads 64 --results all.tsv --report mutation.md\n"
      "On several:                  iron_mutate --shard 1/4 --results 1.tsv   (2/4, ...)\n"
      "                             iron_mutate --merge 1.tsv 2.tsv 3.tsv 4.tsv --report mutation.md\n"
      "A run that was stopped goes on where it was when it is started again."};
  mutation::TrialOptions o;
  std::string results, report, shard;
  std::vector<std::string> merge;
  double threshold = 0.95;
  bool verbose = false;
  app.add_option("--share", o.share, "try this share of the faults, chosen by a hash (default: 1, every one)");
  app.add_option("--tier-share", o.tier_share, "the same for the Hopper tier's kernels, which take seconds each");
  app.add_option("--filter", o.filter, "only kernels whose name contains this");
  app.add_option("--shard", shard, "i/n: every n-th kernel, from the i-th on");
  app.add_option("--results", results, "keep results in this file; what it holds is not tried again");
  app.add_option("--report", report, "write a page about the results");
  app.add_option("--merge", merge, "try nothing: take the results of these files")->excludes("--results");
  app.add_option("--threshold", threshold, "least score that passes");
  app.add_option("--threads", o.threads, "threads that try mutants");
  app.add_flag("--verbose", verbose, "print every mutant and its fate");
  CLI11_PARSE(app, argc, argv);
  try {
    const u64 kernels = standard_library().entries().size();
    if (!shard.empty()) set_shard(o, shard);
    o.explained = mutation::read_explained(mutation::built_in_explanations(), "equivalent.txt");
    std::optional<mutation::Journal> journal;
    if (!results.empty()) {
      journal.emplace(results);
      o.known = [&](const std::string& kernel, u64 begin, u64 fingerprint) {
        return journal->known(kernel, begin, fingerprint);
      };
    }
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    o.note = [&](const mutation::Verdict& v) {
      if (verbose) fmt::print("{:<10} {} {} ({}) {}\n", name(v.fate), v.kernel, v.mutant, v.where, v.ir);
    };
    u64 mutants = 0;
    double next = 10;
    o.finished = [&](const mutation::Part& p, u64 done, u64 of) {
      if (journal && !journal->known(p.kernel, p.begin, p.fingerprint)) journal->add(p);
      mutants += p.counts.all();
      for (const auto& v : p.lived)
        if (v.fate == mutation::Fate::survived)
          fmt::print("survived: {} {}\n  {}\n  {}\n", v.kernel, v.mutant, v.ir, v.where);
      std::fflush(stdout);
      if (const double now = seconds(); now >= next) {
        next = now + 10;
        fmt::print(stderr, "{} of {} kernels, {} mutants, {:.0f} s\n", done, of, mutants, now);
      }
    };
    mutation::Score score;
    if (merge.empty()) {
      score = mutation::try_mutants(standard_library(), o);
    } else {
      std::vector<mutation::Part> parts;
      for (const auto& path : merge) {
        auto read = mutation::read_results(path);
        for (auto& p : read) parts.push_back(mutation::explained_anew(std::move(p), o.explained));
      }
      score = mutation::merged(parts);
    }
    if (!report.empty()) write(report, mutation::report(score, kernels));
    for (const auto& b : score.broken) fmt::print("broken: {}\n", b);
    const auto& c = score.counts;
    fmt::print(
        "{} kernels: {} killed, {} survived, {} explained, {} equivalent; score {:.4f} (least {}), {:.0f} s, "
        "{:.0f} s of processor time\n",
        score.kernels(), c.killed(), c.survived, c.explained, c.equivalent, c.score(), threshold, seconds(),
        static_cast<double>(std::clock()) / CLOCKS_PER_SEC);
    return c.score() >= threshold && score.broken.empty() ? 0 : 1;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
