// Errors as values: a code, what is wrong, where, and what to write instead.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace iron {

/// A place in the author's own source. `file` is relative to the source root where it lies below it; line 0 is unknown.
struct SourceLocation {
  const char* file = "";
  int line = 0;
  static constexpr SourceLocation here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

enum class Severity { note, remark, warning, error };

/// One finding. `code` is stable ("D22", "IR0004", "LAUNCH01"); texts are full sentences without a final period.
struct Diagnostic {
  Severity severity = Severity::error;
  std::string code;
  std::string message;
  std::string file;
  int line = 0;
  int column = 0;          ///< 1-based; 0 when only the line is known
  std::string kernel;      ///< the kernel it concerns, if any
  std::string after_pass;  ///< the last pass that ran, if any
  std::string fix;         ///< what to write instead
  struct Note {
    std::string message, file;
    int line = 0;
  };
  std::vector<Note> notes;
  /// The finding as a compiler would print it, with the source line and a caret when the file can be read.
  std::string render() const;
};

/// Thrown where a value cannot be returned; carries every diagnostic found.
class Error : public std::runtime_error {
 public:
  explicit Error(Diagnostic d);
  explicit Error(std::vector<Diagnostic> ds);
  /// An error with a code, a message, and what to do.
  Error(std::string_view code, std::string message, std::string fix = {});
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }
  const std::string& code() const { return diagnostics_.front().code; }

 private:
  std::vector<Diagnostic> diagnostics_;
};

}  // namespace iron
