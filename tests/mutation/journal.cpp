#include "journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>

#include "iron/error.h"

namespace iron::mutation {

namespace {
// A line a part, after one line for each mutant that lived; fields are parted by tabs.
constexpr std::string_view part_word = "part", lived_word = "lived";

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> out;
  std::size_t at = 0;
  for (std::size_t tab = line.find('\t'); tab != std::string::npos; tab = line.find('\t', at)) {
    out.push_back(line.substr(at, tab - at));
    at = tab + 1;
  }
  out.push_back(line.substr(at));
  return out;
}
u64 number(const std::string& text, const std::string& path, int base = 10) {
  u64 v = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v, base);
  if (error != std::errc{} || end != text.data() + text.size())
    throw Error("MUT03", fmt::format("{}: '{}' is not a number", path, text), "give a file that iron_mutate wrote");
  return v;
}
std::string clean(std::string text) {
  std::replace(text.begin(), text.end(), '\t', ' ');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Long expressions end behind a whole word.
std::string shortened(const std::string& ir) {
  return ir.size() <= 100 ? ir : ir.substr(0, ir.find_last_of(' ', 96)) + " ...";
}

std::string written(const Part& p) {
  std::string out;
  for (const auto& v : p.lived)
    out += fmt::format("{}\t{}\t{}\t{}\t{}\t{}\t{}\n", lived_word, v.kernel, v.mutant, name(v.fate), clean(v.where),
                       clean(v.ir), clean(v.why));
  const auto& c = p.counts;
  return out + fmt::format("{}\t{}\t{}\t{}\t{}\t{:016x}\t{}\t{}\t{}\t{}\t{}\t{}\n", part_word, p.kernel, p.begin, p.end,
                           p.of, p.fingerprint, c.refused, c.finding, c.wrong, c.equivalent, c.explained, c.survived);
}
}  // namespace

std::vector<Part> read_results(const std::string& path) {
  std::vector<Part> out;
  std::vector<Verdict> lived;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (file.eof()) break;  // cut off: a whole line ends
    const auto f = fields(line);
    if (f[0] == lived_word && f.size() == 7) {
      const Fate fate = f[3] == name(Fate::explained) ? Fate::explained : Fate::survived;
      lived.push_back({f[1], f[2], fate, f[5], f[4], f[6]});
    } else if (f[0] == part_word && f.size() == 12) {
      Part p;
      p.kernel = f[1], p.begin = number(f[2], path), p.end = number(f[3], path), p.of = number(f[4], path);
      p.fingerprint = number(f[5], path, 16);
      u64* const counts[] = {&p.counts.refused,    &p.counts.finding,   &p.counts.wrong,
                             &p.counts.equivalent, &p.counts.explained, &p.counts.survived};
      for (std::size_t i = 0; i < 6; ++i) *counts[i] = number(f[6 + i], path);
      // What an earlier run could not finish stands before it.
      std::erase_if(lived, [&](const Verdict& v) { return v.kernel != p.kernel; });
      const u64 rest = p.counts.explained + p.counts.survived;
      if (lived.size() < rest)
        throw Error("MUT03",
                    fmt::format("{}: {} names {} mutants that lived, of {}", path, p.kernel, lived.size(), rest),
                    "give a file that iron_mutate wrote");
      p.lived.assign(lived.end() - static_cast<std::ptrdiff_t>(rest), lived.end());
      lived.clear();
      out.push_back(std::move(p));
    } else {
      throw Error("MUT03", fmt::format("{}: '{}' is no result", path, line), "give a file that iron_mutate wrote");
    }
  }
  return out;
}

Journal::Journal(const std::string& path) {
  // A line that was cut off would run into the next: what is whole is written anew.
  std::string kept;
  for (auto& p : read_results(path)) {
    kept += written(p);
    const auto key = std::tuple(p.kernel, p.begin, p.fingerprint);
    parts_[key] = std::move(p);
  }
  file_ = std::fopen(path.c_str(), "w");
  if (!file_ || std::fwrite(kept.data(), 1, kept.size(), file_) != kept.size() || std::fflush(file_) != 0)
    throw Error("MUT04", fmt::format("{} cannot be written", path), "name a file in a folder that exists");
}
Journal::~Journal() {
  if (file_) std::fclose(file_);
}

