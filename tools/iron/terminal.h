// Colours, widths and the progress bar: what depends on whether a person or a program reads the output.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace iron::tool {

enum class Style { plain, bold, dim, red, green, yellow, cyan };

/// "always", "never", or "auto": on a terminal, unless NO_COLOR is set; CLICOLOR_FORCE colours everywhere.
void set_color(std::string_view when);
std::string styled(Style style, std::string_view text);
/// The same for standard error.
std::string styled_error(std::string_view text);

bool stdout_is_terminal();
/// Columns that a person sees: COLUMNS, or the terminal's width, held between 60 and 200; 100 where neither is known.
int columns();
/// Columns that a text takes: UTF-8 code points, without colour codes.
int display_width(std::string_view text);

/// One line at the bottom of the terminal with what is done, what is left and how long it will take. Silent where the
/// output is not a terminal.
class Progress {
 public:
  /// `piped`: where the output is no terminal, a plain line to standard error every few seconds.
  Progress(std::size_t total, bool wanted, bool piped = false);
  ~Progress();
  Progress(const Progress&) = delete;
  /// What is being worked on now.
  void show(std::string_view item);
  void advance() { ++done_; }
  /// Takes the bar away, so that a line can be printed above it.
  void clear();
  bool live() const { return live_; }

 private:
  std::size_t total_, done_ = 0;
  bool live_, piped_, drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

}  // namespace iron::tool
