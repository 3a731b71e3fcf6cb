#include "bench_report.h"

#include <algorithm>
#include <map>

#include "bench/session.h"
#include "filters.h"
#include "table.h"

namespace iron::tool {

namespace {

std::optional<double> resource(const BenchRow& r, std::string_view name) {
  for (const auto& [key, value] : r.resources)
    if (key == name) return value;
  return std::nullopt;
}

std::string share(std::optional<double> percent) {
  if (!percent) return {};
  const auto style = *percent >= 90 ? Style::green : *percent >= 60 ? Style::yellow : Style::red;
  return styled(style, fmt::format("{:.0f}%", *percent));
}

// The share that matters: of FLOP for what stands right of the ridge, else of bandwidth.
std::optional<double> main_share(const bench::Metrics& m) {
  const bool compute = m.intensity && m.ridge && *m.intensity >= *m.ridge;
  return compute ? m.percent_flops : m.percent_bandwidth;
}

std::string verdict(const BenchRow& r) {
  if (!r.metrics.impossible.empty()) return styled(Style::red, "impossible");
  if (r.launch_bound) return "launch-bound";
  return r.metrics.bottleneck;
}

std::string checked_name(Checked c) {
  switch (c) {
    case Checked::passed:
      return "passed";
    case Checked::failed:
      return "failed";
    case Checked::unchecked:
      return "unchecked";
    case Checked::unavailable:
      break;
  }
  return "unavailable";
}

}  // namespace

std::string mark(Checked c) {
  switch (c) {
    case Checked::passed:
      return styled(Style::green, "✓");
    case Checked::failed:
      return styled(Style::red, "✗");
    case Checked::unchecked:
      return styled(Style::yellow, "!");
    case Checked::unavailable:
      break;
  }
  return styled(Style::dim, "—");
}

std::string member_note(const BenchRow& r) {
  const auto& s = *r.selection;
  if (s.entry == r.entry)
    return fmt::format("it is what the selector takes here: {}, {}", kernels::name(s.member->rung), s.why);
  std::string text = fmt::format("{}{}: {}, {}", r.selected ? "timed is " : "the selector takes ", s.entry->full_name(),
                                 kernels::name(s.member->rung), s.why);
  for (const auto& p : s.passed)
    if (p.kernel == r.entry->full_name()) text += fmt::format("; not {}: {}", p.kernel, p.why);
  return text;
}

std::string render(const std::vector<BenchRow>& rows, int verbosity) {
  constexpr auto right = Table::Align::right;
  std::vector<Table::Column> columns{{"kernel"},         {"shape"},       {"µs", right},     {"GB/s", right},
                                     {"GFLOP/s", right}, {"peak", right}, {"FLOP/B", right}, {"ok"},
                                     {"limit"}};
  const bool references = std::any_of(rows.begin(), rows.end(), [](const auto& r) { return r.reference.has_value(); });
  if (references)
    for (const char* title : {"ref µs", "faster"}) columns.push_back({title, right});
  if (verbosity >= 1)
    for (const char* title : {"%BW", "%FLOP", "occ%", "regs", "batch", "copies"}) columns.push_back({title, right});
  if (verbosity >= 2)
    for (const char* title : {"median", "p95", "p99", "cv%", "n"}) columns.push_back({title, right});

  std::vector<std::pair<std::string, Table>> families;
  for (const auto& r : rows) {
    auto it = std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.first == r.entry->family; });
    if (it == families.end()) it = families.insert(families.end(), {r.entry->family, Table(columns)});
    std::string name = r.entry->full_name();
    if (name.starts_with("iron_")) name.erase(0, 5);
    std::vector<std::string> cells{name, r.shape};
    if (r.timing) {
      const auto& s = r.timing->summary;
      const auto& m = r.metrics;
      const auto more =
          std::vector<std::string>{cell(s.min),       cell(m.gbps),    cell(m.gflops), share(main_share(m)),
                                   cell(m.intensity), mark(r.checked), verdict(r)};
      cells.insert(cells.end(), more.begin(), more.end());
      if (references) {
        cells.push_back(r.reference ? cell(r.reference->summary.min) : std::string());
        cells.push_back(r.reference ? fmt::format("{:.3f}x", r.reference->summary.median / s.median) : std::string());
      }
      if (verbosity >= 1) {
        for (auto text : {share(m.percent_bandwidth), share(m.percent_flops), cell(resource(r, "occupancy"), 0),
                          cell(resource(r, "registers"), 0), fmt::format("{}", r.timing->batch),
                          fmt::format("{}", r.timing->copies)})
          cells.push_back(std::move(text));
      }
      if (verbosity >= 2) {
        const auto cv = fmt::format("{:.1f}", s.cv_percent);
        for (auto text : {cell(s.median), cell(s.p95), cell(s.p99), s.cv_percent > 5 ? styled(Style::yellow, cv) : cv,
                          r.timing->low_n ? styled(Style::yellow, fmt::format("{} low-n", s.samples))
                                          : fmt::format("{}", s.samples)})
          cells.push_back(std::move(text));
      }
    } else {
      for (const auto& text : {std::string(), std::string(), std::string(), std::string(), std::string(),
                               mark(r.checked), checked_name(r.checked)})
        cells.push_back(text);
    }
    it->second.row(std::move(cells));
  }
  std::string out;
  for (const auto& [family, table] : families) out += styled(Style::bold, family) + "\n" + table.render();
  return out;
}

