// Findings: each once a pair of source lines, with the place, the other place, and the remedy.
#include <fmt/format.h>

#include <algorithm>

#include "exec/machine.h"
#include "ir/text.h"

namespace iron::exec {

using namespace ir;

bool Result::has(std::string_view code) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Diagnostic& d) { return d.code == code; });
}

std::string Result::render() const {
  std::string out;
  for (const auto& d : findings) out += d.render();
  return out;
}

bool Machine::fresh(std::string_view code, OpId op, OpId other) {
  const auto place = [&](OpId id) {
    if (id == none) return std::string{};
    const auto& l = kernel.location(id);
    return l.line ? fmt::format("{}:{}", l.file, l.line) : fmt::format("op {}", id);
  };
  return seen_.emplace(std::string(code), place(op), place(other)).second;
}

void Machine::report(Finding f, OpId op, OpId other, std::string_view other_does) {
  if (result.findings.size() >= options.max_findings) {
    stop = true;
    return;
  }
  Diagnostic d;
  d.severity = f.severity, d.code = f.code, d.message = std::move(f.message), d.fix = std::move(f.fix),
  d.kernel = kernel.name;
  const auto& l = kernel.location(op);
  d.file = l.file, d.line = l.line;
  if (kernel.op(op).code != Opcode::Param)
    d.notes.push_back({fmt::format("in the IR: {}", print_op(kernel, op)), "", 0});
  if (other != none && !other_does.empty()) {
    const auto& there = kernel.location(other);
    d.notes.push_back({fmt::format("{}: {}", other_does, print_op(kernel, other)), there.file, there.line});
  }
  if (options.stop_at_error && d.severity == Severity::error) stop = true;
  result.findings.push_back(std::move(d));
}

std::string Machine::thread_name(const Simdgroup& s, u32 lane) const {
  return fmt::format("thread {} of threadgroup {}", s.index * width + lane, s.group->id);
}

std::string Machine::name_of(const Touch& t) const {
  if (t.thread() == everyone) return fmt::format("all threads of threadgroup {}", t.group);
  if (t.thread() >= collective) return fmt::format("simdgroup {} of threadgroup {}", t.thread() - collective, t.group);
  return fmt::format("thread {} of threadgroup {}", t.thread(), t.group);
}

std::string Machine::memory_name(const Mem& m) const {
  if (m.space == Space::global) return kernel.params[m.root].name;
  const auto& l = kernel.location(m.op);
  const std::string what =
      fmt::format("{} array of {} {}", m.space == Space::shared ? "the threadgroup" : "the thread's own", m.count,
                  dtype_name(m.elem));
  return l.line ? fmt::format("{} (line {})", what, l.line) : what;
}

}  // namespace iron::exec
