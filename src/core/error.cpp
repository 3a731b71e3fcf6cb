// Rendering of diagnostics in the manner of a compiler.
#include "iron/error.h"

#include <fmt/format.h>

#include <fstream>

namespace iron {

namespace {
std::string source_line(const std::string& file, int line) {
  std::ifstream in(file);
  if (!in) return {};
  std::string text;
  for (int i = 0; i < line; ++i)
    if (!std::getline(in, text)) return {};
  return text;
}

std::string_view severity_name(Severity s) {
  switch (s) {
    case Severity::note:
      return "note";
    case Severity::remark:
      return "remark";
    case Severity::warning:
      return "warning";
    case Severity::error:
      return "error";
  }
  return "error";
}

std::string join(const std::vector<Diagnostic>& ds) {
  std::string out;
  for (const auto& d : ds) out += d.render();
  return out;
}
}  // namespace

std::string Diagnostic::render() const {
  std::string out = fmt::format("{}{}: {}\n", severity_name(severity), code.empty() ? "" : "[" + code + "]", message);
  if (line > 0) {
    out += column > 0 ? fmt::format("  --> {}:{}:{}\n", file, line, column) : fmt::format("  --> {}:{}\n", file, line);
    if (auto text = source_line(file, line); !text.empty()) {
      const auto number = std::to_string(line);
      const std::string margin(number.size(), ' ');
      auto start = column > 0 ? static_cast<std::size_t>(column - 1) : text.find_first_not_of(" \t");
      if (start == std::string::npos) start = 0;
      std::string lead = text.substr(0, std::min(start, text.size()));
      for (auto& c : lead)
        if (c != '\t') c = ' ';
      out += fmt::format("{} |\n{} | {}\n{} | {}^\n", margin, number, text, margin, lead);
    }
  }
  if (!kernel.empty())
    out += fmt::format("  = kernel {}{}\n", kernel, after_pass.empty() ? "" : ", after " + after_pass);
  for (const auto& n : notes)
    out += n.line > 0 ? fmt::format("  = note: {} ({}:{})\n", n.message, n.file, n.line)
                      : fmt::format("  = note: {}\n", n.message);
  if (!fix.empty()) out += fmt::format("  = fix: {}\n", fix);
  return out;
}

Error::Error(Diagnostic d) : std::runtime_error(d.render()), diagnostics_{std::move(d)} {}
Error::Error(std::vector<Diagnostic> ds) : std::runtime_error(join(ds)), diagnostics_(std::move(ds)) {}

namespace {
Diagnostic plain(std::string_view code, std::string message, std::string fix) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.fix = std::move(fix);
  return d;
}
}  // namespace
Error::Error(std::string_view code, std::string message, std::string fix)
    : Error(plain(code, std::move(message), std::move(fix))) {}

}  // namespace iron