Json to_json(const BenchRow& r) {
  const auto& e = *r.entry;
  Json j{{"type", "bench"},   {"name", e.full_name()},        {"group", e.family},
         {"op", group_of(e)}, {"subop", dtype_name(e.dtype)}, {"dtype", dtype_name(e.dtype)},
         {"shape", r.shape}};
  j["correct"] = r.checked == Checked::passed ? Json(true) : r.checked == Checked::failed ? Json(false) : Json(nullptr);
  j["status"] = checked_name(r.checked);
  if (!r.message.empty()) j["message"] = r.message;
  if (r.selection) {
    j["member"] = {{"kernel", r.selection->entry->full_name()},
                   {"rung", kernels::name(r.selection->member->rung)},
                   {"why", r.selection->why},
                   {"timed", r.selected || r.selection->entry == r.entry}};
    for (const auto& p : r.selection->passed) j["member"]["passed"][p.kernel] = p.why;
  }
  if (!r.timing) return j;
  const auto& t = *r.timing;
  const auto& m = r.metrics;
  const auto put = [&](const char* key, const std::optional<double>& value) {
    if (value) j[key] = rounded(*value);
  };
  const bool flops = m.gflops && m.intensity && m.ridge && *m.intensity >= *m.ridge;
  j["metric"] = flops ? "gflops" : "gbps";
  j["ref"] = nullptr;
  if (r.reference) {
    // In the metric of the row, from the same count of work.
    const auto& ref = r.reference->summary;
    j["ref"] = rounded((flops ? *m.gflops : m.gbps) * t.summary.min / ref.min);
    j["ref_name"] = r.reference->name, j["ref_us"] = rounded(ref.min), j["ref_median_us"] = rounded(ref.median);
    j["ref_max_err"] = r.reference->max_error;
    j["pct"] = rounded(100 * ref.min / t.summary.min);
  } else if (!r.reference_message.empty()) {
    j["ref_message"] = r.reference_message;
  }
  j["iron"] = rounded(flops ? *m.gflops : m.gbps);
  put("latency_us", t.summary.min);
  put("gbps", m.gbps);
  put("gflops", m.gflops);
  put("pct_peak_bw", m.percent_bandwidth);
  put("pct_peak_flops", m.percent_flops);
  put("arith_intensity", m.intensity);
  put("ridge", m.ridge);
  if (!r.engine.empty()) j["engine"] = r.engine;
  if (!m.bottleneck.empty()) j["bottleneck"] = m.bottleneck;
  if (!m.impossible.empty()) j["impossible"] = m.impossible;
  j["launch_bound"] = r.launch_bound;
  put("min_us", t.summary.min);
  put("mean_us", t.summary.mean);
  put("median_us", t.summary.median);
  put("p95_us", t.summary.p95);
  put("p99_us", t.summary.p99);
  put("cv_pct", t.summary.cv_percent);
  j["samples"] = t.summary.samples;
  j["low_n"] = t.low_n;
  j["warmup"] = t.warmup;
  j["batch"] = t.batch;
  j["cache"] = t.cold ? "cold" : "warm";
  j["copies"] = t.copies;
  j["clock"] = t.host_clock ? "host" : "device";
  j["bytes"] = r.bytes;
  j["working_set"] = r.working_set;
  j["max_err"] = r.max_error;
  j["receipt"] = t.receipt;
  j["session"] = bench::session_id();
  if (!r.resources.empty()) {
    Json profile = Json::object();
    for (const auto& [key, value] : r.resources) profile[key] = rounded(value);
    j["profile"] = std::move(profile);
  }
  if (!r.warnings.empty()) j["warnings"] = r.warnings;
  return j;
}

}  // namespace iron::tool