const Part* Journal::known(const std::string& kernel, u64 begin, u64 fingerprint) const {
  const auto it = parts_.find({kernel, begin, fingerprint});
  return it == parts_.end() ? nullptr : &it->second;
}

void Journal::add(const Part& part) {
  const std::string text = written(part);
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0)
    throw Error("MUT04", "the results cannot be written", "free some disk space and start again: the run resumes");
}

Score merged(const std::vector<Part>& parts) {
  std::map<std::string, u64> newest;  // fingerprint
  for (const auto& p : parts) newest[p.kernel] = p.fingerprint;
  std::map<std::pair<std::string, u64>, const Part*> last;
  for (const auto& p : parts)
    if (newest[p.kernel] == p.fingerprint) last[{p.kernel, p.begin}] = &p;
  Score score;
  for (const auto& [key, p] : last) score.parts.push_back(*p), score.counts.add(p->counts);
  return score;
}

std::string report(const Score& score, u64 kernels) {
  const auto& c = score.counts;
  std::map<std::string, std::pair<u64, u64>> progress;  // faults tried, of
  for (const auto& p : score.parts) progress[p.kernel].first += p.end - p.begin, progress[p.kernel].second = p.of;
  std::erase_if(progress, [](const auto& p) { return p.second.second == 0; });
  u64 whole = 0, tried = 0;
  for (const auto& [kernel, p] : progress) whole += p.first == p.second, tried += p.first;
  std::string out = fmt::format(
      "# Faults put into the kernels of the library\n\n"
      "Written by `iron_mutate --report`. Each mutant is one small fault in one kernel, run through that kernel's own "
      "tests in the interpreter; how it works is said in `CONTRIBUTING.md`.\n\n"
      "- Kernels tried whole: {} of {}{}\n- Faults: {}\n- Killed: {} ({} refused by the launch contract, {} found by "
      "the "
      "interpreter, {} by a wrong result)\n- The same after the compiler's optimisation: {}\n- Explained, see below: "
      "{}\n"
      "- Survived: {}\n- Faults that no kernel could be made of: {}\n- Score, killed of killed and survived: {:.4f}\n",
      whole, kernels,
      progress.size() > whole ? fmt::format("; begun and not finished: {}", progress.size() - whole) : "", tried,
      c.killed(), c.refused, c.finding, c.wrong, c.equivalent, c.explained, c.survived, tried - c.all(), c.score());
  if (!score.broken.empty()) {
    out += "\nNot tried:\n\n";
    for (const auto& b : score.broken) out += fmt::format("- {}\n", b);
  }
  // One fault of a source line shows up in every kernel that the line is part of, and wherever the line is unrolled.
  struct Group {
    std::set<std::string> kernels;
    u64 mutants = 0;
    std::string example;
  };
  std::map<std::pair<std::string, std::string>, Group> survived;  // where, fault
  std::map<std::string, Group> reasons;
  for (const auto& p : score.parts)
    for (const auto& v : p.lived) {
      auto& g = v.fate == Fate::survived ? survived[{v.where, v.mutant.substr(0, v.mutant.find(':'))}] : reasons[v.why];
      if (g.kernels.empty()) g.example = shortened(v.ir);
      g.kernels.insert(v.kernel), ++g.mutants;
    }
  const auto list = [](const std::set<std::string>& kernels) {
    std::string text;
    std::size_t n = 0;
    for (const auto& k : kernels) {
      if (n++ == 3) {
        text += fmt::format(" and {} more", kernels.size() - 3);
        break;
      }
      text += (text.empty() ? "`" : ", `") + k + "`";
    }
    return text;
  };
  out += "\n## Survived\n\n";
  if (survived.empty()) out += "None.\n";
  for (const auto& [key, g] : survived)
    out +=
        fmt::format("- {} {}: {} in {}; one is `{}`\n", key.first, key.second, g.mutants, list(g.kernels), g.example);
  out += "\n## Explained\n\n| mutants | kernels | why no test can see it |\n|---:|---:|---|\n";
  for (const auto& [why, g] : reasons) out += fmt::format("| {} | {} | {} |\n", g.mutants, g.kernels.size(), why);
  return out;
}

}  // namespace iron::mutation
