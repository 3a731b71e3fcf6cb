#include "trial.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <sstream>
#include <thread>
#include <tuple>

#include "cases.h"
#include "ir/text.h"
#include "rules.h"

namespace iron::mutation {

using namespace ir;

std::string_view name(Fate f) {
  static constexpr std::string_view names[] = {"refused", "finding", "wrong", "equivalent", "explained", "survived"};
  return names[static_cast<std::size_t>(f)];
}

void Counts::add(Fate f) {
  u64* const of[] = {&refused, &finding, &wrong, &equivalent, &explained, &survived};
  ++*of[static_cast<std::size_t>(f)];
}
void Counts::add(const Counts& c) {
  refused += c.refused, finding += c.finding, wrong += c.wrong;
  equivalent += c.equivalent, explained += c.explained, survived += c.survived;
}

std::vector<Verdict> Score::survivors() const {
  std::vector<Verdict> out;
  for (const auto& p : parts)
    for (const auto& v : p.lived)
      if (v.fate == Fate::survived) out.push_back(v);
  return out;
}
u64 Score::kernels() const {
  std::set<std::string> names;
  for (const auto& p : parts) names.insert(p.kernel);
  return names.size();
}

Explained read_explained(std::string_view text, const std::string& name) {
  Explained out;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    Explanation e;
    std::string* const parts[] = {&e.kernel, &e.fault, &e.file, &e.expression, &e.why};
    std::size_t at = 0;
    for (std::string* part : parts) {
      const bool last = part == &e.why;
      const std::size_t end = last ? line.size() : line.find(" | ", at);
      if (end == std::string::npos || end <= at)
        throw Error("MUT02", fmt::format("{}: '{}' gives no reason", name, line),
                    "write: kernel | fault | file | expression | why");
      *part = line.substr(at, end - at);
      at = std::min(line.size(), end + 3);
    }
    out.push_back(e);
  }
  return out;
}

namespace {
u64 hash(std::string_view text) {
  u64 h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<u8>(c)) * 0x100000001b3u;
  return h ^ (h >> 29);
}

// The op as its author would write it; a constant shows nothing by itself, so it is shown where it is used.
std::string shown(const Kernel& k, OpId id) {
  if (!is_const(k, id)) return expression(k, id);
  OpId user = none;
  k.walk([&](OpId at) {
    for (const OpId v : k.operands(at))
      if (v == id && user == none) user = at;
  });
  return fmt::format("constant {} in {}", expression(k, id), user == none ? "" : expression(k, user));
}

bool explains(const Explanation& e, const Verdict& v) {
  const bool family = e.kernel.ends_with('*');
  const std::string_view kernel = e.kernel, shown = e.expression;
  const bool start = shown.ends_with('*');
  return (family ? v.kernel.starts_with(kernel.substr(0, kernel.size() - 1)) : v.kernel == kernel) &&
         v.mutant.starts_with(e.fault + ":") && v.where.starts_with(e.file + ":") &&
         (start ? v.ir.starts_with(shown.substr(0, shown.size() - 1)) : v.ir == shown);
}

/// Some faults of one entry.
struct Unit {
  const KernelEntry* entry = nullptr;
  u64 begin = 0;
};
constexpr u64 faults_a_unit = 2000;

struct Chosen {
  const std::string* key;
  const Mutation* mutation;
};

/// The faults of an entry that are to be tried, in program order.
std::vector<Chosen> chosen(const Cases& cases, const KernelEntry& e, f64 share) {
  std::vector<Chosen> out;
  for (const auto& [key, s] : cases.kernels())
    for (const auto& m : s.mutations)
      if (share >= 1 || static_cast<f64>(hash(e.full_name() + key + m.id())) < std::ldexp(share, 64))
        out.push_back({&key, &m});
  return out;
}

/// What becomes of a mutant; nothing if nobody could run it.
std::optional<Verdict> verdict(Cases& cases, const Chosen& c, const KernelEntry& entry, const Explained& explained) {
  const auto fate = cases.fate(*c.key, *c.mutation);
  if (!fate) return std::nullopt;
  const Kernel& k = cases.kernels().at(*c.key).kernel;
  const auto& at = k.location(c.mutation->at);
  Verdict v{entry.full_name(),
            c.mutation->id(),
            *fate,
            {},
            at.line ? fmt::format("{}:{}", at.file, at.line) : entry.file,
            {}};
  if (v.fate != Fate::survived) return v;
  v.ir = shown(k, c.mutation->at);
  if (const auto why = invisible(k, *c.mutation))
    v.fate = Fate::explained, v.why = *why;
  else
    for (const auto& e : explained)
      if (explains(e, v)) v.fate = Fate::explained, v.why = e.why;
  return v;
}

