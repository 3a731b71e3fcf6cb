#include "terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace iron::tool {

namespace {
bool color_out = false, color_error = false;

bool set(const char* name) {
  const char* value = std::getenv(name);
  return value && *value;
}
const char* code(Style s) {
  switch (s) {
    case Style::bold:
      return "\x1b[1m";
    case Style::dim:
      return "\x1b[2m";
    case Style::red:
      return "\x1b[31m";
    case Style::green:
      return "\x1b[32m";
    case Style::yellow:
      return "\x1b[33m";
    case Style::cyan:
      return "\x1b[36m";
    case Style::plain:
      break;
  }
  return "";
}
std::string seconds_text(double s) {
  const auto whole = std::lround(s);
  return whole >= 3600 ? fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60)
                       : fmt::format("{}:{:02}", whole / 60, whole % 60);
}
}  // namespace

void set_color(std::string_view when) {
  const bool forced = set("CLICOLOR_FORCE") && std::string_view(std::getenv("CLICOLOR_FORCE")) != "0";
  const auto wanted = [&](int fd) {
    if (when == "always") return true;
    if (when == "never" || set("NO_COLOR")) return false;
    return forced || isatty(fd) != 0;
  };
  color_out = wanted(STDOUT_FILENO);
  color_error = wanted(STDERR_FILENO);
}

std::string styled(Style style, std::string_view text) {
  if (!color_out || style == Style::plain || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", code(style), text);
}
std::string styled_error(std::string_view text) {
  return color_error ? fmt::format("{}{}\x1b[0m", code(Style::red), text) : std::string(text);
}

bool stdout_is_terminal() { return isatty(STDOUT_FILENO) != 0; }

int columns() {
  int width = 0;
  if (const char* text = std::getenv("COLUMNS")) width = std::atoi(text);
  winsize size{};
  if (width <= 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0) width = size.ws_col;
  return width <= 0 ? 100 : std::clamp(width, 60, 200);
}

int display_width(std::string_view text) {
  int width = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      i = std::min(text.find('m', i), text.size() - 1);
      continue;
    }
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) ++width;  // not a continuation byte
  }
  return width;
}

Progress::Progress(std::size_t total, bool wanted, bool piped)
    : total_(total),
      live_(wanted && isatty(STDERR_FILENO) != 0 && !set("CI")),
      piped_(piped && !live_),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() { clear(); }

void Progress::show(std::string_view item) {
  const auto now = std::chrono::steady_clock::now();
  if (piped_ && (done_ == 0 || now - last_ >= std::chrono::seconds(2))) {
    fmt::print(stderr, "{}/{} {}\n", done_, total_, item);
    last_ = now;
  }
  if (!live_) return;
  if (drawn_ && now - last_ < std::chrono::milliseconds(50)) return;
  const double spent = std::chrono::duration<double>(now - start_).count();
  const double share = total_ ? static_cast<double>(done_) / static_cast<double>(total_) : 0;
  constexpr int bar = 24;
  const int full = static_cast<int>(share * bar);
  std::string line = fmt::format("[{}{}] {}/{}", std::string(static_cast<std::size_t>(full), '#'),
                                 std::string(static_cast<std::size_t>(bar - full), '.'), done_, total_);
  if (done_ > 0) line += fmt::format("  {} left", seconds_text(spent / share - spent));
  line += fmt::format("  {}", item);
  const auto limit = static_cast<std::size_t>(columns() - 1);
  if (line.size() > limit) line.resize(limit);
  fmt::print(stderr, "\r\x1b[K{}", line);
  std::fflush(stderr);
  drawn_ = true, last_ = now;
}

void Progress::clear() {
  if (!drawn_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace iron::tool
