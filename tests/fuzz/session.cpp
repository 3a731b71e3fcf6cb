// Sessions over seeds.
#include "session.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "generator.h"
#include "shrink.h"

namespace iron::fuzz {

Report keep(u64 seed, const Judge& judge, const Subject& s, const Failure& f, bool small, const std::string& folder) {
  Subject least = s;
  if (small) {
    const Judge& sound = judges()[0];
    least = shrink(s, [&](const Subject& c) {
      if (&judge != &sound && apply(sound, c)) return false;
      const auto now = apply(judge, c);
      return now && now->kind == f.kind;
    });
  }
  const auto now = apply(judge, least);
  Report r{seed, std::string(judge.name), f.kind, {}};
  r.text = fmt::format("seed {}: {}\n{}\n", seed, f.kind, now ? now->detail : f.detail);
  const std::string replay = fmt::format("iron_fuzz --seeds {}..{} --judge {} --shrink", seed, seed, judge.name);
  const std::string text =
      fmt::format("// seed {}, judge {}: {}\n// {}\n{}", seed, judge.name, f.kind, replay, to_text(least));
  if (folder.empty()) {
    r.text += text + "\nreplay: " + replay + "\n";
    return r;
  }
  std::filesystem::create_directories(folder);
  const auto path = std::filesystem::path(folder) / fmt::format("{}_{}.iron", judge.name, seed);
  std::ofstream(path) << text;
  r.text += fmt::format("{}\nreplay: {}\n    or: iron_fuzz --replay {} --judge {}\n", to_text(least), replay,
                        path.string(), judge.name);
  return r;
}

std::vector<Report> run_session(const SessionOptions& o) {
  std::vector<Report> found;
  const auto add = [&](Report r) {
    if (o.found) o.found(r);
    found.push_back(std::move(r));
  };
  std::vector<const Judge*> list = o.judges;
  if (list.empty())
    for (const auto& j : judges()) list.push_back(&j);
  const Judge& sound = judges()[0];
  for (u64 seed = o.first; seed <= o.last && found.size() < o.most_failures; ++seed) {
    if (o.progress) o.progress(seed, found.size());
    Subject s;
    try {
      s = generate(seed);
    } catch (const Error& e) {
      add({seed, "generator", "generator: throws " + e.code(), fmt::format("seed {}: {}\n", seed, e.what())});
      continue;
    }
    if (const auto f = apply(sound, s)) {
      add(keep(seed, sound, s, *f, o.shrink, o.folder));
      continue;
    }
    for (const Judge* j : list)
      if (j != &sound && (seed % o.code_every == 0 || (j->name != "cpu" && j->name != "lowering")))
        if (const auto f = apply(*j, s)) add(keep(seed, *j, s, *f, o.shrink, o.folder));
  }
  return found;
}

}  // namespace iron::fuzz