/// The units of all entries: those of a large kernel are found when its first one is begun.
class Queue {
 public:
  explicit Queue(std::deque<Unit> units) : units_(std::move(units)) {}
  std::optional<Unit> next() {
    std::unique_lock lock(mutex_);
    more_.wait(lock, [&] { return !units_.empty() || opening_ == 0; });
    if (units_.empty()) return std::nullopt;
    const Unit u = units_.front();
    units_.pop_front();
    if (u.begin == 0) ++opening_;
    return u;
  }
  /// The unit, its entry's first, has so many faults in all.
  void opened(const Unit& u, u64 faults) {
    if (u.begin != 0) return;
    const std::lock_guard lock(mutex_);
    --opening_;
    // Large kernels first: nothing long is begun last.
    for (u64 at = faults_a_unit; at < faults; at += faults_a_unit) units_.push_front({u.entry, at});
    more_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Unit> units_;
  u64 opening_ = 0;
};

class Trials {
 public:
  Trials(const Registry& registry, const TrialOptions& o) : options_(o), queue_(units(registry, o)) {}

  Score run() {
    // Shadow memory of a few MiB comes and goes with each run: it is not to go back to the system each time.
    mallopt(M_MMAP_THRESHOLD, 256 << 20);
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    std::vector<std::thread> helpers;
    for (u32 t = 1; t < options_.threads; ++t) helpers.emplace_back([this] { work(); });
    work();
    for (auto& h : helpers) h.join();
    std::sort(score_.broken.begin(), score_.broken.end());
    std::sort(score_.parts.begin(), score_.parts.end(),
              [](const Part& a, const Part& b) { return std::tie(a.kernel, a.begin) < std::tie(b.kernel, b.begin); });
    return std::move(score_);
  }

 private:
  std::deque<Unit> units(const Registry& registry, const TrialOptions& o) {
    std::deque<Unit> out;
    for (std::size_t i = o.shard; i < registry.entries().size(); i += o.shards)
      if (const auto& e = registry.entries()[i]; e.full_name().find(o.filter) != std::string::npos)
        out.push_back({&e, 0});
    entries_ = out.size();
    return out;
  }

  void work() {
    while (const auto unit = queue_.next()) {
      bool open = false;
      try {
        Cases cases(*unit->entry);
        const auto faults =
            chosen(cases, *unit->entry, unit->entry->needs.empty() ? options_.share : options_.tier_share);
        queue_.opened(*unit, faults.size());
        open = true;
        tried(*unit, cases, faults);
      } catch (const Error& error) {
        if (!open) queue_.opened(*unit, 0);
        const std::lock_guard lock(mutex_);
        score_.broken.push_back(fmt::format("{}: {}", unit->entry->full_name(), error.what()));
      }
    }
  }

  void tried(const Unit& unit, Cases& cases, const std::vector<Chosen>& faults) {
    Part part;
    part.kernel = unit.entry->full_name();
    part.begin = unit.begin, part.of = faults.size(), part.end = std::min(unit.begin + faults_a_unit, part.of);
    if (options_.known) {
      // A share of the faults is numbered in its own way.
      const f64 share = unit.entry->needs.empty() ? options_.share : options_.tier_share;
      part.fingerprint = cases.fingerprint() ^ (share >= 1 ? 0 : hash(fmt::format("{}", share)));
      if (const Part* known = options_.known(part.kernel, part.begin, part.fingerprint))
        return finish(explained_anew(*known, options_.explained));
    }
    if (part.begin < part.end) cases.check_original();
    for (u64 i = part.begin; i < part.end; ++i) {
      auto v = verdict(cases, faults[i], *unit.entry, options_.explained);
      if (!v) continue;
      part.counts.add(v->fate);
      if (options_.note) {
        const std::lock_guard lock(mutex_);
        options_.note(*v);
      }
      if (v->fate == Fate::explained || v->fate == Fate::survived) part.lived.push_back(std::move(*v));
    }
    finish(part);
  }

  void finish(const Part& part) {
    const std::lock_guard lock(mutex_);
    done_ += part.begin == 0;
    score_.counts.add(part.counts);
    score_.parts.push_back(part);
    if (options_.finished) options_.finished(part, done_, entries_);
  }

  const TrialOptions& options_;
  u64 entries_ = 0, done_ = 0;
  Queue queue_;
  std::mutex mutex_;
  Score score_;
};
}  // namespace

Part explained_anew(Part part, const Explained& explained) {
  for (auto& v : part.lived)
    for (const auto& e : explained)
      if (v.fate == Fate::survived && explains(e, v)) {
        v.fate = Fate::explained, v.why = e.why;
        --part.counts.survived, ++part.counts.explained;
      }
  return part;
}

Score try_mutants(const Registry& registry, const TrialOptions& options) { return Trials(registry, options).run(); }

}  // namespace iron::mutation
